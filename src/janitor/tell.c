// SPDX-License-Identifier: Apache-2.0
/* Writes the repairs of a janitor to the note "repair/HOLDER", beside its report; `terrane
 * repair status` shows them. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "janitor/impl.h"
#include "meta_api/note.h"
#include "rt/rt.h"

#define FAMILY "repair/"
#define TOLD_REPAIRS 8

static void name_of(uint64_t holder, char out[META_NOTE_NAME_MAX + 1])
{
	snprintf(out, META_NOTE_NAME_MAX + 1, FAMILY "%016" PRIx64, holder);
}

static int repair_text(struct strbuf *out, const struct janitor_repair *r, uint64_t now_ns)
{
	uint64_t end_ns = r->end_ns != 0 ? r->end_ns : now_ns;
	return strbuf_printf(
		out,
		"{\"disk\": %" PRIu64 ", \"method\": \"%s\", \"under_way\": %s, \"seconds\": %.1f, "
		"\"ended_s_ago\": %.0f, \"blocks\": %" PRIu64 ", \"done\": %" PRIu64
		", \"failed\": %" PRIu64 ", \"read_bytes\": %" PRIu64
		", \"written_bytes\": %" PRIu64 ", \"cross_rack_bytes\": %" PRIu64
		", \"planned_bytes\": %" PRIu64 "}",
		r->disk, r->pool ? janitor_method_name(r->method) : "disk",
		r->end_ns == 0 ? "true" : "false", (double)(end_ns - r->begin_ns) / 1e9,
		(double)(now_ns - end_ns) / 1e9, r->total, r->done, r->failed, r->read_bytes,
		r->written_bytes, r->cross_bytes, r->predicted_bytes);
}

static int note_text(const struct janitor *j, struct strbuf *out)
{
	struct janitor_repair all[JANITOR_REPAIRS_MAX];
	size_t n = janitor_repairs(j, all), first = n > TOLD_REPAIRS ? n - TOLD_REPAIRS : 0;
	int rc = strbuf_printf(out, "{\"janitors\": %u, \"repairs\": [", 1 + j->others);
	for (size_t i = first; rc == 0 && i < n; i++) {
		rc = i > first ? strbuf_printf(out, ", ") : 0;
		if (rc == 0)
			rc = repair_text(out, &all[i], rt_now_ns());
	}
	return rc == 0 ? strbuf_printf(out, "]}") : rc;
}

int repairs_publish(struct janitor *j, struct meta_call *m)
{
	assert(j->holder != 0);
	AUTO_STRBUF struct strbuf text;
	strbuf_init(&text, META_NOTE_TEXT_MAX);
	struct meta_note note = {.turn = j->note_turn};
	name_of(j->holder, note.name);
	int rc = note_text(j, &text);
	if (rc < 0)
		return rc;
	note.text = strbuf_text(&text);
	rc = meta_client_note_put(m, &note);
	j->note_turn = note.turn;
	/* another write has changed the note's turn: the next round writes the repairs */
	return rc == -ESTALE ? 0 : rc;
}

void repairs_unpublish(struct meta_call *m, uint64_t holder)
{
	char name[META_NOTE_NAME_MAX + 1];
	name_of(holder, name);
	(void)meta_client_note_drop(m, name);
}
