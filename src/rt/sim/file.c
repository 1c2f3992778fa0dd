// SPDX-License-Identifier: Apache-2.0
/*
 * The calls of rt on files and names, on simulated disks.
 *
 * An operation first waits for its duration, and has its effect at the end, at one instant. An operation on names
 * has its effect at the start instead, half of the time: a process that crashes during the wait
 * then finds the operation done. sim_disks_crash decides the outcome of a write that is under way
 * when its process crashes.
 *
 * After a wait that ended with -ECANCELED the process has crashed, and another of its fibers may have closed the
 * file: the call must not touch it any more.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "rt/sim/disk.h"

struct sim_file {
	struct rt_file base;
	struct sim_node *node;
	struct inode *inode;
	unsigned flags;
};

static struct sim_file *sim_file_of(struct rt_file *f)
{
	return container_of(f, struct sim_file, base);
}

/* --- transfers --------------------------------------------------------------------------------- */

static uint64_t iov_bytes(const struct iovec *iov, int n)
{
	uint64_t total = 0;

	for (int k = 0; k < n; k++)
		total += iov[k].iov_len;
	return total;
}

static bool direct_misaligned(const struct sim_file *f, const struct iovec *iov, int n,
			      uint64_t offset)
{
	if ((f->flags & RT_DIRECT) == 0)
		return false;
	uint64_t bits = offset;
	for (int k = 0; k < n; k++)
		bits |= (uint64_t)(uintptr_t)iov[k].iov_base | iov[k].iov_len;
	return bits % RT_DIRECT_ALIGN != 0;
}

/* Reads len bytes of an image into an iovec list. */
static void iov_fill(const struct iovec *iov, int n, uint64_t len, const struct image *im,
		     uint64_t offset)
{
	for (int k = 0; k < n && len > 0; k++) {
		size_t part = (size_t)min_u64(len, iov[k].iov_len);
		image_read(im, offset, iov[k].iov_base, part);
		offset += part;
		len -= part;
	}
}

/* Overwrites the bytes of an iovec list from `at` on with data, within its first len bytes. */
static void iov_overlay(const struct iovec *iov, int n, uint64_t len, uint64_t at,
			const uint8_t *data, uint64_t data_len)
{
	uint64_t start = 0;

	assert(at <= len);
	data_len = min_u64(data_len, len - at);
	for (int k = 0; k < n; k++) {
		uint64_t from = max_u64(start, at);
		uint64_t to = min_u64(start + iov[k].iov_len, at + data_len);
		if (from < to)
			memcpy((uint8_t *)iov[k].iov_base + (from - start), data + (from - at),
			       (size_t)(to - from));
		start += iov[k].iov_len;
	}
}

/* Draws a file that is not empty from all files of the disk. */
static struct inode *any_file(struct sim_disk *d)
{
	struct inode *i;
	uint64_t count = 0;

	list_for_each_entry(i, &d->inodes, link)
		count += i->cache.size_bytes > 0;
	assert(count > 0);
	uint64_t pick = sim_between(d->node->sim, 1, count);
	list_for_each_entry(i, &d->inodes, link) {
		pick -= i->cache.size_bytes > 0;
		if (pick == 0)
			break;
	}
	return i;
}

/* Reads from a random block, half of the time of the same file, else of any file. */
static void read_misdirected(struct inode *i, const struct iovec *iov, int n, uint64_t len)
{
	struct sim *s = i->disk->node->sim;
	struct inode *other = rng_chance(&s->rng, 0.5) ? i : any_file(i->disk);
	uint64_t block = sim_between(s, 0, (other->cache.size_bytes - 1) / DISK_BLOCK_BYTES);

	i->disk->damage |= SIM_DAMAGE_READ;
	sim_trace(s, i->disk->node, "read-misdirected", block * DISK_BLOCK_BYTES, len,
		  other->label);
	iov_fill(iov, n, len, &other->cache, block * DISK_BLOCK_BYTES);
}

/* Returns the newest replaced bytes that overlap the range, or NULL. */
static const struct past *past_of(const struct inode *i, uint64_t offset, uint64_t len)
{
	for (struct list *l = i->past.prev; l != &i->past; l = l->prev) {
		const struct past *p = list_entry(l, struct past, link);
		if (p->offset < offset + len && offset < p->offset + p->len)
			return p;
	}
	return NULL;
}

static void read_stale(struct inode *i, const struct past *p, const struct iovec *iov, int n,
		       uint64_t offset, uint64_t len)
{
	uint64_t skip = offset > p->offset ? offset - p->offset : 0;
	uint64_t at = p->offset > offset ? p->offset - offset : 0;

	i->disk->damage |= SIM_DAMAGE_READ;
	sim_trace(i->disk->node->sim, i->disk->node, "read-stale", p->offset, p->len, i->label);
	iov_overlay(iov, n, len, at, p->data + skip, p->len - skip);
}

static int64_t sim_file_readv(struct rt_file *base, const struct iovec *iov, int n, uint64_t offset)
{
	struct sim_file *f = sim_file_of(base);
	struct inode *i = f->inode;
	struct sim *s = f->node->sim;
	uint64_t size = i->cache.size_bytes;

	if ((f->flags & RT_READ) == 0)
		return -EBADF;
	if (direct_misaligned(f, iov, n, offset))
		return -EINVAL;
	uint64_t len = offset < size ? min_u64(iov_bytes(iov, n), size - offset) : 0;
	int rc = disk_wait(i->disk, len);
	if (rc != 0)
		return rc;
	size = i->cache.size_bytes;
	len = offset < size ? min_u64(iov_bytes(iov, n), size - offset) : 0;
	sim_trace(s, f->node, "read", offset, len, i->label);
	if (len == 0)
		return 0;
	if (sim_roll(s, SIM_DISK_EIO, f->node))
		return -EIO;
	const struct past *p = past_of(i, offset, len);
	if (!i->disk->spared && sim_roll(s, SIM_DISK_MISDIRECT, f->node)) {
		read_misdirected(i, iov, n, len);
	} else {
		iov_fill(iov, n, len, &i->cache, offset);
		if (p != NULL && !i->disk->spared && sim_roll(s, SIM_DISK_STALE, f->node))
			read_stale(i, p, iov, n, offset, len);
	}
	return (int64_t)len;
}

/*
 * Writes to a random block of the file, or not at all if the file is too short; the file system does not notice
 * and records the new size. Takes c.
 */
static void write_misdirected_take(struct inode *i, struct change *c)
{
	struct sim *s = i->disk->node->sim;
	uint64_t end = c->offset + c->len;
	uint64_t in_block = c->offset % DISK_BLOCK_BYTES;
	uint64_t size = i->cache.size_bytes;

	i->disk->damage |= SIM_DAMAGE_WRITE;
	if (size >= in_block + c->len) {
		uint64_t last = (size - in_block - c->len) / DISK_BLOCK_BYTES;
		c->offset = sim_between(s, 0, last) * DISK_BLOCK_BYTES + in_block;
		c->len = inode_fit(i, c->offset, c->len);
	} else {
		c->len = 0;
	}
	sim_trace(s, i->disk->node, "write-misdirected", c->offset, c->len, i->label);
	if (c->len > 0)
		inode_change_take(i, c);
	else
		free(c);
	if (end > size)
		inode_change_take(i, change_new(CHANGE_RESIZE, end, 0));
}

/* Draws the outcome of a write at the end of its duration, and applies the outcome. Takes c. */
static int64_t write_land_take(struct inode *i, struct change *c)
{
	struct sim_node *node = i->disk->node;
	struct sim *s = node->sim;
	int64_t result;

	sim_trace(s, node, "write", c->offset,
		  (uint64_t)crc32c(0, c->data, (size_t)c->len) << 32 | c->len, i->label);
	bool failed = sim_roll(s, SIM_DISK_EIO, node);
	if (failed) {
		uint64_t sectors = sim_between(s, 0, c->len / DISK_SECTOR_BYTES);
		c->len = min_u64(c->len, sectors * DISK_SECTOR_BYTES);
	}
	c->len = inode_fit(i, c->offset, c->len);
	if (failed)
		result = -EIO;
	else
		result = c->len > 0 ? (int64_t)c->len : -ENOSPC;
	if (c->len == 0)
		free(c);
	else if (!failed && !i->disk->spared && sim_roll(s, SIM_DISK_MISDIRECT, node))
		write_misdirected_take(i, c);
	else
		inode_change_take(i, c);
	return result;
}

static int64_t sim_file_writev(struct rt_file *base, const struct iovec *iov, int n,
			       uint64_t offset)
{
	struct sim_file *f = sim_file_of(base);
	struct inode *i = f->inode;
	uint64_t len = iov_bytes(iov, n);

	if ((f->flags & RT_WRITE) == 0)
		return -EBADF;
	if (direct_misaligned(f, iov, n, offset))
		return -EINVAL;
	if (len == 0)
		return 0;
	/* Limit of the simulated file system: no file, not even a sparse one, is larger than its disk. */
	if (offset >= i->disk->size_bytes)
		return -EFBIG;
	len = min_u64(len, i->disk->size_bytes - offset);

	struct change *c = change_new(CHANGE_WRITE, offset, len);
	size_t done = 0;
	for (int k = 0; k < n && done < len; k++) {
		size_t part = (size_t)min_u64(iov[k].iov_len, len - done);
		memcpy(c->data + done, iov[k].iov_base, part);
		done += part;
	}
	list_push_back(&i->inflight, &c->link);
	int rc = disk_wait(i->disk, len);
	if (rc == -ECANCELED)
		return rc; /* the process crashed, and sim_disks_crash has freed c */
	list_remove(&c->link);
	if (rc != 0) {
		free(c);
		return rc;
	}
	return write_land_take(i, c);
}

/* --- the other calls on open files ------------------------------------------------------------- */

static int sim_file_sync(struct rt_file *base)
{
	struct sim_file *f = sim_file_of(base);
	struct inode *i = f->inode;
	/* The sync covers writes that ended before it started. */
	uint64_t seq = i->change_seq;
	int rc = disk_wait(i->disk, i->pending_bytes);

	if (rc != 0)
		return rc;
	if (i->pending_count > 0 && sim_roll(f->node->sim, SIM_DISK_SYNC_FAIL, f->node)) {
		i->disk->damage |= SIM_DAMAGE_SYNC;
		inode_commit_failed(i, seq);
		rc = -EIO;
	} else {
		inode_commit(i, seq);
	}
	sim_trace(f->node->sim, f->node, "sync", seq, (uint64_t)(rc != 0), i->label);
	return rc;
}

/*
 * Waits for the duration of an operation without data. After -EIO the operation may still have
 * changed a name.
 */
static int disk_operate(struct sim_disk *d)
{
	int rc = disk_wait(d, 0);
	return rc == 0 && sim_roll(d->node->sim, SIM_DISK_EIO, d->node) ? -EIO : rc;
}

static int sim_file_allocate(struct rt_file *base, uint64_t offset, uint64_t len, bool keep_size)
{
	struct sim_file *f = sim_file_of(base);
	struct inode *i = f->inode;

	if ((f->flags & RT_WRITE) == 0)
		return -EBADF;
	if (offset + len > i->disk->size_bytes)
		return -ENOSPC;
	int rc = disk_operate(i->disk);
	if (rc != 0)
		return rc;
	sim_trace(f->node->sim, f->node, "allocate", offset, len, i->label);
	if (inode_fit(i, offset, len) < len)
		return -ENOSPC;
	inode_change_take(i, change_new(CHANGE_RESERVE, offset, len));
	if (!keep_size && offset + len > i->cache.size_bytes)
		inode_change_take(i, change_new(CHANGE_RESIZE, offset + len, 0));
	return 0;
}

static int sim_file_truncate(struct rt_file *base, uint64_t size)
{
	struct sim_file *f = sim_file_of(base);
	struct inode *i = f->inode;

	if ((f->flags & RT_WRITE) == 0)
		return -EINVAL;
	if (size > i->disk->size_bytes)
		return -EFBIG;
	int rc = disk_operate(i->disk);
	if (rc != 0)
		return rc;
	sim_trace(f->node->sim, f->node, "truncate", size, 0, i->label);
	inode_change_take(i, change_new(CHANGE_RESIZE, size, 0));
	return 0;
}

static int sim_file_size(struct rt_file *base, uint64_t *size)
{
	struct sim_file *f = sim_file_of(base);
	int rc = disk_wait(f->inode->disk, 0);

	if (rc == 0)
		*size = f->inode->cache.size_bytes;
	return rc;
}

static void sim_file_close(struct rt_file *base)
{
	struct sim_file *f = sim_file_of(base);
	struct inode *i = f->inode;

	assert(i->handles > 0 && f->node->open_files > 0);
	if (i->locker == f)
		i->locker = NULL;
	i->handles--;
	inode_settle_refs(i);
	f->node->open_files--;
	free(f);
}

static const struct rt_file_ops sim_file_ops = {
	.readv = sim_file_readv,
	.writev = sim_file_writev,
	.sync = sim_file_sync,
	.allocate = sim_file_allocate,
	.truncate = sim_file_truncate,
	.size = sim_file_size,
	.close = sim_file_close,
};

/* --- names ------------------------------------------------------------------------------------- */

/* Waits for the duration of an operation on the disk of a path. */
static int path_wait(struct sim_node *n, const char *path)
{
	struct sim_disk *d = name_disk(n, path);
	return d == NULL ? -ENOENT : disk_operate(d);
}

static bool is_dots(const struct place *p)
{
	return (p->len == 1 && p->name[0] == '.') ||
	       (p->len == 2 && p->name[0] == '.' && p->name[1] == '.');
}

static int open_existing(const struct place *p, unsigned flags)
{
	if (p->inode->is_dir)
		return -EISDIR;
	if ((flags & RT_CREATE) != 0 && (flags & RT_EXCL) != 0)
		return -EEXIST;
	if ((flags & RT_LOCK) != 0 && p->inode->locker != NULL)
		return -EBUSY;
	if ((flags & RT_TRUNC) != 0 && p->inode->cache.size_bytes > 0)
		inode_change_take(p->inode, change_new(CHANGE_RESIZE, 0, 0));
	return 0;
}

static int open_missing(struct place *p, unsigned flags)
{
	if ((flags & RT_CREATE) == 0)
		return -ENOENT;
	if (p->must_be_dir)
		return -EISDIR;
	if (disk_free_blocks(p->disk) == 0)
		return -ENOSPC;
	p->inode = inode_new(p->disk, false);
	name_add(p->dir, p->name, p->len, p->inode);
	return 0;
}

static int sim_fs_open(struct rt_loop *l, struct rt_file **out, const char *path, unsigned flags)
{
	struct sim_node *n = sim_node_of(l);
	struct place p;
	int rc = path_wait(n, path);

	if (rc == 0)
		rc = name_find(n, path, &p);
	if (rc == 0)
		rc = p.inode != NULL ? open_existing(&p, flags) : open_missing(&p, flags);
	if (rc != -ECANCELED)
		sim_trace(n->sim, n, "open", flags, (uint64_t)-rc, path);
	if (rc != 0)
		return rc;
	struct sim_file *f = sim_need(calloc(1, sizeof(*f)));
	f->base.ops = &sim_file_ops;
	f->base.flags = flags;
	f->flags = flags;
	f->node = n;
	f->inode = p.inode;
	if ((flags & RT_LOCK) != 0)
		p.inode->locker = f;
	p.inode->handles++;
	n->open_files++;
	*out = &f->base;
	return 0;
}

static bool is_below(const struct inode *i, const struct inode *dir)
{
	while (i != dir && i->parent != i)
		i = i->parent;
	return i == dir;
}

static int rename_check(const struct place *from, const struct place *to)
{
	if (from->inode == NULL)
		return -ENOENT;
	if (from->dir == NULL || to->dir == NULL || is_dots(from) || is_dots(to))
		return -EBUSY;
	if (from->disk != to->disk)
		return -EXDEV;
	if (from->inode->is_dir && is_below(to->dir, from->inode))
		return -EINVAL;
	if (!from->inode->is_dir && (to->must_be_dir || from->must_be_dir))
		return -ENOTDIR;
	if (to->inode == NULL || to->inode == from->inode)
		return 0;
	if (to->inode->is_dir && !from->inode->is_dir)
		return -EISDIR;
	if (!to->inode->is_dir && from->inode->is_dir)
		return -ENOTDIR;
	return to->inode->entry_count > 0 ? -ENOTEMPTY : 0;
}

static int rename_now(struct sim_node *n, const char *path, const char *to_path)
{
	struct place from;
	struct place to = {0};
	int rc = name_find(n, path, &from);

	if (rc == 0)
		rc = name_find(n, to_path, &to);
	if (rc == 0)
		rc = rename_check(&from, &to);
	if (rc == 0 && from.inode != to.inode)
		name_move(&from, &to);
	sim_trace(n->sim, n, "rename", (uint64_t)-rc, 0, path);
	sim_trace(n->sim, n, "rename-to", (uint64_t)-rc, 0, to_path);
	return rc;
}

static int unlink_now(struct sim_node *n, const char *path, bool dir)
{
	struct place p;
	int rc = name_find(n, path, &p);

	if (rc == 0 && p.inode == NULL)
		rc = -ENOENT;
	else if (rc == 0 && dir && !p.inode->is_dir)
		rc = -ENOTDIR;
	else if (rc == 0 && !dir && p.inode->is_dir)
		rc = -EISDIR;
	else if (rc == 0 && p.dir == NULL)
		rc = -EBUSY;
	else if (rc == 0 && is_dots(&p))
		rc = -EINVAL;
	else if (rc == 0 && p.inode->entry_count > 0)
		rc = -ENOTEMPTY;
	if (rc == 0)
		name_remove(p.dir, p.name, p.len);
	sim_trace(n->sim, n, dir ? "rmdir" : "unlink", (uint64_t)-rc, 0, path);
	return rc;
}

static int mkdir_now(struct sim_node *n, const char *path)
{
	struct place p;
	int rc = name_find(n, path, &p);

	if (rc == 0 && p.inode != NULL)
		rc = -EEXIST;
	else if (rc == 0 && disk_free_blocks(p.disk) == 0)
		rc = -ENOSPC;
	if (rc == 0)
		name_add(p.dir, p.name, p.len, inode_new(p.disk, true));
	sim_trace(n->sim, n, "mkdir", (uint64_t)-rc, 0, path);
	return rc;
}

enum names_call { NAMES_RENAME, NAMES_UNLINK, NAMES_RMDIR, NAMES_MKDIR };

static int names_now(struct sim_node *n, enum names_call call, const char *path, const char *to)
{
	switch (call) {
	case NAMES_RENAME:
		return rename_now(n, path, to);
	case NAMES_UNLINK:
		return unlink_now(n, path, false);
	case NAMES_RMDIR:
		return unlink_now(n, path, true);
	case NAMES_MKDIR:
		return mkdir_now(n, path);
	}
	return -EINVAL;
}

static int names_change(struct rt_loop *l, enum names_call call, const char *path, const char *to)
{
	struct sim_node *n = sim_node_of(l);
	struct sim_disk *d = name_disk(n, path);
	int rc = 0;

	if (d == NULL)
		return -ENOENT;
	/* On a lost or hung disk no operation has its effect at the start. */
	bool early =
		!d->lost && n->sim->now_ns >= d->hang_until_ns && rng_chance(&n->sim->rng, 0.5);
	if (early)
		rc = names_now(n, call, path, to);
	int waited = disk_operate(d);
	if (waited != 0)
		return waited;
	return early ? rc : names_now(n, call, path, to);
}

static int sim_fs_rename(struct rt_loop *l, const char *from, const char *to)
{
	return names_change(l, NAMES_RENAME, from, to);
}

static int sim_fs_unlink(struct rt_loop *l, const char *path, bool dir)
{
	return names_change(l, dir ? NAMES_RMDIR : NAMES_UNLINK, path, NULL);
}

static int sim_fs_mkdir(struct rt_loop *l, const char *path)
{
	return names_change(l, NAMES_MKDIR, path, NULL);
}

/* Looks up a path that must lead to a directory. Returns 0, -ENOTDIR or the errors of name_find. */
static int dir_find(struct sim_node *n, const char *path, struct place *p)
{
	int rc = name_find(n, path, p);

	if (rc != 0)
		return rc;
	if (p->inode == NULL)
		return -ENOENT;
	return p->inode->is_dir ? 0 : -ENOTDIR;
}

static int sim_fs_dir_sync(struct rt_loop *l, const char *path)
{
	struct sim_node *n = sim_node_of(l);
	struct place p;
	int rc = dir_find(n, path, &p);

	if (rc != 0)
		return rc;
	uint64_t seq = name_last(p.disk, p.inode);
	rc = disk_operate(p.disk);
	if (rc != 0)
		return rc;
	/*
	 * After a failed sync the journal keeps its entries, and a later sync of the directory
	 * makes them durable.
	 */
	if (seq != 0 && sim_roll(n->sim, SIM_DISK_SYNC_FAIL, n))
		rc = -EIO;
	else
		name_commit(p.disk, seq);
	sim_trace(n->sim, n, "dir-sync", seq, (uint64_t)-rc, path);
	return rc;
}

static int sim_fs_space(struct rt_loop *l, const char *path, struct rt_space *out)
{
	struct sim_node *n = sim_node_of(l);
	struct place p;
	int rc = path_wait(n, path);

	if (rc == 0)
		rc = name_find(n, path, &p);
	if (rc == 0 && p.inode == NULL)
		rc = -ENOENT;
	if (rc != 0)
		return rc;
	out->total_bytes = p.disk->size_bytes;
	out->free_bytes = (uint64_t)disk_free_blocks(p.disk) * DISK_BLOCK_BYTES;
	return 0;
}

struct listed {
	bool is_dir;
	char name[DISK_NAME_MAX + 1];
};

/* Copies the names of a directory in random order, so that no caller can rely on an order. */
static struct listed *list_copy(struct sim *s, const struct inode *dir, size_t *count)
{
	struct listed *names = sim_need(calloc(dir->entry_count + 1, sizeof(*names)));
	struct dentry *e;
	size_t k = 0;

	list_for_each_entry(e, &dir->entries, link) {
		size_t other = (size_t)sim_between(s, 0, k);
		names[k] = names[other];
		memcpy(names[other].name, e->name, e->len + 1);
		names[other].is_dir = e->inode->is_dir;
		k++;
	}
	assert(k == dir->entry_count);
	*count = k;
	return names;
}

static int sim_fs_list(struct rt_loop *l, const char *path,
		       bool (*fn)(void *ctx, const char *name, bool is_dir), void *ctx)
{
	struct sim_node *n = sim_node_of(l);
	struct place p;
	int rc = path_wait(n, path);

	if (rc == 0)
		rc = dir_find(n, path, &p);
	if (rc != 0)
		return rc;
	size_t count;
	AUTO_FREE struct listed *names = list_copy(n->sim, p.inode, &count);
	sim_trace(n->sim, n, "list", count, 0, path);
	for (size_t k = 0; k < count; k++) {
		if (!fn(ctx, names[k].name, names[k].is_dir))
			break;
	}
	return 0;
}

const struct rt_fs_ops sim_fs_ops = {
	.open = sim_fs_open,
	.rename = sim_fs_rename,
	.unlink = sim_fs_unlink,
	.mkdir = sim_fs_mkdir,
	.dir_sync = sim_fs_dir_sync,
	.space = sim_fs_space,
	.list = sim_fs_list,
};
