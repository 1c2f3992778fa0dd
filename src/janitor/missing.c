// SPDX-License-Identifier: Apache-2.0
/*
 * Chunks that records place on a disk and that are missing or wrong there. All records that name
 * the disk are walked and the node is asked for their chunks. A chunk that the node does not have is
 * reported as damaged, and repair replaces it; so is an intact chunk that does not match its record:
 * another length or checksum, not sealed, or of another block. A disk that lost a write, or was
 * restored from an old image, has such chunks.
 *
 * A disk is checked at the end of each pass of scrub, and at once when its drive was replaced under
 * the same id. The map has the time at which a drive was formatted (created_ns). The note
 * "drive/DISK" has that time for the drive that was checked last: while the two differ, the next
 * round of repair checks the disk, and repairs what is missing.
 *
 *     disk 3001 failed, 900 of 1000 blocks were repaired
 *     its drive is replaced, 100 records still name disk 3001
 *     -> created_ns in the map differs from the note -> 100 chunks are reported and rebuilt
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "code/shape.h"
#include "janitor/impl.h"
#include "janitor/notes.h"
#include "meta_api/note.h"
#include "node/label.h"
#include "rt/rt.h"

#define DRIVE_FIBERS 4
#define FAMILY "drive"

int chunk_report(struct disk_page *s, uint32_t tenant, uint64_t block, struct chunk_id id)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(s->j, &e, tenant);
	struct meta_call m = tenant_call_meta(s->j, &e);
	return meta_client_block_report(&m, block, id.block, id.index, s->disk);
}

/* Returns whether an intact chunk is the one that the record describes. */
static bool is_meant(const struct meta_block *b, uint32_t tenant, uint32_t index,
		     const struct chunk_stat *st)
{
	struct encoding enc;
	struct shape shape;
	uint32_t label_tenant;
	uint64_t label_block;
	if (encoding_parse(b->encoding, &enc, NULL, 0) < 0 || shape_init(&shape, &enc) < 0 ||
	    b->chunk_count != (size_t)shape.n)
		return true; /* the record is invalid: there is nothing to compare with */
	uint32_t want = shape.copies ? b->crc : b->chunks[index].crc;
	if (!st->sealed || st->len != shape_stored_len(&shape, (int)index, b->length) ||
	    (want != 0 && st->len > 0 && st->crc != want))
		return false;
	/* A chunk without a label was not put by a client of this version. */
	return label_read(st->label, &label_tenant, &label_block) < 0 ||
	       (label_tenant == tenant && label_block == b->id);
}

/* Reports the chunks of n records of one tenant that are not on the disk, do not match, or have an
 * unreadable label. The node is asked after the records were read: chunks of blocks that were
 * sealed by then do not change any more. */
static int records_look(struct disk_page *s, const struct meta_on_disk *on,
			const struct meta_block *b, size_t n, void *ctx)
{
	uint64_t *found = ctx;
	static_assert(RECORDS_MAX <= DISK_PAGE_MAX, "s->ids has room for a page of records");
	assert(n <= RECORDS_MAX);
	size_t of[RECORDS_MAX], count = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t index = on[i].index;
		if (b[i].state != META_BLOCK_SEALED || index >= b[i].chunk_count ||
		    b[i].chunks[index].disk != s->disk || b[i].chunks[index].damaged)
			continue;
		of[count] = i;
		s->ids[count++] = (struct chunk_id){b[i].chunk_block, index};
	}
	int rc = count > 0 ? page_stat(s, count) : 0;
	for (size_t i = 0; rc == 0 && i < count; i++) {
		const struct meta_on_disk *row = &on[of[i]];
		bool good = s->rcs[i] == 0
				    ? is_meant(&b[of[i]], row->tenant, row->index, &s->stat[i]) &&
					      !blank_is(s, s->ids[i])
				    : s->rcs[i] != -ENOENT && s->rcs[i] != -EBADMSG;
		/* -ESTALE: the chunk was moved since the record was read. */
		if (!good && chunk_report(s, row->tenant, row->block, s->ids[i]) == 0)
			++*found;
	}
	return rc;
}

int missing_look(struct disk_page *s, uint64_t *found)
{
	uint64_t before = *found;
	int rc = records_of_disk(s, records_look, found);
	assert(*found >= before);
	s->j->stats.damage_found += *found - before;
	return rc;
}

/* --- new drives -------------------------------------------------------------------------------- */

/* The drive of a disk whose chunks this janitor, or as its note shows another one, has checked. */
struct drive {
	uint64_t created_ns;
};

static int drive_known(struct janitor *j, uint64_t disk, uint64_t created_ns)
{
	struct drive *d = map_get(&j->drives, disk);
	if (d == NULL) {
		d = calloc(1, sizeof(*d));
		if (d == NULL || map_put(&j->drives, disk, d) < 0) {
			free(d);
			return -ENOMEM;
		}
	}
	d->created_ns = created_ns;
	return 0;
}

static bool is_new(const struct janitor *j, const struct cluster_disk *d)
{
	const struct drive *known = map_get(&j->drives, d->id);
	return d->created_ns != 0 && (known == NULL || known->created_ns != d->created_ns);
}

/* Checks one disk if its drive was replaced (a disk_fn). found: address of a uint64_t to which
 * the number of reported chunks is added. */
static int drive_look(struct disk_page *s, uint64_t found)
{
	struct meta_call m = tenant_call_meta(s->j, &s->request);
	const struct cluster_disk *d = cluster_disk(s->j->fabric.map, s->disk);
	uint64_t created_ns = d == NULL ? 0 : d->created_ns;
	char text[24];
	struct meta_note note = {.text = ""};
	struct arena a;
	arena_init(&a, 64 * KIB);
	int rc = meta_client_note_get(&m, s->lease, &a, &note);
	uint64_t noted_ns;
	bool seen = rc == 0 && hex_read(note.text, &noted_ns) && noted_ns == created_ns;
	rc = rc == -ENOENT ? 0 : rc;
	if (rc == 0 && !seen) {
		uint64_t missing = 0;
		rc = missing_look(s, &missing);
		*(uint64_t *)(uintptr_t)found += missing;
		if (missing > 0)
			log_warn("drive_new", "disk=%016lx missing=%lu", s->disk, missing);
		snprintf(note.name, sizeof(note.name), "%s", s->lease);
		snprintf(text, sizeof(text), "%" PRIx64, created_ns);
		note.text = text;
		if (rc == 0)
			rc = meta_client_note_put(&m, &note);
	}
	arena_fini(&a);
	return rc == 0 ? drive_known(s->j, s->disk, created_ns) : rc == -ESTALE ? 0 : rc;
}

int drives_look(struct janitor *j, uint64_t *found)
{
	size_t n = 0, count = 0;
	AUTO_FREE uint64_t *ids = disk_ids(j, &n);
	*found = 0;
	if (ids == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (is_new(j, cluster_disk(j->fabric.map, ids[i])))
			ids[count++] = ids[i];
	return count == 0 ? 0
			  : some_disks(j, FAMILY, DRIVE_FIBERS, drive_look,
				       (uint64_t)(uintptr_t)found, ids, count);
}
