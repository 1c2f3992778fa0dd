// SPDX-License-Identifier: Apache-2.0
/*
 * Files. Every call waits and runs to its end, except rt_file_close, which never fails.
 *
 * What survives a crash: the bytes of a file after rt_file_sync returned 0, a name after rt_dir_sync
 * of its directory returned 0. Everything else may be there, be absent, or be there in part, sector
 * by sector and in any order; only rename is all or nothing. When rt_file_sync fails, what was
 * written since the last good one is lost for good even if reads still show it: a second
 * rt_file_sync says nothing about it.
 */
#ifndef RT_FILE_H
#define RT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct rt_file;

enum rt_open_flags {
	RT_READ = 1 << 0,
	RT_WRITE = 1 << 1,
	RT_CREATE = 1 << 2,
	RT_EXCL = 1 << 3,  /* with RT_CREATE: -EEXIST when it exists */
	RT_TRUNC = 1 << 4, /* cut to nothing */
	/* Past the page cache: memory, offset and length must be multiples of RT_DIRECT_ALIGN. */
	RT_DIRECT = 1 << 5,
	/* Lock out other openers that ask for it too, until closed or the process dies: -EBUSY. */
	RT_LOCK = 1 << 6,
};

#define RT_DIRECT_ALIGN 4096
#define RT_IOV_MAX 64

int rt_file_open(struct rt_file **out, const char *path, unsigned flags);
void rt_file_close(struct rt_file *f);

/* Bytes read; fewer than asked only at the end of the file. At most RT_IOV_MAX pieces. */
int64_t rt_file_readv(struct rt_file *f, const struct iovec *iov, int n, uint64_t offset);
int64_t rt_file_read(struct rt_file *f, void *buf, size_t len, uint64_t offset);

/* 0 when all of it was written; after an error any part of it may have been. */
int rt_file_writev(struct rt_file *f, const struct iovec *iov, int n, uint64_t offset);
int rt_file_write(struct rt_file *f, const void *buf, size_t len, uint64_t offset);

/* fdatasync: what was written, and the size needed to read it back. */
int rt_file_sync(struct rt_file *f);

/* Give [offset, offset + len) space; keep_size leaves the size as it is. -ENOSPC, -EOPNOTSUPP. */
int rt_file_allocate(struct rt_file *f, uint64_t offset, uint64_t len, bool keep_size);
int rt_file_truncate(struct rt_file *f, uint64_t size);
int rt_file_size(struct rt_file *f, uint64_t *size);

int rt_rename(const char *from, const char *to); /* replaces to */
int rt_unlink(const char *path);
int rt_mkdir(const char *path);
int rt_rmdir(const char *path);
int rt_dir_sync(const char *path);

struct rt_space {
	uint64_t total_bytes;
	uint64_t free_bytes;
};
int rt_space(const char *path, struct rt_space *out);

/*
 * The names in a directory, without . and .., in no order that matters. fn returns false to stop. It is
 * called after the directory was read in part or whole, may itself wait, and sees each name that was
 * there all the while exactly once.
 */
int rt_dir_list(const char *path, bool (*fn)(void *ctx, const char *name, bool is_dir), void *ctx);

#endif
