// SPDX-License-Identifier: Apache-2.0
/*
 * Private to the simulated disks: image.c stores bytes, inode.c decides which of them are durable, name.c has the
 * tree of names and its journal, disk.c the disks and their faults, file.c the calls of rt.
 */
#ifndef RT_SIM_DISK_H
#define RT_SIM_DISK_H

#include "base/map.h"
#include "rt/sim/sim.h"

#define DISK_BLOCK_BYTES 4096
#define DISK_SECTOR_BYTES 512
#define DISK_NAME_MAX 255
#define DISK_PATH_MAX 4096

/* --- image.c: the bytes of a file, with holes -------------------------------------------------- */

struct image {
	uint8_t **blocks; /* NULL: a hole */
	size_t slots;
	size_t used_blocks; /* blocks that are no holes */
	uint64_t size_bytes;
};

void image_fini(struct image *im);
/* Writes bytes; extends the image if they end past its end. */
void image_write(struct image *im, uint64_t offset, const void *data, size_t len);
/* Reads bytes; zeros past the end. */
void image_read(const struct image *im, uint64_t offset, void *data, size_t len);
void image_resize(struct image *im, uint64_t size_bytes);
/* Turns holes in the range into zeroed blocks; the size does not change. */
void image_reserve(struct image *im, uint64_t offset, uint64_t len);
/* Returns the number of holes among the blocks that the range touches. */
size_t image_holes(const struct image *im, uint64_t offset, uint64_t len);
void image_copy(struct image *to, const struct image *from);
/* Flips one bit; does nothing in a hole or past the end. */
void image_flip(struct image *im, uint64_t offset, unsigned bit);

/* --- inode.c: durable and pending bytes of a file -------------------------------------------------------- */

enum change_kind { CHANGE_WRITE, CHANGE_RESIZE, CHANGE_RESERVE };

/* A change of a file that is not durable yet. */
struct change {
	struct list link; /* in inode.pending or inode.inflight */
	enum change_kind kind;
	uint64_t seq;
	uint64_t offset; /* CHANGE_RESIZE: the new size */
	uint64_t len;
	uint8_t data[]; /* CHANGE_WRITE: len bytes */
};

/* Bytes that a write replaced, for stale reads. */
struct past {
	struct list link; /* in inode.past, oldest first */
	uint64_t offset;
	size_t len;
	uint8_t data[];
};

struct inode {
	struct sim_disk *disk;
	struct list link; /* in disk.inodes, in order of creation */
	uint64_t id;
	char label[40]; /* for the trace */
	bool is_dir;
	unsigned names;        /* in the tree: 0 or 1 */
	unsigned handles;      /* open files */
	unsigned undo_refs;    /* references of the journal of names */
	size_t charged_blocks; /* part of disk.used_blocks */

	struct image cache;   /* the bytes that reads return */
	struct image stable;  /* the bytes that survive a power loss */
	struct list pending;  /* change: in cache, not in stable; in order */
	struct list inflight; /* change: of a write call that has not ended */
	bool unlike;          /* cache may differ from stable by more than pending: invariant 1 */
	uint64_t change_seq;
	size_t pending_count;
	uint64_t pending_bytes;
	struct list past;
	size_t past_count;
	const void *locker; /* the open file with RT_LOCK, or NULL */

	struct inode *parent; /* of a directory; the root is its own parent */
	struct list entries;  /* dentry */
	size_t entry_count;
};

struct inode *inode_new(struct sim_disk *d, bool is_dir);
/* Frees the inode if no reference is left; otherwise updates the account of its space. */
void inode_settle_refs(struct inode *i);
void inode_free(struct inode *i);
/* Drops all bytes and pending changes; changes in flight belong to fibers and stay. */
void inode_wipe(struct inode *i);

struct change *change_new(enum change_kind kind, uint64_t offset, uint64_t len);
/* Applies the change to cache and adds it to pending. Takes c. */
void inode_change_take(struct inode *i, struct change *c);
/* Makes every pending change up to seq durable. */
void inode_commit(struct inode *i, uint64_t seq);
/* After a failed sync: draws which changes up to seq reached the medium; no later sync covers the others. */
void inode_commit_failed(struct inode *i, uint64_t seq);
/* Draws what survives of pending changes and those in flight. */
void inode_power_loss(struct inode *i);
/* The process was killed, the machine runs on: draws which writes in flight reach the page cache. */
void inode_process_death(struct inode *i);
/* Returns how many bytes of a write, from its start, fit into the free space. */
uint64_t inode_fit(const struct inode *i, uint64_t offset, uint64_t len);

/* --- name.c: the tree of names ----------------------------------------------------------------- */

struct dentry {
	struct list link;     /* in dir.entries */
	struct dentry *chain; /* same hash, in disk.names */
	uint64_t key;
	struct inode *dir;
	struct inode *inode;
	size_t len;
	char name[];
};

/* The result of a path lookup. */
struct place {
	struct sim_disk *disk;
	struct inode *dir; /* directory of the last name; NULL: the path is the disk's root */
	const char *name;  /* the last name, not terminated */
	size_t len;
	struct inode *inode; /* NULL: no such name */
	bool must_be_dir;    /* the path ends in a slash */
};

/* Looks up a path; 0 also if only the last name does not exist. -ENOENT, -ENOTDIR, -ENAMETOOLONG, -ENODEV. */
int name_find(struct sim_node *n, const char *path, struct place *p);
/* Returns the disk of a path, or NULL. */
struct sim_disk *name_disk(struct sim_node *n, const char *path);

void name_add(struct inode *dir, const char *name, size_t len, struct inode *i);
void name_remove(struct inode *dir, const char *name, size_t len);
/* Renames; replaces an existing target. */
void name_move(const struct place *from, const struct place *to);

/* Returns the sequence number of the last journal entry of a directory, or 0. */
uint64_t name_last(const struct sim_disk *d, const struct inode *dir);
/* Makes every journal entry up to seq durable. */
void name_commit(struct sim_disk *d, uint64_t seq);
/* Draws how much of the journal survives a power loss, and undoes the rest. */
void name_power_loss(struct sim_disk *d);
/* Removes all names below the root. */
void name_wipe(struct sim_disk *d);

/* --- disk.c ------------------------------------------------------------------------------------ */

enum { DISK_STRIKERS = 5 };

struct sim_disk {
	struct sim_node *node;
	struct list node_link;
	char name[64];
	uint64_t size_bytes;
	size_t used_blocks;

	struct list inodes;
	uint64_t next_id;
	struct inode *root;
	struct map names;    /* hash of directory and name -> first dentry of a chain */
	struct list journal; /* name_op, in order */
	size_t journal_count;
	uint64_t journal_seq;

	uint64_t busy_until_ns; /* end of the queued transfers */
	uint64_t slow_until_ns;
	uint64_t slow_factor; /* on latency and transfer time while slow */
	uint64_t hang_until_ns;
	uint64_t full_until_ns;
	bool lost;
	bool spared;     /* sim_disk_spare: exempt from damage */
	unsigned damage; /* enum sim_damage */
	struct sim_striker strikers[DISK_STRIKERS];
};

/* Returns the number of free blocks; 0 while the disk is full by a fault. */
size_t disk_free_blocks(const struct sim_disk *d);

/*
 * Waits for the time of one operation. -ENODEV: the disk was lost. -ECANCELED: the process crashed; then the caller
 * must not touch the file, nor a change that it has put in flight.
 */
int disk_wait(struct sim_disk *d, uint64_t bytes);

#endif
