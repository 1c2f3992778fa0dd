// SPDX-License-Identifier: Apache-2.0
/*
 * One disk: a directory on a local filesystem, one file per chunk (format.c says what is in it).
 *
 *   DIR/superblock                           who the disk is; locked while it is open
 *   DIR/tmp/                                 puts under way; emptied when the disk is opened
 *   DIR/chunks/0a3/000000000000002a.00000007 chunk 7 of block 42
 *
 * Opening reads the superblock, empties tmp/ and syncs the directories: it looks at no chunk, so a disk
 * with a million of them opens as fast as an empty one. A chunk's head is read when it is first
 * used, and kept, with the open file, for the last open_chunks_max of them.
 *
 * States. An error of the device makes the disk suspect: it takes nothing new, until a write, sync and
 * read of a probe file went well, tried at most every probe_after_ns when somebody wants to write.
 * More than errors_max errors within an hour, or a device that is gone, make it failed until it is
 * opened again; a place of a chunk (1 MiB) that cannot be read is one error, however often it is tried. A full disk comes back by itself when there is space. A chunk whose fdatasync failed
 * takes no more appends until the disk is opened again: what is on the medium is not known, and
 * nothing may be built on it. Its acknowledged bytes are still read.
 */
#ifndef STORE_DIR_H
#define STORE_DIR_H

#include "store/format.h"

struct store_dir_options {
	uint64_t cluster[2]; /* who the disk must be */
	uint64_t node;
	uint64_t disk;
	uint32_t open_chunks_max; /* files and heads kept; 0: 1024 */
	uint64_t keep_free_bytes; /* space that is never given out */
	uint32_t sharers;         /* disks on its filesystem; 0: it alone. info tells its part */
	uint64_t probe_after_ns;  /* 0: 10 s */
	uint32_t errors_max;      /* an hour; 0: 10 */
	bool buffered;            /* do not even try O_DIRECT */
};

/*
 * Makes a disk of an empty directory (lost+found aside), durably. Can be repeated after a crash.
 * -EEXIST when it is one, -ENOTEMPTY when it holds anything else, -EINVAL.
 */
int store_dir_format(const char *path, const struct super *who);

/* Who is this? -ENOENT when it is no disk of ours, -EBADMSG when its superblock is damaged,
 * -EOPNOTSUPP when it is of a later version. */
int store_dir_identify(const char *path, struct super *out);

/*
 * Opens a disk. Errors of identify, and: -EPERM for a disk of another cluster, -ESTALE for one of
 * this cluster that belongs elsewhere (identify says where), -EBUSY when it is open already.
 */
int store_dir_open(const char *path, const struct store_dir_options *options, struct store **out);

#endif
