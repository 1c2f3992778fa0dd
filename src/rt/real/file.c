// SPDX-License-Identifier: Apache-2.0
/*
 * Files of the real machine: operations run on the ring, or on the offload pool where io_uring
 * lacks them.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rt/real/real.h"

#define FILE_MODE 0640
#define DIR_MODE 0750
#define LARGE_BYTES (64 * KIB) /* requests of at least this many bytes are submitted at once */

static const struct rt_file_ops real_file_ops;

struct real_file {
	struct rt_file base;
	int fd;
};

static int fd_of(struct rt_file *f)
{
	assert(f->ops == &real_file_ops);
	return container_of(f, struct real_file, base)->fd;
}

static struct real_loop *self(void)
{
	return real_loop(rt_loop_self());
}

/*
 * Submits a large request before other ready fibers run: these fibers may compute for long on data
 * that they just read from the device, and the device would be idle in that time.
 */
static void submit_if_large(const struct iovec *iov, int n)
{
	size_t bytes = 0;
	for (int i = 0; i < n && bytes < LARGE_BYTES; i++)
		bytes += iov[i].iov_len;
	if (bytes >= LARGE_BYTES)
		self()->submit_soon = true;
}

static int64_t real_readv(struct rt_file *f, const struct iovec *iov, int n, uint64_t offset)
{
	struct io_uring_sqe *sqe = ring_sqe(self());
	io_uring_prep_readv(sqe, fd_of(f), iov, (unsigned)n, offset);
	submit_if_large(iov, n);
	return ring_wait(self(), sqe, PARK_TO_END);
}

static int64_t real_writev(struct rt_file *f, const struct iovec *iov, int n, uint64_t offset)
{
	struct io_uring_sqe *sqe = ring_sqe(self());
	io_uring_prep_writev(sqe, fd_of(f), iov, (unsigned)n, offset);
	submit_if_large(iov, n);
	return ring_wait(self(), sqe, PARK_TO_END);
}

static int real_sync(struct rt_file *f)
{
	struct io_uring_sqe *sqe = ring_sqe(self());
	io_uring_prep_fsync(sqe, fd_of(f), IORING_FSYNC_DATASYNC);
	return (int)ring_wait(self(), sqe, PARK_TO_END);
}

static int real_allocate(struct rt_file *f, uint64_t offset, uint64_t len, bool keep_size)
{
	struct io_uring_sqe *sqe = ring_sqe(self());
	io_uring_prep_fallocate(sqe, fd_of(f), keep_size ? FALLOC_FL_KEEP_SIZE : 0, (off_t)offset,
				(off_t)len);
	return (int)ring_wait(self(), sqe, PARK_TO_END);
}

struct truncate_call {
	int fd;
	uint64_t size;
	int rc;
};

static void truncate_blocking(void *arg)
{
	struct truncate_call *c = arg;
	c->rc = ftruncate(c->fd, (off_t)c->size) == 0 ? 0 : -errno;
}

static int real_truncate(struct rt_file *f, uint64_t size)
{
	struct truncate_call c = {.fd = fd_of(f), .size = size};
	int rc = offload_run(rt_loop_self(), truncate_blocking, &c);
	return rc != 0 ? rc : c.rc;
}

static int real_size(struct rt_file *f, uint64_t *size)
{
	struct stat st;
	if (fstat(fd_of(f), &st) != 0)
		return -errno;
	*size = (uint64_t)st.st_size;
	return 0;
}

static void real_close(struct rt_file *f)
{
	close(fd_of(f));
	free(container_of(f, struct real_file, base));
}

static const struct rt_file_ops real_file_ops = {
	.readv = real_readv,
	.writev = real_writev,
	.sync = real_sync,
	.allocate = real_allocate,
	.truncate = real_truncate,
	.size = real_size,
	.close = real_close,
};

static int open_fd(struct real_loop *l, const char *path, int flags, mode_t mode)
{
	struct io_uring_sqe *sqe = ring_sqe(l);
	io_uring_prep_openat(sqe, AT_FDCWD, path, flags | O_CLOEXEC, mode);
	return (int)ring_wait(l, sqe, PARK_TO_END);
}

static int open_flags(unsigned flags)
{
	int o = O_RDONLY;
	if ((flags & RT_WRITE) != 0)
		o = (flags & RT_READ) != 0 ? O_RDWR : O_WRONLY;
	o |= (flags & RT_CREATE) != 0 ? O_CREAT : 0;
	o |= (flags & RT_EXCL) != 0 ? O_EXCL : 0;
	o |= (flags & RT_TRUNC) != 0 ? O_TRUNC : 0;
	o |= (flags & RT_DIRECT) != 0 ? O_DIRECT : 0;
	return o;
}

/* Locks the file; waits for a killed process to release its lock. */
static int lock_wait(int fd)
{
	uint64_t until = rt_now_ns() + RELEASE_WAIT_NS;
	while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno != EWOULDBLOCK)
			return -errno;
		if (!release_wait(until))
			return -EBUSY;
	}
	return 0;
}

static int real_open(struct rt_loop *l, struct rt_file **out, const char *path, unsigned flags)
{
	/*
	 * Truncate only after the lock is taken: a file that another process has locked must keep
	 * its bytes.
	 */
	bool truncate_later = (flags & RT_LOCK) != 0 && (flags & RT_TRUNC) != 0;
	struct real_file *f = calloc(1, sizeof(*f));
	if (f == NULL)
		return -ENOMEM;
	f->base.ops = &real_file_ops;
	f->fd = open_fd(real_loop(l), path,
			open_flags(truncate_later ? flags & ~(unsigned)RT_TRUNC : flags),
			FILE_MODE);
	if (f->fd < 0) {
		int rc = f->fd;
		free(f);
		return rc;
	}
	int rc = (flags & RT_LOCK) != 0 ? lock_wait(f->fd) : 0;
	if (rc == 0 && truncate_later)
		rc = real_truncate(&f->base, 0);
	if (rc != 0) {
		real_close(&f->base);
		return rc;
	}
	*out = &f->base;
	return 0;
}

static int real_rename(struct rt_loop *l, const char *from, const char *to)
{
	struct io_uring_sqe *sqe = ring_sqe(real_loop(l));
	io_uring_prep_rename(sqe, from, to);
	return (int)ring_wait(real_loop(l), sqe, PARK_TO_END);
}

static int real_unlink(struct rt_loop *l, const char *path, bool dir)
{
	struct io_uring_sqe *sqe = ring_sqe(real_loop(l));
	io_uring_prep_unlink(sqe, path, dir ? AT_REMOVEDIR : 0);
	return (int)ring_wait(real_loop(l), sqe, PARK_TO_END);
}

static int real_mkdir(struct rt_loop *l, const char *path)
{
	struct io_uring_sqe *sqe = ring_sqe(real_loop(l));
	io_uring_prep_mkdir(sqe, path, DIR_MODE);
	return (int)ring_wait(real_loop(l), sqe, PARK_TO_END);
}

static int real_dir_sync(struct rt_loop *l, const char *path)
{
	int fd = open_fd(real_loop(l), path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fd;
	struct io_uring_sqe *sqe = ring_sqe(real_loop(l));
	io_uring_prep_fsync(sqe, fd, 0);
	int rc = (int)ring_wait(real_loop(l), sqe, PARK_TO_END);
	close(fd);
	return rc;
}

struct space_call {
	const char *path;
	struct rt_space *out;
	int rc;
};

static void space_blocking(void *arg)
{
	struct space_call *c = arg;
	struct statvfs sv;
	c->rc = statvfs(c->path, &sv) == 0 ? 0 : -errno;
	if (c->rc != 0)
		return;
	c->out->total_bytes = (uint64_t)sv.f_blocks * sv.f_frsize;
	c->out->free_bytes = (uint64_t)sv.f_bavail * sv.f_frsize;
}

static int real_space(struct rt_loop *l, const char *path, struct rt_space *out)
{
	struct space_call c = {.path = path, .out = out};
	int rc = offload_run(l, space_blocking, &c);
	return rc != 0 ? rc : c.rc;
}

/* --- listing: one buffer at a time, so that memory does not grow with the directory --------------- */

#define LIST_BUF_BYTES (64 * KIB)

struct list_call {
	int fd;
	char *buf;
	int64_t n;
};

static void list_blocking(void *arg)
{
	struct list_call *c = arg;
	c->n = syscall(SYS_getdents64, c->fd, c->buf, LIST_BUF_BYTES);
	if (c->n < 0)
		c->n = -errno;
}

/*
 * Returns whether a directory entry is a directory; asks fstatat where the file system does not
 * report the type.
 */
static bool entry_is_dir(int fd, const struct dirent64 *e)
{
	struct stat st;
	if (e->d_type != DT_UNKNOWN)
		return e->d_type == DT_DIR;
	return fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static bool list_deliver(struct list_call *c, bool (*fn)(void *ctx, const char *name, bool is_dir),
			 void *ctx)
{
	for (int64_t at = 0; at < c->n;) {
		struct dirent64 *e = (struct dirent64 *)(void *)(c->buf + at);
		at += e->d_reclen;
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (!fn(ctx, e->d_name, entry_is_dir(c->fd, e)))
			return false;
	}
	return true;
}

static int real_list(struct rt_loop *l, const char *path,
		     bool (*fn)(void *ctx, const char *name, bool is_dir), void *ctx)
{
	AUTO_FREE char *buf = malloc(LIST_BUF_BYTES);
	if (buf == NULL)
		return -ENOMEM;
	int fd = open_fd(real_loop(l), path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fd;
	struct list_call c = {.fd = fd, .buf = buf};
	int rc;
	do
		rc = offload_run(l, list_blocking, &c);
	while (rc == 0 && c.n > 0 && list_deliver(&c, fn, ctx));
	close(fd);
	return rc != 0 ? rc : (int)(c.n < 0 ? c.n : 0);
}

const struct rt_fs_ops real_fs_ops = {
	.open = real_open,
	.rename = real_rename,
	.unlink = real_unlink,
	.mkdir = real_mkdir,
	.dir_sync = real_dir_sync,
	.space = real_space,
	.list = real_list,
};
