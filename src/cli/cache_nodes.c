// SPDX-License-Identifier: Apache-2.0
#include "cli/cache_nodes.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/fs.h"
#include "rt/net.h"
#include "shift/shift_client.h"

#define ASK_NS (5 * NS_PER_S)
#define BUCKETS_SHOWN 100u
#define WHY_MAX 200

struct asked {
	struct admin_where where;
	bool json;
	const char *verb;
	const char *node, *name; /* of set; node "all": each */
	double value;
};

/* --- why ------------------------------------------------------------------------------------------ */

/* Says in words why data of a bucket is, or is not, admitted. */
static void say_why(const Terrane__Shift__StatusResponse *p, const Terrane__Shift__BucketStatus *b,
		    char out[WHY_MAX])
{
	const char *policy = p->policy;
	if (p->suspended)
		snprintf(out, WHY_MAX,
			 "not admitted: the flash device failed; it is tried again in a minute");
	else if (!p->judged && strcmp(policy, "terrane") == 0 && b->readers > 0)
		snprintf(out, WHY_MAX,
			 "admitted by the need of each segment: %u jobs have yet to read it",
			 b->readers);
	else if (!p->judged && strcmp(policy, "terrane") == 0)
		snprintf(
			out, WHY_MAX,
			"admitted while it is worth more than what it displaces: no registered job "
			"needs it, so recency decides");
	else if (!p->judged)
		snprintf(out, WHY_MAX, "policy %s judges segments, not buckets", policy);
	else if (!b->judged)
		snprintf(out, WHY_MAX, "not judged yet: nothing was read since the start");
	else if (b->share >= 1)
		snprintf(out, WHY_MAX,
			 "admitted: priority %.2f is above the threshold %.2f and the write limit "
			 "has room",
			 b->priority, p->min_threshold);
	else if (b->share > 0)
		snprintf(out, WHY_MAX,
			 "%.0f%% of its blocks are admitted: the write limit of %.0f MB/s ends at "
			 "its priority %.2f",
			 100 * b->share, (double)p->write_limit_bytes_s / 1e6, b->priority);
	else if (b->priority <= p->min_threshold)
		snprintf(out, WHY_MAX,
			 "not admitted: priority %.2f is not above the minimum threshold %.2f; its "
			 "bytes are read too rarely",
			 b->priority, p->min_threshold);
	else
		snprintf(
			out, WHY_MAX,
			"not admitted: buckets with a priority from %.2f on use up the write limit "
			"of %.0f MB/s; this one has %.2f",
			p->threshold, (double)p->write_limit_bytes_s / 1e6, b->priority);
}

/* Says in words what a job counts for. */
static void say_job(const Terrane__Shift__JobStatus *j, char out[WHY_MAX])
{
	if (!j->registered)
		snprintf(out, WHY_MAX,
			 "not registered, or its lease has ended: what it reads counts as history "
			 "alone");
	else if (!j->trusted)
		snprintf(out, WHY_MAX,
			 "ignored: it does not read what its spec says; correct the spec (terrane "
			 "job)");
	else if (j->overdue)
		snprintf(out, WHY_MAX,
			 "does not count at present: it %s for a minute, and counts when it reads",
			 j->reading ? "has read nothing" : "should have begun");
	else if (!j->reading)
		snprintf(out, WHY_MAX,
			 "registered with %u director%s; its future reads count for terrane, and "
			 "for future and hybrid once it reads",
			 j->parts, j->parts == 1 ? "y" : "ies");
	else
		snprintf(out, WHY_MAX,
			 "%.0f%% of the epoch read, directory %u of %u, %u epoch%s after this one; "
			 "%s",
			 100 * j->done, j->part + 1, j->parts, j->epochs_left,
			 j->epochs_left == 1 ? "" : "s",
			 !j->placed   ? "its directory cannot be mapped: it counts as a whole"
			 : j->ordered ? "the order is known: a scan"
				      : "the order is not known: what it read is remembered");
}

/* --- output --------------------------------------------------------------------------------------- */

static json_t *tally_json(const Terrane__Shift__Tally *t)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "requested_bytes", (json_int_t)t->requested,
			 "hit_bytes", (json_int_t)t->hit, "fetched_bytes", (json_int_t)t->fetched,
			 "refused_bytes", (json_int_t)t->refused);
}

static json_t *buckets_json(const Terrane__Shift__StatusResponse *p)
{
	json_t *all = json_array();
	for (size_t i = 0; i < p->n_buckets; i++) {
		const Terrane__Shift__BucketStatus *b = p->buckets[i];
		char why[WHY_MAX];
		if (b->tally == NULL)
			continue;
		say_why(p, b, why);
		json_t *one = tally_json(b->tally);
		json_object_set_new(one, "bucket", json_sprintf("%016" PRIx64, b->id));
		json_object_set_new(one, "readers", json_integer(b->readers));
		json_object_set_new(one, "why", json_string(why));
		if (b->judged) {
			json_object_set_new(one, "priority", json_real(b->priority));
			json_object_set_new(one, "admitted_share", json_real(b->share));
			json_object_set_new(one, "missed_bytes_s", json_real(b->missed_bytes_s));
		}
		json_array_append_new(all, one);
	}
	return all;
}

static void add_job_json(json_t *one, const Terrane__Shift__JobStatus *j)
{
	char why[WHY_MAX];
	say_job(j, why);
	json_object_set_new(one, "job", json_integer((json_int_t)j->id));
	json_object_set_new(one, "tenant", json_integer(j->tenant));
	json_object_set_new(one, "registered", json_boolean(j->registered));
	json_object_set_new(one, "why", json_string(why));
	if (!j->registered)
		return;
	json_object_set_new(one, "trusted", json_boolean(j->trusted));
	json_object_set_new(one, "reading", json_boolean(j->reading));
	json_object_set_new(one, "overdue", json_boolean(j->overdue));
	json_object_set_new(one, "done_share", json_real(j->done));
	json_object_set_new(one, "epochs_left", json_integer(j->epochs_left));
	json_object_set_new(one, "placed", json_boolean(j->placed));
	json_object_set_new(one, "ordered", json_boolean(j->ordered));
}

static json_t *jobs_json(const Terrane__Shift__StatusResponse *p)
{
	json_t *all = json_array();
	for (size_t i = 0; i < p->n_jobs; i++) {
		if (p->jobs[i]->tally == NULL)
			continue;
		json_t *one = tally_json(p->jobs[i]->tally);
		add_job_json(one, p->jobs[i]);
		json_array_append_new(all, one);
	}
	return all;
}

static json_t *content_json(const Terrane__Shift__ContentStatus *c)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "gets", (json_int_t)c->gets, "hits",
			 (json_int_t)c->hits, "filed", (json_int_t)c->filed, "read_bytes",
			 (json_int_t)c->read_bytes, "false_claims", (json_int_t)c->false_claims,
			 "claims", (json_int_t)c->claims);
}

static json_t *node_json(const struct cluster_node *n, const Terrane__Shift__StatusResponse *p)
{
	json_t *one = json_pack(
		"{s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
		"s:I, s:b}",
		"node", (json_int_t)n->id, "name", n->name, "policy", p->policy, "weight",
		(json_int_t)n->cache_weight, "gets", (json_int_t)p->gets, "hits",
		(json_int_t)p->hits, "dram_bytes", (json_int_t)p->dram_bytes, "flash_bytes",
		(json_int_t)p->flash_bytes, "fetched_bytes", (json_int_t)p->fetched_bytes,
		"written_bytes", (json_int_t)p->written_bytes, "segments", (json_int_t)p->segments,
		"segments_max", (json_int_t)p->segments_max, "segment_bytes",
		(json_int_t)p->segment_bytes, "restored", (json_int_t)p->restored, "rotten",
		(json_int_t)p->rotten, "shadowed", (json_int_t)p->shadowed, "shadow_wrong",
		(json_int_t)p->shadow_wrong, "suspended", (int)p->suspended);
	json_object_set_new(one, "refused_tokens", json_integer((json_int_t)p->refused_tokens));
	json_object_set_new(one, "reinserted", json_integer((json_int_t)p->reinserted));
	json_object_set_new(one, "registered_jobs", json_integer((json_int_t)p->registered));
	if (p->judged) {
		json_object_set_new(one, "threshold", json_real(p->threshold));
		json_object_set_new(one, "min_threshold", json_real(p->min_threshold));
		json_object_set_new(one, "reinsert_offset", json_real(p->reinsert_offset));
		json_object_set_new(one, "write_limit_bytes_s",
				    json_integer((json_int_t)p->write_limit_bytes_s));
	}
	if (p->content != NULL)
		json_object_set_new(one, "content", content_json(p->content));
	json_object_set_new(one, "buckets", buckets_json(p));
	json_object_set_new(one, "jobs", jobs_json(p));
	return one;
}

static void print_tally(const char *what, const char *id, const Terrane__Shift__Tally *t)
{
	char requested[FS_SIZE_TEXT], refused[FS_SIZE_TEXT];
	double all = t->requested > 0 ? (double)t->requested : 1;
	printf("  %s %-16s  %s requested: %.0f%% hits, %.0f%% fetched; %s left to the disks\n",
	       what, id, fs_size(requested, (double)t->requested), 100 * (double)t->hit / all,
	       100 * (double)t->fetched / all, fs_size(refused, (double)t->refused));
}

static void print_node(const struct cluster_node *n, const Terrane__Shift__StatusResponse *p)
{
	char flash[FS_SIZE_TEXT], dram[FS_SIZE_TEXT], fetched[FS_SIZE_TEXT], written[FS_SIZE_TEXT];
	char held[FS_SIZE_TEXT], room[FS_SIZE_TEXT], id[24], why[WHY_MAX];
	printf("%s, node %" PRIu64 ", policy %s: %s of %s in use\n", n->name, n->id, p->policy,
	       fs_size(held, (double)p->segments * (double)p->segment_bytes),
	       fs_size(room, (double)p->segments_max * (double)p->segment_bytes));
	printf("  served %s from flash and %s from DRAM, fetched %s, wrote %s to the flash\n",
	       fs_size(flash, (double)p->flash_bytes), fs_size(dram, (double)p->dram_bytes),
	       fs_size(fetched, (double)p->fetched_bytes),
	       fs_size(written, (double)p->written_bytes));
	if (p->rotten > 0 || p->shadowed > 0)
		printf("  %" PRIu64 " segments were rotten; %" PRIu64
		       " hits compared with the disks, %" PRIu64 " differed\n",
		       p->rotten, p->shadowed, p->shadow_wrong);
	if (p->content != NULL && p->content->gets > 0)
		printf("  by content: %" PRIu64 " gets, %" PRIu64 " served from %" PRIu64
		       " entries that were filed; %" PRIu64 " false claims\n",
		       p->content->gets, p->content->hits, p->content->filed,
		       p->content->false_claims);
	for (size_t i = 0; i < p->n_buckets; i++) {
		if (p->buckets[i]->tally == NULL)
			continue;
		snprintf(id, sizeof(id), "%016" PRIx64, p->buckets[i]->id);
		print_tally("bucket", id, p->buckets[i]->tally);
		say_why(p, p->buckets[i], why);
		printf("      %s\n", why);
	}
	for (size_t i = 0; i < p->n_jobs; i++) {
		if (p->jobs[i]->tally == NULL)
			continue;
		snprintf(id, sizeof(id), "%" PRIu64, p->jobs[i]->id);
		print_tally("job   ", p->jobs[i]->id != 0 ? id : "(no tag)", p->jobs[i]->tally);
		if (p->jobs[i]->id != 0) {
			say_job(p->jobs[i], why);
			printf("      %s\n", why);
		}
	}
}

/* --- nodes ----------------------------------------------------------------------------------------- */

static int open_channel(struct admin *a, const struct cluster_node *n, struct rpc_channel **out)
{
	struct rpc_channel_options o = admin_channel(a);
	o.server = n->id;
	return rpc_channel_open(out, n->addr, &o);
}

/* Asks a node; prints it, or adds it to the list. */
static int show_node(struct admin *a, const struct cluster_node *n, json_t *list)
{
	struct rpc_channel *ch;
	AUTO_REPLY struct rpc_reply reply;
	rpc_reply_init(&reply);
	int rc = open_channel(a, n, &ch);
	if (rc == 0) {
		rc = shift_status(ch, BUCKETS_SHOWN, ASK_NS, &reply);
		rpc_channel_close(ch);
	}
	if (rc < 0 && list != NULL)
		json_array_append_new(list, json_pack("{s:I, s:s, s:s}", "node", (json_int_t)n->id,
						      "name", n->name, "error", err_text(rc)));
	else if (rc < 0)
		printf("%s, node %" PRIu64 " at %s does not answer: %s\n", n->name, n->id, n->addr,
		       reply.error[0] != 0 ? reply.error : err_text(rc));
	else if (list != NULL)
		json_array_append_new(list, node_json(n, reply.message));
	else
		print_node(n, reply.message);
	return rc;
}

static int set_node(struct admin *a, const struct cluster_node *n)
{
	const struct asked *q = a->ctx;
	struct rpc_channel *ch;
	AUTO_REPLY struct rpc_reply reply;
	rpc_reply_init(&reply);
	int rc = open_channel(a, n, &ch);
	if (rc == 0) {
		rc = shift_tune(ch, q->name, q->value, ASK_NS, &reply);
		rpc_channel_close(ch);
	}
	if (rc < 0)
		cli_fail("cannot set %s of %s: %s", q->name, n->name,
			 reply.error[0] != 0 ? reply.error : err_text(rc));
	return rc;
}

static bool is_meant(const struct asked *q, const struct cluster_node *n)
{
	char id[24];
	snprintf(id, sizeof(id), "%" PRIu64, n->id);
	return n->cache_weight > 0 && cluster_node_state(n) != CLUSTER_GONE &&
	       (q->node == NULL || strcmp(q->node, "all") == 0 || strcmp(q->node, id) == 0 ||
		strcmp(q->node, n->name) == 0);
}

static int body(struct admin *a)
{
	const struct asked *q = a->ctx;
	const struct cluster *map = admin_map(a);
	size_t count = 0, found = 0, failed = 0;
	AUTO_FREE const struct cluster_node **nodes = map != NULL ? admin_nodes(map, &count) : NULL;
	if (nodes == NULL)
		return CLI_FAILED;
	AUTO_JSON json_t *list = q->json ? json_array() : NULL;
	for (size_t i = 0; i < count; i++) {
		if (!is_meant(q, nodes[i]))
			continue;
		found++;
		failed += (q->name != NULL ? set_node(a, nodes[i]) : show_node(a, nodes[i], list)) <
			  0;
	}
	if (q->name != NULL && found == 0)
		return cli_fail("the cluster has no cache node %s", q->node);
	if (list != NULL && json_emit(stdout, list) < 0)
		return cli_fail("cannot write the output");
	if (list == NULL && found == 0)
		printf("the cluster has no cache nodes; \"terrane cache --config FILE\" serves "
		       "one\n");
	return failed > 0 ? CLI_FAILED : CLI_OK;
}

/* --- the command ------------------------------------------------------------------------------- */

/* Reads a value: a number, or what buckets are by name, in the order of enum cachenode_buckets. */
static bool take_value(const char *name, const char *text, double *out)
{
	static const char *const buckets[] = {"directory", "job",    "category",
					      "file",      "window", "range"};
	char *end = NULL;
	for (size_t i = 0; strcmp(name, "buckets") == 0 && i < ARRAY_LEN(buckets); i++)
		if (strcmp(text, buckets[i]) == 0) {
			*out = (double)i;
			return true;
		}
	*out = strtod(text, &end);
	return end != text && *end == '\0' && *out >= 0;
}

static int take_words(struct asked *q, int n, char **words)
{
	q->verb = words[0];
	if (strcmp(q->verb, "status") == 0)
		return n == 1 ? CLI_GO_ON
			      : cli_usage("cache status: unexpected argument \"%s\"", words[1]);
	if (n != 4 || q->json)
		return cli_usage("cache set needs NODE NAME VALUE");
	q->node = words[1];
	q->name = words[2];
	if (!take_value(q->name, words[3], &q->value))
		return cli_usage("cache set: %s must be a number, 0 or more", words[3]);
	return CLI_GO_ON;
}

int caches_of_cluster(int argc, char **argv, const char *usage)
{
	static const struct option options[] = {{"cluster", required_argument, NULL, 'c'},
						{"dir", required_argument, NULL, 'd'},
						{"json", no_argument, NULL, 'j'},
						{"help", no_argument, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	struct asked q = {0};
	int c;
	while ((c = getopt_long(argc, argv, "hc:", options, NULL)) != -1) {
		if (c == '?')
			return CLI_USAGE;
		if (c == 'h') {
			fputs(usage, stdout);
			return CLI_OK;
		}
		if (c == 'c')
			q.where.file = optarg;
		else if (c == 'd')
			q.where.dir = optarg;
		else
			q.json = true;
	}
	int status = take_words(&q, argc - optind, argv + optind);
	return status == CLI_GO_ON ? admin_run(&q.where, body, &q) : status;
}
