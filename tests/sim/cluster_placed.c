// SPDX-License-Identifier: Apache-2.0
/*
 * Files with a placement category. Category, job and features follow from the number of the content, so that the checker
 * knows what the stored outcome of a removed file must say (I14).
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cluster_check.h"
#include "cluster_work.h"
#include "meta_api/note.h"
#include "placement/outcome.h"

#define CLASSES 16u /* not known, and categories 0 to 14 */
#define PLACED_SHARE 0.7
#define OUTCOMES_PAGE 32u

/* Returns the category as it travels: 0: not known; c + 1: category c. */
static uint32_t class_of(uint64_t text)
{
	return (uint32_t)(mix_u64(text) % CLASSES);
}

bool placed_draw(struct worker *k, uint64_t text, struct placed_options *out)
{
	if (!k->world->plan.placed || !rng_chance(&k->rng, PLACED_SHARE))
		return false;
	out->features[0] = (struct terrane_feature){.name = "n_text", .number = (double)text};
	out->features[1] = (struct terrane_feature){.name = "s_step", .text = "write"};
	out->category = class_of(text);
	out->job = text + 1;
	return true;
}

static const char *outcome_wrong(const struct outcome *o)
{
	char features[64];
	uint64_t text = o->job - 1;
	snprintf(features, sizeof(features), "n_text=%.9g\ns_step=write", (double)text);
	if (o->job == 0 || strcmp(o->features, features) != 0)
		return "the job and the features are not those of one file";
	if (o->category != class_of(text))
		return "the category is not that of the file";
	if (o->io.size_bytes == 0 || o->io.size_bytes > FILE_BYTES_MAX)
		return "the file cannot have this size";
	if (!(o->flash_share >= 0 && o->flash_share <= 1) || !(o->io.end_s > o->io.start_s))
		return "the share on flash or the times are out of range";
	if (o->category == 1 && o->flash_share > 0)
		return "a file of category 0 was on flash";
	return NULL;
}

static void outcome_check(struct world *w, const struct meta_note *note)
{
	struct outcome o;
	const char *text = strchr(note->text, ' ');
	if (text == NULL || outcome_parse(&o, text + 1) < 0) {
		model_violation(&w->model, "I14", "%s cannot be read", note->name);
		return;
	}
	const char *why = outcome_wrong(&o);
	if (why != NULL)
		model_violation(&w->model, "I14", "outcome of file %016lx, job %lu: %s", o.file,
				o.job, why);
}

void check_placed(struct checker *k)
{
	char after[META_NOTE_NAME_MAX + 1] = "";
	bool end = !k->world->plan.placed;
	while (!end) {
		struct meta_note notes[OUTCOMES_PAGE];
		struct arena a;
		arena_init(&a, MIB);
		int64_t n = meta_client_note_list(&k->root, "outcomes/", after, &a, notes,
						  OUTCOMES_PAGE, &end);
		if (n < 0)
			model_violation(&k->world->model, "I14", "no outcomes: %s",
					err_name((int)n));
		for (int64_t i = 0; i < n; i++)
			outcome_check(k->world, &notes[i]);
		if (n > 0)
			memcpy(after, notes[n - 1].name, strlen(notes[n - 1].name) + 1);
		end = end || n <= 0;
		arena_fini(&a);
	}
}

void placed_block_look(struct checker *k, const struct meta_block_at *at)
{
	const struct meta_block *b = &at->block;
	if (b->placement == META_PLACEMENT_UNKNOWN + 1 && b->media == CLUSTER_MEDIA_FLASH)
		model_violation(&k->world->model, "I14",
				"block %016lx of a file of category 0 is on flash", b->id);
}
