// SPDX-License-Identifier: Apache-2.0
/*
 * The part of all file calls that both worlds share: it checks arguments and repeats short
 * transfers until they are complete.
 */
#include "rt/file.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "rt/core.h"

/*
 * Writes to `out` the rest of an iovec list after its first `done` bytes. Returns the number of
 * elements of the rest.
 */
static int iov_rest(struct iovec *out, const struct iovec *iov, int n, size_t done)
{
	int m = 0;
	for (int i = 0; i < n; i++) {
		if (done >= iov[i].iov_len) {
			done -= iov[i].iov_len;
			continue;
		}
		out[m].iov_base = (char *)iov[i].iov_base + done;
		out[m].iov_len = iov[i].iov_len - done;
		done = 0;
		m++;
	}
	assert(m <= RT_IOV_MAX);
	return m;
}

/*
 * Returns the total length of the list in bytes; -EINVAL if the list is invalid, -EOVERFLOW if the
 * range of the file is.
 */
static int64_t iov_check(const struct iovec *iov, int n, uint64_t offset)
{
	if (n < 0 || n > RT_IOV_MAX)
		return -EINVAL;
	uint64_t total = 0;
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len > INT64_MAX - total)
			return -EOVERFLOW;
		total += iov[i].iov_len;
	}
	return offset > INT64_MAX - total ? -EOVERFLOW : (int64_t)total;
}

typedef int64_t (*transfer_fn)(struct rt_file *f, const struct iovec *iov, int n, uint64_t offset);

/*
 * Repeats fn, which may transfer fewer bytes than asked for, until `total` bytes are transferred,
 * fn returns 0 (end of file), or fn fails.
 */
static int64_t transfer_all(struct rt_file *f, transfer_fn fn, const struct iovec *iov, int n,
			    uint64_t offset, int64_t total)
{
	struct iovec rest[RT_IOV_MAX];
	int64_t done = 0;
	while (done < total) {
		int64_t rc = fn(f, iov, n, offset + (uint64_t)done);
		if (rc < 0)
			return rc;
		if (rc == 0)
			break;
		assert(rc <= total - done);
		n = iov_rest(rest, iov, n, (size_t)rc);
		iov = rest;
		done += rc;
		/* A direct transfer that ends unaligned has reached the end of the file. */
		if ((f->flags & RT_DIRECT) != 0 && done % RT_DIRECT_ALIGN != 0)
			break;
	}
	return done;
}

int rt_file_open(struct rt_file **out, const char *path, unsigned flags)
{
	int rc = fiber_check();
	if (rc != 0)
		return rc;
	if ((flags & (RT_READ | RT_WRITE)) == 0 ||
	    ((flags & RT_EXCL) != 0 && (flags & RT_CREATE) == 0))
		return -EINVAL;
	struct rt_loop *l = rt_loop_self();
	rc = l->world->fs->open(l, out, path, flags);
	if (rc == 0) {
		assert((*out)->ops != NULL);
		(*out)->flags = flags;
	}
	return rc;
}

void rt_file_close(struct rt_file *f)
{
	if (f != NULL)
		f->ops->close(f);
}

int64_t rt_file_readv(struct rt_file *f, const struct iovec *iov, int n, uint64_t offset)
{
	int64_t total = iov_check(iov, n, offset);
	if (total < 0)
		return total;
	int rc = fiber_check();
	return rc != 0 ? rc : transfer_all(f, f->ops->readv, iov, n, offset, total);
}

int64_t rt_file_read(struct rt_file *f, void *buf, size_t len, uint64_t offset)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len};
	return rt_file_readv(f, &iov, 1, offset);
}

int rt_file_writev(struct rt_file *f, const struct iovec *iov, int n, uint64_t offset)
{
	int64_t total = iov_check(iov, n, offset);
	if (total < 0)
		return (int)total;
	int rc = fiber_check();
	if (rc != 0)
		return rc;
	int64_t done = transfer_all(f, f->ops->writev, iov, n, offset, total);
	if (done < 0)
		return (int)done;
	return done == total ? 0 : -EIO;
}

int rt_file_write(struct rt_file *f, const void *buf, size_t len, uint64_t offset)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
	return rt_file_writev(f, &iov, 1, offset);
}

int rt_file_sync(struct rt_file *f)
{
	int rc = fiber_check();
	return rc != 0 ? rc : f->ops->sync(f);
}

int rt_file_allocate(struct rt_file *f, uint64_t offset, uint64_t len, bool keep_size)
{
	if (len == 0)
		return -EINVAL;
	if (len > INT64_MAX || offset > INT64_MAX - len)
		return -EOVERFLOW;
	int rc = fiber_check();
	return rc != 0 ? rc : f->ops->allocate(f, offset, len, keep_size);
}

int rt_file_truncate(struct rt_file *f, uint64_t size)
{
	if (size > INT64_MAX)
		return -EOVERFLOW;
	int rc = fiber_check();
	return rc != 0 ? rc : f->ops->truncate(f, size);
}

int rt_file_size(struct rt_file *f, uint64_t *size)
{
	int rc = fiber_check();
	return rc != 0 ? rc : f->ops->size(f, size);
}

static const struct rt_fs_ops *fs(void)
{
	return rt_loop_self()->world->fs;
}

int rt_rename(const char *from, const char *to)
{
	int rc = fiber_check();
	return rc != 0 ? rc : fs()->rename(rt_loop_self(), from, to);
}

int rt_unlink(const char *path)
{
	int rc = fiber_check();
	return rc != 0 ? rc : fs()->unlink(rt_loop_self(), path, false);
}

int rt_rmdir(const char *path)
{
	int rc = fiber_check();
	return rc != 0 ? rc : fs()->unlink(rt_loop_self(), path, true);
}

int rt_mkdir(const char *path)
{
	int rc = fiber_check();
	return rc != 0 ? rc : fs()->mkdir(rt_loop_self(), path);
}

int rt_dir_sync(const char *path)
{
	int rc = fiber_check();
	return rc != 0 ? rc : fs()->dir_sync(rt_loop_self(), path);
}

int rt_name_sync(const char *path)
{
	AUTO_FREE char *dir = strdup(path);
	if (dir == NULL)
		return -ENOMEM;
	char *slash = strrchr(dir, '/');
	if (slash != NULL)
		slash[slash == dir ? 1 : 0] = 0;
	return rt_dir_sync(slash != NULL ? dir : ".");
}

int rt_space(const char *path, struct rt_space *out)
{
	int rc = fiber_check();
	return rc != 0 ? rc : fs()->space(rt_loop_self(), path, out);
}

int rt_dir_list(const char *path, bool (*fn)(void *ctx, const char *name, bool is_dir), void *ctx)
{
	int rc = fiber_check();
	return rc != 0 ? rc : fs()->list(rt_loop_self(), path, fn, ctx);
}
