// SPDX-License-Identifier: Apache-2.0
/*
 * The state of a disk: how errors change it, which calls each state allows; and the free space of
 * the disk.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "rt/rt.h"
#include "store/dir_impl.h"

#define ERRORS_WINDOW_NS (3600 * NS_PER_S)
#define SPACE_FRESH_NS (1 * NS_PER_S)

static void state_set(struct dir_store *d, enum store_state to, int why)
{
	if (d->state == to)
		return;
	assert(d->state != STORE_FAILED); /* a failed disk stays failed until it is opened again */
	log_warn("disk_state", "disk=%" PRIu64 " from=%s to=%s err=%s", d->super.disk,
		 store_state_name(d->state), store_state_name(to), err_name(why));
	d->state = to;
}

static void note_error(struct dir_store *d, int rc)
{
	uint64_t now = rt_now_ns();

	d->io_errors++;
	if (d->errors_recent == 0 || now - d->errors_since_ns > ERRORS_WINDOW_NS) {
		d->errors_since_ns = now;
		d->errors_recent = 0;
	}
	d->probe_at_ns = now + d->options.probe_after_ns;
	if (++d->errors_recent > d->options.errors_max)
		state_set(d, STORE_FAILED, rc);
	else if (d->state == STORE_ONLINE || d->state == STORE_FULL)
		state_set(d, STORE_SUSPECT, rc);
}

/*
 * Checks that the disk is still mounted. Called when a file that should exist does not. If the disk
 * is unmounted, the path shows the empty directory of the mount point, which does not prove that
 * chunks are absent.
 */
static int check_mounted(struct dir_store *d)
{
	char path[DIR_PATH_MAX + 16];
	struct rt_file *f;

	snprintf(path, sizeof(path), "%s/superblock", d->root);
	/*
	 * The check must not end early on the caller's deadline: it would tell nothing about the
	 * disk.
	 */
	rt_shield_enter();
	int rc = rt_file_open(&f, path, RT_READ);
	rt_shield_leave();
	if (rc == 0)
		rt_file_close(f);
	if (rc != -ENOENT && rc != -ENOTDIR)
		return -ENOENT;
	d->io_errors++;
	d->device_gone = true;
	state_set(d, STORE_FAILED, -ENODEV);
	return -ENODEV;
}

int dir_note(struct dir_store *d, int64_t rc64)
{
	int rc = rc64 < 0 ? (int)rc64 : 0;

	switch (rc) {
	case -ENOSPC:
	case -EDQUOT:
		if (d->state == STORE_ONLINE) {
			d->full_bytes = 0;
			state_set(d, STORE_FULL, rc);
		}
		d->space_known = false;
		return -ENOSPC;
	case -ENOENT:
	case -ENOTDIR:
		return check_mounted(d);
	case -ENODEV:
	case -ENXIO:
		d->io_errors++;
		d->device_gone = true;
		state_set(d, STORE_FAILED, rc);
		return -ENODEV;
	case -EROFS:
	case -EIO:
	case -EUCLEAN: /* filesystems return this when their own structures are damaged */
		note_error(d, rc);
		return rc == -EUCLEAN ? -EIO : rc;
	default:
		return rc;
	}
}

int dir_note_read(struct dir_store *d, int64_t rc, struct chunk_id id, uint64_t off)
{
	uint64_t place = hash64_u64s(hash64_u64s(id.block, id.index), off / DIR_UNREADABLE_BYTES);

	if (rc != -EIO && rc != -EUCLEAN)
		return dir_note(d, rc);
	for (size_t i = 0; i < DIR_UNREADABLE_MAX; i++) {
		if (d->unreadable[i] == place) {
			d->io_errors++;
			return -EIO;
		}
	}
	d->unreadable[d->unreadable_next++ % DIR_UNREADABLE_MAX] = place;
	return dir_note(d, rc);
}

int dir_note_damage(struct dir_store *d, struct chunk_id id, uint64_t off, const char *what)
{
	d->checksum_errors++;
	log_warn("chunk_damaged",
		 "disk=%" PRIu64 " block=%" PRIu64 " index=%" PRIu32 " offset=%" PRIu64 " what=%s",
		 d->super.disk, id.block, id.index, off, what);
	return -EBADMSG;
}

/* --- the probe -------------------------------------------------------------------------------- */

static int probe_file(struct dir_store *d, struct rt_file *f, uint8_t *page)
{
	uint8_t mark = (uint8_t)rt_random_u64();

	memset(page, mark, CHUNK_PAGE_BYTES);
	int rc = dir_note(d, rt_file_write(f, page, CHUNK_PAGE_BYTES, 0));
	if (rc == 0)
		rc = dir_note(d, rt_file_sync(f));
	if (rc != 0)
		return rc;
	memset(page, ~mark, CHUNK_PAGE_BYTES);
	int64_t n = rt_file_read(f, page, CHUNK_PAGE_BYTES, 0);
	if (n < 0)
		return dir_note(d, n);
	for (int64_t i = 0; i < CHUNK_PAGE_BYTES; i++)
		if (n != CHUNK_PAGE_BYTES || page[i] != mark)
			return dir_note(d, -EIO);
	return 0;
}

static int probe(struct dir_store *d)
{
	char path[DIR_PATH_MAX + 16];
	struct rt_file *f;
	AUTO_FREE uint8_t *page = dir_pages_alloc(CHUNK_PAGE_BYTES);
	unsigned flags = RT_READ | RT_WRITE | RT_CREATE | RT_TRUNC;

	if (page == NULL)
		return -ENOMEM;
	snprintf(path, sizeof(path), "%s/tmp/probe", d->root);
	int rc = dir_note(d, rt_file_open(&f, path, d->direct ? flags | RT_DIRECT : flags));
	if (rc != 0)
		return rc;
	rc = probe_file(d, f, page);
	rt_file_close(f);
	int removed = dir_note(d, rt_unlink(path));
	return rc != 0 ? rc : removed;
}

/*
 * Probes a suspect disk if probe_after_ns have passed since the last probe. Called before writes.
 */
static int probe_when_due(struct dir_store *d)
{
	assert(d->state == STORE_SUSPECT);
	if (d->probing || rt_now_ns() < d->probe_at_ns)
		return -EROFS;
	d->probing = true;
	int rc = probe(d);
	if (rc == 0 && d->needs_cleanup) {
		rc = dir_clean_up(d);
		if (d->needs_cleanup)
			rc = -EROFS;
	}
	d->probing = false;
	d->probe_at_ns = rt_now_ns() + d->options.probe_after_ns;
	if (rc == 0 && d->state == STORE_SUSPECT)
		state_set(d, STORE_ONLINE, 0);
	return d->state == STORE_ONLINE ? 0 : -EROFS;
}

/* --- space ------------------------------------------------------------------------------------ */

static int space_refresh(struct dir_store *d)
{
	struct rt_space space;
	int rc = dir_note(d, rt_space(d->root, &space));

	if (rc != 0)
		return rc;
	d->total_bytes = space.total_bytes;
	d->free_bytes = space.free_bytes;
	d->space_at_ns = rt_now_ns();
	d->space_known = true;
	return 0;
}

static bool space_fits(const struct dir_store *d, uint64_t bytes, bool reserved)
{
	uint64_t aside = d->options.keep_free_bytes;

	/* A put with a reservation may use the space that was set aside for it. */
	if (!reserved)
		aside += d->reserved_bytes;
	return d->free_bytes >= aside && d->free_bytes - aside >= bytes;
}

static int space_check(struct dir_store *d, uint64_t bytes, bool reserved)
{
	bool fresh = d->space_known && rt_now_ns() - d->space_at_ns < SPACE_FRESH_NS;

	if (!fresh || d->state == STORE_FULL || !space_fits(d, bytes, reserved)) {
		int rc = space_refresh(d);
		if (rc != 0)
			return rc;
	}
	if (!space_fits(d, bytes, reserved)) {
		/*
		 * The disk becomes full only if the write would not fit even without the
		 * reservations.
		 */
		if (d->state == STORE_ONLINE && !space_fits(d, bytes, true)) {
			d->full_bytes = bytes;
			state_set(d, STORE_FULL, -ENOSPC);
		}
		return -ENOSPC;
	}
	if (d->state == STORE_FULL)
		state_set(d, STORE_ONLINE, 0);
	return 0;
}

void dir_wrote(struct dir_store *d, uint64_t bytes)
{
	d->free_bytes -= min_u64(bytes, d->free_bytes);
}

/* --- what each state allows ------------------------------------------------------------------- */

int dir_may_read(struct dir_store *d)
{
	if (d->state != STORE_FAILED)
		return 0;
	return d->device_gone ? -ENODEV : -EIO;
}

int dir_may_seal(struct dir_store *d)
{
	int rc = dir_may_read(d);

	if (rc == 0 && d->state == STORE_SUSPECT)
		rc = probe_when_due(d);
	return rc;
}

int dir_may_write(struct dir_store *d, uint64_t bytes, bool reserved)
{
	int rc = dir_may_seal(d);

	if (rc == 0 && d->state == STORE_DRAINING)
		rc = -EROFS;
	return rc != 0 ? rc : space_check(d, bytes, reserved);
}

int dir_reserve(struct store *s, int64_t bytes)
{
	struct dir_store *d = dir_of(s);

	if (bytes <= 0) {
		uint64_t back = 0 - (uint64_t)bytes;
		if (back > d->reserved_bytes)
			return -EINVAL;
		d->reserved_bytes -= back;
		return 0;
	}
	int rc = dir_may_write(d, (uint64_t)bytes, false);
	if (rc == 0)
		d->reserved_bytes += (uint64_t)bytes;
	return rc;
}

void dir_info(struct store *s, struct store_info *out)
{
	struct dir_store *d = dir_of(s);

	/*
	 * Callers do not write to a disk that reports full, so the state would never change
	 * without this check.
	 */
	if (d->state != STORE_FAILED && space_refresh(d) == 0 && d->state == STORE_FULL &&
	    space_fits(d, d->full_bytes, false))
		state_set(d, STORE_ONLINE, 0);
	if (d->state == STORE_ONLINE || d->state == STORE_FULL || d->state == STORE_DRAINING)
		dir_super_repair(d);
	/*
	 * Writes are checked against all free space of the filesystem; the reported numbers are
	 * divided by the disks that share it, so that the sum over these disks is the free space.
	 */
	uint64_t sharers = d->options.sharers > 0 ? d->options.sharers : 1;
	uint64_t aside = d->options.keep_free_bytes + d->reserved_bytes;
	*out = (struct store_info){
		.state = d->state,
		.total_bytes = d->total_bytes / sharers,
		.free_bytes = d->free_bytes > aside ? (d->free_bytes - aside) / sharers : 0,
		.reserved_bytes = d->reserved_bytes,
		.io_errors = d->io_errors,
		.checksum_errors = d->checksum_errors,
		.rolled_back = d->rolled_back,
	};
}

int dir_control(struct store *s, enum store_state state)
{
	struct dir_store *d = dir_of(s);

	if (state != STORE_ONLINE && state != STORE_DRAINING && state != STORE_FAILED)
		return -EINVAL;
	/*
	 * A failed disk may have stopped in the middle of any change: the disk must be opened
	 * again.
	 */
	if (d->state == STORE_FAILED)
		return state == STORE_FAILED ? 0 : -EIO;
	if (d->state == STORE_SUSPECT && state == STORE_ONLINE) {
		d->probe_at_ns = 0;
		return probe_when_due(d) == 0 ? 0 : -EIO;
	}
	if (state != STORE_ONLINE || d->state == STORE_DRAINING)
		state_set(d, state, 0);
	return 0;
}
