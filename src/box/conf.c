// SPDX-License-Identifier: Apache-2.0
/* The shape of a box: its defaults, its checks, and box.ini. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "box/box.h"
#include "box/conf.h"
#include "cluster/choose.h"
#include "cluster/cluster.h"
#include "code/place.h"
#include "rt/call.h"
#include "rt/real.h"

#define BOX_THREADS "1"
#define BOX_CACHE_MIN (16 * MIB)
#define BOX_CACHE_FLASH GIB /* default of each cache node */

const char *const box_speeds[] = {"none", "hdd", "sata", "nvme", NULL};

const char *const box_securities[] = {"off", "on", NULL};

const struct conf_key box_schema[] = {
	CONF_STRING("box", "cluster", struct box_shape, cluster, NULL, 32, 32, "the cluster's id"),
	CONF_INT("box", "racks", struct box_shape, racks, NULL, 1, BOX_NODES_MAX, "fault domains"),
	CONF_INT("box", "nodes", struct box_shape, nodes, NULL, 1, BOX_NODES_MAX,
		 "all nodes; they are dealt to the racks in turn"),
	CONF_INT("box", "disks", struct box_shape, disks, NULL, 1, BOX_DISKS_MAX,
		 "disks of each node"),
	CONF_INT("box", "flash", struct box_shape, flash, "0", 0, BOX_DISKS_MAX,
		 "of them flash: the last ones"),
	CONF_SIZE("box", "node_flash", struct box_shape, node_flash, "0", 0, CONF_MAX,
		  "bytes of flash of each node that cache hot chunks of its disks; 0: none"),
	CONF_INT("box", "cache_nodes", struct box_shape, cache_nodes, "0", 0, BOX_CACHE_NODES_MAX,
		 "nodes with a flash cache in front of all disks"),
	CONF_SIZE("box", "cache_flash", struct box_shape, cache_flash, "0", 0, CONF_MAX,
		  "bytes of flash of each cache node"),
	CONF_CHOICE("box", "emulate", struct box_shape, emulate, "none", box_speeds,
		    "the emulated speed of the disks"),
	CONF_CHOICE("box", "security", struct box_shape, security, "off", box_securities,
		    "on: servers and clients prove who they are; off: a box of an earlier version"),
	CONF_CHOICE("box", "tls", struct box_shape, tls, "off", box_securities,
		    "on: connections are encrypted; off: or a box of an earlier version"),
	CONF_STRING("box", "pools", struct box_shape, pools, "", 0, 10,
		    "the code of local pools, K+P; empty: none"),
	CONF_STRING("box", "scheme", struct box_shape, scheme, "", 0, 3,
		    "of pools: layout on the network and in the pool; empty: no pools"),
	CONF_STRING("box", "repair", struct box_shape, repair, "", 0, 5,
		    "of pools that lost more than their code tolerates: the janitor's method"),
	CONF_STRING("box", "encoding", struct box_shape, encoding, NULL, 1, 31,
		    "of files that name none"),
	CONF_STRING("box", "metadata", struct box_shape, metadata, "rocksdb", 1, 190,
		    "rocksdb, or rados:CONF"),
	CONF_STRING("box", "threads", struct box_shape, threads, BOX_THREADS, 1, 4,
		    "threads of the process of all roles, which share their work; auto: the "
		    "processors that it may use"),
	CONF_INT("box", "port", struct box_shape, port, NULL, 1, 65535,
		 "of the metadata server; the ports of nodes and metrics follow"),
};
const size_t box_schema_count = ARRAY_LEN(box_schema);

int box_path(const struct box *b, char out[BOX_PATH_MAX], const char *fmt, ...)
{
	size_t len = strlen(b->dir);
	va_list args;
	memcpy(out, b->dir, len);
	out[len++] = '/';
	va_start(args, fmt);
	assert(b->dir[0] == '/'); /* set by find_dir or box_claim */
	int n = vsnprintf(out + len, BOX_PATH_MAX - len, fmt, args);
	va_end(args);
	return n < 0 || len + (size_t)n >= BOX_PATH_MAX ? -ENAMETOOLONG : 0;
}

static int find_dir(struct box *b, const char *dir, struct strbuf *err)
{
	AUTO_FREE char *real = realpath(dir, NULL);
	if (real == NULL) {
		int rc = -errno;
		strbuf_printf(err, "%s: %s", dir,
			      rc == -ENOENT ? "the folder does not exist" : err_text(rc));
		return rc;
	}
	if (strlen(real) + 64 > BOX_PATH_MAX) {
		strbuf_printf(err, "%s: the path is too long", dir);
		return -ENAMETOOLONG;
	}
	memcpy(b->dir, real, strlen(real) + 1);
	return 0;
}

int box_load(struct box *b, const char *dir, struct strbuf *err)
{
	*b = (struct box){.claim = b->claim};
	char path[BOX_PATH_MAX];
	int rc = find_dir(b, dir, err);
	if (rc == 0)
		rc = box_path(b, path, "box.ini");
	if (rc < 0)
		return rc;
	rc = conf_load(path, box_schema, box_schema_count, &b->shape, err);
	if (rc == -ENOENT) {
		strbuf_clear(err);
		strbuf_printf(err, "%s: no cluster in this folder; \"terrane up --dir\" makes one",
			      dir);
		return rc;
	}
	if (rc == 0)
		rc = box_settle(&b->shape, err);
	if (rc < 0)
		box_free(b);
	return rc;
}

void box_free(struct box *b)
{
	conf_free(box_schema, box_schema_count, &b->shape);
}

/* --- defaults and checks --------------------------------------------------------------------------- */

static int refuse(struct strbuf *err, const char *fmt, ...) PRINTF(2, 3);

static int refuse(struct strbuf *err, const char *fmt, ...)
{
	va_list args;
	strbuf_clear(err);
	va_start(args, fmt);
	strbuf_vprintf(err, fmt, args);
	va_end(args);
	return -EINVAL;
}

/* Sets *out to the code of the box's pools. Returns false if the box has no pools. */
static bool box_local(const struct box_shape *s, struct rs_shape *out)
{
	char text[32];
	struct encoding e;
	if (s->pools == NULL || s->pools[0] == 0)
		return false;
	snprintf(text, sizeof(text), "rs:%s", s->pools);
	if (encoding_parse(text, &e, NULL, 0) < 0 || e.kind != ENCODING_RS)
		return false;
	*out = e.rs;
	return true;
}

/* Returns whether s is a placement scheme: a letter for the layout on the network, a slash, a letter for the layout in
 * a pool. */
static bool scheme_valid(const char *s)
{
	return strlen(s) == 3 && s[1] == '/' && strchr("cd", s[0]) != NULL &&
	       strchr("cds", s[2]) != NULL;
}

int64_t box_pool_count(const struct box_shape *s)
{
	struct rs_shape local;
	if (!box_local(s, &local))
		return 0;
	assert(scheme_valid(s->scheme)); /* check_pools set or checked it */
	return s->scheme[2] == 'c' ? s->disks / (local.k + local.p) : 1;
}

static int set_text(char **field, const char *text)
{
	char *copy = strdup(text);
	if (copy == NULL)
		return -ENOMEM;
	free(*field);
	*field = copy;
	return 0;
}

static bool given(const char *field)
{
	return field != NULL && field[0] != 0;
}

static bool repair_valid(const char *s)
{
	static const char *const methods[] = {"r_all", "r_fco", "r_hyb", "r_min"};
	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (strcmp(s, methods[i]) == 0)
			return true;
	return false;
}

static int check_pools(struct box_shape *s, struct strbuf *err)
{
	struct rs_shape local;
	char why[160];
	if (!box_local(s, &local) || local.p > 15)
		return refuse(err, "--pools %s: must be K+P, such as 4+1, with P up to 15",
			      s->pools);
	if (!given(s->scheme) && set_text(&s->scheme, "c/c") < 0)
		return -ENOMEM;
	if (!scheme_valid(s->scheme))
		return refuse(err, "--scheme %s: must be one of c/c c/d c/s d/c d/d d/s",
			      s->scheme);
	if (!given(s->repair) && set_text(&s->repair, "r_min") < 0)
		return -ENOMEM;
	if (!repair_valid(s->repair))
		return refuse(err, "--repair %s: must be one of r_all r_fco r_hyb r_min",
			      s->repair);
	int64_t width = local.k + local.p;
	if (s->disks == 0)
		s->disks = s->scheme[2] == 'c'   ? width
			   : s->scheme[2] == 'd' ? width + 2
						 : width * width;
	if (s->scheme[2] == 'c' && s->disks % width != 0)
		return refuse(
			err,
			"--disks %ld: must be a multiple of %ld for clustered pools of %s, which "
			"have %ld disks each",
			s->disks, width, s->pools, width);
	if (s->disks > BOX_DISKS_MAX)
		return refuse(err,
			      "--pools %s with --scheme %s needs %ld disks in each node, more than "
			      "%d; choose a smaller code or another scheme",
			      s->pools, s->scheme, s->disks, BOX_DISKS_MAX);
	enum place_kind kind = s->scheme[2] == 'c'   ? PLACE_CLUSTERED
			       : s->scheme[2] == 'd' ? PLACE_DECLUSTERED
						     : PLACE_OVERLAP;
	struct place place;
	struct place_size size = {.domains = (uint32_t)(kind == PLACE_CLUSTERED ? width : s->disks),
				  .units = 1,
				  .width = (uint32_t)width,
				  .slots = 1 << 20,
				  .domain_name = "disks of a node"};
	int rc = place_init(&place, kind, &size, why, sizeof(why));
	return rc == 0 || rc == -ENOMEM
		       ? rc
		       : refuse(err, "--scheme %s with --pools %s: %s", s->scheme, s->pools, why);
}

/* Returns how the chunks of a block spread over the racks or nodes of the box, against the losses it tolerates. */
static struct cluster_spread spread_of(const struct box_shape *s, int64_t domains,
				       const struct encoding *e)
{
	assert(domains >= 1 && domains <= BOX_NODES_MAX && s->disks >= 1);
	uint32_t disks[BOX_NODES_MAX] = {0};
	struct cluster_spread out = {.width = cluster_width(e),
				     .tolerance = cluster_tolerance(e),
				     .racks = (uint32_t)domains};
	int64_t each = box_pool_count(s) > 0 ? box_pool_count(s) : s->disks - s->flash;
	for (int64_t node = 0; node < s->nodes; node++)
		disks[node % domains] += (uint32_t)each;
	out.rack_most = cluster_rack_most(disks, (size_t)domains, out.width);
	return out;
}

static int choose_mlec(struct box_shape *s)
{
	static const char *const codes[] = {"4+2", "2+1", "1+1"};
	char text[64];
	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		struct encoding e;
		snprintf(text, sizeof(text), "mlec:%s/%s", codes[i], s->pools);
		if (encoding_parse(text, &e, NULL, 0) < 0)
			continue;
		struct cluster_spread have = spread_of(s, s->racks, &e);
		if (have.rack_most > 0 && cluster_spread_accepted(&have))
			break;
	}
	return set_text(&s->encoding, text);
}

static int choose_encoding(struct box_shape *s)
{
	char text[64];
	int64_t disks = s->nodes * (s->disks - s->flash);
	assert(s->racks >= 1 && s->nodes >= s->racks && disks >= 1);
	if (box_pool_count(s) > 0)
		return choose_mlec(s);
	if (s->racks >= 6)
		snprintf(text, sizeof(text), "rs:4+2");
	else
		snprintf(text, sizeof(text), "r%ld", disks < 3 ? disks : 3L);
	return set_text(&s->encoding, text);
}

static bool box_accepts(void *ctx, const struct encoding *e)
{
	const struct box_shape *s = ctx;
	struct cluster_spread have = spread_of(s, s->racks, e);
	return have.rack_most > 0 && cluster_spread_accepted(&have);
}

/* Appends what a box without pools can store, to a text that refuses its encoding. */
static int refuse_with_fitting(struct box_shape *s, struct strbuf *err)
{
	char fits[CLUSTER_FITTING_TEXT];
	cluster_fitting(fits, box_accepts, s);
	if (box_pool_count(s) == 0 && fits[0] != 0)
		strbuf_printf(err, ": %s fits", fits);
	return -EINVAL;
}

static int check_encoding(struct box_shape *s, struct strbuf *err)
{
	struct encoding e;
	struct rs_shape local;
	char why[ENCODING_WHY_MAX];
	if (encoding_parse(s->encoding, &e, why, sizeof(why)) < 0)
		return refuse(err, "--encoding %s: %s", s->encoding, why);
	bool pools = box_local(s, &local);
	if (pools != (e.kind == ENCODING_MLEC) ||
	    (pools && (local.k != e.mlec.local.k || local.p != e.mlec.local.p)))
		return refuse(err,
			      pools ? "--encoding %s: with --pools %s it must be mlec:K+P/%s"
				    : "--encoding %s needs local pools; add --pools",
			      s->encoding, s->pools, s->pools);
	int64_t have = pools ? s->nodes * box_pool_count(s) : s->nodes * (s->disks - s->flash);
	int64_t need = pools ? e.mlec.net.k + e.mlec.net.p : encoding_total_chunks(&e);
	if (need > have) {
		(void)refuse(err,
			     "--encoding %s: a block needs %ld %s, and there are %ld; add --nodes "
			     "or --disks, "
			     "or choose another encoding",
			     s->encoding, need, pools ? "pools" : "disks", have);
		return refuse_with_fitting(s, err);
	}
	return 0;
}

int box_spread(const struct box_shape *s, struct strbuf *err)
{
	struct encoding e;
	if (encoding_parse(s->encoding, &e, NULL, 0) < 0)
		return -EINVAL;
	struct cluster_spread racks = spread_of(s, s->racks, &e);
	if (cluster_spread_accepted(&racks))
		return 0;
	return refuse(
		err,
		"--encoding %s: it tolerates the loss of %u %s; %u in %u racks put %u into one; "
		"add --racks, or choose another encoding",
		s->encoding, racks.tolerance, e.kind == ENCODING_MLEC ? "columns" : "chunks",
		racks.width, racks.racks, racks.rack_most);
}

bool box_risk(const struct box_shape *s, char *out, size_t size)
{
	struct encoding e;
	if (s->racks > 1 || encoding_parse(s->encoding, &e, NULL, 0) < 0)
		return false;
	struct cluster_spread nodes = spread_of(s, s->nodes, &e);
	if (s->nodes == 1)
		snprintf(out, size, "one node has all chunks, and its loss destroys all files");
	else if (!cluster_spread_accepted(&nodes))
		snprintf(out, size,
			 "%s tolerates the loss of %u %s; one of %ld nodes has %u of %u, and its "
			 "loss "
			 "destroys files",
			 s->encoding, nodes.tolerance,
			 e.kind == ENCODING_MLEC ? "columns" : "chunks", s->nodes, nodes.rack_most,
			 nodes.width);
	else
		snprintf(out, size, "one rack has all chunks, and its loss destroys all files");
	return true;
}

int box_settle(struct box_shape *s, struct strbuf *err)
{
	if (s->racks == 0)
		s->racks = s->nodes == 0 || s->nodes > 6 ? 6 : s->nodes;
	if (s->nodes == 0)
		s->nodes = s->racks;
	if (s->nodes < s->racks)
		return refuse(
			err,
			"--nodes %ld: too few for %ld racks, which have at least one node each",
			s->nodes, s->racks);
	if (s->racks < 1 || s->nodes > BOX_NODES_MAX || s->disks < 0 || s->disks > BOX_DISKS_MAX)
		return refuse(err, "a box has 1 to %d nodes with 1 to %d disks each", BOX_NODES_MAX,
			      BOX_DISKS_MAX);
	if (given(s->scheme) && !given(s->pools))
		return refuse(err, "--scheme %s needs local pools; add --pools", s->scheme);
	if (given(s->repair) && !given(s->pools))
		return refuse(err, "--repair %s needs local pools; add --pools", s->repair);
	if (s->flash > 0 && given(s->pools))
		return refuse(err,
			      "--flash %ld: pools cannot be on flash; leave out --pools or --flash",
			      s->flash);
	int rc = given(s->pools) ? check_pools(s, err) : 0;
	if (rc < 0)
		return rc;
	if (s->disks == 0)
		s->disks = 2 + s->flash;
	if (s->flash < 0 || s->flash >= s->disks)
		return refuse(err, "--flash %ld: must be less than --disks %ld", s->flash,
			      s->disks);
	int64_t caches = box_pool_count(s) > 0 ? box_pool_count(s) : s->disks - s->flash;
	if (s->node_flash > 0 && s->node_flash < (uint64_t)caches * BOX_CACHE_MIN)
		return refuse(err, "--node-flash: each of the %ld caches of a node needs 16 MiB",
			      caches);
	if (s->cache_nodes > 0 && s->cache_flash == 0)
		s->cache_flash = BOX_CACHE_FLASH;
	if (s->cache_nodes == 0 && s->cache_flash > 0)
		return refuse(err, "--cache-flash needs --cache-nodes");
	if (s->cache_nodes > 0 && s->cache_flash < BOX_CACHE_MIN)
		return refuse(err, "--cache-flash: a cache node needs 16 MiB");
	if (!given(s->metadata) && set_text(&s->metadata, "rocksdb") < 0)
		return -ENOMEM;
	if (strcmp(s->metadata, "rocksdb") != 0 && strncmp(s->metadata, "rados:", 6) != 0)
		return refuse(err, "--metadata %s: must be rocksdb or rados:CONF", s->metadata);
	unsigned threads;
	if (!given(s->threads) && set_text(&s->threads, BOX_THREADS) < 0)
		return -ENOMEM;
	if (rt_real_threads(s->threads, &threads) < 0)
		return refuse(err, "--threads %s: must be a number from 1 to %d, or auto",
			      s->threads, RT_TEAM_MAX);
	if (!given(s->encoding) && choose_encoding(s) < 0)
		return -ENOMEM;
	rc = check_encoding(s, err);
	assert(rc < 0 || (s->nodes >= s->racks && s->disks >= 1 && s->disks <= BOX_DISKS_MAX));
	return rc;
}

bool box_role(const struct box *b, int64_t i, char out[BOX_NAME_MAX])
{
	int64_t behind = i - b->shape.nodes - 1; /* of the cache nodes, from 1 */
	assert(i >= 0 && i <= BOX_NODES_MAX + BOX_CACHE_NODES_MAX + 2);
	if (i == 0)
		snprintf(out, BOX_NAME_MAX, "meta");
	else if (i <= b->shape.nodes)
		snprintf(out, BOX_NAME_MAX, "node-%ld", i);
	else if (behind == 0)
		snprintf(out, BOX_NAME_MAX, "janitor");
	else
		snprintf(out, BOX_NAME_MAX, "cache-%ld", b->shape.nodes + behind);
	return behind <= b->shape.cache_nodes;
}

int64_t box_rack_of(const struct box_shape *s, int64_t node)
{
	assert(node >= 1 && node <= s->nodes);
	return (node - 1) % s->racks + 1;
}
