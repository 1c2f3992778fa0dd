// SPDX-License-Identifier: Apache-2.0
/*
 * The collector's search of a directory for a name that leads to an object.
 *
 * A directory with very many names takes longer to read than a request may take. The search then stops; the server
 * remembers where (struct gc_searches), the step of the collector ends before the object's row, and the next step
 * continues the search. A search that a restart or another server interrupts begins again.
 *
 * An object that loses its name in a slice gets a tombstone there, so a search in parts finds an object that is renamed
 * meanwhile, as one in one piece does, as long as tombstones stay: a search that is not over in the epoch after the one in
 * which it began proves nothing, and begins again.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "meta/gc_impl.h"
#include "rt/rt.h"

#define SEARCHES_MAX \
	32 /* searches that a server remembers; the objects of others are kept until there is room */

struct gc_searches {
	struct remembered {
		uint64_t id; /* of the object; 0: the entry is unused */
		uint64_t dir;
		uint32_t tenant;
		uint64_t epoch; /* in which the search began */
		bool pending;
		struct gc_place at;
	} list[SEARCHES_MAX];
};

/* --- one search ------------------------------------------------------------------------------- */

static bool row_mentions(const rec_entry *e, uint64_t id)
{
	return e->id == id || (e->replaced != NULL && e->replaced->id == id);
}

/*
 * Searches the names of a slice, then its tombstones. An object that loses its name in a slice gets a tombstone
 * there. So a search finds every object that was in the directory when the search began: by its name, in a
 * transfer, or by its tombstone, even if the object is renamed many times during the search.
 */
static int search_slice(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice, bool below,
			void *ctx)
{
	(void)below;
	struct gc_search *s = ctx;
	uint64_t partition = part_name(m, tenant, dir, slice);
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	int rc;
	struct schema_key prefix = key_slice(KEY_ENTRY, tenant, dir, slice);
	struct schema_key after = {0};
	AUTO_KV_ROWS struct kv_rows rows = {0};
	if (s->skips && slice != s->at.slice)
		return 0; /* an earlier part of the search has read this slice */
	if (s->skips)
		after = s->at.after;
	s->skips = false;
	do {
		if (s->until_ns != 0 && rt_now_ns() >= s->until_ns) {
			s->at.slice = slice;
			s->at.after = after;
			s->stopped = true;
			return META_STOP;
		}
		struct kv_range range = {.prefix = key_bytes(&prefix), .after = key_bytes(&after)};
		rc = kv_scan(m->kv, partition, &range, &rows);
		for (size_t i = 0; i < rows.count && rc == 0; i++) {
			arena_reset(&a, MIB);
			rec_entry *e;
			rc = rec_read_entry(&a, rows.row[i].value, &e);
			if (rc != 0)
				return rc;
			/* The outcome of the transfer decides whether the object has this name. */
			s->pending = s->pending || (e->transfer != 0 && row_mentions(e, s->id));
			after = gc_key(rows.row[i].key);
			if (e->id != s->id || e->transfer != 0)
				continue;
			assert(rows.row[i].key.len >= prefix.len);
			s->name_len = rows.row[i].key.len - prefix.len;
			if (s->name_len > sizeof(s->name))
				return -EBADMSG;
			s->found = true;
			memcpy(s->name, (const char *)rows.row[i].key.data + prefix.len,
			       s->name_len);
			return META_STOP;
		}
	} while (rc == 0 && rows.more);
	if (rc != 0)
		return rc;
	struct schema_key gone = key_slice_id(KEY_TOMBSTONE, tenant, dir, slice, s->id);
	struct reads r;
	arena_reset(&a, MIB);
	rc = meta_read(m, partition, &gone, 1, &a, &r);
	s->pending = s->pending || (rc == 0 && r.value[0].data != NULL);
	return rc;
}

static int search(struct meta *m, uint32_t tenant, uint64_t dir, struct gc_search *s)
{
	int rc = slices_walk(m, tenant, dir, false, search_slice, s);
	return rc == META_STOP ? 0 : rc;
}

int gc_search(struct meta *m, uint32_t tenant, uint64_t dir, struct gc_search *s)
{
	assert(s->id != 0 && s->until_ns == 0 && !s->skips);
	s->found = s->pending = false;
	return search(m, tenant, dir, s);
}

/* --- searches in parts ------------------------------------------------------------------------ */

/* Returns the entry of a search that began in this epoch or the one before, else an unused one, else NULL. */
static struct remembered *remembered_find(struct gc *g, uint32_t tenant, uint64_t dir, uint64_t id)
{
	struct remembered *unused = NULL;
	if (g->m->searches == NULL)
		g->m->searches = calloc(1, sizeof(*g->m->searches));
	for (size_t i = 0; g->m->searches != NULL && i < SEARCHES_MAX; i++) {
		struct remembered *r = &g->m->searches->list[i];
		if (r->id != 0 && g->now > r->epoch + 1)
			r->id = 0;
		if (r->id == id && r->dir == dir && r->tenant == tenant)
			return r;
		unused = r->id == 0 ? r : unused;
	}
	return unused;
}

void gc_searches_free(struct meta *m)
{
	free(m->searches);
	m->searches = NULL;
}

int gc_search_part(struct gc *g, uint32_t tenant, uint64_t dir, struct gc_search *s)
{
	assert(s->id != 0 && g->now != 0);
	struct remembered *r = remembered_find(g, tenant, dir, s->id);
	s->skips = r != NULL && r->id == s->id;
	s->pending = s->skips && r->pending;
	/* Another fiber may use the entry during the search. */
	uint64_t epoch = s->skips ? r->epoch : g->now;
	if (s->skips)
		s->at = r->at;
	s->until_ns = rt_now_ns() + GC_SEARCH_NS;
	int rc = search(g->m, tenant, dir, s);
	if (rc == 0 && s->stopped && r != NULL) {
		*r = (struct remembered){.id = s->id,
					 .dir = dir,
					 .tenant = tenant,
					 .epoch = epoch,
					 .pending = s->pending,
					 .at = s->at};
		return META_STOP;
	}
	if (r != NULL)
		r->id = 0;
	/* The slice where the search stopped is gone: the next search begins anew. */
	s->pending = s->pending || s->stopped || s->skips;
	if (s->stopped)
		log_warn("gc_search_given_up", "tenant=%u dir=%016lx", tenant, dir);
	return rc;
}
