// SPDX-License-Identifier: Apache-2.0
/* The superblock and directories of a disk; formatting, opening and closing it. */
#include "store/dir.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "rt/rt.h"
#include "store/dir_impl.h"

#define FANS_AT_A_TIME 16
/* maximum bytes of a root path; leaves room in DIR_PATH_MAX for the names below the root */
#define ROOT_MAX 900
#define OPEN_CHUNKS_DEFAULT 1024
#define PROBE_AFTER_DEFAULT_NS (10 * NS_PER_S)
#define ERRORS_DEFAULT 10
#define SUPER_CHECK_NS (5 * NS_PER_S)

/* --- paths ------------------------------------------------------------------------------------ */

static int path_check(const char *root)
{
	size_t len = strlen(root);
	return len == 0 ? -EINVAL : len > ROOT_MAX ? -ENAMETOOLONG : 0;
}

static void path_of(char out[DIR_PATH_MAX], const char *root, const char *name)
{
	snprintf(out, DIR_PATH_MAX, "%.*s/%s", ROOT_MAX, root, name);
}

static void fan_path_of(char out[DIR_PATH_MAX], const char *root, uint32_t fan)
{
	snprintf(out, DIR_PATH_MAX, "%.*s/chunks/%03x", ROOT_MAX, root, fan);
}

void dir_fan_path(const struct dir_store *d, uint32_t fan, char out[DIR_PATH_MAX])
{
	assert(fan < UINT32_C(1) << d->super.fan_bits);
	fan_path_of(out, d->root, fan);
}

void dir_chunk_path(const struct dir_store *d, struct chunk_id id, char out[DIR_PATH_MAX])
{
	char name[CHUNK_NAME_BYTES];

	chunk_name_print(id, name);
	snprintf(out, DIR_PATH_MAX, "%.*s/chunks/%03x/%s", ROOT_MAX, d->root,
		 chunk_fan(id, d->super.fan_bits), name);
}

void dir_tmp_path(struct dir_store *d, char out[DIR_PATH_MAX])
{
	snprintf(out, DIR_PATH_MAX, "%.*s/tmp/%016" PRIx64, ROOT_MAX, d->root, d->next_tmp++);
}

/* --- formatting ------------------------------------------------------------------------------- */

static bool is_our_name(const char *name)
{
	static const char *const ours[] = {"chunks", "tmp", "superblock.new", "lost+found"};
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (strcmp(name, ours[i]) == 0)
			return true;
	return false;
}

static bool find_foreign(void *ctx, const char *name, bool is_dir)
{
	(void)is_dir;
	if (strcmp(name, "superblock") == 0)
		*(int *)ctx = -EEXIST;
	else if (!is_our_name(name))
		*(int *)ctx = -ENOTEMPTY;
	return *(int *)ctx != -EEXIST;
}

static bool find_any(void *ctx, const char *name, bool is_dir)
{
	(void)name;
	(void)is_dir;
	*(int *)ctx = -ENOTEMPTY;
	return false;
}

/* The directory may exist, left by an interrupted format, but it must be empty. */
static int make_empty(const char *path)
{
	int found = 0;
	int rc = rt_mkdir(path);

	if (rc != -EEXIST)
		return rc;
	rc = rt_dir_list(path, find_any, &found);
	return rc != 0 ? rc : found;
}

static int make_dirs(const char *root, uint32_t fan_bits)
{
	char path[DIR_PATH_MAX];

	path_of(path, root, "tmp");
	int rc = make_empty(path);
	if (rc != 0)
		return rc;
	path_of(path, root, "chunks");
	rc = rt_mkdir(path);
	if (rc != 0 && rc != -EEXIST)
		return rc;
	for (uint32_t fan = 0; fan < UINT32_C(1) << fan_bits; fan++) {
		fan_path_of(path, root, fan);
		rc = make_empty(path);
		if (rc != 0)
			return rc;
	}
	path_of(path, root, "chunks");
	return rt_dir_sync(path);
}

static int write_super(const char *root, const struct super *who)
{
	char path[DIR_PATH_MAX], to[DIR_PATH_MAX];
	AUTO_FREE uint8_t *bytes = malloc(SUPER_BYTES);
	struct rt_file *f;

	if (bytes == NULL)
		return -ENOMEM;
	super_encode(who, bytes);
	path_of(path, root, "superblock.new");
	path_of(to, root, "superblock");
	int rc = rt_file_open(&f, path, RT_WRITE | RT_CREATE | RT_TRUNC);
	if (rc != 0)
		return rc;
	rc = rt_file_write(f, bytes, SUPER_BYTES, 0);
	if (rc == 0)
		rc = rt_file_sync(f);
	rt_file_close(f);
	if (rc == 0)
		rc = rt_rename(path, to);
	return rc != 0 ? rc : rt_dir_sync(root);
}

int store_dir_format(const char *path, const struct super *who)
{
	int found = 0;
	int rc = path_check(path);

	if (rc == 0 && who->fan_bits > SUPER_FAN_BITS_MAX)
		rc = -EINVAL;
	if (rc == 0)
		rc = rt_dir_list(path, find_foreign, &found);
	if (rc == 0)
		rc = found;
	/* The superblock is written last, so a disk that has a superblock has all directories. */
	if (rc == 0)
		rc = make_dirs(path, who->fan_bits);
	return rc != 0 ? rc : write_super(path, who);
}

/* --- the superblock --------------------------------------------------------------------------- */

static int read_super(struct rt_file *f, const char *path, struct super *out)
{
	AUTO_FREE uint8_t *bytes = malloc(SUPER_BYTES);
	int good;

	if (bytes == NULL)
		return -ENOMEM;
	int64_t n = rt_file_read(f, bytes, SUPER_BYTES, 0);
	if (n < 0)
		return (int)n;
	int rc = super_decode(bytes, (size_t)n, out, &good);
	if (rc == 0 && good < 2)
		log_warn("superblock_copy_damaged", "path=%s", LOG_QUOTE(path));
	return rc;
}

static int open_super(const char *root, unsigned flags, struct rt_file **f, struct super *out)
{
	char path[DIR_PATH_MAX];
	int rc = path_check(root);

	if (rc != 0)
		return rc;
	path_of(path, root, "superblock");
	rc = rt_file_open(f, path, RT_READ | flags);
	if (rc != 0)
		return rc;
	rc = read_super(*f, path, out);
	if (rc != 0)
		rt_file_close(*f);
	return rc;
}

/*
 * Rewrites copies of the superblock that cannot be read or differ from the one in memory. If a copy
 * is valid but has other contents, another disk was put in the place of this one: writes nothing.
 */
static int repair_super(struct dir_store *d, struct rt_file *found)
{
	AUTO_FREE uint8_t *page = dir_pages_alloc(SUPER_COPY_BYTES);
	AUTO_FREE uint8_t *right = dir_pages_alloc(SUPER_BYTES);
	bool bad[SUPER_BYTES / SUPER_COPY_BYTES];
	struct super is;
	int good;

	if (page == NULL || right == NULL)
		return -ENOMEM;
	super_encode(&d->super, right);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		int64_t n = rt_file_read(found, page, SUPER_COPY_BYTES, i * SUPER_COPY_BYTES);
		if (n == -ECANCELED || n == -ETIME)
			return (int)n;
		bad[i] = n != SUPER_COPY_BYTES || memcmp(page, right, SUPER_COPY_BYTES) != 0;
		if (bad[i] && n == SUPER_COPY_BYTES &&
		    super_decode(page, SUPER_COPY_BYTES, &is, &good) != -EBADMSG)
			return 0;
	}
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(bad); i++) {
		if (!bad[i])
			continue;
		/*
		 * Write through the file that was opened with the disk: it is on this disk even if
		 * another disk is mounted in its place now.
		 */
		rc = dir_note(
			d, rt_file_write(d->lock, right, SUPER_COPY_BYTES, i * SUPER_COPY_BYTES));
		if (rc == 0)
			rc = dir_note(d, rt_file_sync(d->lock));
		log_warn("superblock_rewritten", "disk=%" PRIu64 " copy=%zu err=%s", d->super.disk,
			 i, err_name(rc));
	}
	return rc;
}

void dir_super_repair(struct dir_store *d)
{
	char path[DIR_PATH_MAX];
	struct rt_file *f;
	uint64_t now = rt_now_ns();

	if (d->lock_read_only || now < d->super_at_ns)
		return;
	d->super_at_ns = now + SUPER_CHECK_NS;
	path_of(path, d->root, "superblock");
	if (rt_file_open(&f, path, d->direct ? RT_READ | RT_DIRECT : RT_READ) != 0)
		return; /* an error here is ignored: the next write or probe reports the cause */
	(void)repair_super(d, f);
	rt_file_close(f);
}

int store_dir_identify(const char *path, struct super *out)
{
	struct rt_file *f;
	int rc = open_super(path, 0, &f, out);

	if (rc == 0)
		rt_file_close(f);
	return rc;
}

static int check_identity(const char *path, const struct super *is,
			  const struct store_dir_options *want)
{
	if (is->cluster[0] != want->cluster[0] || is->cluster[1] != want->cluster[1]) {
		log_error("foreign_disk", "path=%s cluster=%016" PRIx64 "%016" PRIx64,
			  LOG_QUOTE(path), is->cluster[0], is->cluster[1]);
		return -EPERM;
	}
	if (is->node != want->node || is->disk != want->disk) {
		log_error("disk_elsewhere",
			  "path=%s is_node=%" PRIu64 " is_disk=%" PRIu64 " want_node=%" PRIu64
			  " want_disk=%" PRIu64,
			  LOG_QUOTE(path), is->node, is->disk, want->node, want->disk);
		return -ESTALE;
	}
	return 0;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Returns whether opening for direct I/O and reading with it both work. */
static bool probe_direct(const char *root)
{
	char path[DIR_PATH_MAX];
	AUTO_FREE uint8_t *page = dir_pages_alloc(CHUNK_PAGE_BYTES);
	struct rt_file *f;

	path_of(path, root, "superblock");
	if (page == NULL || rt_file_open(&f, path, RT_READ | RT_DIRECT) != 0)
		return false;
	int64_t n = rt_file_read(f, page, CHUNK_PAGE_BYTES, 0);
	rt_file_close(f);
	return n == CHUNK_PAGE_BYTES;
}

struct leftover {
	const struct dir_store *d;
	int rc;
};

static bool remove_leftover(void *ctx, const char *name, bool is_dir)
{
	struct leftover *l = ctx;
	char path[DIR_PATH_MAX];

	/* Skip files whose names the store does not create. */
	if (is_dir || strlen(name) > CHUNK_NAME_BYTES)
		return true;
	snprintf(path, sizeof(path), "%.*s/tmp/%.32s", ROOT_MAX, l->d->root, name);
	int rc = rt_unlink(path);
	if (rc != 0 && rc != -ENOENT && l->rc == 0)
		l->rc = rc;
	return rc != -ECANCELED && rc != -ETIME;
}

struct fans_sync {
	struct dir_store *d;
	uint32_t next, end;
	int rc;
};

static void fans_sync_run(void *arg)
{
	struct fans_sync *f = arg;
	char path[DIR_PATH_MAX];

	while (f->rc == 0 && f->next < f->end) {
		dir_fan_path(f->d, f->next++, path);
		int rc = dir_note(f->d, rt_dir_sync(path));
		if (rc != 0)
			f->rc = rc;
	}
}

/*
 * Syncs all directories of chunks side by side, because after a mount the filesystem reads each
 * directory from the device.
 */
static int fans_sync(struct dir_store *d)
{
	struct fans_sync f = {.d = d, .end = UINT32_C(1) << d->super.fan_bits};
	struct rt_group g;

	rt_group_init(&g);
	for (uint32_t i = 1; i < FANS_AT_A_TIME && i < f.end; i++)
		if (rt_group_spawn(&g, "fan_sync", fans_sync_run, &f) != 0)
			break;
	fans_sync_run(&f);
	rt_group_join(&g);
	return f.rc;
}

/*
 * Deletes unfinished puts, and makes names durable that a crash left in the page cache only, before
 * a caller can see them. On a read-only disk this is postponed until the disk is writable.
 */
int dir_clean_up(struct dir_store *d)
{
	char path[DIR_PATH_MAX];
	struct leftover left = {.d = d};

	path_of(path, d->root, "tmp");
	int rc = dir_note(d, rt_dir_list(path, remove_leftover, &left));
	if (rc == 0)
		rc = dir_note(d, left.rc);
	d->needs_cleanup = rc == -EROFS;
	if (rc == -EROFS)
		return 0;
	return rc != 0 ? rc : fans_sync(d);
}

static int dir_stat(struct store *s, struct chunk_id id, struct chunk_stat *out)
{
	struct dir_store *d = dir_of(s);
	struct dir_chunk *c;
	int rc = dir_may_read(d);

	if (rc == 0)
		rc = dir_chunk_open(d, id, &c);
	if (rc != 0)
		return rc;
	chunk_head_stat(&c->head->h, out);
	dir_chunk_unref(d, c);
	return 0;
}

static void dir_close(struct store *s)
{
	struct dir_store *d = dir_of(s);

	rt_shield_enter();
	dir_table_fini(d);
	rt_shield_leave();
	rt_file_close(d->lock);
	free(d->fans);
	free(d);
}

static const struct store_ops dir_ops = {
	.put = dir_put,
	.append = dir_append,
	.get = dir_get,
	.seal = dir_seal,
	.delete = dir_delete,
	.list = dir_list,
	.scan = dir_scan,
	.stat = dir_stat,
	.reserve = dir_reserve,
	.info = dir_info,
	.control = dir_control,
	.close = dir_close,
};

static struct dir_store *dir_new(const char *path, const struct store_dir_options *options,
				 const struct super *super)
{
	size_t fans = (size_t)1 << super->fan_bits;
	struct dir_store *d = calloc(1, sizeof(*d));

	if (d == NULL)
		return NULL;
	d->fans = calloc(fans, sizeof(*d->fans));
	if (d->fans == NULL) {
		free(d);
		return NULL;
	}
	for (size_t i = 0; i < fans; i++)
		rt_cond_init(&d->fans[i].changed);
	d->base.ops = &dir_ops;
	d->options = *options;
	if (d->options.open_chunks_max == 0)
		d->options.open_chunks_max = OPEN_CHUNKS_DEFAULT;
	if (d->options.probe_after_ns == 0)
		d->options.probe_after_ns = PROBE_AFTER_DEFAULT_NS;
	if (d->options.errors_max == 0)
		d->options.errors_max = ERRORS_DEFAULT;
	d->super = *super;
	snprintf(d->root, sizeof(d->root), "%s", path);
	unit_shifts_init(&d->shifts);
	dir_table_init(d);
	return d;
}

int store_dir_open(const char *path, const struct store_dir_options *options, struct store **out)
{
	struct super super;
	struct rt_file *lock;
	int rc = open_super(path, RT_LOCK | RT_WRITE, &lock, &super);
	bool read_only = rc == -EROFS;

	if (read_only)
		rc = open_super(path, RT_LOCK, &lock, &super);
	if (rc != 0)
		return rc;
	rc = check_identity(path, &super, options);
	struct dir_store *d = rc == 0 ? dir_new(path, options, &super) : NULL;
	if (d == NULL) {
		rt_file_close(lock);
		return rc != 0 ? rc : -ENOMEM;
	}
	d->lock = lock;
	d->lock_read_only = read_only;
	d->direct = !options->buffered && probe_direct(path);
	rc = dir_clean_up(d);
	if (rc != 0) {
		dir_close(&d->base);
		return rc;
	}
	*out = &d->base;
	return 0;
}
