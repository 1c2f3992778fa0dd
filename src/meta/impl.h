// SPDX-License-Identifier: Apache-2.0
/* What the layers share: the open store, transactions, rows of directories, transfers. */
#ifndef META_IMPL_H
#define META_IMPL_H

#include "base/arena.h"
#include "base/map.h"
#include "kv/kv.h"
#include "meta/meta.h"
#include "meta/record.h"
#include "meta/schema.h"

#define META_TRIES 64            /* of an operation that others get in the way of */
#define META_OP_BYTES (32 * MIB) /* memory of one operation */
#define META_VERSION 1
#define META_ACCOUNTS_MAX 65536

struct cache;

struct meta {
	struct kv *kv;
	struct meta_options options; /* those that are stored as they are stored */
	struct meta_stats stats;
	struct cache *cache; /* NULL: none */
	struct map accounts; /* tenant -> struct account_lock */
	struct map
		known_spread; /* hash of (tenant, directory): its slice 0 is spread; values mean nothing */
};

/* An arena for one operation, freed when its scope ends. */
#define AUTO_ARENA __attribute__((cleanup(arena_fini)))

/* --- transactions ----------------------------------------------------------------------------- */

/* Checks and writes with their bytes in an arena; what fails on the way is returned by txn_run. */
struct txn {
	struct arena *arena;
	int rc;
	struct kv_check *checks;
	size_t check_count;
	size_t check_cap;
	struct kv_write *writes;
	size_t write_count;
	size_t write_cap;
	bool early; /* a step that leads to another: rule 13 of the README */
};

void txn_init(struct txn *t, struct arena *a);
void txn_absent(struct txn *t, struct schema_key key);
void txn_present(struct txn *t, struct schema_key key);
void txn_equals(struct txn *t, struct schema_key key, struct kv_bytes value);
/* Absent when value.data is NULL. */
void txn_same(struct txn *t, struct schema_key key, struct kv_bytes value);
void txn_put(struct txn *t, struct schema_key key, const ProtobufCMessage *msg);
void txn_put_bytes(struct txn *t, struct schema_key key, struct kv_bytes value);
void txn_delete(struct txn *t, struct schema_key key);
/* As kv_txn; failed may be NULL. */
int txn_run(struct meta *m, struct txn *t, uint64_t partition, size_t *failed);

/* The values of some keys of a partition, copied to the arena; data is NULL where there is none. */
#define META_READ_MAX 8
struct reads {
	struct kv_bytes value[META_READ_MAX];
};
int meta_read(struct meta *m, uint64_t partition, const struct schema_key *keys, size_t n,
	      struct arena *a, struct reads *out);
/* The first key that begins so, if any: found is set. */
int meta_any(struct meta *m, uint64_t partition, struct schema_key prefix, bool *found);

/* Copies bytes; data is never NULL afterwards. */
int arena_copy(struct arena *a, struct kv_bytes from, struct kv_bytes *to);

/* Lets others go first: a short wait that grows with the number of tries. -EAGAIN after META_TRIES. */
int meta_again(struct meta *m, unsigned try);

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

/* --- slices of a directory: name_slice.c ------------------------------------------------------- */

#define SLICE_HOME 0
#define SLICE_FAN_BITS 6
#define SLICE_LEVELS 3

/* The slice below that has the names with this hash; slice itself at the lowest level. */
uint32_t slice_below(uint32_t slice, uint64_t name_hash);
uint64_t slice_name_hash(struct meta_name name);
unsigned slice_level(uint32_t slice);
/* The slice after this one in a walk; spread: it has slices below. False at the end. */
bool slice_next(uint32_t slice, bool spread, uint32_t *next);
bool slice_valid(uint32_t slice);

bool dir_known_spread(const struct meta *m, uint32_t tenant, uint64_t dir);
void dir_note_spread(struct meta *m, uint32_t tenant, uint64_t dir);

/* Now and then, after names were added: spreads the slice if it has grown. */
void slice_maybe_spread(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice,
			uint64_t added);

/* --- rows: name_row.c ------------------------------------------------------------------------- */

/* Where a name is, or would be put. All memory is the arena's. */
struct row {
	uint32_t tenant;
	uint64_t dir;
	struct meta_name name;
	uint32_t slice;
	uint64_t partition;
	struct kv_bytes dir_raw; /* the slice's Dir; data NULL: there is none */
	struct kv_bytes shut_raw;
	rec_shut *shut; /* NULL: it takes names */
	struct kv_bytes raw;
	rec_entry *row;   /* as stored, NULL: none */
	rec_entry *entry; /* what it means: NULL: no such name */
	uint64_t request; /* not 0: whether it has happened is asked for */
	bool happened;    /* it has: it took something away from this name */
	bool gone;        /* there is a Gone of the id asked for */
	bool removed;     /* and it is of a removal */
	bool refused;     /* and it is of a create that was refused */
};

/* Looks the name up through the slices. gone_id may be 0. -EBADMSG and errors of kv; a name that is
 * not there is 0 with entry NULL. */
int row_find(struct meta *m, uint32_t tenant, uint64_t dir, struct meta_name name, uint64_t gone_id,
	     struct arena *a, struct row *out);

/* The same for who would take something away from the name: whether this request has done so before. */
int row_find_from(struct meta *m, uint32_t tenant, uint64_t dir, struct meta_name name,
		  uint64_t request, struct arena *a, struct row *out);

/*
 * Makes a row fit for a change: when a transfer has it, sees that transfer through. 0: as it is; 1: it
 * has changed, find it again.
 */
int row_free(struct meta *m, const struct row *r, struct arena *a);

/* Adds to t what any change of an existing row checks: the row as it was read, the slice not sealed.
 * -EROFS when it is sealed. */
int row_guard(struct txn *t, const struct row *r, bool sealed_too);

/* Adds to t what a new name in the slice of r checks. 0; -EROFS, -ENOENT; 1: look again. */
int row_guard_new(struct meta *m, struct txn *t, const struct row *r, uint64_t id, struct arena *a);

/* Why a name does not lead to an object any more. */
enum gone_why { GONE_RENAMED, GONE_REPLACED, GONE_REMOVED, GONE_REFUSED };

/* The Gone of an id at the row's slice. */
void row_put_gone(struct txn *t, const struct row *r, uint64_t id, uint32_t kind,
		  enum gone_why why);

/* The request has taken the id away from the row's name: until the grace is over it does not do so again. */
void row_put_happened(struct txn *t, const struct row *r, uint64_t request, uint64_t id,
		      uint32_t kind);

/* Gives the name of `at` (tenant, dir and name) to an entry. 0, or an error of meta_create; the entry's stamp is
 * set. at->request: 0, or what row_forbid knows it by. */
int row_create(struct meta *m, const struct row *at, rec_entry *entry, unsigned flags,
	       struct arena *a);

/*
 * From now on, for the grace period, row_create with this request does not give the name: -EEXIST. The
 * fence of a file that shall get another name, while a copy of the request for this one may be held up.
 * -EEXIST: the file has the name.
 */
int row_forbid(struct meta *m, uint32_t tenant, uint64_t dir, struct meta_name name, uint64_t id,
	       uint64_t request, struct arena *a);

/*
 * A name may be given so long after the operation began. What keeps copies of a request from giving it
 * again waits for a grace period, META_GRACE_MIN or more; one that was held up for longer gives up.
 */
#define META_NAMING_NS META_CACHE_TTL_MAX

/* Everything a reader needs from a stored row that takes part in a transfer. 1: read it again. */
int row_view(struct meta *m, const struct row *r, struct arena *a, rec_entry **out);

/* --- transfers: transfer.c -------------------------------------------------------------------- */

struct transfer {
	uint32_t tenant;
	uint64_t id;
	struct kv_bytes raw;
	rec_transfer *rec; /* NULL: there is none, or no more */
};

int transfer_read(struct meta *m, uint32_t tenant, uint64_t id, struct arena *a,
		  struct transfer *out);
/* Brings a transfer of anyone to its end, and takes every trace of it away. Undoes it when it is not
 * decided after a little patience. */
int transfer_settle(struct meta *m, uint32_t tenant, uint64_t id, struct arena *a);

/* A transfer from begin to end. rec has kind, from, was, to and becomes; *decided says whether it was
 * committed. prepare, when not NULL, is called with all rows held, and may refuse. */
struct transfer_plan;
/* Asked once the rows are held, before it is decided; what is not 0 undoes it. */
typedef int transfer_prepare(struct meta *m, struct transfer_plan *p, struct arena *a);

struct transfer_plan {
	uint32_t tenant;
	uint64_t id;
	rec_transfer *rec;
	const struct row *from;
	const struct row *to; /* NULL: none */
	transfer_prepare *prepare;
};
/* 0 committed; 1: others got in the way, nothing happened, try again; errors. */
int transfer_do(struct meta *m, struct transfer_plan *p, struct arena *a);

rec_place place_of(const struct row *r);

/* The transfer of what `from` is to `to`, where it becomes `becomes`; prepare may be NULL. As
 * transfer_do. */
int transfer_rows(struct meta *m, Terrane__Rec__Transfer__Kind kind, const struct row *from,
		  const struct row *to, rec_entry *becomes, transfer_prepare *prepare,
		  struct arena *a);

/* The directory's own record, slice 0. raw.data NULL: there is none. */
int dir_read(struct meta *m, uint32_t tenant, uint64_t dir, struct arena *a, struct kv_bytes *raw,
	     rec_dir **out);

/* --- directories ------------------------------------------------------------------------------ */

/* Calls fn for each slice there is, deepest first or last; stops at the first result that is not 0.
 * below, when deepest first: the walk has been to the slices below. */
typedef int (*slice_fn)(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice, bool below,
			void *ctx);
int slices_walk(struct meta *m, uint32_t tenant, uint64_t dir, bool deepest_first, slice_fn fn,
		void *ctx);

/* --- files: file.c ---------------------------------------------------------------------------- */

int file_read(struct meta *m, uint32_t tenant, uint64_t file, struct arena *a, struct kv_bytes *raw,
	      rec_file **out, bool *dead);
/* From a name to a removed file. 0 also when there is nothing to remove. */
int file_kill(struct meta *m, uint32_t tenant, uint64_t file, struct arena *a);

typedef int (*extent_fn)(void *ctx, uint64_t offset, const struct meta_extent *e);
/* All extents of a record, in order, in pages; inline or by key. */
int file_extents(struct meta *m, uint32_t tenant, uint64_t file, const rec_file *rec,
		 struct arena *a, extent_fn fn, void *ctx);

/* --- blocks: block.c --------------------------------------------------------------------------- */

/*
 * The block is there and has these owners, unmarked: a collector that has just found one of them useless
 * finds its mark gone. For who is about to use the block, or has just begun to. -ENOENT.
 */
int block_hold(struct meta *m, uint32_t tenant, uint64_t block, const struct meta_owner *owners,
	       size_t n, struct arena *a);

/* --- quota: tenant.c --------------------------------------------------------------------------- */

/* Counts a charge under its name. -EDQUOT, unless anyway. */
int account_charge(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge, uint64_t bytes,
		   bool anyway);
/* The charge is in the block record: its note may go, with some later change of the account. */
void account_settled(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge);
/* The same, now. */
int account_charged(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge);
/* Takes a charge back that no block record has. */
int account_uncharge(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge);
/* Gives back once. */
int account_refund(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge,
		   uint64_t bytes);

/* --- cache of what is sealed: cache.c ----------------------------------------------------------- */

int cache_open(struct cache **out, size_t bytes_max, uint64_t ttl_ns);
void cache_close(struct cache *c);
size_t cache_bytes(const struct cache *c);
/* The value under a key, copied to the arena; false when it is not there or too old. */
bool cache_get(struct cache *c, uint64_t partition, struct kv_bytes key, struct arena *a,
	       struct kv_bytes *out);
/* Best effort. An empty value is fine. */
void cache_put(struct cache *c, uint64_t partition, struct kv_bytes key, struct kv_bytes value);
void cache_drop(struct cache *c, uint64_t partition, struct kv_bytes key);

#endif
