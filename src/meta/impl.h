// SPDX-License-Identifier: Apache-2.0
/* Shared by the layers: the open store, transactions, rows of directories, transfers. */
#ifndef META_IMPL_H
#define META_IMPL_H

#include "base/arena.h"
#include "base/map.h"
#include "kv/kv.h"
#include "meta/meta.h"
#include "meta/record.h"
#include "meta/schema.h"
#include "rt/rt.h"

#define META_TRIES 64            /* attempts of one operation before it fails with -EAGAIN */
#define META_OP_BYTES (32 * MIB) /* memory that one operation may use */
#define META_VERSION 1

/* Results of internal functions that are neither success nor an error. None leaves this module. */
enum meta_result {
	META_RETRY = 1,       /* a row changed after it was read: read it again and decide again */
	META_STOP = 2,        /* of a callback: end the walk, which returns this value */
	META_DONE = 3,        /* the same request was carried out before: nothing to write */
	META_NO_TRANSFER = 4, /* the transfer has no record */
};
#define META_ACCOUNTS_MAX 65536

struct cache;

struct meta {
	struct rt_loop *loop; /* all calls come from it */
	struct kv *kv;
	struct meta_options options; /* the stored options have their stored values */
	struct meta_stats stats;
	struct cache *cache; /* NULL: no cache */
	struct map accounts; /* tenant -> struct account_lock */
	/* Set of hashes of (tenant, directory) whose slice 0 is known to be spread. */
	struct map known_spread;
};

/* An arena for one operation, freed when its scope ends. */
#define AUTO_ARENA __attribute__((cleanup(arena_fini)))

/* --- transactions ----------------------------------------------------------------------------- */

/* The checks and writes of one transaction; their bytes are the arena's. The first error of a txn_ function is
 * kept in rc, and txn_run returns it. */
struct txn {
	struct arena *arena;
	int rc;
	struct kv_check *checks;
	size_t check_count;
	size_t check_cap;
	struct kv_write *writes;
	size_t write_count;
	size_t write_cap;
	bool early; /* need not be durable before a later change of the same operation: README, rule 13 */
};

void txn_init(struct txn *t, struct arena *a);
/* Each adds one check: the key has no value, has any value, has exactly this value. value is borrowed until
 * txn_run. */
void txn_absent(struct txn *t, struct schema_key key);
void txn_present(struct txn *t, struct schema_key key);
void txn_equals(struct txn *t, struct schema_key key, struct kv_bytes value);
/* Adds the check that the key is as it was read: absent when value.data is NULL, else equal to value. */
void txn_same(struct txn *t, struct schema_key key, struct kv_bytes value);
/* Each adds one write. The bytes of txn_put_bytes are borrowed until txn_run. */
void txn_put(struct txn *t, struct schema_key key, const ProtobufCMessage *msg);
void txn_put_bytes(struct txn *t, struct schema_key key, struct kv_bytes value);
void txn_delete(struct txn *t, struct schema_key key);
/* Runs the transaction as kv_txn does: -ESTALE when a check failed; failed (may be NULL) then gets its index. -EIO
 * where kv returns -EROFS, which means a sealed object in this module. */
int txn_run(struct meta *m, struct txn *t, uint64_t partition, size_t *failed);

/* Values of up to META_READ_MAX keys of one partition, copied to the arena; data is NULL for a key without a value. */
#define META_READ_MAX 8
struct reads {
	struct kv_bytes value[META_READ_MAX];
};
int meta_read(struct meta *m, uint64_t partition, const struct schema_key *keys, size_t n,
	      struct arena *a, struct reads *out);
/* Sets *found to whether a key with this prefix exists. */
int meta_prefix_exists(struct meta *m, uint64_t partition, struct schema_key prefix, bool *found);

/* Copies bytes to the arena; to->data is not NULL afterwards, also for an empty value. */
int arena_copy(struct arena *a, struct kv_bytes from, struct kv_bytes *to);

/* Waits before attempt try + 1 of an operation: a random time that grows with try. -EAGAIN when try has reached
 * META_TRIES; -ECANCELED and the like when the wait ends early. */
int meta_back_off(struct meta *m, unsigned try);

static inline uint64_t part_name(const struct meta *m, uint32_t tenant, uint64_t dir,
				 uint32_t slice)
{
	return schema_partition(m->options.partition_bits, META_LAYER_NAME, tenant, dir, slice);
}

static inline uint64_t part_of(const struct meta *m, enum meta_layer layer, uint32_t tenant,
			       uint64_t id)
{
	return schema_partition(m->options.partition_bits, layer, tenant, id, 0);
}

/* --- slices of a directory: name_slice.c ------------------------------------------------------ */

#define SLICE_HOME 0
#define SLICE_FAN_BITS 6
#define SLICE_LEVELS 3

/* Returns the slice one level below that holds names with this hash; slice itself at the lowest level. */
uint32_t slice_below(uint32_t slice, uint64_t name_hash);
uint64_t slice_name_hash(struct meta_name name);
unsigned slice_level(uint32_t slice);
/* Sets *next to the slice after this one in a walk, depth first. spread: the slice has slices below. False: it is the
 * last slice. */
bool slice_next(uint32_t slice, bool spread, uint32_t *next);
/* Whether a slice number, which may come from a client, names a possible slice. */
bool slice_valid(uint32_t slice);

/* Whether this process has seen that the directory is spread; false says nothing. */
bool dir_known_spread(const struct meta *m, uint32_t tenant, uint64_t dir);
void dir_note_spread(struct meta *m, uint32_t tenant, uint64_t dir);

/* Called after `added` names were added: with a probability that grows with added, counts the names of the slice, and
 * spreads it when they are spread_entries or more. Errors are dropped: a later call tries again. */
void slice_maybe_spread(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice,
			uint64_t added);

/* --- rows: name_row.c ------------------------------------------------------------------------- */

/* A name with the slice that has it, or would get it. All memory is the arena's. */
struct row {
	uint32_t tenant;
	uint64_t dir;
	struct meta_name name;
	uint32_t slice;
	uint64_t partition;
	struct kv_bytes dir_raw; /* the stored Dir of the slice; data NULL: no such directory */
	struct kv_bytes state_raw;
	rec_slice_state *state; /* NULL: the slice takes new names */
	struct kv_bytes raw;
	rec_entry *row; /* the entry as stored; NULL: no row */
	rec_entry *
		entry; /* the entry that readers see, with the transfer of the row taken into account;
			     NULL: no such name */
	uint64_t request; /* 0, or the request whose KEY_REQUEST_DONE row is looked up */
	bool request_done; /* the row exists: the request already took an object away from this name */
	bool tombstone;    /* a tombstone of the id that was asked for exists */
	bool removed;      /* ... left by a removal */
	bool refused;      /* ... left by a create that was refused */
};

/* Looks the name up through the slices of the directory, and the tombstone of tombstone_id (0: none is looked up).
 * Returns 0 also for an absent name, with entry NULL; -EBADMSG and errors of kv. */
int row_find(struct meta *m, uint32_t tenant, uint64_t dir, struct meta_name name,
	     uint64_t tombstone_id, struct arena *a, struct row *out);

/* Lookup for rename and move: also sets request_done, so that a request that is sent again is recognised. */
int row_find_from(struct meta *m, uint32_t tenant, uint64_t dir, struct meta_name name,
		  uint64_t request, struct arena *a, struct row *out);

/*
 * Called before a row is changed. Returns 0 when no transfer holds the row. Else brings that transfer to its end and
 * returns META_RETRY: the row has changed, find it again. Errors of transfer_settle.
 */
int row_settle(struct meta *m, const struct row *r, struct arena *a);

/* Adds to t the checks of any change of an existing row: the row is as it was read, the slice is not sealed. -EROFS
 * when the slice is sealed, unless sealed_too. */
int row_guard(struct txn *t, const struct row *r, bool sealed_too);

/* Adds to t the checks of a new row in the slice of r: directory and slice exist and take names, the name is absent,
 * and there is no tombstone of id (0: any). -EROFS sealed, -ENOENT no such directory, META_RETRY find the row again. */
int row_guard_new(struct meta *m, struct txn *t, const struct row *r, uint64_t id, struct arena *a);

/* Why a name does not lead to an object any more. REFUSED: it never did, its create was refused. */
enum tombstone_reason {
	TOMBSTONE_RENAMED,
	TOMBSTONE_REPLACED,
	TOMBSTONE_REMOVED,
	TOMBSTONE_REFUSED
};

/* Adds to t a tombstone of the id in the row's slice: no name can be made for the id there before the grace period is
 * over. */
void row_put_tombstone(struct txn *t, const struct row *r, uint64_t id, uint32_t kind,
		       enum tombstone_reason why);

/* Adds to t a note that the request took the id away from the row's name. Until the grace period is over a copy of the
 * request finds the note and changes nothing. */
void row_put_request_done(struct txn *t, const struct row *r, uint64_t request, uint64_t id,
			  uint32_t kind);

/* Stores the entry under the name of `at` (tenant, dir and name), with a new stamp. at->request: 0, or the number that
 * row_forbid may have forbidden. Errors as meta_create. */
int row_create(struct meta *m, const struct row *at, rec_entry *entry, unsigned flags,
	       struct arena *a);

/*
 * Fences a request to name the file: until the grace period is over, row_create with this request fails with -EEXIST.
 * Called before the file gets another name, because a delayed copy of the first request may still arrive. -EEXIST: the
 * file has the name already.
 */
int row_forbid(struct meta *m, uint32_t tenant, uint64_t dir, struct meta_name name, uint64_t id,
	       uint64_t request, struct arena *a);

/*
 * The longest time between the begin of an operation and the moment when it stores a name; later it fails with
 * -ETIMEDOUT. The tombstones that stop a copy of a request last for the grace period (META_GRACE_MIN or more): an
 * operation that was delayed for longer could bring a removed name back.
 */
#define META_NAMING_NS META_CACHE_TTL_MAX

/* Sets *out to the entry that readers see in a row that a transfer holds; NULL: no such name. META_RETRY: the row has
 * changed, read it again. */
int row_view(struct meta *m, const struct row *r, struct arena *a, rec_entry **out);

/* --- transfers: transfer.c -------------------------------------------------------------------- */

struct transfer {
	uint32_t tenant;
	uint64_t id;
	struct kv_bytes raw;
	rec_transfer *rec; /* NULL: no such transfer, or it has ended */
};

/* Reads the record of a transfer; 0 with rec NULL when there is none. */
int transfer_read(struct meta *m, uint32_t tenant, uint64_t id, struct arena *a,
		  struct transfer *out);
/* Brings a transfer, which another caller may have begun, to its end and deletes its record. A transfer that is still
 * pending after a short wait is aborted. META_NO_TRANSFER: there is no such transfer; rows that name it mean what they
 * meant before it. */
int transfer_settle(struct meta *m, uint32_t tenant, uint64_t id, struct arena *a);

struct transfer_plan;
/* Called when the transfer holds its rows, before it is committed; a result other than 0 aborts it. */
typedef int transfer_prepare(struct meta *m, struct transfer_plan *p, struct arena *a);

struct transfer_plan {
	uint32_t tenant;
	uint64_t id;       /* set by transfer_do */
	rec_transfer *rec; /* kind, from, was, to and becomes are the caller's */
	const struct row *from;
	const struct row *to;      /* NULL: the row at from is removed */
	transfer_prepare *prepare; /* NULL: nothing to check */
};
/* Carries out a transfer from begin to end. 0: committed. META_RETRY: a concurrent change was in the way, nothing
 * happened, find the rows again. Errors of prepare and kv. */
int transfer_do(struct meta *m, struct transfer_plan *p, struct arena *a);

/* The place of a row as a transfer's record names it; the name is borrowed. */
rec_place place_of(const struct row *r);

/* Moves the entry at `from` to `to`, where it becomes `becomes`, by a transfer of this kind. Returns as transfer_do. */
int transfer_rows(struct meta *m, Terrane__Rec__Transfer__Kind kind, const struct row *from,
		  const struct row *to, rec_entry *becomes, transfer_prepare *prepare,
		  struct arena *a);

/* Reads the Dir of a directory's home slice. 0 with *out and raw->data NULL when there is none. */
int dir_read(struct meta *m, uint32_t tenant, uint64_t dir, struct arena *a, struct kv_bytes *raw,
	     rec_dir **out);

/* --- directories ------------------------------------------------------------------------------ */

/* Calls fn for each slice of a directory, deepest first or home slice first; a result other than 0 ends the walk and is
 * returned. below (deepest first only): the walk has visited slices below this one. */
typedef int (*slice_fn)(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice, bool below,
			void *ctx);
int slices_walk(struct meta *m, uint32_t tenant, uint64_t dir, bool deepest_first, slice_fn fn,
		void *ctx);

/* --- files: file.c ---------------------------------------------------------------------------- */

/* Reads a file's record. 0 with *out NULL when there is none; *dead then says that the file was removed and is not yet
 * collected. */
int file_read(struct meta *m, uint32_t tenant, uint64_t file, struct arena *a, struct kv_bytes *raw,
	      rec_file **out, bool *dead);
/* Replaces the record of a file whose name was removed by a DeadFile, which the collector deletes later. 0 also when
 * there is no record. */
int file_remove(struct meta *m, uint32_t tenant, uint64_t file, struct arena *a);

/* Called with an extent and its offset in the file; a result other than 0 ends the walk and is returned. */
typedef int (*extent_fn)(void *ctx, uint64_t offset, const struct meta_extent *e);
/* Calls fn for all extents of a file record in order, the open extent last. */
int file_extents(struct meta *m, uint32_t tenant, uint64_t file, const rec_file *rec,
		 struct arena *a, extent_fn fn, void *ctx);

/* --- blocks: block.c -------------------------------------------------------------------------- */

/*
 * Checks that the block is committed and has these owners, and clears the collector's marks on them, so that a
 * collector that was about to delete an owner row starts its grace period again. Called before and after a file record
 * names the block. -ENOENT no such block.
 */
int block_hold(struct meta *m, uint32_t tenant, uint64_t block, const struct meta_owner *owners,
	       size_t n, struct arena *a);

/* --- quota: tenant.c -------------------------------------------------------------------------- */

/* accounts_fini frees the locks of the accounts, none of which may be held. */
void accounts_init(struct meta *m);
void accounts_fini(struct meta *m);
/* Adds bytes to the tenant's account, once for each (block, charge). -EDQUOT when that exceeds the quota, unless anyway. */
int account_charge(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge, uint64_t bytes,
		   bool anyway);
/* Called when the block record has the charge: the note of the charge is deleted with a later change of the account. */
void account_settled(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge);
/* The same, but deletes the note at once. */
int account_charged(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge);
/* Takes back a charge that no block record has. */
int account_uncharge(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge);
/* Subtracts bytes from the tenant's account, once for each (block, charge). */
int account_refund(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge,
		   uint64_t bytes);

/* --- cache of sealed metadata: cache.c -------------------------------------------------------- */

int cache_open(struct cache **out, size_t bytes_max, uint64_t ttl_ns);
void cache_close(struct cache *c);
size_t cache_bytes(const struct cache *c);
/* Copies the value under a key to the arena; false when the cache does not have it or it is older than ttl_ns. */
bool cache_get(struct cache *c, uint64_t partition, struct kv_bytes key, struct arena *a,
	       struct kv_bytes *out);
/* Stores a value, which may be empty; without memory for it, nothing. */
void cache_put(struct cache *c, uint64_t partition, struct kv_bytes key, struct kv_bytes value);
void cache_drop(struct cache *c, uint64_t partition, struct kv_bytes key);

#endif
