// SPDX-License-Identifier: Apache-2.0
#include "analysis/compare.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/repair_cost.h"
#include "base/base.h"
#include "code/update.h"

#define NET_WIDTH_MAX 30
#define LOCAL_WIDTH_MAX 40
#define NET_PARITY_MAX 3
#define LOCAL_PARITY_MAX 4
#define FLAT_PARITY_MAX 12
#define LRC_GLOBAL_MAX 8
#define OVERLAP_STATES 16 /* number of splitting states for each loss that a stripe survives */
/* most rounds of splitting; after that the interval may be wider than asked for */
#define ROUNDS_MAX 4
/* Chains find at least about this part of the nines that splitting finds. */
#define CHAIN_NEAR 0.8

struct family {
	const char *name, *scheme;
};

static const struct family families[COMPARE_FAMILIES] = {
	[COMPARE_CC] = {"MLEC c/c", "c/c"},      [COMPARE_CD] = {"MLEC c/d", "c/d"},
	[COMPARE_CS] = {"MLEC c/s", "c/s"},      [COMPARE_DC] = {"MLEC d/c", "d/c"},
	[COMPARE_DD] = {"MLEC d/d", "d/d"},      [COMPARE_DS] = {"MLEC d/s", "d/s"},
	[COMPARE_LOCAL_C] = {"Loc-Cp-S", "-/c"}, [COMPARE_LOCAL_D] = {"Loc-Dp-S", "-/d"},
	[COMPARE_LOCAL_S] = {"Loc-So-S", "-/s"}, [COMPARE_NET_C] = {"Net-Cp-S", "c/-"},
	[COMPARE_NET_D] = {"Net-Dp-S", "d/-"},   [COMPARE_NET_S] = {"Net-So-S", "s/-"},
	[COMPARE_LRC] = {"LRC-Dp", "d/-"},
};

const char *compare_family_name(enum compare_family family)
{
	assert((unsigned)family < ARRAY_LEN(families));
	return families[family].name;
}

const char *compare_family_scheme(enum compare_family family)
{
	return families[family].scheme;
}

/* ---- which codes ---- */

struct search {
	const struct system_spec *base;
	const struct compare_options *o;
	struct compare *out;
	enum compare_family family;
	struct encoding best;
	/*
	 * difference between the overheads of the best code so far and the wanted one; infinite: no
	 * code found
	 */
	double distance;
};

static void consider(struct search *s, const struct encoding *e)
{
	double off = fabs(encoding_redundant_share(e) - s->o->overhead);
	if (off > s->o->tolerance || off >= s->distance)
		return;
	if (encoding_check(e, NULL, 0) != 0)
		return;
	s->best = *e;
	s->distance = off;
}

/* Adds the best code for the current parities to the points, and starts the search for the next. */
static void keep_best(struct search *s)
{
	if (!isinf(s->distance) && s->out->n < COMPARE_POINTS_MAX) {
		struct compare_point *p = &s->out->points[s->out->n++];
		*p = (struct compare_point){.family = s->family, .encoding = s->best};
		encoding_print(&p->encoding, p->code);
		p->overhead = encoding_redundant_share(&p->encoding);
	}
	s->distance = INFINITY;
}

static bool clustered_local(enum compare_family f)
{
	return families[f].scheme[2] == 'c';
}

static bool clustered_net(enum compare_family f)
{
	return families[f].scheme[0] == 'c';
}

static bool overlapping(enum compare_family f)
{
	return families[f].scheme[0] == 's' || families[f].scheme[2] == 's';
}

void compare_point_spec(const struct compare_point *p, const struct system_spec *base,
			struct system_spec *spec)
{
	*spec = *base;
	spec->encoding = p->encoding;
	snprintf(spec->scheme, sizeof(spec->scheme), "%s", families[p->family].scheme);
	if (clustered_local(p->family) || p->family >= COMPARE_NET_C)
		spec->pool_disks = 0; /* the option applies to declustered pools only */
}

static bool divides(int part, uint32_t whole)
{
	return part > 0 && whole % (uint32_t)part == 0;
}

/*
 * Searches codes of two levels whose widths divide the racks and disks. Declustered schemes do
 * not need such widths, but with them all schemes are compared with the same codes.
 */
static void search_mlec(struct search *s)
{
	const struct system_spec *b = s->base;
	for (int pn = 1; pn <= NET_PARITY_MAX; pn++)
		for (int pl = 1; pl <= LOCAL_PARITY_MAX; pl++) {
			for (int n = pn + 2; n <= NET_WIDTH_MAX && n <= (int)b->racks; n++)
				for (int l = pl + 2; l <= LOCAL_WIDTH_MAX && l <= (int)b->disks;
				     l++)
					if (divides(n, b->racks) && divides(l, b->disks))
						consider(s, &(struct encoding){
								    .kind = ENCODING_MLEC,
								    .mlec = {{n - pn, pn},
									     {l - pl, pl}}});
			keep_best(s);
		}
}

static void search_flat(struct search *s, bool net)
{
	uint32_t room = net ? s->base->racks : s->base->disks;
	bool narrow = net ? clustered_net(s->family) : clustered_local(s->family);
	for (int p = 1; p <= FLAT_PARITY_MAX; p++) {
		for (int n = p + 1; n <= (int)room && n <= ENCODING_STRIPE_MAX; n++)
			if (!narrow || divides(n, room))
				consider(s,
					 &(struct encoding){.kind = ENCODING_RS, .rs = {n - p, p}});
		keep_best(s);
	}
}

static void search_lrc(struct search *s)
{
	for (int groups = 2; groups <= 4; groups += 2)
		for (int r = 1; r <= LRC_GLOBAL_MAX; r++) {
			for (int k = groups; k + groups + r <= (int)s->base->racks; k += groups)
				consider(s, &(struct encoding){.kind = ENCODING_LRC,
							       .lrc = {k, groups, r}});
			keep_best(s);
		}
}

static void search_all(struct compare *c, const struct system_spec *base,
		       const struct compare_options *o)
{
	for (enum compare_family f = 0; f < COMPARE_FAMILIES; f++) {
		struct search s = {base, o, c, f, .distance = INFINITY};
		if ((o->families >> f & 1) == 0)
			continue;
		if (f <= COMPARE_DS)
			search_mlec(&s);
		else if (f == COMPARE_LRC)
			search_lrc(&s);
		else
			search_flat(&s, f >= COMPARE_NET_C);
	}
}

/* ---- their durability, throughput and traffic ---- */

struct judge {
	const struct system_spec *base;
	const struct compare_options *o;
	struct compare *c;
};

/* Sets what follows from the code and its disk repairs, without an estimate of nines. */
static void judge_shape(const struct system *sys, const struct repair_cost *m,
			struct compare_point *p)
{
	bool local = sys->layout.columns == 1;
	struct update_cost u =
		update_cost(&p->encoding, local ? UPDATE_ONE_RACK : UPDATE_RACK_EACH);
	p->repair_cross_per_year = m->disk.cross_bytes_per_day * SYSTEM_YEAR_S / 86400;
	p->update_io = u.disk_reads + u.disk_writes;
	p->update_cross = u.cross_rack;
	p->racks_survived = local ? 0
			    : p->encoding.kind == ENCODING_MLEC
				    ? (uint32_t)p->encoding.mlec.net.p
				    : (uint32_t)encoding_tolerance(&p->encoding);
}

/* Returns whether the chain of the code is so far from the nines that no closer look is needed. */
static int chain_falls_short(const struct judge *j, const struct compare_point *p,
			     const struct system *sys, bool *falls_short)
{
	struct nines_options o;
	struct nines_answer nines;
	char why[SYSTEM_WHY_MAX];
	*falls_short = false;
	AUTO_FREE struct system *near = malloc(sizeof(*near));
	if (near == NULL)
		return -ENOMEM;
	*near = *sys;
	if (overlapping(p->family)) {
		struct system_spec spec = sys->spec;
		for (char *c = spec.scheme; *c != '\0'; c++)
			*c = *c == 's' ? 'd' : *c;
		int rc = system_init(near, &spec, why, sizeof(why));
		if (rc != 0)
			return rc == -ENOMEM ? rc : 0;
	}
	near->at_best = true;
	nines_options_default(&o);
	o.by = NINES_MARKOV;
	o.as_paper = j->o->as_paper;
	int rc = nines_estimate(near, &o, &nines, why, sizeof(why));
	double part = j->o->by == NINES_MARKOV ? 1 : CHAIN_NEAR;
	*falls_short = rc == 0 && nines.nines.value < part * j->o->limits->nines;
	return rc == -ENOMEM ? rc : 0;
}

/* Sets *out when the code cannot keep to the limits, by what takes no time to compute. */
static int check_limits(const struct judge *j, const struct compare_point *p,
			const struct system *sys, bool *out)
{
	const struct compare_limits *l = j->o->limits;
	*out = l != NULL &&
	       (p->racks_survived < l->racks || p->repair_cross_per_year > l->cross_per_year);
	/* a chain need not be computed twice; only an LRC's odds take long */
	bool same = j->o->by == NINES_MARKOV && p->family != COMPARE_LRC;
	return l == NULL || *out || same ? 0 : chain_falls_short(j, p, sys, out);
}

/* Returns the most losses that a stripe of the disks' level may survive. */
static uint32_t lost_at_most(const struct encoding *e)
{
	return (uint32_t)(e->kind == ENCODING_MLEC ? e->mlec.local.p : encoding_tolerance(e)) + 1;
}

static int judge_task(void *arg, uint64_t task, struct rng *rng)
{
	struct judge *j = arg;
	struct compare_point *p = &j->c->points[task];
	struct system_spec spec;
	struct nines_options o;
	struct nines_answer nines;
	struct repair_cost cost;
	char why[SYSTEM_WHY_MAX];
	bool out = false;
	(void)rng;
	p->nines.value = NAN;
	if (j->o->by == NINES_MARKOV && overlapping(p->family))
		return 0; /* has no chain */
	AUTO_FREE struct system *sys = calloc(1, sizeof(*sys));
	if (sys == NULL)
		return -ENOMEM;
	compare_point_spec(p, j->base, &spec);
	int rc = system_init(sys, &spec, why, sizeof(why));
	if (rc != 0)
		return rc == -ENOMEM ? rc : 0;
	rc = repair_cost_find(sys, j->o->as_paper, &cost);
	if (rc == 0) {
		judge_shape(sys, &cost, p);
		rc = check_limits(j, p, sys, &out);
	}
	if (rc != 0 || out)
		return rc == -ENOMEM ? rc : 0;
	nines_options_default(&o);
	o.work = (struct work){.seed = j->o->work.seed, .threads = 1};
	o.by = j->o->by;
	o.precision = j->o->precision;
	o.as_paper = j->o->as_paper;
	o.rounds = ROUNDS_MAX;
	/*
	 * a state of a single-overlap code keeps a row for each stripe set, so it is large and slow
	 */
	if (overlapping(p->family))
		o.states = (uint32_t)min_u64(o.states,
					     (uint64_t)OVERLAP_STATES * lost_at_most(&p->encoding));
	rc = nines_estimate(sys, &o, &nines, why, sizeof(why));
	if (rc != 0)
		return rc == -ENOMEM || rc == -EAGAIN ? rc : 0;
	p->nines = nines.nines;
	if (cost.has_pool && nines.two_levels)
		p->repair_cross_per_year +=
			nines.pool.value * cost.pool[sys->policy.method].cross_bytes;
	return 0;
}

static void drop_unjudged(struct compare *c)
{
	size_t n = 0;
	for (size_t i = 0; i < c->n; i++)
		if (isfinite(c->points[i].nines.value))
			c->points[n++] = c->points[i];
	c->n = n;
}

static int measure(struct compare *c, const struct compare_options *o)
{
	for (size_t i = 0; i < c->n; i++) {
		struct compare_point *p = &c->points[i];
		size_t same = 0; /* several families may have the same code: measure it once */
		while (same < i && !encoding_equal(&c->points[same].encoding, &p->encoding))
			same++;
		p->encode = c->points[same].encode;
		int rc = same < i ? 0 : encode_measure(&p->encoding, o->encode, &p->encode);
		if (rc != 0)
			return rc;
		if (o->work.progress != NULL)
			o->work.progress->report(o->work.progress->arg, i + 1, c->n, -1);
	}
	return 0;
}

static void mark_fronts(struct compare *c)
{
	for (size_t i = 0; i < c->n; i++) {
		struct compare_point *p = &c->points[i];
		p->front = p->front_update = true;
		for (size_t j = 0; j < c->n; j++) {
			const struct compare_point *q = &c->points[j];
			bool nines = q->nines.value >= p->nines.value;
			bool more = q->nines.value > p->nines.value;
			double fast = q->encode.bytes_per_s - p->encode.bytes_per_s;
			int cheap = p->update_cross - q->update_cross;
			if (nines && fast >= 0 && (more || fast > 0))
				p->front = false;
			if (nines && cheap >= 0 && (more || cheap > 0))
				p->front_update = false;
		}
	}
}

int compare_run(struct compare *c, const struct system_spec *base, const struct compare_options *o,
		char *why, size_t why_size)
{
	*c = (struct compare){.points = calloc(COMPARE_POINTS_MAX, sizeof(struct compare_point))};
	if (c->points == NULL)
		return -ENOMEM;
	search_all(c, base, o);
	struct judge j = {base, o, c};
	int rc = work_run(&o->work, c->n, judge_task, &j);
	if (rc == 0)
		drop_unjudged(c);
	if (rc == 0 && c->n == 0)
		rc = system_refuse(
			why, why_size, -ENODATA,
			"--overhead %g: no code with an overhead within %g of this value fits "
			"--racks %u and --disks %u; change one of the three",
			o->overhead, o->tolerance, base->racks, base->disks);
	if (rc == 0 && o->encode != NULL)
		rc = measure(c, o);
	if (rc == 0)
		mark_fronts(c);
	else
		compare_fini(c);
	return rc;
}

void compare_fini(struct compare *c)
{
	free(c->points);
	*c = (struct compare){0};
}
