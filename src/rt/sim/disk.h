// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the simulated disks: image.c keeps bytes, inode.c decides which of them are durable, name.c
 * has the tree of names and its journal, disk.c the disks and their faults, file.c the calls of rt.
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
	size_t used_blocks; /* without holes */
	uint64_t size_bytes;
};

void image_fini(struct image *im);
/* Extends the image when it reaches past its end. */
void image_write(struct image *im, uint64_t offset, const void *data, size_t len);
/* Past the end reads zeros. */
void image_read(const struct image *im, uint64_t offset, void *data, size_t len);
void image_resize(struct image *im, uint64_t size_bytes);
/* Turn holes in the range into zeroed blocks; the size stays. */
void image_reserve(struct image *im, uint64_t offset, uint64_t len);
/* How many holes there are in the blocks that the range touches. */
size_t image_holes(const struct image *im, uint64_t offset, uint64_t len);
void image_copy(struct image *to, const struct image *from);
/* Flip one bit, if that byte is stored at all. */
void image_flip(struct image *im, uint64_t offset, unsigned bit);

/* --- inode.c: what of a file is durable -------------------------------------------------------- */

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
	unsigned names;     /* in the tree: 0 or 1 */
	unsigned handles;   /* open files */
	unsigned undo_refs; /* from the journal of names */
	size_t charged_blocks;

	struct image cache;   /* what reads see */
	struct image stable;  /* what is certain to survive the loss of power */
	struct list pending;  /* change: in cache, not in stable; in order */
	struct list inflight; /* change: a fiber is waiting for it to be written */
	bool unlike;          /* cache may differ from stable by more than pending */
	uint64_t change_seq;
	size_t pending_count;
	uint64_t pending_bytes;
	struct list past;
	size_t past_count;
	const void *locker; /* the handle that holds the lock */

	struct inode *parent; /* of a directory; the root is its own */
	struct list entries;  /* dentry */
	size_t entry_count;
};

struct inode *inode_new(struct sim_disk *d, bool is_dir);
/* Free it if nothing refers to it any more; otherwise account for its space. */
void inode_settle_refs(struct inode *i);
void inode_free(struct inode *i);
/* Forget all bytes, but not changes in flight: they belong to fibers. */
void inode_wipe(struct inode *i);

struct change *change_new(enum change_kind kind, uint64_t offset, uint64_t len);
/* Apply to what reads see and keep as pending. Takes c. */
void inode_change_take(struct inode *i, struct change *c);
/* Make every change up to seq durable. */
void inode_commit(struct inode *i, uint64_t seq);
/* A sync failed: what reached the medium is decided now, and no later sync says anything about it. */
void inode_commit_failed(struct inode *i, uint64_t seq);
void inode_power_loss(struct inode *i);
/* The process died with its memory only: writes in flight end in the page cache, or do not. */
void inode_process_death(struct inode *i);
/* How many of the bytes of a write fit into the free space, from its start. */
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

/* Where a path leads. */
struct place {
	struct sim_disk *disk;
	struct inode *dir; /* that holds the last name; NULL for the root of the disk */
	const char *name;  /* not terminated */
	size_t len;
	struct inode *inode; /* NULL: no such name */
	bool must_be_dir;    /* the path ends in a slash */
};

/* 0 also when only the last name is missing. -ENOENT, -ENOTDIR, -ENAMETOOLONG, -EINVAL, -ENODEV. */
int name_find(struct sim_node *n, const char *path, struct place *p);
/* Only the disk of a path. */
struct sim_disk *name_disk(struct sim_node *n, const char *path);

void name_add(struct inode *dir, const char *name, size_t len, struct inode *i);
void name_remove(struct inode *dir, const char *name, size_t len);
/* Whatever to names is replaced. */
void name_move(const struct place *from, const struct place *to);

/* The last journal entry that touches dir, 0 when there is none. */
uint64_t name_last(const struct sim_disk *d, const struct inode *dir);
void name_commit(struct sim_disk *d, uint64_t seq);
/* Take back what the loss of power takes back. */
void name_power_loss(struct sim_disk *d);
/* Forget the whole tree below the root. */
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

	uint64_t busy_until_ns; /* the transfers that are queued */
	uint64_t slow_until_ns;
	uint64_t slow_factor;
	uint64_t hang_until_ns;
	uint64_t full_until_ns;
	bool lost;
	bool spared;     /* from damage */
	unsigned damage; /* enum sim_damage */
	struct sim_striker strikers[DISK_STRIKERS];
};

/* Free blocks as the process would find them now. */
size_t disk_free_blocks(const struct sim_disk *d);

/*
 * The time one operation takes. 0, -ENODEV when the disk was lost, -ECANCELED when the process died:
 * then the caller touches nothing any more, neither the file nor its own memory on the disk.
 */
int disk_wait(struct sim_disk *d, uint64_t bytes);

#endif
