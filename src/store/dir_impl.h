// SPDX-License-Identifier: Apache-2.0
/*
 * Internals of a disk, shared by its files:
 *
 *   dir.c          superblock, open and close
 *   dir_state.c    states, errors, space
 *   dir_table.c    chunks in use: their files and heads
 *   dir_recover.c  loading a chunk; rolling an interrupted change forward or back
 *   dir_write.c    writing pages and slots
 *   dir_put.c      put, delete
 *   dir_append.c   append, seal
 *   dir_read.c     get, scan
 *   dir_list.c     list
 *
 * Lock order: a fiber that holds dir_chunk.lock takes no other lock. It may wait for the disk.
 */
#ifndef STORE_DIR_IMPL_H
#define STORE_DIR_IMPL_H

#include "base/list.h"
#include "base/map.h"
#include "rt/file.h"
#include "rt/sync.h"
#include "store/dir.h"
#include "store/units.h"

#define DIR_PATH_MAX 1024
/* Bytes of the buffer for a copy or verification; larger only if a unit is larger. */
#define DIR_WINDOW_BYTES (1 * MIB)
#define DIR_FROZEN_MAX 64
#define DIR_UNREADABLE_MAX 256
/* Bytes of the range of a chunk that counts as one error if it cannot be read. */
#define DIR_UNREADABLE_BYTES (1 * MIB)

/* One state of a chunk, shared by readers; immutable. */
struct dir_head {
	unsigned refs;
	struct chunk_head h;
};

/* An entry of the table: a chunk in use, or one kept open after its last use. */
struct dir_chunk {
	struct chunk_id id;
	struct dir_chunk *chain; /* next entry with the same key in the table */
	struct list lru;         /* link in dir_store.idle while refs is 0 */
	unsigned refs;
	/* a put of the chunk is in progress: for other callers the chunk does not exist */
	bool creating;
	/* the chunk was deleted or never existed; the entry is not in the table any more */
	bool removed;
	/*
	 * a change of the chunk failed half-way: no further change until the chunk is loaded again
	 */
	bool frozen;
	bool settled;
	bool read_only;
	/*
	 * Held by the caller that loads, appends to, seals or deletes the chunk. Guards the fields
	 * below.
	 */
	struct rt_mutex lock;
	struct rt_file *file;
	struct dir_head *head; /* NULL until the head is loaded */
};

/* State of the syncs of one directory of chunks; concurrent callers share a sync. */
struct dir_fan {
	bool syncing;
	uint64_t asked;
	uint64_t done;
	uint64_t failed; /* the sync for requests up to this number failed with rc */
	int rc;
	struct rt_cond changed;
};

struct dir_store {
	struct store base;
	struct store_dir_options options;
	struct super super;
	struct rt_file *lock; /* the open superblock file, locked against a second opening */
	bool lock_read_only;
	uint64_t super_at_ns; /* time of the next check of the superblock, in ns */
	char root[DIR_PATH_MAX];
	bool direct;
	struct unit_shifts shifts;
	uint64_t next_tmp;

	/* Fields of dir_state.c: the state of the disk. */
	enum store_state state;
	bool device_gone;
	bool probing;
	/*
	 * the disk was read-only when it was opened: dir_clean_up must run before the first write
	 */
	bool needs_cleanup;
	uint64_t probe_at_ns;
	uint64_t errors_since_ns;
	uint32_t errors_recent;
	/* Hashes of the last ranges that could not be read. */
	uint64_t unreadable[DIR_UNREADABLE_MAX];
	uint32_t unreadable_next;
	uint64_t io_errors;
	uint64_t checksum_errors;
	uint64_t rolled_back;
	uint64_t total_bytes;
	/* last known free bytes of the filesystem, less the bytes written since */
	uint64_t free_bytes;
	uint64_t space_at_ns;
	bool space_known;
	uint64_t full_bytes; /* bytes of the write that did not fit when the disk became full */
	uint64_t reserved_bytes;

	/* Fields of dir_table.c: the chunks in use. */
	struct map table;
	size_t chunk_count;
	size_t frozen_count;
	struct list idle; /* struct dir_chunk without references, least recently used first */
	struct rt_cond room;

	struct dir_fan *fans;
};

static inline struct dir_store *dir_of(struct store *s)
{
	return container_of(s, struct dir_store, base);
}

/*
 * Allocates memory for direct I/O, which the caller frees with free(). Returns NULL when out of
 * memory.
 */
void *dir_pages_alloc(uint64_t bytes);

/* --- dir.c ------------------------------------------------------------------------------------ */

void dir_chunk_path(const struct dir_store *d, struct chunk_id id, char out[DIR_PATH_MAX]);
void dir_fan_path(const struct dir_store *d, uint32_t fan, char out[DIR_PATH_MAX]);
void dir_tmp_path(struct dir_store *d, char out[DIR_PATH_MAX]);
/*
 * Deletes what a crash left in tmp/ and syncs all directories. Sets needs_cleanup instead if the
 * disk is read-only.
 */
int dir_clean_up(struct dir_store *d);

/* --- dir_state.c ------------------------------------------------------------------------------ */

/*
 * Updates the disk's state from the result rc of a file call of rt/, and returns rc as an error of
 * store.h.
 */
int dir_note(struct dir_store *d, int64_t rc);
/*
 * Updates the disk's state from the result rc of a read of a chunk's bytes at off, as dir_note
 * does. A range that failed before is not counted again.
 */
int dir_note_read(struct dir_store *d, int64_t rc, struct chunk_id id, uint64_t off);
/* Counts and logs bytes of a chunk that do not match their checksum. Returns -EBADMSG. */
int dir_note_damage(struct dir_store *d, struct chunk_id id, uint64_t off, const char *what);

int dir_may_read(struct dir_store *d);
/*
 * Returns 0 if the disk accepts seals and fences, else the error to return. May wait for a probe.
 */
int dir_may_seal(struct dir_store *d);
int dir_may_write(struct dir_store *d, uint64_t bytes, bool reserved);
void dir_wrote(struct dir_store *d, uint64_t bytes);
int dir_reserve(struct store *s, int64_t bytes);
void dir_info(struct store *s, struct store_info *out);
/* Checks the superblock every few seconds, and rewrites damaged copies from memory. */
void dir_super_repair(struct dir_store *d);
int dir_control(struct store *s, enum store_state state);

/* --- dir_table.c ------------------------------------------------------------------------------ */

void dir_table_init(struct dir_store *d);
/* Settles all chunks of the table (dir_settle) and closes them. */
void dir_table_fini(struct dir_store *d);

/* Finds or adds the entry of a chunk without reading the disk; dir_chunk_unref must follow. */
int dir_chunk_ref(struct dir_store *d, struct chunk_id id, struct dir_chunk **out);
void dir_chunk_unref(struct dir_store *d, struct dir_chunk *c);
/* Returns the entry of a chunk, or NULL if the table has none. Takes no reference. */
struct dir_chunk *dir_chunk_find(const struct dir_store *d, struct chunk_id id);
/* Takes a reference to a chunk and loads its head. -ENOENT, -EBADMSG. */
int dir_chunk_open(struct dir_store *d, struct chunk_id id, struct dir_chunk **out);
/*
 * Takes a reference to a chunk, loads its head as dir_chunk_open does, and locks the chunk until
 * dir_chunk_unlock, which also drops the reference.
 */
int dir_chunk_lock(struct dir_store *d, struct chunk_id id, struct dir_chunk **out);
void dir_chunk_unlock(struct dir_store *d, struct dir_chunk *c);
/* Removes the entry of a chunk from the table; the last dir_chunk_unref frees it. */
void dir_chunk_forget(struct dir_store *d, struct dir_chunk *c);
/* Refuses further changes of the chunk until the chunk is loaded again. */
void dir_chunk_freeze(struct dir_store *d, struct dir_chunk *c);

struct dir_head *dir_head_new(const struct chunk_head *h);
struct dir_head *dir_head_ref(struct dir_head *head);
void dir_head_unref(struct dir_head *head);
/* Replaces the head of a chunk and takes ownership of the new head. */
void dir_head_set_take(struct dir_chunk *c, struct dir_head *head);

/* --- dir_recover.c ---------------------------------------------------------------------------- */

/* Opens the file of a chunk and loads its head. The caller holds the chunk's lock. */
int dir_chunk_load(struct dir_store *d, struct dir_chunk *c);

/* --- dir_write.c ------------------------------------------------------------------------------ */

/*
 * Writes the pages that the data fills; the data follows the first h->len bytes of the chunk. The
 * first of these pages starts with the bytes of h's tail. `before` (CHUNK_SLOTS_BYTES, or NULL) is
 * written to the start of the file.
 */
int dir_pages_write(struct dir_store *d, struct rt_file *f, const struct chunk_head *h,
		    const struct store_data *data, const uint8_t *before);
int dir_slot_write(struct dir_store *d, struct rt_file *f, const struct chunk_head *h,
		   unsigned slot);
/*
 * Copies the current state of a chunk to its other slot. The caller holds the chunk's lock, and the
 * state has been synced.
 */
int dir_settle(struct dir_store *d, struct dir_chunk *c);

/* --- dir_put.c, dir_append.c, dir_read.c, dir_list.c ------------------------------------------ */

int dir_put(struct store *s, struct chunk_id id, const struct store_put *p);
int dir_delete(struct store *s, struct chunk_id id);
/*
 * Completes a pending or failed sync of the chunk's directory. A caller does this before it returns
 * -ENOENT, because otherwise a deleted name could reappear after a loss of power.
 */
int dir_fan_sync_pending(struct dir_store *d, struct chunk_id id);

int dir_append(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t off,
	       const struct store_data *data);
int dir_seal(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t len);

int dir_get(struct store *s, struct chunk_id id, uint64_t off, void *buf, uint64_t len,
	    uint32_t *crc);
int64_t dir_scan(struct store *s, struct chunk_id id, struct store_range *bad, size_t max);
/*
 * Reads and verifies bytes [from, to) of a chunk into buf. `from` is the start of a unit, `to` the
 * end of a unit or of the chunk. -EBADMSG, which the caller counts with dir_note_damage.
 */
int dir_units_read(struct dir_store *d, struct rt_file *f, const struct chunk_head *h,
		   uint64_t from, uint64_t to, uint8_t *buf);
/* Returns how many bytes of a chunk dir_units_read should read at once. */
uint64_t dir_window(const struct chunk_head *h);

int64_t dir_list(struct store *s, struct store_cursor *at, struct chunk_id *out, size_t max);

#endif
