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
	uint8_t **blocks; /* the bytes of each block; NULL: a hole */
	size_t slots;
	size_t used_blocks; /* number of blocks that are not holes */
	uint64_t size_bytes;
};

void image_fini(struct image *im);
/* Writes bytes; extends the image if the written range ends past its end. */
void image_write(struct image *im, uint64_t offset, const void *data, size_t len);
/* Reads bytes; bytes past the end of the image read as zeros. */
void image_read(const struct image *im, uint64_t offset, void *data, size_t len);
void image_resize(struct image *im, uint64_t size_bytes);
/* Turns holes in the range into zeroed blocks; the size of the image does not change. */
void image_reserve(struct image *im, uint64_t offset, uint64_t len);
/* Returns the number of holes among the blocks that the range touches. */
size_t image_holes(const struct image *im, uint64_t offset, uint64_t len);
void image_copy(struct image *to, const struct image *from);
/* Flips one bit; does nothing in a hole or past the end. */
void image_flip(struct image *im, uint64_t offset, unsigned bit);

/* --- inode.c: durable and pending bytes of a file -------------------------------------------------------- */

enum change_kind { CHANGE_WRITE, CHANGE_RESIZE, CHANGE_RESERVE };

/* A write or resize of a file that is not durable yet. */
struct change {
	struct list link; /* element of inode.pending or inode.inflight */
	enum change_kind kind;
	uint64_t seq;
	/* offset of the written bytes; for CHANGE_RESIZE the new size of the file */
	uint64_t offset;
	uint64_t len;
	uint8_t data[]; /* the len bytes that a CHANGE_WRITE writes */
};

/* Bytes that a write replaced, kept so that a faulty read can return them as stale data. */
struct past {
	struct list link; /* element of inode.past, oldest first */
	uint64_t offset;
	size_t len;
	uint8_t data[];
};

struct inode {
	struct sim_disk *disk;
	struct list link; /* element of disk.inodes, in order of creation */
	uint64_t id;
	char label[40]; /* name of the file in the trace */
	bool is_dir;
	unsigned names;        /* number of names in the tree: 0 or 1 */
	unsigned handles;      /* number of open files */
	unsigned undo_refs;    /* number of journal entries that refer to the inode */
	size_t charged_blocks; /* blocks of disk.used_blocks that are charged to this inode */

	struct image cache;   /* the bytes that reads return */
	struct image stable;  /* the bytes that survive a power loss */
	struct list pending;  /* struct change, in order: applied to cache, not yet to stable */
	struct list inflight; /* struct change: of a write call that has not ended */
	/*
	 * cache may differ from stable by more than the pending changes: the exception of invariant
	 * 1
	 */
	bool unlike;
	uint64_t change_seq;
	size_t pending_count;
	uint64_t pending_bytes;
	struct list past;
	size_t past_count;
	const void *locker; /* the open file that holds the lock of RT_LOCK, or NULL */

	struct inode *parent; /* parent of a directory; the root is its own parent */
	struct list entries;  /* struct dentry: the names in a directory */
	size_t entry_count;
};

struct inode *inode_new(struct sim_disk *d, bool is_dir);
/*
 * Frees the inode if no name, open file or journal entry refers to it; otherwise updates how many
 * blocks are charged to it.
 */
void inode_settle_refs(struct inode *i);
void inode_free(struct inode *i);
/* Drops all bytes and pending changes; changes in flight belong to fibers and stay. */
void inode_wipe(struct inode *i);

struct change *change_new(enum change_kind kind, uint64_t offset, uint64_t len);
/* Applies the change to cache and adds it to pending. Takes c. */
void inode_change_take(struct inode *i, struct change *c);
/* Makes every pending change up to seq durable. */
void inode_commit(struct inode *i, uint64_t seq);
/*
 * Draws which changes up to seq reached the medium in a failed sync; later syncs do not cover the
 * changes that did not.
 */
void inode_commit_failed(struct inode *i, uint64_t seq);
/* Draws which parts of the pending changes and of the changes in flight survive a power loss. */
void inode_power_loss(struct inode *i);
/*
 * Draws which writes in flight reach the page cache when the process is killed and the machine
 * continues.
 */
void inode_process_death(struct inode *i);
/* Returns how many bytes of a write, from its start, fit into the free space. */
uint64_t inode_fit(const struct inode *i, uint64_t offset, uint64_t len);

/* --- name.c: the tree of names ----------------------------------------------------------------- */

struct dentry {
	struct list link;     /* element of dir.entries */
	struct dentry *chain; /* next dentry with the same hash in disk.names */
	uint64_t key;
	struct inode *dir;
	struct inode *inode;
	size_t len;
	char name[];
};

/* The result of a path lookup. */
struct place {
	struct sim_disk *disk;
	/* directory that holds the last name of the path; NULL: the path is the root of the disk */
	struct inode *dir;
	const char *name; /* the last name of the path, not zero-terminated */
	size_t len;
	/* the file or directory that was found; NULL: the last name does not exist */
	struct inode *inode;
	bool must_be_dir; /* the path ends in a slash */
};

/*
 * Looks up a path. Returns 0, also if only the last name does not exist, or -ENOENT, -ENOTDIR,
 * -ENAMETOOLONG or -ENODEV.
 */
int name_find(struct sim_node *n, const char *path, struct place *p);
/* Returns the disk that a path is on, or NULL if no disk of the node has that name. */
struct sim_disk *name_disk(struct sim_node *n, const char *path);

void name_add(struct inode *dir, const char *name, size_t len, struct inode *i);
void name_remove(struct inode *dir, const char *name, size_t len);
/* Renames a file or directory; replaces an existing target. */
void name_move(const struct place *from, const struct place *to);

/* Returns the sequence number of the last journal entry of a directory, or 0. */
uint64_t name_last(const struct sim_disk *d, const struct inode *dir);
/* Makes every journal entry up to seq durable. */
void name_commit(struct sim_disk *d, uint64_t seq);
/* Draws how many of the first journal entries survive a power loss, and undoes the later ones. */
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
	/* from the hash of a directory and a name to the first dentry with that hash */
	struct map names;
	/* struct name_op, in order: operations on names that are not durable yet */
	struct list journal;
	size_t journal_count;
	uint64_t journal_seq;

	uint64_t busy_until_ns; /* time at which all queued transfers end */
	uint64_t slow_until_ns;
	uint64_t slow_factor; /* factor on latency and transfer time while the disk is slow */
	uint64_t hang_until_ns;
	uint64_t full_until_ns;
	bool lost;
	bool spared;     /* sim_disk_spare was called: the disk is exempt from damage */
	unsigned damage; /* set of bits of enum sim_damage */
	struct sim_striker strikers[DISK_STRIKERS];
};

/* Returns the number of free blocks; 0 while a fault makes the disk full. */
size_t disk_free_blocks(const struct sim_disk *d);

/*
 * Waits for the duration of one operation. Returns 0, -ENODEV if the disk was lost, or -ECANCELED
 * if the process crashed; then the caller must not touch the file, nor a change that it has put in
 * flight.
 */
int disk_wait(struct sim_disk *d, uint64_t bytes);

#endif
