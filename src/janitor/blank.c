// SPDX-License-Identifier: Apache-2.0
/*
 * Chunks whose heads are damaged, and so their labels: they cannot say whose they are. All blocks with a chunk on
 * the disk are asked instead, by the reverse index, once for all such chunks of a look. That costs as much as finding
 * what to repair when the disk is lost, and is rare.
 */
#include <errno.h>
#include <string.h>

#include "janitor/impl.h"

#define PAGE 64

void blanks_add(struct shelf *s, struct chunk_id id)
{
	if (s->blank_count < BLANKS_MAX) /* the rest when these are gone */
		s->blanks[s->blank_count++] = id;
}

/* It is some record's: repair and scrub see to it. */
static void blank_wanted(struct shelf *s, struct chunk_id id)
{
	for (size_t i = 0; i < s->blank_count; i++) {
		if (!chunk_id_equal(s->blanks[i], id))
			continue;
		orphan_forget(s, id);
		s->blanks[i] = s->blanks[--s->blank_count];
		return;
	}
}

/* Blocks of one tenant: which chunks they have on the disk. */
static int blocks_ask(struct shelf *s, const struct meta_on_disk *on, size_t n)
{
	struct errand e;
	errand_init(s->j, &e, on[0].tenant);
	struct meta_call m = errand_meta(s->j, &e);
	struct meta_block blocks[PAGE];
	uint64_t ids[PAGE];
	for (size_t i = 0; i < n; i++)
		ids[i] = on[i].block;
	struct arena a;
	arena_init(&a, 4 * MIB);
	int rc = meta_client_block_get(&m, ids, n, &a, blocks);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		const struct meta_block *b = &blocks[i];
		for (uint32_t c = 0; c < b->chunk_count; c++)
			if (b->chunks[c].disk == s->disk)
				blank_wanted(s, (struct chunk_id){b->chunk_block, c});
	}
	arena_fini(&a);
	return rc;
}

int blanks_judge(struct shelf *s)
{
	struct meta_call m = errand_meta(s->j, &s->errand);
	struct meta_walk at = {.end = s->j->partitions};
	int rc = 0;
	while (rc == 0 && s->blank_count > 0 && at.index < at.end) {
		struct meta_on_disk on[PAGE];
		int64_t n = meta_client_disk_blocks(&m, s->disk, &at, on, PAGE);
		rc = n < 0 ? (int)n : lease_keep(s->j, s->lease);
		for (int64_t i = 0, end; rc == 0 && i < n; i = end) {
			for (end = i + 1; end < n && on[end].tenant == on[i].tenant;)
				end++;
			rc = blocks_ask(s, &on[i], (size_t)(end - i));
		}
	}
	return rc;
}
