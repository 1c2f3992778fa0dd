// SPDX-License-Identifier: Apache-2.0
/*
 * Admission to flash (placement/admission.h): each server decides for the blocks that it is asked about, on its first
 * loop.
 *
 * What servers share. The room on flash comes from the cluster map, which all servers read. Trust follows from the stored
 * outcomes, which each server reads in order of their numbers, at its start all that are kept: so servers agree, and a
 * server that restarts knows what it knew. The level of the price is kept in a note, and every LEVEL_NS each server sets
 * its own level and the note to the mean of both. Promises and the spill are those of one server: with n servers each
 * sees a part of the new blocks, and flash may be promised n times in the seconds until nodes report it; the nodes'
 * reservations then refuse, and the block goes to disk.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/err.h"
#include "base/log.h"
#include "meta/map.h"
#include "meta/note.h"
#include "meta/placed.h"
#include "meta/service_impl.h"
#include "placement/admission.h"
#include "rt/rt.h"

#define READ_NS (2 * NS_PER_S)
#define LEVEL_NS (30 * NS_PER_S)
#define READ_MAX 512u /* outcomes read at a time, so that requests are not delayed */

struct service_place {
	struct admission admission;
	uint64_t next;     /* number of the next outcome to read */
	bool begun;        /* `next` and the level were read from the store */
	uint64_t read_ns;  /* time of the last look for outcomes */
	uint64_t level_ns; /* time of the last exchange of the level */
};

int ms_place_open(struct meta_service *s, const struct meta_serve_options *o)
{
	struct price_config price = price_default;
	s->place = calloc(1, sizeof(*s->place));
	int rc = s->place == NULL ? -ENOMEM : admission_init(&s->place->admission);
	if (o->price_goal_percent != 0)
		price.goal = o->price_goal_percent / 100.0;
	if (o->price_settle_ns != 0)
		price.settle_s = (double)o->price_settle_ns / NS_PER_S;
	return rc == 0 ? price_init(&s->place->admission.price, &price) : rc;
}

void ms_place_close(struct meta_service *s)
{
	if (s->place == NULL)
		return;
	admission_fini(&s->place->admission);
	free(s->place);
	s->place = NULL;
}

static double clock_s(void)
{
	return (double)rt_now_ns() / NS_PER_S;
}

/* --- what servers share ----------------------------------------------------------------------- */

static void take_room(struct meta_service *s)
{
	assert(s->map != NULL && s->place != NULL); /* the first part */
	const struct cluster *map = meta_map_cluster(s->map);
	double capacity = 0, used = 0;
	map_for_each(&map->disks, it) {
		const struct cluster_disk *d = it.value;
		if (d->media != CLUSTER_MEDIA_FLASH || cluster_disk_state(map, d) > CLUSTER_FULL)
			continue;
		double share = (double)d->weight / CLUSTER_WEIGHT_ONE;
		capacity += (double)d->capacity_bytes * share;
		used += fmin((double)d->used_bytes, (double)d->capacity_bytes * share);
	}
	admission_room(&s->place->admission, clock_s(), capacity, used);
	if (capacity > 0)
		s->all->placing = true;
}

/* Reads outcomes that were stored since the last look. */
static int read_outcomes(struct meta_service *s)
{
	struct service_place *p = s->place;
	uint64_t head;
	AUTO_FREE struct outcome *o = malloc(sizeof(*o));
	int rc = o == NULL ? -ENOMEM : meta_outcomes_head(s->meta, &head);
	if (rc != 0)
		return rc;
	if (head > OUTCOMES_MAX && p->next < head - OUTCOMES_MAX)
		p->next = head - OUTCOMES_MAX;
	for (unsigned i = 0; rc == 0 && p->next < head && i < READ_MAX; i++, p->next++) {
		rc = meta_outcome_get(s->meta, p->next, o);
		if (rc == 0)
			admission_ended(&p->admission, o);
		/* The server that stored it may have crashed in between. */
		rc = rc == -ENOENT || rc == -EBADMSG ? 0 : rc;
	}
	return rc;
}

/* Sets the level and its note to the mean of both. */
static int exchange_level(struct meta_service *s)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct service_place *p = s->place;
	struct meta_note note;
	bool end;
	char text[32], *rest = NULL;
	int64_t n = meta_note_list(s->meta, PLACEMENT_LEVEL, "", &a, &note, 1, &end);
	if (n < 0)
		return (int)n;
	if (n == 0)
		note = (struct meta_note){.name = PLACEMENT_LEVEL};
	double level = n > 0 ? strtod(note.text, &rest) : NAN;
	if (n > 0 && isfinite(level) && *rest == 0)
		price_set_level(&p->admission.price,
				p->begun ? (level + p->admission.price.level) / 2 : level);
	p->begun = true;
	snprintf(text, sizeof(text), "%.6f", p->admission.price.level);
	note.text = text;
	int rc = meta_note_put(s->meta, &note);
	return rc == -ESTALE ? 0 : rc; /* another server was first; next time */
}

void ms_place_tick(struct meta_service *s)
{
	struct service_place *p = s->place;
	uint64_t now_ns = rt_now_ns();
	take_room(s);
	int rc = 0;
	if (!s->all->placing)
		return;
	if (!p->begun || now_ns - p->level_ns >= LEVEL_NS) {
		p->level_ns = now_ns;
		rc = exchange_level(s);
	}
	if (rc == 0 && (p->read_ns == 0 || now_ns - p->read_ns >= READ_NS)) {
		p->read_ns = now_ns;
		rc = read_outcomes(s);
	}
	if (rc < 0 && rc != -ECANCELED)
		log_warn("placement_not_shared", "err=%s", err_name(rc));
}

/* --- requests --------------------------------------------------------------------------------- */

static uint32_t category_of_request(void)
{
	return rt_context()->tags.placement_category;
}

/* Notes a file that begins. */
static int begin_file(struct rpc_request *r, const struct meta_ctx *ctx)
{
	struct meta_service *s = r->service;
	const Terrane__Meta__PlaceRequest *q = rpc_body(r);
	rec_placed p = TERRANE__REC__PLACED__INIT;
	p.category = category_of_request();
	p.job = rt_context()->tags.job_id;
	p.features = q->features;
	s->all->placing = true;
	int rc = meta_placed_begin(s->meta, ctx, q->file, &p);
	return rc == -EINVAL ? rpc_fail(r, rc,
					"the category or the features of the file are "
					"invalid")
			     : rc;
}

int ms_handle_place(struct rpc_request *r)
{
	const Terrane__Meta__PlaceRequest *q = rpc_body(r);
	Terrane__Meta__PlaceResponse *p = rpc_reply_body(r);
	struct meta_service *s = r->service;
	struct meta_ctx ctx = {0};
	int rc = q->file != 0 ? ms_begin(r, &ctx, SERVICE_FILE, q->file, 1) : ms_enter(r, &ctx);
	if (rc < 0)
		return ms_end(r, rc);
	assert(s->place != NULL);
	if (q->file != 0)
		return ms_end(r, begin_file(r, &ctx));
	if (q->bytes == 0 || q->bytes > META_FILE_MAX ||
	    category_of_request() > META_CATEGORIES_MAX)
		return rpc_fail(r, -EINVAL, "the size or the category of the block is invalid");
	struct admission_block b = {
		.tenant = ctx.tenant, .category = category_of_request(), .bytes = (double)q->bytes};
	if (bug_planted(BUG_CATEGORY_UNREAD))
		b.category = META_CATEGORIES_MAX;
	if (q->refused)
		admission_refused(&s->place->admission, clock_s(), &b);
	else
		p->flash = admission_place(&s->place->admission, clock_s(), &b);
	return 0;
}

int ms_handle_file_used(struct rpc_request *r)
{
	const Terrane__Meta__FileUsedRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	int rc = ms_begin(r, &ctx, SERVICE_FILE, q->file, 1);
	if (rc == 0)
		rc = meta_placed_used(ms_meta(r), &ctx, q->file,
				      &(struct meta_placed_use){q->report, q->reads, q->bytes});
	return ms_end(r, rc);
}

void ms_place_removed(struct rpc_request *r, const struct meta_ctx *ctx, uint64_t file)
{
	const struct meta_service *s = r->service;
	if (file == 0 || !s->all->placing)
		return;
	/* After an error the collector stores the outcome, with a later end. */
	int rc = meta_placed_removed(s->meta, ctx, file);
	if (rc < 0 && rc != -ECANCELED)
		log_warn("outcome_not_stored", "file=%016lx err=%s", file, err_name(rc));
}

static int set_classes(struct rpc_request *r, const struct trust *t)
{
	Terrane__Meta__PlacementResponse *p = rpc_reply_body(r);
	size_t n = 0;
	for (uint32_t i = 0; i < TRUST_CELLS; i++)
		n += t->cells[i].used;
	Terrane__Meta__PlacementClass *all = rpc_alloc(r, (n + 1) * sizeof(*all));
	p->classes = rpc_alloc(r, (n + 1) * sizeof(p->classes[0]));
	if (all == NULL || p->classes == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < TRUST_CELLS; i++) {
		const struct trust_cell *c = &t->cells[i];
		if (!c->used)
			continue;
		Terrane__Meta__PlacementClass *m = &all[p->n_classes];
		terrane__meta__placement_class__init(m);
		m->tenant = c->tenant;
		m->category = c->category == TRUST_UNKNOWN ? 0 : c->category + 1;
		m->jobs = c->jobs;
		m->worth = c->gained / c->held;
		m->counts = m->category == 0 ? 0 : trust_category(t, c->tenant, c->category);
		m->life_max_s = trust_life_max_s(c);
		p->classes[p->n_classes++] = m;
	}
	return 0;
}

int ms_handle_placement(struct rpc_request *r)
{
	Terrane__Meta__PlacementResponse *p = rpc_reply_body(r);
	struct meta_service *s = r->service;
	int rc = ms_system(r);
	if (rc < 0)
		return rc;
	const struct admission *a = &s->place->admission;
	p->level = a->price.level;
	p->goal = a->price.config.goal;
	p->span = a->price.config.span;
	p->capacity = a->capacity;
	p->used = a->used;
	p->promised = admission_promised(a, clock_s());
	p->spill = threshold_spill(&a->spill, clock_s());
	p->placed = a->placed;
	p->admitted = a->admitted;
	p->spilled = a->spilled;
	p->outcomes = s->place->next;
	p->now_s = rt_wall_ns() / NS_PER_S;
	return set_classes(r, &a->trust);
}
