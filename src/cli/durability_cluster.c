// SPDX-License-Identifier: Apache-2.0
/*
 * --cluster: takes the studied system from a running cluster.
 *
 * The shape (racks, nodes of a rack, drives of a node, their size) is that of the cluster map, as means, because a study
 * has racks of one kind. The codes are the one of the cluster file and those of the policies. Failures are counted over the
 * disk-years that the map remembers, from the formatting of each drive: disks that are failed, or were and are gone.
 * RATE_FAILURES or more of them replace the assumed rate; fewer say little. The speed of repair is that of the rebuilt disks
 * which the janitors report.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "cli/admin.h"
#include "cli/durability.h"
#include "cli/policy_told.h"
#include "cli/repair_told.h"
#include "cluster/cluster.h"

#define RATE_FAILURES 3 /* failures from which a rate is taken */
#define NOTES_PAGE META_NOTES_MAX

struct asked {
	struct durability *d;
	uint64_t now_ns;
};

/* --- the shape -------------------------------------------------------------------------------- */

struct shape {
	size_t racks, nodes, disks, pools;
	double bytes;
	struct rs_shape local; /* of the pools, if the cluster has pools */
};

static bool counts(const struct cluster_disk *d)
{
	return d->media == CLUSTER_MEDIA_DISK && d->wanted != CLUSTER_GONE;
}

/* Adds the disks of one node. Returns whether it has any that count. */
static bool add_node(struct shape *s, const struct cluster_node *n,
		     const struct cluster_disk *const *disks, size_t disks_n)
{
	bool any = false;
	for (size_t i = 0; i < disks_n; i++) {
		const struct cluster_disk *d = disks[i];
		if (d->node != n->id || !counts(d))
			continue;
		size_t drives = d->pool ? (size_t)d->local.k + d->local.p : 1;
		/* A pool tells the bytes that it can hold, without its parity. */
		double share = d->pool ? 1.0 / d->local.k : 1.0;
		any = true;
		s->disks += drives;
		s->pools += d->pool;
		s->bytes += (double)d->capacity_bytes * share * (double)drives;
		if (d->pool)
			s->local = d->local;
	}
	s->nodes += any;
	return any;
}

static int shape_of(const struct cluster *map, struct shape *s)
{
	size_t nodes_n = 0, disks_n = 0;
	AUTO_FREE const struct cluster_node **nodes = admin_nodes(map, &nodes_n);
	AUTO_FREE const struct cluster_disk **disks = admin_disks(map, &disks_n);
	if (nodes == NULL || disks == NULL)
		return -ENOMEM;
	AUTO_FREE bool *racks = calloc(nodes_n + 1, sizeof(*racks));
	if (racks == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < nodes_n; i++) {
		if (nodes[i]->cache_weight != 0 || nodes[i]->wanted == CLUSTER_GONE ||
		    !add_node(s, nodes[i], disks, disks_n))
			continue;
		/* Ids of racks are from 1 without gaps, so there are at most as many as nodes. */
		if (nodes[i]->rack <= nodes_n && !racks[nodes[i]->rack]) {
			racks[nodes[i]->rack] = true;
			s->racks++;
		}
	}
	return s->disks > 0 && s->racks > 0 ? 0 : -ENODATA;
}

/* --- what was observed ------------------------------------------------------------------------ */

static int observe_failures(struct durability_cluster *c, const struct cluster *map,
			    uint64_t now_ns)
{
	size_t n = 0;
	AUTO_FREE const struct cluster_disk **disks = admin_disks(map, &n);
	if (disks == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct cluster_disk *d = disks[i];
		double drives = d->pool ? d->local.k + d->local.p : 1;
		if (d->created_ns != 0 && d->created_ns < now_ns)
			c->disk_years +=
				drives * (double)(now_ns - d->created_ns) / 1e9 / SYSTEM_YEAR_S;
		c->failures += d->health == CLUSTER_FAILED;
	}
	return 0;
}

static double number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

static void observe_repairs(struct durability_cluster *c, const json_t *told)
{
	double bytes = 0, seconds = 0;
	size_t i;
	const json_t *r;
	json_array_foreach(told, i, r)
	{
		const char *method = json_string_value(json_object_get(r, "method"));
		if (method == NULL || strcmp(method, "disk") != 0 ||
		    number(r, "written_bytes") <= 0)
			continue;
		c->repairs++;
		bytes += number(r, "written_bytes");
		seconds += number(r, "seconds");
	}
	c->repair_rate = seconds > 0 ? bytes / seconds : 0;
}

/* --- codes ------------------------------------------------------------------------------------ */

static void add_code(struct durability_cluster *c, const char *text)
{
	struct encoding e;
	char why[ENCODING_WHY_MAX], one[ENCODING_TEXT_MAX], other[ENCODING_TEXT_MAX];
	if (text == NULL || c->codes_n == DURABILITY_CODES_MAX ||
	    encoding_parse(text, &e, why, sizeof(why)) != 0)
		return;
	encoding_print(&e, one);
	for (size_t i = 0; i < c->codes_n; i++) {
		encoding_print(&c->codes[i], other);
		if (strcmp(one, other) == 0)
			return;
	}
	c->codes[c->codes_n++] = e;
}

static int add_policies(struct durability_cluster *c, struct admin *a)
{
	struct meta_call m = {.client = a->client};
	AUTO_FREE struct meta_note *notes = calloc(NOTES_PAGE, sizeof(*notes));
	AUTO_JSON json_t *told = json_array();
	char after[META_NOTE_NAME_MAX + 1] = "";
	bool end = false;
	int64_t n = notes == NULL || told == NULL ? -ENOMEM : 0;
	while (n >= 0 && !end) {
		struct arena arena;
		arena_init(&arena, 2 * MIB);
		n = meta_client_note_list(&m, "policy/", after, &arena, notes, NOTES_PAGE, &end);
		for (int64_t i = 0; i < n; i++) {
			policy_told_add(told, &notes[i]);
			memcpy(after, notes[i].name, sizeof(after));
		}
		arena_fini(&arena);
	}
	size_t i;
	const json_t *p;
	json_array_foreach(told, i, p)
	{
		add_code(c, json_string_value(json_object_get(p, "encoding")));
	}
	return n < 0 ? (int)n : 0;
}

/* --- the system ------------------------------------------------------------------------------- */

static uint32_t mean(size_t all, size_t parts)
{
	return (uint32_t)((all + parts / 2) / parts);
}

static void set_spec(struct durability *d, const struct shape *s, uint64_t block_bytes)
{
	struct durability_cluster *c = &d->cluster;
	struct system_spec *spec = &d->spec;
	spec->racks = (uint32_t)s->racks;
	spec->enclosures = mean(s->nodes, s->racks);
	spec->disks = mean(s->disks, s->nodes);
	spec->disk_bytes = (uint64_t)(s->bytes / (double)s->disks);
	c->irregular = s->nodes != (size_t)spec->racks * spec->enclosures ||
		       s->disks != s->nodes * spec->disks;
	if (c->codes_n > 0)
		spec->encoding = c->codes[0];
	int k = encoding_data_chunks(&spec->encoding);
	if (k > 0 && block_bytes / (uint64_t)k > 0)
		spec->chunk_bytes = block_bytes / (uint64_t)k;
	c->afr_observed = c->failures >= RATE_FAILURES && c->disk_years > 0;
	if (c->afr_observed)
		spec->afr = fmin(1, (double)c->failures / c->disk_years);
}

static int ask_cluster(struct admin *a)
{
	struct asked *q = a->ctx;
	struct durability *d = q->d;
	struct shape shape = {0};
	struct cluster *map = admin_map(a);
	if (map == NULL)
		return CLI_FAILED;
	AUTO_JSON json_t *told = repair_told(a);
	int rc = shape_of(map, &shape);
	if (rc == 0)
		rc = observe_failures(&d->cluster, map, q->now_ns);
	if (rc == -ENODATA)
		return cli_fail("durability %s: the cluster has no disks", d->name);
	add_code(&d->cluster, a->file.encoding);
	if (rc == 0)
		rc = add_policies(&d->cluster, a);
	if (rc < 0)
		return durability_fail(d, rc, "cannot read the cluster");
	observe_repairs(&d->cluster, told);
	set_spec(d, &shape, a->file.block_bytes);
	return CLI_OK;
}

int durability_cluster_read(struct durability *d, const char *file)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	struct asked q = {.d = d, .now_ns = (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec};
	d->cluster.file = file;
	int status = admin_run(&(struct admin_where){.file = file}, ask_cluster, &q);
	return status == CLI_OK ? DURABILITY_GO : status;
}

void durability_cluster_speed(const struct durability *d, struct system_spec *spec)
{
	struct repair_speed speed = {0};
	char why[SYSTEM_WHY_MAX];
	AUTO_FREE struct system *sys = calloc(1, sizeof(*sys));
	if (d->cluster.repair_rate <= 0 || sys == NULL ||
	    system_init(sys, spec, why, sizeof(why)) != 0 ||
	    repair_speed_disk(&sys->layout, &sys->policy, &sys->bandwidth, &speed) != 0 ||
	    speed.bytes_per_s <= 0)
		return;
	/* All bandwidths of the model in the same proportion, so that it rebuilds a disk as fast as the cluster did. */
	double factor = d->cluster.repair_rate / speed.bytes_per_s;
	spec->disk_rate *= factor;
	spec->rack_rate *= factor;
}

void durability_cluster_print(const struct durability *d, FILE *out)
{
	const struct durability_cluster *c = &d->cluster;
	const struct system_spec *s = &d->spec;
	if (c->file == NULL)
		return;
	fprintf(out, "the cluster of %s: %u racks of %u node%s of %u drive%s of %.3g TB%s\n",
		c->file, s->racks, s->enclosures, s->enclosures == 1 ? "" : "s", s->disks,
		s->disks == 1 ? "" : "s", (double)s->disk_bytes / 1e12,
		c->irregular ? ", as means: its racks differ" : "");
	fprintf(out, "failures: %lu in %.3g disk-years, ", c->failures, c->disk_years);
	if (c->afr_observed)
		fprintf(out, "%.3g a year for each disk\n", s->afr);
	else
		fprintf(out, "too few for a rate; %.3g a year for each disk is assumed (--afr)\n",
			s->afr);
	if (c->repair_rate > 0)
		fprintf(out, "repairs: %lu of disks, at %.3g MB/s\n\n", c->repairs,
			c->repair_rate / 1e6);
	else
		fprintf(out,
			"repairs: none of a disk was reported; %g MB/s of each disk and %g of "
			"that for repairs are assumed\n\n",
			s->disk_rate / 1e6, s->repair_share);
}

json_t *durability_cluster_json(const struct durability *d)
{
	const struct durability_cluster *c = &d->cluster;
	return json_pack("{s:s, s:I, s:f, s:b, s:f, s:I, s:f, s:b}", "file", c->file, "failures",
			 (json_int_t)c->failures, "disk_years", c->disk_years, "afr_observed",
			 (int)c->afr_observed, "afr", d->spec.afr, "repairs",
			 (json_int_t)c->repairs, "repair_bytes_per_s", c->repair_rate, "irregular",
			 (int)c->irregular);
}
