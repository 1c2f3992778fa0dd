// SPDX-License-Identifier: Apache-2.0
/*
 * Inside dir: what its files know of each other.
 *
 *   dir.c          superblock, open and close
 *   dir_state.c    states, errors, space
 *   dir_table.c    the chunks in use: their files and heads
 *   dir_recover.c  loading a chunk, and what a crash left of its last change
 *   dir_write.c    pages and slots on their way out
 *   dir_put.c      put, delete
 *   dir_append.c   append, seal
 *   dir_read.c     get, scan
 *   dir_list.c     list
 *
 * Order of locks: dir_chunk.lock, then nothing. A fiber that holds one may wait for the disk.
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
#define DIR_WINDOW_BYTES (1 * MIB) /* memory of a copying or verifying operation, or one unit */
#define DIR_STUCK_MAX 64
#define DIR_BAD_PLACES 256
#define DIR_PLACE_BYTES (1 * MIB) /* what counts as one place when it cannot be read */

/* A state of a chunk that readers share; never changes. */
struct dir_head {
	unsigned refs;
	struct chunk_head h;
};

/* A chunk in use, or used not long ago. */
struct dir_chunk {
	struct chunk_id id;
	struct dir_chunk *chain; /* same key in the table */
	struct list lru;         /* in dir_store.idle while nobody holds it */
	unsigned refs;
	bool creating; /* a put is under way: not there yet for anybody else */
	bool gone;     /* deleted, or never was: not in the table */
	bool stuck;    /* a change failed half-way: no more of them until it is loaded anew */
	bool settled;
	bool read_only;
	/* One loader, appender, sealer or deleter at a time. Guards changes of what follows. */
	struct rt_mutex lock;
	struct rt_file *file;
	struct dir_head *head; /* NULL until loaded */
};

/* Syncs of one directory of chunks, shared by those who wait for one. */
struct dir_fan {
	bool syncing;
	uint64_t asked;
	uint64_t done;
	uint64_t failed; /* up to this number a sync failed, with rc */
	int rc;
	struct rt_cond changed;
};

struct dir_store {
	struct store base;
	struct store_dir_options options;
	struct super super;
	struct rt_file *lock; /* the superblock's */
	bool lock_read_only;
	uint64_t super_at_ns; /* when it is looked at next */
	char root[DIR_PATH_MAX];
	bool direct;
	struct unit_shifts shifts;
	uint64_t next_tmp;

	/* dir_state.c */
	enum store_state state;
	bool device_gone;
	bool probing;
	bool untidy; /* it was read-only when it was opened: dir_tidy before anything is written */
	uint64_t probe_at_ns;
	uint64_t errors_since_ns;
	uint32_t errors_recent;
	uint64_t bad_places[DIR_BAD_PLACES]; /* hashes of the last that could not be read */
	uint32_t bad_place_next;
	uint64_t io_errors;
	uint64_t checksum_errors;
	uint64_t rolled_back;
	uint64_t total_bytes;
	uint64_t free_bytes; /* as last asked, less what was written since */
	uint64_t space_at_ns;
	bool space_known;
	uint64_t full_bytes; /* what did not fit when it became full */
	uint64_t reserved_bytes;

	/* dir_table.c */
	struct map table;
	size_t chunk_count;
	size_t stuck_count;
	struct list idle; /* dir_chunk, the longest unused first */
	struct rt_cond room;

	struct dir_fan *fans;
};

static inline struct dir_store *dir_of(struct store *s)
{
	return container_of(s, struct dir_store, base);
}

/* Memory for direct I/O, freed by free(). NULL when there is none. */
void *dir_pages_alloc(uint64_t bytes);

/* --- dir.c ------------------------------------------------------------------------------------ */

void dir_chunk_path(const struct dir_store *d, struct chunk_id id, char out[DIR_PATH_MAX]);
void dir_fan_path(const struct dir_store *d, uint32_t fan, char out[DIR_PATH_MAX]);
void dir_tmp_path(struct dir_store *d, char out[DIR_PATH_MAX]);
/* Removes what a crash has left; untidy is set when the disk is read-only. */
int dir_tidy(struct dir_store *d);

/* --- dir_state.c ------------------------------------------------------------------------------ */

/* Passes rc on, after drawing what it says about the disk. For results of rt calls. */
int dir_note(struct dir_store *d, int64_t rc);
/* The same for a read of a chunk's bytes: a place that could not be read before says nothing new. */
int dir_note_read(struct dir_store *d, int64_t rc, struct chunk_id id, uint64_t off);
/* Bytes that were not what was written. Returns -EBADMSG. */
int dir_note_damage(struct dir_store *d, struct chunk_id id, uint64_t off, const char *what);

int dir_may_read(struct dir_store *d);
/* May wait for a probe. */
int dir_may_seal(struct dir_store *d);
int dir_may_write(struct dir_store *d, uint64_t bytes, bool reserved);
void dir_wrote(struct dir_store *d, uint64_t bytes);
int dir_reserve(struct store *s, int64_t bytes);
void dir_info(struct store *s, struct store_info *out);
/* Now and then: rot in a superblock is mended while it is known what was there. */
void dir_super_keep(struct dir_store *d);
int dir_control(struct store *s, enum store_state state);

/* --- dir_table.c ------------------------------------------------------------------------------ */

void dir_table_init(struct dir_store *d);
/* Settles and closes what is open. */
void dir_table_fini(struct dir_store *d);

/* Finds or adds the entry of a chunk, without looking at the disk; to be dropped. */
int dir_chunk_hold(struct dir_store *d, struct chunk_id id, struct dir_chunk **out);
void dir_chunk_drop(struct dir_store *d, struct dir_chunk *c);
/* Only an entry that is there already; not held. */
struct dir_chunk *dir_chunk_find(const struct dir_store *d, struct chunk_id id);
/* Holds the chunk with its head loaded. -ENOENT, -EBADMSG. */
int dir_chunk_open(struct dir_store *d, struct chunk_id id, struct dir_chunk **out);
/* The same, and nobody else changes it until dir_chunk_unlock, which also drops it. */
int dir_chunk_lock(struct dir_store *d, struct chunk_id id, struct dir_chunk **out);
void dir_chunk_unlock(struct dir_store *d, struct dir_chunk *c);
/* Takes it out of the table: the last to drop it frees it. */
void dir_chunk_forget(struct dir_store *d, struct dir_chunk *c);
/* No more changes of this chunk. */
void dir_chunk_stick(struct dir_store *d, struct dir_chunk *c);

struct dir_head *dir_head_new(const struct chunk_head *h);
struct dir_head *dir_head_ref(struct dir_head *head);
void dir_head_unref(struct dir_head *head);
/* Replaces the head of a chunk. Takes head. */
void dir_head_set_take(struct dir_chunk *c, struct dir_head *head);

/* --- dir_recover.c ---------------------------------------------------------------------------- */

/* Opens the file and loads the head; the chunk is locked. */
int dir_chunk_load(struct dir_store *d, struct dir_chunk *c);

/* --- dir_write.c ------------------------------------------------------------------------------ */

/*
 * Writes the whole pages that end in the data, which follows the bytes of h: those of its tail are
 * written with them. before (of CHUNK_SLOTS_BYTES) goes to the start of the file, or is NULL.
 */
int dir_pages_write(struct dir_store *d, struct rt_file *f, const struct chunk_head *h,
		    const struct store_data *data, const uint8_t *before);
int dir_slot_write(struct dir_store *d, struct rt_file *f, const struct chunk_head *h,
		   unsigned slot);
/* Copies the state to the other slot, which must not be needed any more. The chunk is locked. */
int dir_settle(struct dir_store *d, struct dir_chunk *c);

/* --- dir_put.c, dir_append.c, dir_read.c, dir_list.c ------------------------------------------ */

int dir_put(struct store *s, struct chunk_id id, const struct store_put *p);
int dir_delete(struct store *s, struct chunk_id id);
/* Makes the names of the directory durable, with others who want the same. */
int dir_fan_sync(struct dir_store *d, uint32_t fan);
/* Before somebody is told that a chunk is not there: a name that was removed, with its sync under way or
 * failed, could be back after a loss of power. */
int dir_fan_settle(struct dir_store *d, struct chunk_id id);

int dir_append(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t off,
	       const struct store_data *data);
int dir_seal(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t len);

int dir_get(struct store *s, struct chunk_id id, uint64_t off, void *buf, uint64_t len,
	    uint32_t *crc);
int64_t dir_scan(struct store *s, struct chunk_id id, struct store_range *bad, size_t max);
/*
 * Reads and verifies [from, to) into buf, which has room for all: from starts a unit, to ends one or
 * the chunk. -EBADMSG, without a note of it.
 */
int dir_units_read(struct dir_store *d, struct rt_file *f, const struct chunk_head *h,
		   uint64_t from, uint64_t to, uint8_t *buf);
/* How much of a chunk dir_units_read is to be given at once. */
uint64_t dir_window(const struct chunk_head *h);

int64_t dir_list(struct store *s, struct store_cursor *at, struct chunk_id *out, size_t max);

#endif
