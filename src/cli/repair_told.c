// SPDX-License-Identifier: Apache-2.0
#include "cli/repair_told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "meta_client/meta_client.h"

static double number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

void repair_told_add(json_t *told, const struct meta_note *n)
{
	AUTO_JSON json_t *note = json_loads(n->text, 0, NULL);
	const json_t *repairs = json_object_get(note, "repairs");
	const char *slash = strchr(n->name, '/');
	const char *holder = slash == NULL ? n->name : slash + 1;
	size_t i;
	json_t *r;
	json_array_foreach(repairs, i, r)
	{
		if (!json_is_object(r))
			continue;
		double seconds = number(r, "seconds"), done = number(r, "done");
		double left = number(r, "blocks") - done;
		bool under_way = json_is_true(json_object_get(r, "under_way"));
		double per_s = seconds > 0 ? done / seconds : 0;
		double moved = number(r, "read_bytes") + number(r, "written_bytes");
		json_object_set_new(r, "janitor", json_string(holder));
		json_object_set_new(r, "blocks_per_s", json_real(per_s));
		json_object_set_new(r, "bytes_per_s", json_real(seconds > 0 ? moved / seconds : 0));
		json_object_set_new(r, "seconds_left",
				    under_way && per_s > 0 ? json_real(left / per_s) : json_null());
		json_array_append(told, r);
	}
}

json_t *repair_told(struct admin *a)
{
	struct meta_call m = {.client = a->client};
	AUTO_FREE struct meta_note *notes = calloc(META_NOTES_MAX, sizeof(*notes));
	char after[META_NOTE_NAME_MAX + 1] = "";
	json_t *told = json_array();
	bool end = false;
	int64_t n = notes == NULL || told == NULL ? -1 : 0;
	while (n >= 0 && !end) {
		struct arena arena;
		arena_init(&arena, 2 * MIB);
		n = meta_client_note_list(&m, "repair/", after, &arena, notes, META_NOTES_MAX,
					  &end);
		for (int64_t i = 0; i < n; i++) {
			repair_told_add(told, &notes[i]);
			memcpy(after, notes[i].name, sizeof(after));
		}
		arena_fini(&arena);
	}
	if (n >= 0)
		return told;
	json_decref(told);
	return NULL;
}

bool repair_told_under_way(const json_t *told, bool disks_too)
{
	size_t i;
	const json_t *r;
	json_array_foreach(told, i, r)
	{
		const char *method = json_string_value(json_object_get(r, "method"));
		if (json_is_true(json_object_get(r, "under_way")) && method != NULL &&
		    (disks_too || strcmp(method, "disk") != 0))
			return true;
	}
	return false;
}

void repair_told_print(const json_t *told)
{
	size_t i;
	const json_t *r;
	if (json_array_size(told) == 0)
		return;
	printf("  %-20s %-7s %-16s %-8s %-12s %-12s %s\n", "repair of", "method", "blocks", "MB/s",
	       "MB crossed", "MB planned", "state");
	json_array_foreach(told, i, r)
	{
		const json_t *left = json_object_get(r, "seconds_left");
		const char *method = json_string_value(json_object_get(r, "method"));
		char blocks[48];
		snprintf(blocks, sizeof(blocks), "%.0f of %.0f", number(r, "done"),
			 number(r, "blocks"));
		printf("  %-20.0f %-7s %-16s %-8.1f %-12.1f %-12.1f ", number(r, "disk"),
		       method != NULL ? method : "?", blocks, number(r, "bytes_per_s") / 1e6,
		       number(r, "cross_rack_bytes") / 1e6, number(r, "planned_bytes") / 1e6);
		if (!json_is_true(json_object_get(r, "under_way")))
			printf("took %.0f s, ended %.0f s ago\n", number(r, "seconds"),
			       number(r, "ended_s_ago"));
		else if (json_is_number(left))
			printf("done in about %.0f s\n", json_number_value(left));
		else
			printf("under way\n");
	}
}
