// SPDX-License-Identifier: Apache-2.0
/* Chunks whose label is unreadable, mostly because their header is damaged. Only the records
 * that name the disk tell which blocks such chunks belong to: these records are walked once
 * for all such chunks of a disk. That costs as much as finding the blocks of a lost disk, and
 * is rare. */
#include "janitor/impl.h"
#include <assert.h>

void blanks_add(struct disk_page *s, struct chunk_id id)
{
	/* The list is full; a later sweep finds the remaining chunks. */
	if (s->blank_count < BLANKS_MAX)
		s->blanks[s->blank_count++] = id;
}

bool blank_is(const struct disk_page *s, struct chunk_id id)
{
	assert(s->blank_count <= BLANKS_MAX);
	for (size_t i = 0; i < s->blank_count; i++)
		if (chunk_id_equal(s->blanks[i], id))
			return true;
	return false;
}

static void blank_drop(struct disk_page *s, struct chunk_id id)
{
	assert(s->blank_count <= BLANKS_MAX);
	for (size_t i = 0; i < s->blank_count; i++) {
		if (!chunk_id_equal(s->blanks[i], id))
			continue;
		orphan_forget(s, id);
		s->blanks[i] = s->blanks[--s->blank_count];
		return;
	}
}

int blanks_wanted(struct disk_page *s, const struct meta_on_disk *on, const struct meta_block *b,
		  size_t n, void *unused)
{
	(void)on;
	(void)unused;
	for (size_t i = 0; i < n; i++)
		for (uint32_t c = 0; c < b[i].chunk_count; c++)
			if (b[i].chunks[c].disk == s->disk)
				blank_drop(s, (struct chunk_id){b[i].chunk_block, c});
	return 0;
}
