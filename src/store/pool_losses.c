// SPDX-License-Identifier: Apache-2.0
/*
 * Lists of lost rows, for a repair that gets bytes from other nodes: the stripes that the pool's own code cannot
 * rebuild (store_pool_losses), or all stripes with failed rows (store_pool_failures). A call looks up a page of chunks,
 * all chunks of the page at the same time.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rt/rt.h"
#include "store/pool_impl.h"

#define PAGE_IDS 256

static void loss_fill(struct store_pool_loss *l, const struct pool_view *v,
		      const struct pool_damage *d, uint64_t stripe)
{
	assert(stripe < d->stripes && d->width == v->geo.k + v->geo.p);
	*l = (struct store_pool_loss){
		.id = v->id,
		.chunk_len = v->geo.len,
		.first_stripe = stripe,
		.stripes = 1,
		.k = v->geo.k,
		.piece_bytes = (uint32_t)v->geo.piece,
	};
	for (uint32_t r = 0; r < d->width; r++) {
		if (d->bad[stripe * d->width + r] == 0)
			continue;
		l->lost[r / 32] |= UINT32_C(1) << (r % 32);
		l->lost_rows++;
	}
	l->need = l->lost_rows > v->geo.p ? l->lost_rows - v->geo.p : 0;
}

/*
 * Lists the stripes of a chunk that lost more than `tolerated` rows, as runs of stripes with the
 * same lost rows. When `out` is full, its last run is extended to the end of the losses and lists
 * every row that is lost in any of its stripes.
 */
static size_t chunk_losses(const struct pool_view *v, const struct pool_damage *d,
			   uint32_t tolerated, struct store_pool_loss *out)
{
	size_t n = 0;

	for (uint64_t s = 0; s < d->stripes; s++) {
		struct store_pool_loss l;
		loss_fill(&l, v, d, s);
		if (l.lost_rows <= tolerated)
			continue;
		struct store_pool_loss *last = n > 0 ? &out[n - 1] : NULL;
		bool joins = last != NULL && last->first_stripe + last->stripes == s &&
			     memcmp(last->lost, l.lost, sizeof(l.lost)) == 0;
		if (joins) {
			last->stripes++;
		} else if (n < POOL_CHUNK_LOSSES_MAX) {
			out[n++] = l;
		} else {
			last->stripes = s - last->first_stripe + 1;
			last->lost_rows = 0;
			for (uint32_t r = 0; r < d->width; r++) {
				last->lost[r / 32] |= l.lost[r / 32] & UINT32_C(1) << (r % 32);
				last->lost_rows += last->lost[r / 32] >> (r % 32) & 1U;
			}
			last->need = last->lost_rows > v->geo.p ? last->lost_rows - v->geo.p : 0;
		}
	}
	return n;
}

/*
 * Lists the losses of one chunk. Reads no row of a chunk that has all rows, and scans rows for
 * damage only if damage can change which rows are lost.
 */
static int64_t losses_of(struct pool *p, struct chunk_id id, bool all, struct store_pool_loss *out)
{
	struct pool_view v;
	struct pool_damage d = {0};
	int rc = pool_lookup(p, id, &v);
	int64_t n = 0;

	if (rc == -ENOENT || (rc == 0 && v.form == POOL_COPIES))
		return 0;
	if (rc == -ENODATA && v.form == POOL_COPIES) {
		out[0] = (struct store_pool_loss){.id = id, .open = true};
		return 1;
	}
	if (rc != 0 && rc != -ENODATA)
		return rc;
	if (rc == 0 && v.present == pool_width(p))
		return 0;
	/*
	 * Do not scan if more than p rows are missing, because store_pool_patch will find further
	 * damage, or if a rebuild is due, because the rebuild will find damage and note it. In both
	 * cases a scan here would read the rows twice.
	 */
	bool decided = all || v.present + p->record.shape.p < pool_width(p) ||
		       (p->record.settled < p->record.event_count && !pool_may_be_damaged(p, id));
	rc = decided ? pool_damage_from_view(p, &v, &d) : pool_damage_scan(p, &v, &d);
	if (rc == 0 && (all ? d.any : d.lost))
		n = (int64_t)chunk_losses(&v, &d, all ? 0 : p->record.shape.p, out);
	pool_damage_free(&d);
	return rc != 0 ? rc : n;
}

/*
 * The search for the losses of one chunk; it runs side by side for all chunks of a page of the
 * list.
 */
struct loss_look {
	struct pool *pool;
	struct chunk_id id;
	bool all;
	struct store_pool_loss *out;
	int64_t found;
};

static void loss_look(void *arg)
{
	struct loss_look *l = arg;
	l->found = losses_of(l->pool, l->id, l->all, l->out);
}

static int64_t losses_page(struct pool *p, struct store_cursor *at, bool all,
			   struct loss_look *looks, size_t n, struct store_pool_loss *out)
{
	struct rt_group g;
	int64_t count = 0;

	rt_group_init(&g);
	for (size_t i = 0; i < n; i++) {
		looks[i].pool = p;
		looks[i].all = all;
		looks[i].out = out + i * POOL_CHUNK_LOSSES_MAX;
		if (rt_group_spawn(&g, "losses", loss_look, &looks[i]) != 0)
			loss_look(&looks[i]);
	}
	rt_group_join(&g);
	for (size_t i = 0; i < n; i++) {
		int64_t found = looks[i].found;
		if (found == -ECANCELED || found == -ETIME || found == -ENOMEM)
			return found;
		/* The losses of this chunk are unknown, so the list must not end as complete. */
		if (found < 0)
			pool_page_set_incomplete(p, at);
		for (int64_t k = 0; k < found; k++)
			out[count++] = looks[i].out[k];
	}
	return count;
}

static int64_t losses_list(struct store *s, struct store_cursor *at, bool all,
			   struct store_pool_loss *out, size_t max)
{
	struct pool *p = pool_of(s);
	size_t chunks = max / POOL_CHUNK_LOSSES_MAX;
	int64_t count = 0;

	if (max < POOL_CHUNK_LOSSES_MAX)
		return -EINVAL;
	if (p->admin_state == STORE_FAILED)
		return -EIO;
	if (chunks > PAGE_IDS)
		chunks = PAGE_IDS;
	AUTO_FREE struct chunk_id *ids = calloc(chunks, sizeof(*ids));
	AUTO_FREE struct loss_look *looks = calloc(chunks, sizeof(*looks));
	if (ids == NULL || looks == NULL)
		return -ENOMEM;
	while (count == 0) {
		int64_t n = pool_page(p, at, ids, chunks, NULL);
		if (n <= 0)
			return n;
		for (int64_t i = 0; i < n; i++)
			looks[i].id = ids[i];
		count = losses_page(p, at, all, looks, (size_t)n, out);
	}
	return count;
}

int64_t store_pool_losses(struct store *s, struct store_cursor *at, struct store_pool_loss *out,
			  size_t max)
{
	return losses_list(s, at, false, out, max);
}

int64_t store_pool_failures(struct store *s, struct store_cursor *at, struct store_pool_loss *out,
			    size_t max)
{
	return losses_list(s, at, true, out, max);
}

struct store_range store_pool_piece(const struct store_pool_loss *loss, uint64_t stripe,
				    uint32_t row)
{
	struct pool_geo g;

	pool_geo_init(&g, loss->k, 0, loss->piece_bytes, loss->chunk_len);
	if (stripe >= g.stripes || row >= g.k)
		return (struct store_range){0};
	return pool_geo_bytes(&g, stripe, row);
}
