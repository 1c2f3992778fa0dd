// SPDX-License-Identifier: Apache-2.0
/*
 * Slices, the parts of a directory that is spread over partitions.
 *
 * A directory begins as slice 0, with all names in one partition. A large slice is spread: the slice is frozen, and new
 * names go to one of 64 slices below it, by their hash; these slices may be spread in turn, three levels deep. The
 * names of a frozen slice stay in it.
 *
 *   slice 0 (frozen): a b c ...        level 0
 *     slice 1/5:      x y ...          level 1, names whose hash ends in 5
 *     slice 1/9 (frozen): p q ...
 *       slice 2/9+64*3: r ...          level 2
 *
 * Why a name cannot exist twice. A frozen slice never gains a name: a new name needs its SliceState to be absent. So
 * a name that was found absent in a frozen slice stays absent there, and the slice below is the only one that
 * can have it. Freezing is one transaction in the slice's own partition; nothing is copied, and a name
 * is in exactly one slice at any time.
 *
 * A rename between two slices is a transfer (transfer.c).
 */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "base/hash.h"
#include "meta/impl.h"
#include "rt/rt.h"

#define LEVEL_SHIFT 24
#define FAN (1U << SLICE_FAN_BITS)
/* average number of times that a slice is counted until it has spread_entries names */
#define SAMPLES 16

static uint32_t index_mask(unsigned level)
{
	assert(level <= SLICE_LEVELS);
	return (1U << (SLICE_FAN_BITS * level)) - 1;
}

static uint32_t slice_at(unsigned level, uint32_t index)
{
	assert(index <= index_mask(level));
	return (uint32_t)level << LEVEL_SHIFT | index;
}

unsigned slice_level(uint32_t slice)
{
	return slice >> LEVEL_SHIFT;
}

static uint32_t slice_index(uint32_t slice)
{
	return slice & ((1U << LEVEL_SHIFT) - 1);
}

bool slice_valid(uint32_t slice)
{
	unsigned level = slice_level(slice);
	return level <= SLICE_LEVELS && slice_index(slice) <= index_mask(level);
}

uint64_t slice_name_hash(struct meta_name name)
{
	return hash64(name.text, name.len, 0);
}

uint32_t slice_below(uint32_t slice, uint64_t name_hash)
{
	assert(slice_valid(slice));
	unsigned level = slice_level(slice);
	if (level >= SLICE_LEVELS)
		return slice;
	return slice_at(level + 1, (uint32_t)name_hash & index_mask(level + 1));
}

static uint32_t slice_child(uint32_t slice, uint32_t i)
{
	assert(i < FAN);
	unsigned level = slice_level(slice);
	return slice_at(level + 1, slice_index(slice) | i << (SLICE_FAN_BITS * level));
}

bool slice_next(uint32_t slice, bool spread, uint32_t *next)
{
	assert(slice_valid(slice));
	unsigned level = slice_level(slice);
	uint32_t index = slice_index(slice);
	if (spread && level < SLICE_LEVELS) {
		*next = slice_child(slice, 0);
		return true;
	}
	for (; level > 0; level--) {
		uint32_t i = index >> (SLICE_FAN_BITS * (level - 1));
		index &= index_mask(level - 1);
		if (i + 1 < FAN) {
			*next = slice_child(slice_at(level - 1, index), i + 1);
			return true;
		}
	}
	return false;
}

/* --- which directories are spread ------------------------------------------------------------- */

bool dir_known_spread(const struct meta *m, uint32_t tenant, uint64_t dir)
{
	return m->options.spread_entries > 0 &&
	       map_get(&m->known_spread, hash64_u64s(tenant, dir)) != NULL;
}

/* Adds a directory to the set of directories that are spread. Empties a full set, because the set only avoids reads. */
void dir_note_spread(struct meta *m, uint32_t tenant, uint64_t dir)
{
	if (map_put(&m->known_spread, hash64_u64s(tenant, dir), m) == -ENOSPC)
		map_clear(&m->known_spread);
}

/* --- spreading -------------------------------------------------------------------------------- */

/* Counts the names of a slice, but not more than spread_entries and one page. */
static int count_names(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice,
		       uint64_t *count)
{
	struct schema_key prefix = key_slice(KEY_ENTRY, tenant, dir, slice);
	struct schema_key after = {0};
	AUTO_KV_ROWS struct kv_rows rows = {0};
	*count = 0;
	do {
		struct kv_range range = {.prefix = key_bytes(&prefix), .after = key_bytes(&after)};
		int rc = kv_scan(m->kv, part_name(m, tenant, dir, slice), &range, &rows);
		if (rc != 0)
			return rc;
		assert(rows.count > 0 || !rows.more);
		*count += rows.count;
		if (rows.count > 0) {
			struct kv_bytes last = rows.row[rows.count - 1].key;
			if (last.len > sizeof(after.bytes))
				return -EBADMSG;
			memcpy(after.bytes, last.data, last.len);
			after.len = last.len;
		}
	} while (rows.more && *count < m->options.spread_entries);
	return 0;
}

/* Creates the slices below this slice, before it is frozen: a writer that is sent to one of them must find it. */
static int make_below(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice)
{
	for (uint32_t i = 0; i < FAN; i++) {
		AUTO_ARENA struct arena a;
		arena_init(&a, MIB);
		uint32_t below = slice_child(slice, i);
		rec_dir d = TERRANE__REC__DIR__INIT;
		d.id = dir;
		d.created_ns = rt_wall_ns();
		struct txn t;
		txn_init(&t, &a);
		struct schema_key key = key_slice(KEY_DIR, tenant, dir, below);
		txn_absent(&t, key);
		txn_put(&t, key, &d.base);
		int rc = txn_run(m, &t, part_name(m, tenant, dir, below), NULL);
		if (rc != 0 && rc != -ESTALE)
			return rc;
	}
	return 0;
}

/* Creates the slices below and freezes the slice. -ESTALE: another request has frozen, sealed or deleted the slice. */
static int spread(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice)
{
	assert(m->options.spread_entries > 0 && slice_level(slice) < SLICE_LEVELS);
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	int rc = make_below(m, tenant, dir, slice);
	if (rc != 0)
		return rc;
	rec_slice_state s = TERRANE__REC__SLICE_STATE__INIT;
	s.spread = true;
	struct txn t;
	txn_init(&t, &a);
	txn_present(&t, key_slice(KEY_DIR, tenant, dir, slice));
	txn_absent(&t, key_slice(KEY_SLICE_STATE, tenant, dir, slice));
	txn_put(&t, key_slice(KEY_SLICE_STATE, tenant, dir, slice), &s.base);
	rc = txn_run(m, &t, part_name(m, tenant, dir, slice), NULL);
	if (rc == 0) {
		m->stats.spreads++;
		dir_note_spread(m, tenant, dir);
	}
	return rc;
}

void slice_maybe_spread(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice,
			uint64_t added)
{
	assert(added > 0);
	uint64_t limit = m->options.spread_entries;
	if (limit == 0 || slice_level(slice) >= SLICE_LEVELS)
		return;
	if (rt_random_u64() % limit >= SAMPLES * added)
		return;
	uint64_t count;
	if (count_names(m, tenant, dir, slice, &count) == 0 && count >= limit)
		spread(m, tenant, dir, slice);
}

/* --- walking ---------------------------------------------------------------------------------- */

static int is_spread(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice, bool *spread)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct schema_key key = key_slice(KEY_SLICE_STATE, tenant, dir, slice);
	struct reads r;
	rec_slice_state *s = NULL;
	int rc = meta_read(m, part_name(m, tenant, dir, slice), &key, 1, &a, &r);
	if (rc == 0 && r.value[0].data != NULL)
		rc = rec_read_slice_state(&a, r.value[0], &s);
	*spread = rc == 0 && s != NULL && s->spread;
	return rc;
}

static int walk(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice, bool deepest_first,
		slice_fn fn, void *ctx)
{
	bool below = false;
	int rc = deepest_first ? 0 : fn(m, tenant, dir, slice, false, ctx);
	if (rc == 0 && slice_level(slice) < SLICE_LEVELS)
		rc = is_spread(m, tenant, dir, slice, &below);
	for (uint32_t i = 0; i < FAN && below && rc == 0; i++)
		rc = walk(m, tenant, dir, slice_child(slice, i), deepest_first, fn, ctx);
	if (rc == 0 && deepest_first)
		rc = fn(m, tenant, dir, slice, below, ctx);
	return rc;
}

int slices_walk(struct meta *m, uint32_t tenant, uint64_t dir, bool deepest_first, slice_fn fn,
		void *ctx)
{
	assert(fn != NULL);
	return walk(m, tenant, dir, SLICE_HOME, deepest_first, fn, ctx);
}
