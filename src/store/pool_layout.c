// SPDX-License-Identifier: Apache-2.0
/*
 * Computes which members hold the rows of a chunk. The placement of code/ gives each row its home
 * member. Events then move rows, in the order of the record; every reader of the record computes the
 * same result:
 *
 *   member m given up    each row on m moves to the first member, in an order drawn from chunk and
 *                        event, that is not given up at that time, has no row of the chunk and is not
 *                        home to one. In a clustered pool the row moves to POOL_NOWHERE.
 *   member m replaced    rows whose home is m move back to m. Rows that m had in its spare space stay
 *                        where the event before moved them.
 *
 * A member that is home to a row never gets another row of the same chunk, so the home row can always
 * return: the rows of a chunk are on different members at all times.
 *
 * Example: 2+1 on 5 members, home 0 1 2. Member 1 given up: its row moves to, say, 4: rows are on 0 4 2.
 * Member 4 given up: 0 3 2. Member 1 replaced: 0 1 2. Member 4 replaced: no change.
 *
 * These rules, the number of slots and the hash keys must never change: stored rows are found by them.
 */
#include "store/pool_layout.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "base/hash.h"
#include "base/le.h"
#include "code/perm.h"
#include "code/place.h"

#define PAGE 4096
#define PIECES_MAX 1000
#define PLACE_SLOTS 4096 /* number of stripes of the placement for each member */

/* --- rows and pieces -------------------------------------------------------------------------- */

uint64_t pool_piece_for(uint64_t pool_piece, uint32_t k, uint64_t len)
{
	uint64_t least = (len + (uint64_t)k * PIECES_MAX - 1) / ((uint64_t)k * PIECES_MAX);
	return max_u64(pool_piece, (least + PAGE - 1) / PAGE * PAGE);
}

void pool_geo_init(struct pool_geo *g, uint32_t k, uint32_t p, uint64_t piece, uint64_t len)
{
	uint64_t stripe = piece * k;
	uint64_t rest = len % stripe;

	assert(k > 0 && piece > 0);
	*g = (struct pool_geo){.k = k, .p = p, .piece = piece, .len = len};
	g->stripes = len / stripe + (rest > 0);
	g->last_piece = piece;
	if (rest > 0) {
		uint64_t share = (rest + k - 1) / k;
		g->last_piece = min_u64(piece, (share + PAGE - 1) / PAGE * PAGE);
	}
	g->row_len = g->stripes == 0 ? 0 : (g->stripes - 1) * piece + g->last_piece;
}

uint64_t pool_geo_piece(const struct pool_geo *g, uint64_t stripe)
{
	assert(stripe < g->stripes);
	return stripe + 1 == g->stripes ? g->last_piece : g->piece;
}

struct pool_position pool_geo_position(const struct pool_geo *g, uint64_t off)
{
	uint64_t stripe = off / (g->piece * g->k);
	uint64_t in_stripe = off % (g->piece * g->k);
	uint64_t piece = pool_geo_piece(g, stripe);
	uint64_t in_piece = in_stripe % piece;

	assert(off < g->len);
	return (struct pool_position){
		.row = (uint32_t)(in_stripe / piece),
		.row_off = stripe * g->piece + in_piece,
		.run = min_u64(piece - in_piece, g->len - off),
	};
}

struct store_range pool_geo_bytes(const struct pool_geo *g, uint64_t stripe, uint32_t row)
{
	uint64_t piece = pool_geo_piece(g, stripe);
	uint64_t off = stripe * g->piece * g->k + row * piece;
	uint64_t left = off < g->len ? g->len - off : 0;

	assert(row < g->k && stripe < g->stripes);
	return (struct store_range){.off = off, .len = min_u64(piece, left)};
}

/* --- labels ----------------------------------------------------------------------------------- */

enum label_at {
	LABEL_MAGIC = 0, /* the byte 'P', then the version 1 */
	LABEL_COPY = 2,
	LABEL_ROW = 3,
	LABEL_K = 4,
	LABEL_P = 5,
	LABEL_WAS_OPEN = 6,
	LABEL_ZERO = 7,
	LABEL_PIECE = 8,
	LABEL_CRC = 12,
	LABEL_LEN = 16,
	LABEL_POOL = 24,
};

void pool_label_encode(const struct pool_label *l, uint8_t out[STORE_LABEL_BYTES])
{
	assert(l->k > 0 && l->p > 0 && l->k + l->p <= POOL_ROWS_MAX);
	assert(l->copy ? l->row <= l->p && l->len == 0 : l->row < l->k + l->p);
	memset(out, 0, STORE_LABEL_BYTES);
	out[LABEL_MAGIC] = 'P';
	out[LABEL_MAGIC + 1] = 1;
	out[LABEL_COPY] = l->copy ? 1 : 0;
	out[LABEL_ROW] = (uint8_t)l->row;
	out[LABEL_K] = (uint8_t)l->k;
	out[LABEL_P] = (uint8_t)l->p;
	out[LABEL_WAS_OPEN] = l->was_open ? 1 : 0;
	put_u32(out + LABEL_PIECE, (uint32_t)l->piece);
	put_u32(out + LABEL_CRC, l->crc);
	put_u64(out + LABEL_LEN, l->len);
	put_u64(out + LABEL_POOL, l->pool);
}

int pool_label_decode(const uint8_t in[STORE_LABEL_BYTES], struct pool_label *l)
{
	if (in[LABEL_MAGIC] != 'P' || in[LABEL_MAGIC + 1] != 1 || in[LABEL_COPY] > 1 ||
	    in[LABEL_WAS_OPEN] > 1 || in[LABEL_ZERO] != 0)
		return -EBADMSG;
	*l = (struct pool_label){
		.copy = in[LABEL_COPY] == 1,
		.row = in[LABEL_ROW],
		.k = in[LABEL_K],
		.p = in[LABEL_P],
		.was_open = in[LABEL_WAS_OPEN] == 1,
		.piece = get_u32(in + LABEL_PIECE),
		.crc = get_u32(in + LABEL_CRC),
		.len = get_u64(in + LABEL_LEN),
		.pool = get_u64(in + LABEL_POOL),
	};
	if (l->k == 0 || l->p == 0 || l->k + l->p > POOL_ROWS_MAX || l->len > STORE_CHUNK_MAX)
		return -EBADMSG;
	if (l->copy)
		return l->row <= l->p && l->len == 0 ? 0 : -EBADMSG;
	return l->row < l->k + l->p && l->piece > 0 && l->piece % PAGE == 0 &&
			       l->piece <= STORE_CHUNK_MAX
		       ? 0
		       : -EBADMSG;
}

/* --- records ---------------------------------------------------------------------------------- */

static const uint8_t record_magic[8] = {'T', 'R', 'N', 'P', 'O', 'O', 'L', '1'};

enum record_at {
	RECORD_K = 8,
	RECORD_P = 12,
	RECORD_MEMBERS = 16,
	RECORD_PLACE = 20,
	RECORD_PIECE = 24,
	RECORD_MEMBER = 28,
	RECORD_ID = 32,
	RECORD_GENERATION = 40,
	RECORD_SETTLED = 48,
	RECORD_EVENT_COUNT = 52,
	/* 16 bits per event: the member; the top bit is set if it was replaced or returned */
	RECORD_EVENTS = 56,
	/* 16 bits per member: its rank, or 0 if it is up to date */
	RECORD_BEHIND = RECORD_EVENTS + 2 * POOL_EVENTS_MAX,
	RECORD_DUE = RECORD_BEHIND + 2 * POOL_MEMBERS_MAX,
	RECORD_CRC = POOL_RECORD_BYTES - 4,
};

#define EVENT_REPLACED 0x8000U

_Static_assert((int)RECORD_DUE + POOL_MEMBERS_MAX / 8 <= (int)RECORD_CRC,
	       "a record has room for its events");

void pool_record_encode(const struct pool_record *r, uint8_t out[POOL_RECORD_BYTES])
{
	assert(r->member < r->shape.members && r->shape.members <= POOL_MEMBERS_MAX);
	assert(r->settled <= r->event_count && r->event_count <= POOL_EVENTS_MAX);
	memset(out, 0, POOL_RECORD_BYTES);
	memcpy(out, record_magic, sizeof(record_magic));
	put_u32(out + RECORD_K, r->shape.k);
	put_u32(out + RECORD_P, r->shape.p);
	put_u32(out + RECORD_MEMBERS, r->shape.members);
	put_u32(out + RECORD_PLACE, (uint32_t)r->shape.place);
	put_u32(out + RECORD_PIECE, r->shape.piece_bytes);
	put_u32(out + RECORD_MEMBER, r->member);
	put_u64(out + RECORD_ID, r->shape.id);
	put_u64(out + RECORD_GENERATION, r->generation);
	put_u32(out + RECORD_SETTLED, r->settled);
	put_u32(out + RECORD_EVENT_COUNT, r->event_count);
	for (uint32_t i = 0; i < r->event_count; i++) {
		unsigned event = r->events[i].member;
		put_u16(out + RECORD_EVENTS + (size_t)2 * i,
			(uint16_t)(r->events[i].replaced ? event | EVENT_REPLACED : event));
	}
	for (uint32_t m = 0; m < POOL_MEMBERS_MAX; m++)
		put_u16(out + RECORD_BEHIND + (size_t)2 * m, r->behind[m]);
	memcpy(out + RECORD_DUE, r->due, sizeof(r->due));
	put_u32(out + RECORD_CRC, crc32c(0, out, RECORD_CRC));
}

int pool_record_decode(const uint8_t *in, size_t len, struct pool_record *r)
{
	if (len != POOL_RECORD_BYTES || memcmp(in, record_magic, sizeof(record_magic)) != 0 ||
	    get_u32(in + RECORD_CRC) != crc32c(0, in, RECORD_CRC))
		return -EBADMSG;
	memset(r, 0, sizeof(*r));
	r->shape = (struct store_pool_shape){
		.id = get_u64(in + RECORD_ID),
		.k = get_u32(in + RECORD_K),
		.p = get_u32(in + RECORD_P),
		.members = get_u32(in + RECORD_MEMBERS),
		.place = (enum place_kind)get_u32(in + RECORD_PLACE),
		.piece_bytes = get_u32(in + RECORD_PIECE),
	};
	r->member = get_u32(in + RECORD_MEMBER);
	r->generation = get_u64(in + RECORD_GENERATION);
	r->settled = get_u32(in + RECORD_SETTLED);
	r->event_count = get_u32(in + RECORD_EVENT_COUNT);
	if (r->shape.members > POOL_MEMBERS_MAX || r->member >= r->shape.members ||
	    r->event_count > POOL_EVENTS_MAX || r->settled > r->event_count)
		return -EBADMSG;
	for (uint32_t i = 0; i < r->event_count; i++) {
		unsigned event = get_u16(in + RECORD_EVENTS + (size_t)2 * i);
		r->events[i].replaced = (event & EVENT_REPLACED) != 0;
		r->events[i].member = (uint16_t)(event & ~EVENT_REPLACED);
		if (r->events[i].member >= r->shape.members)
			return -EBADMSG;
	}
	for (uint32_t m = 0; m < POOL_MEMBERS_MAX; m++)
		r->behind[m] = get_u16(in + RECORD_BEHIND + (size_t)2 * m);
	memcpy(r->due, in + RECORD_DUE, sizeof(r->due));
	return 0;
}

/*
 * Renumbers the ranks of the members that are behind as 1, 2, 3, ... without gaps, so that they fit
 * in 16 bits. Returns the highest.
 */
static uint16_t behind_renumber(struct pool_record *r)
{
	uint16_t upto = 0;

	for (uint32_t last = 0;;) {
		uint32_t next = UINT32_MAX;
		for (uint32_t m = 0; m < POOL_MEMBERS_MAX; m++)
			if (r->behind[m] > last && r->behind[m] < next)
				next = r->behind[m];
		if (next == UINT32_MAX)
			return upto;
		upto++;
		for (uint32_t m = 0; m < POOL_MEMBERS_MAX; m++)
			if (r->behind[m] == next)
				r->behind[m] = upto;
		last = next;
	}
}

void pool_record_set_behind(struct pool_record *r, const uint16_t *members, uint32_t n)
{
	uint16_t last = behind_renumber(r);

	assert(last <= POOL_MEMBERS_MAX);
	for (uint32_t i = 0; i < n; i++)
		if (r->behind[members[i]] == 0)
			r->behind[members[i]] = (uint16_t)(last + 1);
}

void pool_record_set_behind_first(struct pool_record *r, uint32_t member)
{
	assert(member < r->shape.members);
	behind_renumber(r);
	for (uint32_t m = 0; m < POOL_MEMBERS_MAX; m++)
		r->behind[m] = (uint16_t)(r->behind[m] + (r->behind[m] != 0));
	r->behind[member] = 1;
}

bool pool_record_equal(const struct pool_record *a, const struct pool_record *b)
{
	for (uint32_t i = 0; i < a->event_count && i < b->event_count; i++)
		if (a->events[i].member != b->events[i].member ||
		    a->events[i].replaced != b->events[i].replaced)
			return false;
	return pool_shape_equal(&a->shape, &b->shape) && a->generation == b->generation &&
	       a->event_count == b->event_count && a->settled == b->settled &&
	       memcmp(a->behind, b->behind, sizeof(a->behind)) == 0 &&
	       memcmp(a->due, b->due, sizeof(a->due)) == 0;
}

bool pool_shape_equal(const struct store_pool_shape *a, const struct store_pool_shape *b)
{
	return a->id == b->id && a->k == b->k && a->p == b->p && a->members == b->members &&
	       a->place == b->place && a->piece_bytes == b->piece_bytes;
}

/* --- members ---------------------------------------------------------------------------------- */

int pool_place_init(struct place *place, const struct store_pool_shape *shape, char *why,
		    size_t why_size)
{
	struct place_size size = {
		.domains = shape->members,
		.units = 1,
		.width = shape->k + shape->p,
		.slots = PLACE_SLOTS,
		.domain_name = "members",
	};
	return place_init(place, shape->place, &size, why, why_size);
}

static bool contains(const uint16_t *members, uint32_t n, uint32_t member)
{
	for (uint32_t i = 0; i < n; i++)
		if (members[i] == member)
			return true;
	return false;
}

/* State of pool_map_chunk while it applies the events to the rows of one chunk. */
struct mapping {
	const struct place *place;
	uint64_t key; /* hash of the chunk id */
	uint32_t width;
	uint16_t home[POOL_ROWS_MAX];
	/* Nonzero for members that are given up after the events applied so far. */
	uint8_t given_up[POOL_MEMBERS_MAX];
};

/* Returns the member to which event number `event` moves a row of the member that it gives up. */
static uint16_t spare_for(const struct mapping *m, const struct pool_map *now, uint32_t event)
{
	struct perm perm;
	uint64_t key = hash64_u64s(m->key, event);

	if (m->place->ops == &place_clustered)
		return POOL_NOWHERE;
	perm_init(&perm, m->place->domains);
	for (uint32_t i = 0; i < m->place->domains; i++) {
		uint32_t member = perm_at(&perm, key, i);
		if (!m->given_up[member] && !contains(m->home, m->width, member) &&
		    !contains(now->member, m->width, member))
			return (uint16_t)member;
	}
	return POOL_NOWHERE;
}

static void apply_event(struct mapping *m, const struct pool_event *e, uint32_t number,
			bool settled, struct pool_map *now)
{
	assert(e->member < m->place->domains);
	m->given_up[e->member] = !e->replaced;
	for (uint32_t r = 0; r < m->width; r++) {
		if (e->replaced && m->home[r] == e->member) {
			now->member[r] = e->member;
			now->moved[r] = !settled;
		} else if (!e->replaced && now->member[r] == e->member) {
			now->member[r] = spare_for(m, now, number);
			now->moved[r] = !settled;
		}
	}
}

void pool_map_chunk(const struct place *place, const struct pool_record *r, struct chunk_id id,
		    struct pool_map *out)
{
	struct mapping m = {.place = place, .width = place->width};
	struct place_location location;

	m.key = hash64_u64s(id.block, id.index);
	memset(out->moved, 0, sizeof(out->moved));
	assert(m.width <= POOL_ROWS_MAX && place->domains == r->shape.members);
	for (uint32_t row = 0; row < m.width; row++) {
		place->ops->locate(place, r->shape.id, m.key % place->stripes, row, &location);
		m.home[row] = (uint16_t)location.domain;
		out->member[row] = (uint16_t)location.domain;
	}
	for (uint32_t i = 0; i < r->event_count; i++)
		apply_event(&m, &r->events[i], i, i < r->settled, out);
}
