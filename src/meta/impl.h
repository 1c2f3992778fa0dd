// SPDX-License-Identifier: Apache-2.0
/* Shared by the files of all layers: the open store, transactions, rows of directories, transfers. */
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

/* Results of internal functions that are neither success nor an error. No function of meta.h or gc.h returns one
 * of them. */
enum meta_result {
	/* a row has changed since it was read: the caller reads it again and decides again */
	META_RETRY = 1,
	META_STOP = 2, /* result of a callback: end the walk; the walk returns META_STOP */
	/* an earlier copy of the request was carried out: there is nothing to write */
	META_DONE = 3,
	META_NO_TRANSFER = 4, /* the transfer has no record */
};
#define META_ACCOUNTS_MAX 65536

struct account_turn;
struct accounts;
struct cache;
struct quotas;

struct meta {
	struct rt_loop *loop; /* loop of all calls */
	struct kv *kv;
	/* options of this store; those that the format record fixes have their stored values */
	struct meta_options options;
	struct meta_stats stats;
	/* Of all loops of a process that share the store: the first meta, which is `of` of the others, owns them. */
	struct cache *cache; /* NULL: no cache */
	struct accounts *accounts;
	struct quotas *quotas; /* which directories have quotas */
	const struct meta *of; /* NULL: the first */
	/* set of hashes of (tenant, directory) of directories whose slice 0 is spread */
	struct map known_spread;
	struct gc_searches
		*searches; /* searches of the collector in parts; NULL: none was needed yet */
};

/* --- transactions ----------------------------------------------------------------------------- */

/* The checks and writes of one transaction; their bytes are in the arena. rc keeps the first error of a txn_
 * function, and txn_run returns it. */
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
/* Each of the next three adds one check to t: the key has no value, has any value, has exactly this value. The
 * value must stay valid until txn_run. */
void txn_absent(struct txn *t, struct schema_key key);
void txn_present(struct txn *t, struct schema_key key);
void txn_equals(struct txn *t, struct schema_key key, struct kv_bytes value);
/* Adds the check that the key is as it was read: it has no value if value.data is NULL, else exactly this value. */
void txn_same(struct txn *t, struct schema_key key, struct kv_bytes value);
/* Each of the next three adds one write to t. The bytes of txn_put_bytes must stay valid until txn_run. */
void txn_put(struct txn *t, struct schema_key key, const ProtobufCMessage *msg);
void txn_put_bytes(struct txn *t, struct schema_key key, struct kv_bytes value);
void txn_delete(struct txn *t, struct schema_key key);
/* Runs the transaction like kv_txn: -ESTALE if a check failed; *failed (failed may be NULL) is then the index of
 * the check. Returns -EIO where kv returns -EROFS, because -EROFS means a sealed object in this module. */
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

/* Copies bytes to the arena; to->data is not NULL afterwards, even for an empty value. */
int arena_copy(struct arena *a, struct kv_bytes from, struct kv_bytes *to);

/* Waits before attempt try + 1 of an operation, for a random time that grows with try. -EAGAIN: try has reached
 * META_TRIES; -ECANCELED and similar errors: the wait ended early. */
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

/* Returns the slice one level below that holds names with this hash; returns slice if it is at the lowest level. */
uint32_t slice_below(uint32_t slice, uint64_t name_hash);
uint64_t slice_name_hash(struct meta_name name);
unsigned slice_level(uint32_t slice);
/* Sets *next to the slice after this one in a depth-first walk. spread: the slice has slices below. Returns false
 * if it is the last slice. */
bool slice_next(uint32_t slice, bool spread, uint32_t *next);
/* Returns whether a slice number, which may come from a client, is valid. */
bool slice_valid(uint32_t slice);

/* Returns whether this process has seen that the directory is spread. After false, the directory may be spread all
 * the same. */
bool dir_known_spread(const struct meta *m, uint32_t tenant, uint64_t dir);
void dir_note_spread(struct meta *m, uint32_t tenant, uint64_t dir);

/* Called after `added` names were added: with a probability that grows with `added`, counts the names of the
 * slice, and spreads the slice if it has spread_entries names or more. Ignores errors, because a later call tries
 * again. */
void slice_maybe_spread(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice,
			uint64_t added);

/* --- rows: name_row.c ------------------------------------------------------------------------- */

/* A name with the slice that has the name, or would get it. All memory is in the arena. */
struct row {
	uint32_t tenant;
	uint64_t dir;
	struct meta_name name;
	uint32_t slice;
	uint64_t partition;
	/* stored Dir of the slice; data is NULL if the directory does not exist */
	struct kv_bytes dir_raw;
	struct kv_bytes state_raw;
	rec_slice_state *state; /* NULL: the slice takes new names */
	struct kv_bytes raw;
	rec_entry *row; /* the stored entry; NULL: no row */
	/* the entry that readers see, with the transfer of the row taken into account; NULL: no such name */
	rec_entry *entry;
	uint64_t
		request; /* number of the request whose KEY_REQUEST_DONE row row_find_from reads; 0: none */
	/* the KEY_REQUEST_DONE row exists: the request already took an object away from this name */
	bool request_done;
	bool tombstone; /* the slice has a tombstone of the requested id */
	bool removed;   /* a removal stored this tombstone */
	bool refused;   /* a refused create stored this tombstone */
};

/* Finds the name in the slices of the directory, and the tombstone of tombstone_id (0: reads no tombstone).
 * Returns 0 even if the name does not exist; out->entry is NULL then. -EBADMSG and errors of kv. */
int row_find(struct meta *m, uint32_t tenant, uint64_t dir, struct meta_name name,
	     uint64_t tombstone_id, struct arena *a, struct row *out);

/* Finds a name for rename and move. Also sets request_done, so that the caller recognises a request that is sent
 * again. */
int row_find_from(struct meta *m, uint32_t tenant, uint64_t dir, struct meta_name name,
		  uint64_t request, struct arena *a, struct row *out);

/*
 * Called before a row is changed. Returns 0 if no transfer holds the row. Else completes or aborts that transfer
 * and returns META_RETRY: the row has changed, and the caller must find it again. Errors of transfer_settle.
 */
int row_settle(struct meta *m, const struct row *r, struct arena *a);

/* Adds to t the checks for a change of an existing row: the row is as it was read, and the slice is not sealed.
 * -EROFS: the slice is sealed, and sealed_too is false. */
int row_guard(struct txn *t, const struct row *r, bool sealed_too);

/* Adds to t the checks for a new row in the slice of r: the directory and the slice exist and take new names, the
 * name does not exist, and there is no tombstone of id (0: any id). -EROFS: the slice is sealed; -ENOENT: no such
 * directory; META_RETRY: find the row again. */
int row_guard_new(struct meta *m, struct txn *t, const struct row *r, uint64_t id, struct arena *a);

/* The reason why a name does not lead to an object any more. TOMBSTONE_REFUSED: the name never led to it, because
 * its create was refused. */
enum tombstone_reason {
	TOMBSTONE_RENAMED,
	TOMBSTONE_REPLACED,
	TOMBSTONE_REMOVED,
	TOMBSTONE_REFUSED
};

/* Adds to t a tombstone of the id in the row's slice. No name of this id can be stored in the slice before the
 * grace period is over. */
void row_put_tombstone(struct txn *t, const struct row *r, uint64_t id, uint32_t kind,
		       enum tombstone_reason why);

/* Adds to t a note (KEY_REQUEST_DONE) that the request took the id away from the row's name. Until the grace
 * period is over, a copy of the request finds the note and changes nothing. */
void row_put_request_done(struct txn *t, const struct row *r, uint64_t request, uint64_t id,
			  uint32_t kind);

/* Stores the entry under the name of `at` (tenant, dir and name), with a new stamp. at->request: 0, or the number that
 * row_forbid may have forbidden. Errors as meta_create. */
int row_create(struct meta *m, const struct row *at, rec_entry *entry, unsigned flags,
	       struct arena *a);

/*
 * Fences a request that may store a name of the file: until the grace period is over, row_create with this request
 * number fails with -EEXIST. Called before the file gets another name, because a delayed copy of the first request
 * may still arrive. -EEXIST: the file has the name already.
 */
int row_forbid(struct meta *m, uint32_t tenant, uint64_t dir, struct meta_name name, uint64_t id,
	       uint64_t request, struct arena *a);

/*
 * The longest time from the begin of an operation to the moment when it stores a name; later the operation fails
 * with -ETIMEDOUT. The tombstones that stop a copy of a request last for the grace period (META_GRACE_MIN or
 * more): an operation that was delayed for longer could store a name again that was removed since.
 */
#define META_NAMING_NS META_CACHE_TTL_MAX

/* Sets *out to the entry that readers see in a row that a transfer holds; *out is NULL if readers see no name.
 * META_RETRY: the row has changed, read it again. */
int row_view(struct meta *m, const struct row *r, struct arena *a, rec_entry **out);

/* --- transfers: transfer.c -------------------------------------------------------------------- */

struct transfer {
	uint32_t tenant;
	uint64_t id;
	struct kv_bytes raw;
	rec_transfer *rec; /* NULL: no such transfer, or it has ended */
};

/* Reads the record of a transfer. Returns 0 with out->rec NULL if there is no such transfer. */
int transfer_read(struct meta *m, uint32_t tenant, uint64_t id, struct arena *a,
		  struct transfer *out);
/* Completes or aborts a transfer that any request may have begun, and deletes its record. Aborts a transfer that
 * is still pending after a short wait. META_NO_TRANSFER: the transfer has no record; rows with its id mean what
 * they meant before the transfer. */
int transfer_settle(struct meta *m, uint32_t tenant, uint64_t id, struct arena *a);

struct transfer_plan;
/* Callback of transfer_do, called when the transfer holds its rows and is not yet committed. A result other than 0
 * aborts the transfer. */
typedef int transfer_prepare(struct meta *m, struct transfer_plan *p, struct arena *a);

struct transfer_plan {
	uint32_t tenant;
	uint64_t id;       /* set by transfer_do */
	rec_transfer *rec; /* kind, from, was, to and becomes are set by the caller */
	const struct row *from;
	/* row that gets the entry; NULL: the transfer only removes the row at `from` */
	const struct row *to;
	transfer_prepare *prepare; /* called before the commit; NULL: no callback */
};
/* Carries out a transfer from begin to end. Returns 0 if it was committed. META_RETRY: a concurrent change
 * prevented the transfer, and nothing has changed; the caller must find the rows again. Errors of prepare and kv. */
int transfer_do(struct meta *m, struct transfer_plan *p, struct arena *a);

/* Returns the place of a row in the form that the record of a transfer has. The name is not copied. */
rec_place place_of(const struct row *r);

/* Moves the entry at `from` to `to` by a transfer of this kind; the new entry is `becomes`. Returns the results of
 * transfer_do. */
int transfer_rows(struct meta *m, Terrane__Rec__Transfer__Kind kind, const struct row *from,
		  const struct row *to, rec_entry *becomes, transfer_prepare *prepare,
		  struct arena *a);

/* Reads the Dir of a directory's home slice. Returns 0 with *out and raw->data NULL if the directory does not exist. */
int dir_read(struct meta *m, uint32_t tenant, uint64_t dir, struct arena *a, struct kv_bytes *raw,
	     rec_dir **out);

/* --- directories ------------------------------------------------------------------------------ */

/* Callback of a walk over the slices of a directory, in either direction; a result other than 0 ends the walk and
 * is returned. below (only if the walk is deepest first): the walk has visited slices below this slice. */
typedef int (*slice_fn)(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice, bool below,
			void *ctx);
int slices_walk(struct meta *m, uint32_t tenant, uint64_t dir, bool deepest_first, slice_fn fn,
		void *ctx);

/* --- files: file.c ---------------------------------------------------------------------------- */

/* Reads a file's record. Returns 0 with *out NULL if there is none; *dead is then true if the file was removed and
 * not yet collected. */
int file_read(struct meta *m, uint32_t tenant, uint64_t file, struct arena *a, struct kv_bytes *raw,
	      rec_file **out, bool *dead);
/* Replaces the record of a file whose name was removed by a DeadFile, which the collector deletes later. Returns 0
 * even if there is no record. */
int file_remove(struct meta *m, uint32_t tenant, uint64_t file, struct arena *a);

/* Callback that gets an extent and its offset in the file; a result other than 0 ends the walk and is returned. */
typedef int (*extent_fn)(void *ctx, uint64_t offset, const struct meta_extent *e);
/* Calls fn for all extents of a file record in order, the open extent last. */
int file_extents(struct meta *m, uint32_t tenant, uint64_t file, const rec_file *rec,
		 struct arena *a, extent_fn fn, void *ctx);

/* --- blocks: block.c -------------------------------------------------------------------------- */

/*
 * Checks that the block is committed and has these owners, and clears the collector's marks on them, so that a
 * collector that was about to delete an owner row starts its grace period again. Called before and after a file record
 * gets an extent in the block. -ENOENT: no such block.
 */
int block_hold(struct meta *m, uint32_t tenant, uint64_t block, const struct meta_owner *owners,
	       size_t n, struct arena *a);

/* --- quota: tenant.c -------------------------------------------------------------------------- */

/* accounts_open makes the turns at the accounts, for all loops; accounts_close frees them, and none may be held then. */
int accounts_open(struct accounts **out);
void accounts_close(struct accounts *a);
/* Waits for the turn at the account of a tenant, in whose partition its quotas are, too. Sets *out to NULL when too many
 * accounts are in use: changes are still correct, with more retries. */
int account_begin(struct meta *m, uint32_t tenant, struct account_turn **out);
void account_end(struct account_turn *t); /* t may be NULL */
static inline uint64_t part_account(const struct meta *m, uint32_t tenant)
{
	return part_of(m, META_LAYER_TENANT, tenant, tenant);
}
/* Adds bytes to the tenant's account, once for each (block, charge). -EDQUOT: this would exceed the quota, and
 * anyway is false. */
int account_charge(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge, uint64_t bytes,
		   bool anyway);
/* Called when the block record has the charge: a later change of the account deletes the note of the charge. */
void account_settled(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge);
/* Like account_settled, but deletes the note of the charge at once. */
int account_charged(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge);
/* Subtracts a charge from the account, because no block record has it. */
int account_uncharge(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge);
/* Subtracts the bytes of a block from the tenant's account, once for each (block, charge), and counts them as waiting until
 * account_refund is called for the same charge. */
int account_release(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge,
		    uint64_t bytes);
/* Subtracts bytes from the tenant's account, once for each (block, charge). */
int account_refund(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge,
		   uint64_t bytes);

/* --- cache of sealed metadata: cache.c; any loop may use it ------------------------------------- */

int cache_open(struct cache **out, size_t bytes_max, uint64_t ttl_ns);
void cache_close(struct cache *c);
size_t cache_bytes(struct cache *c);
/* Copies the value of a key to the arena. Returns false if the cache does not have the value, or has had it for
 * longer than ttl_ns. */
bool cache_get(struct cache *c, uint64_t partition, struct kv_bytes key, struct arena *a,
	       struct kv_bytes *out);
/* Stores a value, which may be empty. Does nothing if there is no memory for the value. */
void cache_put(struct cache *c, uint64_t partition, struct kv_bytes key, struct kv_bytes value);
void cache_drop(struct cache *c, uint64_t partition, struct kv_bytes key);
void cache_clear(struct cache *c);

#endif
