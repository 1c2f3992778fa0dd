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
#define DIR_WINDOW_BYTES \
	(1 * MIB) /* memory of a copy or verification; more only if a unit is larger */
#define DIR_FROZEN_MAX 64
#define DIR_UNREADABLE_MAX 256
#define DIR_UNREADABLE_BYTES \
	(1 * MIB) /* a range of this size that cannot be read counts as one error */

/* A state of a chunk, shared by readers; immutable. */
struct dir_head {
	unsigned refs;
	struct chunk_head h;
};

/* A chunk in use, or kept open after its last use. */
struct dir_chunk {
	struct chunk_id id;
	struct dir_chunk *chain; /* next entry with the same key */
	struct list lru;         /* in dir_store.idle while refs is 0 */
	unsigned refs;
	bool creating; /* a put is in progress: the chunk does not exist for other callers */
	bool removed;  /* deleted, or never existed; not in the table any more */
	bool frozen;   /* a change failed half-way: no further change until it is loaded again */
	bool settled;
	bool read_only;
	/* Held by the caller that loads, appends, seals or deletes. Guards the fields below. */
	struct rt_mutex lock;
	struct rt_file *file;
	struct dir_head *head; /* NULL until the head is loaded */
};

/* Syncs of one directory of chunks, shared by the callers that need one. */
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
	struct rt_file *lock; /* the open, locked superblock */
	bool lock_read_only;
	uint64_t super_at_ns; /* time of the next check of the superblock */
	char root[DIR_PATH_MAX];
	bool direct;
	struct unit_shifts shifts;
	uint64_t next_tmp;

	/* Used by dir_state.c. */
	enum store_state state;
	bool device_gone;
	bool probing;
	bool needs_cleanup; /* the disk was read-only when opened: dir_clean_up must run before the first write */
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
	uint64_t free_bytes; /* last known value, less the bytes written since */
	uint64_t space_at_ns;
	bool space_known;
	uint64_t full_bytes; /* size of the write that did not fit when the disk became full */
	uint64_t reserved_bytes;

	/* Used by dir_table.c. */
	struct map table;
	size_t chunk_count;
	size_t frozen_count;
	struct list idle; /* struct dir_chunk, least recently used first */
	struct rt_cond room;

	struct dir_fan *fans;
};

static inline struct dir_store *dir_of(struct store *s)
{
	return container_of(s, struct dir_store, base);
}

/* Allocates memory for direct I/O, to be freed with free(). NULL when out of memory. */
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
 * Updates the disk's state from the result of an rt call, and returns the result as a store's
 * error.
 */
int dir_note(struct dir_store *d, int64_t rc);
/* As dir_note for a read of a chunk's bytes. A range that failed before is not counted again. */
int dir_note_read(struct dir_store *d, int64_t rc, struct chunk_id id, uint64_t off);
/* Counts and logs bytes that do not match their checksum. Returns -EBADMSG. */
int dir_note_damage(struct dir_store *d, struct chunk_id id, uint64_t off, const char *what);

int dir_may_read(struct dir_store *d);
/* Whether the disk accepts seals and fences: 0 or an error. May wait for a probe. */
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
/* Settles and closes all chunks. */
void dir_table_fini(struct dir_store *d);

/* Finds or adds the entry of a chunk without reading the disk; dir_chunk_unref must follow. */
int dir_chunk_ref(struct dir_store *d, struct chunk_id id, struct dir_chunk **out);
void dir_chunk_unref(struct dir_store *d, struct dir_chunk *c);
/* Returns an existing entry, or NULL. Takes no reference. */
struct dir_chunk *dir_chunk_find(const struct dir_store *d, struct chunk_id id);
/* Takes a reference to a chunk and loads its head. -ENOENT, -EBADMSG. */
int dir_chunk_open(struct dir_store *d, struct chunk_id id, struct dir_chunk **out);
/* As dir_chunk_open, and locks the chunk until dir_chunk_unlock, which also drops the reference. */
int dir_chunk_lock(struct dir_store *d, struct chunk_id id, struct dir_chunk **out);
void dir_chunk_unlock(struct dir_store *d, struct dir_chunk *c);
/* Removes the entry from the table; the last dir_chunk_unref frees it. */
void dir_chunk_forget(struct dir_store *d, struct dir_chunk *c);
/* Refuses further changes of the chunk until it is loaded again. */
void dir_chunk_freeze(struct dir_store *d, struct dir_chunk *c);

struct dir_head *dir_head_new(const struct chunk_head *h);
struct dir_head *dir_head_ref(struct dir_head *head);
void dir_head_unref(struct dir_head *head);
/* Replaces the head of a chunk. Takes head. */
void dir_head_set_take(struct dir_chunk *c, struct dir_head *head);

/* --- dir_recover.c ---------------------------------------------------------------------------- */

/* Opens the file and loads the head. The caller holds the chunk's lock. */
int dir_chunk_load(struct dir_store *d, struct dir_chunk *c);

/* --- dir_write.c ------------------------------------------------------------------------------ */

/*
 * Writes the full pages that end within the data, which follows the h->len bytes of h; the bytes
 * of h's tail are written with them. `before` (CHUNK_SLOTS_BYTES, or NULL) is written to the start
 * of the file.
 */
int dir_pages_write(struct dir_store *d, struct rt_file *f, const struct chunk_head *h,
		    const struct store_data *data, const uint8_t *before);
int dir_slot_write(struct dir_store *d, struct rt_file *f, const struct chunk_head *h,
		   unsigned slot);
/*
 * Copies the current state to the other slot. The caller holds the chunk's lock, and the state is
 * synced.
 */
int dir_settle(struct dir_store *d, struct dir_chunk *c);

/* --- dir_put.c, dir_append.c, dir_read.c, dir_list.c ------------------------------------------ */

int dir_put(struct store *s, struct chunk_id id, const struct store_put *p);
int dir_delete(struct store *s, struct chunk_id id);
/* Makes the names in a directory durable. Callers that wait at the same time share one sync. */
int dir_fan_sync(struct dir_store *d, uint32_t fan);
/*
 * Called before -ENOENT is returned for a chunk: completes a pending or failed sync
 * of its directory, or a deleted name could reappear after a loss of power.
 */
int dir_fan_sync_pending(struct dir_store *d, struct chunk_id id);

int dir_append(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t off,
	       const struct store_data *data);
int dir_seal(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t len);

int dir_get(struct store *s, struct chunk_id id, uint64_t off, void *buf, uint64_t len,
	    uint32_t *crc);
int64_t dir_scan(struct store *s, struct chunk_id id, struct store_range *bad, size_t max);
/*
 * Reads and verifies [from, to) into buf. from starts a unit, to ends a unit or the chunk.
 * -EBADMSG, which the caller counts with dir_note_damage.
 */
int dir_units_read(struct dir_store *d, struct rt_file *f, const struct chunk_head *h,
		   uint64_t from, uint64_t to, uint8_t *buf);
/* Returns how many bytes of a chunk dir_units_read should read at once. */
uint64_t dir_window(const struct chunk_head *h);

int64_t dir_list(struct store *s, struct store_cursor *at, struct chunk_id *out, size_t max);

#endif
