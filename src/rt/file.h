// SPDX-License-Identifier: Apache-2.0
/*
 * Files. Every call waits and runs to its end, except rt_file_close, which never fails.
 *
 * What survives a crash: the bytes of a file after rt_file_sync returned 0, and a name after rt_dir_sync of its
 * directory returned 0. Every other change may survive, be lost, or survive in part, sector by sector and in any
 * order; only rename is all or nothing. If rt_file_sync fails, all writes since the last successful sync are lost,
 * although reads may still return them; a second rt_file_sync does not cover them, even if it returns 0.
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
	RT_EXCL = 1 << 3,  /* with RT_CREATE: the open fails with -EEXIST if the file exists */
	RT_TRUNC = 1 << 4, /* set the size of an existing file to 0 */
	/* Bypass the page cache: memory, offset and length must be multiples of RT_DIRECT_ALIGN. */
	RT_DIRECT = 1 << 5,
	/*
	 * Lock the file until it is closed or the process ends; while it is locked, other opens
	 * with RT_LOCK fail with -EBUSY.
	 */
	RT_LOCK = 1 << 6,
};

#define RT_DIRECT_ALIGN 4096 /* alignment of memory, offset and length in bytes */
#define RT_IOV_MAX 64        /* most elements of an iovec list */

int rt_file_open(struct rt_file **out, const char *path, unsigned flags);
void rt_file_close(struct rt_file *f);

/*
 * Returns the number of bytes read: fewer than requested only at the end of the file. The list has
 * at most RT_IOV_MAX elements.
 */
int64_t rt_file_readv(struct rt_file *f, const struct iovec *iov, int n, uint64_t offset);
int64_t rt_file_read(struct rt_file *f, void *buf, size_t len, uint64_t offset);

/* Writes all bytes at the offset. After an error any part of the bytes may have been written. */
int rt_file_writev(struct rt_file *f, const struct iovec *iov, int n, uint64_t offset);
int rt_file_write(struct rt_file *f, const void *buf, size_t len, uint64_t offset);

/* Makes completed writes durable, with the size needed to read them (fdatasync). */
int rt_file_sync(struct rt_file *f);

/*
 * Allocates space for [offset, offset + len); with keep_size the file size does not grow. Returns
 * 0, -ENOSPC or -EOPNOTSUPP.
 */
int rt_file_allocate(struct rt_file *f, uint64_t offset, uint64_t len, bool keep_size);
int rt_file_truncate(struct rt_file *f, uint64_t size);
int rt_file_size(struct rt_file *f, uint64_t *size);

int rt_rename(const char *from, const char *to); /* replaces an existing file `to` */
int rt_unlink(const char *path);
int rt_mkdir(const char *path);
int rt_rmdir(const char *path);
int rt_dir_sync(const char *path);
/* Syncs the directory that has the name `path`. */
int rt_name_sync(const char *path);

struct rt_space {
	uint64_t total_bytes;
	uint64_t free_bytes;
};
int rt_space(const char *path, struct rt_space *out);

/*
 * Calls fn for the names in a directory, without . and .., in unspecified order, until fn returns false. fn may
 * wait. A name that exists during the whole call is listed exactly once.
 */
int rt_dir_list(const char *path, bool (*fn)(void *ctx, const char *name, bool is_dir), void *ctx);

#endif
