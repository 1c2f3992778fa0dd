// SPDX-License-Identifier: Apache-2.0
/* Reading one part of each sample, such as the image of samples that have an image, a label and a text. */
#include <assert.h>

#include "dataset/dataset.h"

/* Narrows an entry to its first chosen part. */
static void narrow(struct dataset_entry *e, const struct index_tail *tail, const uint8_t *kinds,
		   uint32_t names)
{
	uint64_t before = 0;
	bool other_image = false;
	for (uint32_t i = 0; i < tail->parts; i++) {
		struct index_part part = index_tail_part(tail, i);
		uint8_t kind = part.name < names ? kinds[part.name] : DATASET_PART_OTHER;
		if (kind == DATASET_PART_CHOSEN) {
			assert(before <= e->size && part.size <= e->size - before);
			e->offset += before;
			e->size = part.size;
			e->crc = 0;
			e->part = i + 1;
			e->digested = 0;
			if (other_image)
				e->width = e->height = 0;
			return;
		}
		other_image = other_image || kind == DATASET_PART_IMAGE;
		before += part.size;
	}
}

void dataset_narrow(struct dataset *d, struct dataset_entry *entries, size_t n,
		    const uint8_t *kinds)
{
	uint32_t names = dataset_manifest(d)->parts.count;
	for (size_t i = 0; i < n; i++) {
		struct index_tail tail;
		assert(entries[i].part == 0);
		dataset_tail(d, entries[i].sample, &tail);
		if (tail.parts > 1)
			narrow(&entries[i], &tail, kinds, names);
	}
}
