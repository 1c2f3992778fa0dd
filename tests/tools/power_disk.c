// SPDX-License-Identifier: Apache-2.0
/*
 * A drive that remembers the order of writes and flushes, for tests of power loss:
 *
 *   power_disk FOLDER BYTES BACKING LOG [HISTORY]...
 *
 * Mounts a FUSE filesystem on FOLDER with one file, FOLDER/disk, to be used through a loop device: writes of the
 * filesystem on that device arrive here as writes, its flushes as fsync. The bytes are kept in the file BACKING.
 * LOG gets a record for each request, in the order in which they arrived, before the request is answered:
 *
 *   struct record, then the bytes of a write
 *
 * A drive that loses power has all writes that were answered before the last flush that was answered, and any part
 * of those after it. A record has the sizes of the HISTORY files when the request arrived: what a client wrote there
 * was acknowledged before it.
 */
#define FUSE_USE_VERSION 35

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define HISTORIES_MAX 4
#define DISK_PATH "/disk"
#define FIXED_ARGS 5

enum { RECORD_WRITE = 1, RECORD_FLUSH = 2 };

/* little-endian, as on all machines that this test runs on */
struct record {
	uint32_t kind;
	uint32_t len; /* bytes of a write, which follow */
	uint64_t offset;
	uint64_t history_bytes[HISTORIES_MAX];
};

static struct {
	uint64_t bytes;
	int backing, log;
	int histories;
	char **history;
} disk;

/* Appends a record to the log. The daemon serves one request at a time, so records do not mix. */
static int record(uint32_t kind, const char *buf, size_t len, uint64_t offset)
{
	struct record r = {.kind = kind, .len = (uint32_t)len, .offset = offset};
	for (int i = 0; i < disk.histories; i++) {
		struct stat st;
		if (stat(disk.history[i], &st) == 0)
			r.history_bytes[i] = (uint64_t)st.st_size;
	}
	struct iovec iov[] = {{&r, sizeof(r)}, {(void *)buf, len}};
	ssize_t n = writev(disk.log, iov, len > 0 ? 2 : 1);
	if (n < 0)
		return -errno;
	return (size_t)n == sizeof(r) + len ? 0 : -EIO;
}

static int disk_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	(void)fi;
	if (strcmp(path, "/") == 0) {
		st->st_mode = S_IFDIR | 0700;
		st->st_nlink = 2;
		return 0;
	}
	if (strcmp(path, DISK_PATH) != 0)
		return -ENOENT;
	st->st_mode = S_IFREG | 0600;
	st->st_nlink = 1;
	st->st_size = (off_t)disk.bytes;
	return 0;
}

static int disk_open(const char *path, struct fuse_file_info *fi)
{
	fi->direct_io = 1;
	return strcmp(path, DISK_PATH) == 0 ? 0 : -ENOENT;
}

static bool in_disk(size_t len, off_t offset)
{
	return offset >= 0 && (uint64_t)offset <= disk.bytes &&
	       len <= disk.bytes - (uint64_t)offset;
}

static int disk_read(const char *path, char *buf, size_t len, off_t offset,
		     struct fuse_file_info *fi)
{
	(void)path;
	(void)fi;
	if (!in_disk(len, offset))
		return -EIO;
	ssize_t n = pread(disk.backing, buf, len, offset);
	return n < 0 ? -errno : (int)n;
}

static int disk_write(const char *path, const char *buf, size_t len, off_t offset,
		      struct fuse_file_info *fi)
{
	(void)path;
	(void)fi;
	if (!in_disk(len, offset))
		return -EIO;
	int rc = record(RECORD_WRITE, buf, len, (uint64_t)offset);
	if (rc != 0)
		return rc;
	ssize_t n = pwrite(disk.backing, buf, len, offset);
	return n < 0 ? -errno : (int)n;
}

static int disk_fsync(const char *path, int data_only, struct fuse_file_info *fi)
{
	(void)path;
	(void)data_only;
	(void)fi;
	return record(RECORD_FLUSH, NULL, 0, 0);
}

static const struct fuse_operations operations = {
	.getattr = disk_getattr,
	.open = disk_open,
	.read = disk_read,
	.write = disk_write,
	.fsync = disk_fsync,
};

static int usage(void)
{
	fprintf(stderr, "usage: power_disk FOLDER BYTES BACKING LOG [HISTORY]...\n");
	return 2;
}

int main(int argc, char **argv)
{
	if (argc < FIXED_ARGS || argc > FIXED_ARGS + HISTORIES_MAX)
		return usage();
	char *end;
	disk.bytes = strtoull(argv[2], &end, 10);
	if (*end != '\0' || disk.bytes == 0 || disk.bytes > INT64_MAX)
		return usage();
	disk.backing = open(argv[3], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	disk.log = open(argv[4], O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	if (disk.backing < 0 || disk.log < 0 || ftruncate(disk.backing, (off_t)disk.bytes) != 0) {
		fprintf(stderr, "power_disk: cannot create %s or %s: %s\n", argv[3], argv[4],
			strerror(errno));
		return 1;
	}
	disk.histories = argc - FIXED_ARGS;
	disk.history = argv + FIXED_ARGS;
	char *words[] = {argv[0], (char[]){"-f"}, (char[]){"-s"}, argv[1], NULL};
	return fuse_main(4, words, &operations, NULL);
}
