// SPDX-License-Identifier: Apache-2.0
/*
 * What should be on a disk, and is not: the records that name the disk are gone through, and their chunks asked
 * for. What is not there is reported, and so repaired; so is a chunk that is whole and not what the record says:
 * of another length or checksum, not sealed, of another block. A disk that lost a write, or was restored from an
 * old image, has such.
 *
 * When. At the end of each pass of scrubbing; and at once when there is another drive under the number of a disk.
 * A drive says when it was formatted, and the map has it (created_ns). The one whose records were last gone
 * through is in a note "drive/DISK": while it is another, and the disk is well, the disk is looked at in the next
 * round of repair, and what is missing repaired in the same.
 *
 *     disk 3001 failed, 900 of 1000 blocks repaired    the drive is replaced    100 records still name 3001
 *     -> the map has another created_ns than the note  -> 100 chunks reported   -> they are made anew
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "client/label.h"
#include "client/shape.h"
#include "janitor/impl.h"
#include "janitor/notes.h"
#include "rt/rt.h"

#define DRIVE_FIBERS 4
#define FAMILY "drive"

int shelf_report(struct shelf *s, uint32_t tenant, uint64_t block, struct chunk_id id)
{
	struct errand e;
	errand_init(s->j, &e, tenant);
	struct meta_call m = errand_meta(s->j, &e);
	return meta_client_block_report(&m, block, id.block, id.index, s->disk);
}

/* Whether a chunk, whole by itself, is the one that the record means. */
static bool is_meant(const struct meta_block *b, uint32_t tenant, uint32_t index,
		     const struct chunk_stat *st)
{
	struct encoding enc;
	struct shape shape;
	uint32_t label_tenant;
	uint64_t label_block;
	if (encoding_parse(b->encoding, &enc, NULL, 0) < 0 || shape_init(&shape, &enc) < 0 ||
	    b->chunk_count != (size_t)shape.n)
		return true; /* nobody can say */
	uint32_t want = shape.copies ? b->crc : b->chunks[index].crc;
	if (!st->sealed || st->len != shape_stored_len(&shape, (int)index, b->length) ||
	    (want != 0 && st->len > 0 && st->crc != want))
		return false;
	/* One without a label is from somebody who knew of none. */
	return label_read(st->label, &label_tenant, &label_block) < 0 ||
	       (label_tenant == tenant && label_block == b->id);
}

/* n records of one tenant: those whose chunk is not on the disk, or another one, or damaged so that it could not say
 * whose it is, are reported. The chunks are asked for after the records: of what was sealed then nothing changes
 * any more. */
static int records_look(struct shelf *s, const struct meta_on_disk *on, const struct meta_block *b,
			size_t n, void *ctx)
{
	uint64_t *found = ctx;
	size_t of[RECORDS_MAX], count = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t index = on[i].index;
		if (b[i].state != META_BLOCK_SEALED || index >= b[i].chunk_count ||
		    b[i].chunks[index].disk != s->disk || b[i].chunks[index].damaged)
			continue;
		of[count] = i;
		s->ids[count++] = (struct chunk_id){b[i].chunk_block, index};
	}
	int rc = count > 0 ? shelf_stat(s, count) : 0;
	for (size_t i = 0; rc == 0 && i < count; i++) {
		const struct meta_on_disk *row = &on[of[i]];
		bool well = s->rcs[i] == 0
				    ? is_meant(&b[of[i]], row->tenant, row->index, &s->stat[i]) &&
					      !blank_is(s, s->ids[i])
				    : s->rcs[i] != -ENOENT && s->rcs[i] != -EBADMSG;
		/* Moved since: -ESTALE. */
		if (!well && shelf_report(s, row->tenant, row->block, s->ids[i]) == 0)
			++*found;
	}
	return rc;
}

int missing_look(struct shelf *s, uint64_t *found)
{
	uint64_t before = *found;
	int rc = records_of_disk(s, records_look, found);
	s->j->stats.damage_found += *found - before;
	return rc;
}

/* --- new drives -------------------------------------------------------------------------------- */

/* Which drive of a disk is known to be looked at, in this process. */
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

/* found: a uint64_t *, of all disks. */
static int drive_look(struct shelf *s, uint64_t found)
{
	struct meta_call m = errand_meta(s->j, &s->errand);
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
