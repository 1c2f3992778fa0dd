// SPDX-License-Identifier: Apache-2.0
/* Opens folders as stores. An error of a folder is kept as text in its slot. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/log.h"
#include "node/disks_impl.h"
#include "store/dir.h"
#include "store/flash.h"
#include "store/mem.h"
#include "store/throttle.h"

#define FAN_BITS_DEFAULT 8
#define OPEN_FIBERS 16
#define CACHE_FILE "cache" /* in the folder of a cache */

static const char *open_trouble(int rc)
{
	switch (rc) {
	case -ENOENT:
		return "the folder has no superblock: no disk was formatted in it";
	case -ENOTEMPTY:
		return "the folder holds other files and was not formatted";
	case -EBADMSG:
		return "the superblock is damaged";
	case -EOPNOTSUPP:
		return "formatted by a newer version of Terrane";
	case -EPERM:
		return "the disk belongs to another cluster";
	case -ESTALE:
		return "the disk belongs to another place of this cluster";
	case -EBUSY:
		return "open in another process";
	default:
		return err_text(rc);
	}
}

/* Sets slot->trouble to the text of an error. For a disk in the wrong slot the text has the ids of
 * the disk and of its node. */
static void slot_explain(struct node_slot *slot, int rc)
{
	struct super is;

	snprintf(slot->trouble, sizeof(slot->trouble), "%s", open_trouble(rc));
	if (rc != -ESTALE || store_dir_identify(slot->folder->path, &is) != 0)
		return;
	snprintf(slot->trouble, sizeof(slot->trouble),
		 "holds disk %" PRIu64 " of node %" PRIu64 ", not disk %" PRIu64, is.disk, is.node,
		 slot->folder->disk);
}

static int folder_format(const struct node_disks_options *o, const struct node_folder *f)
{
	struct super super = {.cluster = {o->cluster[0], o->cluster[1]},
			      .node = o->node,
			      .disk = f->disk,
			      .created_wall_ns = rt_wall_ns(),
			      .fan_bits = o->fan_bits != 0 ? o->fan_bits : FAN_BITS_DEFAULT};
	int rc = store_dir_format(f->path, &super);

	if (rc == 0)
		log_info("disk_formatted", "disk=%" PRIu64 " path=%s", f->disk, LOG_QUOTE(f->path));
	return rc;
}

static int folder_open(struct node_disk *d, struct node_slot *slot, bool format, struct store **out)
{
	const struct node_disks_options *o = &d->owner->options;
	const struct node_folder *f = slot->folder;
	struct store_dir_options want = {.cluster = {o->cluster[0], o->cluster[1]},
					 .node = o->node,
					 .disk = f->disk,
					 .open_chunks_max = o->open_chunks_max,
					 .keep_free_bytes = o->keep_free_bytes,
					 .sharers = o->sharers,
					 .errors_max = o->errors_max,
					 .probe_after_ns = o->probe_ns};
	int rc = store_dir_open(f->path, &want, out);

	if (rc != -ENOENT || !format)
		return rc;
	rc = folder_format(o, f);
	return rc != 0 ? rc : store_dir_open(f->path, &want, out);
}

/* Stores the format time of the disk in the slot, so that another disk in the same folder is
 * detected later. */
static void slot_remember(struct node_slot *slot)
{
	struct super is;

	if (store_dir_identify(slot->folder->path, &is) == 0)
		slot->created_wall_ns = is.created_wall_ns;
}

static int slot_open_or_format(struct node_disk *d, struct node_slot *slot, bool format)
{
	struct store *dir = NULL;
	int rc = folder_open(d, slot, format, &dir);

	assert(slot->disk == d && slot->folder != NULL);
	slot->store = NULL;
	if (rc == 0 && d->spec->emulate != NULL && slot != &d->flash)
		rc = store_throttle_open_take(dir, d->spec->emulate, &slot->store);
	else
		slot->store = dir;
	if (rc == 0) {
		slot->trouble[0] = 0;
		slot->down_ns = 0;
		slot->state = STORE_ONLINE;
		slot->swapped = slot->vanished = false;
		slot_remember(slot);
		return 0;
	}
	if (dir != NULL && slot->store == NULL)
		store_close(dir);
	slot->store = NULL;
	slot_explain(slot, rc);
	if (slot->down_ns == 0) {
		slot->down_ns = rt_now_ns();
		log_warn("disk_absent", "disk=%" PRIu64 " path=%s err=%s why=%s",
			 slot->folder->disk, LOG_QUOTE(slot->folder->path), err_name(rc),
			 LOG_QUOTE(slot->trouble));
	}
	return rc;
}

int slot_open(struct node_disk *d, struct node_slot *slot)
{
	return slot_open_or_format(d, slot, d->owner->options.format_all && d->owner->starting);
}

/* Reports whether empty folders may be formatted: only at the start, and if the option is set. */
static bool may_format(const struct node_disk *d)
{
	return d->owner->options.format && d->owner->starting;
}

void slot_close(struct node_slot *slot)
{
	store_close(slot->store);
	slot->store = NULL;
}

int store_is_empty(struct store *s)
{
	struct store_cursor at = {0};
	struct chunk_id id;
	int64_t n = store_list(s, &at, &id, 1);

	return n < 0 ? (int)n : n == 0;
}

/* --- pools ------------------------------------------------------------------------------------ */

/* Swaps a spare that replaced a member in an earlier run with the member's slot, if its pool
 * record is newer than that of the disk in the member's folder. */
static void pool_open_spares(struct node_disk *d)
{
	const struct node_disk_spec *spec = d->spec;

	for (uint32_t i = 0; i < spec->spare_count; i++) {
		struct node_slot *spare = &d->spares[i];
		struct store_pool_place is, own;
		if (slot_open(d, spare) != 0)
			continue;
		if (store_pool_identify(spare->store, &is) != 0 || is.pool != spec->disk ||
		    is.member >= spec->folder_count) {
			slot_close(spare);
			continue;
		}
		assert(spare->store != NULL);
		struct node_slot *slot = &d->slots[is.member];
		bool has = slot->store != NULL && store_pool_identify(slot->store, &own) == 0 &&
			   own.pool == spec->disk;
		if (has && own.generation >= is.generation) {
			slot_close(spare);
			continue;
		}
		log_info("pool_spare_in_use", "pool=%" PRIu64 " member=%" PRIu32 " disk=%" PRIu64,
			 spec->disk, is.member, spare->folder->disk);
		slot_close(slot);
		struct node_slot now = *spare;
		/* A running check has a pointer to the slot, so the state of the check stays in
		 * this slot and is not swapped. */
		now.checking = slot->checking;
		now.checking_ns = slot->checking_ns;
		*spare = *slot;
		spare->checking = false;
		*slot = now;
	}
}

/* Returns 1 if the store holds only pool records, 0 if it has a chunk, or an error. */
static int has_records_only(struct store *s)
{
	struct store_cursor at = {0};
	struct chunk_id ids[4];
	int64_t n;

	while ((n = store_list(s, &at, ids, ARRAY_LEN(ids))) > 0)
		for (int64_t i = 0; i < n; i++)
			if (ids[i].block <= POOL_BLOCK_MAX)
				return 0;
	return n < 0 ? (int)n : 1;
}

/* Reports whether all members are present, hold only pool records, and at least one holds none:
 * then the pool was never formatted, or a format was interrupted. */
static bool pool_is_new(struct node_disk *d)
{
	bool incomplete = false;

	for (uint32_t m = 0; m < d->spec->folder_count; m++) {
		struct store *s = d->slots[m].store;
		if (s == NULL || has_records_only(s) != 1)
			return false;
		incomplete = incomplete || store_is_empty(s) == 1;
	}
	return incomplete;
}

/* Reports whether empty folders may become members: no present folder has a pool record. */
static bool pool_may_format(struct node_disk *d)
{
	if (!may_format(d))
		return false;
	for (uint32_t m = 0; m < d->spec->folder_count; m++) {
		struct store *s = d->slots[m].store;
		struct store_pool_place is;
		/* A folder that cannot be read may have a record. */
		if (s != NULL ? store_pool_identify(s, &is) != -ENOENT
			      : slot_is_ours(&d->slots[m]) != 0)
			return false;
	}
	return true;
}

static void slots_format(struct node_disk *d)
{
	for (uint32_t m = 0; m < d->spec->folder_count; m++)
		if (d->slots[m].store == NULL)
			(void)slot_open_or_format(d, &d->slots[m], true);
	for (uint32_t i = 0; i < d->spec->spare_count; i++)
		if (slot_open_or_format(d, &d->spares[i], true) == 0)
			slot_close(&d->spares[i]);
}

static int pool_assemble(struct node_disk *d, const struct store_pool_shape *shape,
			 struct store **members)
{
	assert(shape->members == d->spec->folder_count && d->store == NULL);
	for (uint32_t m = 0; m < shape->members; m++)
		members[m] = d->slots[m].store;
	bool allowed = may_format(d) || (d->owner->options.format_all && d->owner->starting);
	int rc = 0;
	if (allowed && pool_is_new(d)) {
		rc = store_pool_format(shape, members);
		d->fresh = rc == 0;
		/* The pool already exists, so the empty disk is a replacement. */
		if (rc == -EEXIST)
			rc = 0;
	}
	if (rc == 0)
		rc = store_pool_open_take(shape, members, &d->store);
	if (rc == 0)
		store_pool_set_external_repair(d->store, d->owner->options.repair_outside);
	d->pool = d->store;
	return rc;
}

static const char *pool_trouble(int rc)
{
	switch (rc) {
	case -ENODATA:
		return "no member has a pool record";
	case -EBADMSG:
		return "the pool records have another shape than the configuration";
	case -ESTALE:
		return "members are in each other's places or belong to another pool";
	case -EINVAL:
		return "the shape of the pool is invalid";
	default:
		return err_text(rc);
	}
}

/* Opening a member waits for many small syncs, so members are opened in parallel. */
struct opening {
	struct node_disk *disk;
	uint32_t next;
};

static void slots_open_main(void *arg)
{
	struct opening *o = arg;

	while (o->next < o->disk->spec->folder_count)
		(void)slot_open(o->disk, &o->disk->slots[o->next++]);
}

static void slots_open(struct node_disk *d)
{
	struct opening o = {.disk = d};
	struct rt_group g;

	rt_group_init(&g);
	for (uint32_t i = 1; i < d->spec->folder_count && i < OPEN_FIBERS; i++)
		if (rt_group_spawn(&g, "node-open", slots_open_main, &o) != 0)
			break;
	slots_open_main(&o);
	rt_group_join(&g);
}

static int pool_open(struct node_disk *d)
{
	struct store_pool_shape shape = d->spec->shape;
	AUTO_FREE struct store **members = calloc(d->spec->folder_count, sizeof(*members));

	if (members == NULL)
		return -ENOMEM;
	assert(d->store == NULL && d->pool == NULL);
	shape.id = d->spec->disk;
	shape.members = d->spec->folder_count;
	slots_open(d);
	if (pool_may_format(d))
		slots_format(d);
	pool_open_spares(d);
	int rc = pool_assemble(d, &shape, members);
	for (uint32_t m = 0; m < shape.members; m++) {
		if (rc != 0)
			slot_close(&d->slots[m]);
		/* The pool owns the stores now, see store_pool_member(). */
		d->slots[m].store = NULL;
	}
	if (rc != 0)
		snprintf(d->trouble, sizeof(d->trouble), "%s", pool_trouble(rc));
	return rc;
}

/* --- disks ------------------------------------------------------------------------------------ */

static int plain_open(struct node_disk *d)
{
	assert(d->store == NULL && d->spec->folder_count == 1);
	bool format = may_format(d) || (d->owner->options.format_all && d->owner->starting);
	int rc = slot_open_or_format(d, &d->slots[0], format);

	d->fresh = rc == 0 && format && store_is_empty(d->slots[0].store) == 1;
	d->store = d->slots[0].store;
	d->slots[0].store = NULL;
	if (rc != 0)
		snprintf(d->trouble, sizeof(d->trouble), "%s", d->slots[0].trouble);
	return rc;
}

static int mem_open(struct node_disk *d)
{
	struct store *mem = NULL;
	int rc = store_mem_open(d->spec->mem_bytes, &mem);

	if (rc == 0 && d->spec->emulate != NULL) {
		rc = store_throttle_open_take(mem, d->spec->emulate, &d->store);
		if (rc != 0)
			store_close(mem);
	} else {
		d->store = mem;
	}
	return rc;
}

/* Runs a read that fills the cache as Bronze traffic of the disk. */
static int fill_pace(void *ctx, uint64_t bytes, void (*work)(void *arg), void *arg)
{
	struct node_disk *d = ctx;
	struct sched_request r = {.group = FILL_GROUP,
				  .class = SCHED_BRONZE,
				  .kind = SCHED_READ,
				  .whole = true,
				  .bytes = bytes};
	AUTO_SCHED_TURN struct sched_turn t = {0};
	int rc = sched_begin(d->sched, &r, &t);

	if (rc != 0)
		return rc;
	work(arg);
	(void)sched_next(&t, 0);
	return 0;
}

static const char *cache_trouble(int rc)
{
	switch (rc) {
	case -EPERM:
		return "the file is the cache of another disk or cluster; remove it";
	case -ENOTEMPTY:
		return "the file is no cache; remove it";
	case -EINVAL:
		return "the size of the cache is too small: it needs at least 4 MiB";
	case -ENOSPC:
		return "the flash has less free space than the size of the cache";
	default:
		return err_text(rc);
	}
}

/*
 * Opens the cache in front of the disk. On error the disk works without it. The folder of the cache has a superblock, so
 * that the file is never made where a flash device is not mounted; its store is open as long as the cache, and unused.
 */
static void cache_open(struct node_disk *d)
{
	const struct node_disks_options *n = &d->owner->options;
	char path[NODE_PATH_MAX + sizeof(CACHE_FILE) + 1];
	struct store_flash_options o = {.path = path,
					.owner = {n->cluster[0] ^ n->cluster[1], d->spec->disk},
					.capacity_bytes = d->spec->flash_bytes,
					.write_bytes_per_s = d->spec->flash_write_bytes_per_s,
					.pace = fill_pace,
					.pace_ctx = d};
	struct store *cache = NULL;

	bool format = d->fresh && may_format(d);
	assert(d->store != NULL && d->cache == NULL);
	if (d->spec->flash == NULL)
		return;
	if ((format ? slot_open_or_format(d, &d->flash, true) : slot_open(d, &d->flash)) != 0)
		return;
	snprintf(path, sizeof(path), "%s/%s", d->spec->flash->path, CACHE_FILE);
	int rc = store_flash_open_take(d->store, &o, &cache);
	if (rc != 0) {
		log_warn("cache_not_open", "disk=%" PRIu64 " path=%s err=%s why=%s", d->spec->disk,
			 LOG_QUOTE(path), err_name(rc), LOG_QUOTE(cache_trouble(rc)));
		slot_close(&d->flash);
		return;
	}
	d->store = cache;
	d->cache = cache;
}

int disk_open(struct node_disk *d)
{
	bool had_trouble = d->trouble[0] != 0;
	int rc = d->spec->mem ? mem_open(d) : d->spec->pool ? pool_open(d) : plain_open(d);

	if (rc != 0) {
		if (!had_trouble)
			log_error("disk_not_open", "disk=%" PRIu64 " err=%s why=%s", d->spec->disk,
				  err_name(rc), LOG_QUOTE(d->trouble));
		return rc;
	}
	assert(d->store != NULL && (d->spec->mem || !d->spec->pool || d->pool == d->store));
	d->trouble[0] = 0;
	cache_open(d);
	if (d->ordered != STORE_ONLINE)
		(void)store_control(d->store, d->ordered);
	log_info("disk_open", "disk=%" PRIu64, d->spec->disk);
	return 0;
}
