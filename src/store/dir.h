// SPDX-License-Identifier: Apache-2.0
/*
 * One disk: a directory on a local filesystem, one file per chunk (format.c describes its contents).
 *
 *   DIR/superblock                           identity of the disk; locked while it is open
 *   DIR/tmp/                                 unfinished puts; emptied when the disk is opened
 *   DIR/chunks/0a3/000000000000002a.00000007 chunk 7 of block 42
 *
 * Opening reads the superblock, empties tmp/ and syncs the directories. It reads no chunk, so a disk with
 * a million chunks opens as fast as an empty one. The head of a chunk is read when the chunk is first
 * used; heads and open files of the open_chunks_max last used chunks are kept.
 *
 * States. An error of the device makes the disk suspect: it refuses new data until a probe file was
 * written, synced and read back. A probe is tried when a caller wants to write, at most every
 * probe_after_ns. More than errors_max errors within an hour, or a missing device, make the disk failed
 * until it is opened again. A range of a chunk (1 MiB) that cannot be read counts as one error, however
 * often a caller tries to read it. A full disk returns to online when space is free again. A chunk whose
 * fdatasync failed takes no more changes until it has been loaded again on an online disk: the medium may
 * hold the old or the new state. The acknowledged bytes of the chunk can still be read.
 */
#ifndef STORE_DIR_H
#define STORE_DIR_H

#include "store/format.h"

struct store_dir_options {
	uint64_t cluster[2]; /* expected cluster id; then the expected ids of node and disk */
	uint64_t node;
	uint64_t disk;
	uint32_t open_chunks_max; /* number of chunks whose files and heads stay open; 0: 1024 */
	uint64_t keep_free_bytes; /* bytes of the filesystem that the disk leaves free */
	/* number of disks on the same filesystem, 0: 1; info reports total / sharers */
	uint32_t sharers;
	uint64_t probe_after_ns; /* pause between probes; 0: 10 s */
	uint32_t errors_max;     /* errors per hour before the disk fails; 0: 10 */
	bool buffered;           /* use the page cache instead of O_DIRECT */
};

/*
 * Formats an empty directory (lost+found may exist) as a disk, durably. After a crash the caller
 * can repeat the call. -EEXIST when the directory is a disk already, -ENOTEMPTY when it contains
 * other files, -EINVAL.
 */
int store_dir_format(const char *path, const struct super *who);

/*
 * Reads the identity of a disk. -ENOENT when path is no disk, -EBADMSG when its superblock is
 * damaged, -EOPNOTSUPP when its format version is newer than this program's.
 */
int store_dir_identify(const char *path, struct super *out);

/*
 * Opens a disk. Returns the errors of store_dir_identify, and -EPERM for a disk of another cluster,
 * -ESTALE for a disk of this cluster with another node or disk id, -EBUSY when the disk is open
 * already.
 */
int store_dir_open(const char *path, const struct store_dir_options *options, struct store **out);

#endif
