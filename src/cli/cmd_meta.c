// SPDX-License-Identifier: Apache-2.0
/* terrane meta: a metadata server as a process. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/meta_conf.h"
#include "kv/mem.h"
#include "kv/rados.h"
#include "kv/rocksdb.h"
#include "meta/service.h"
#include "ops/http.h"
#include "rt/real.h"
#include "rt/rt.h"

static const char usage_text[] =
	"usage: terrane meta [format] --config FILE [--json]\n"
	"\n"
	"Serves the metadata of a cluster until it is asked to stop (SIGTERM, SIGINT). With the\n"
	"engine rados any number of servers serve the same cluster.\n"
	"\n"
	"  format         make a cluster in the store that FILE names, print its id, and end;\n"
	"                 where there is one already its id is printed\n"
	"  --config FILE  its settings: terrane config show meta prints them all, with their "
	"meaning\n"
	"  --json         print as JSON\n"
	"\n"
	"Ends with 0 when it was asked to stop, 1 when it could not serve, 2 when asked wrongly.\n";

struct serve {
	const struct meta_conf *conf;
	struct cluster_id id; /* to make */
	struct kv *kv;
	struct kv_mem *mem;
	struct meta_service *service;
	struct ops_http *http;
	bool json;
	bool only_format;
	/* Where it ended, for the message: */
	enum { STAGE_STORE, STAGE_FORMAT, STAGE_SERVE, STAGE_METRICS } stage;
	int rc;
};

/* --- the store --------------------------------------------------------------------------------- */

static const char *or_null(const char *text)
{
	return text[0] != 0 ? text : NULL;
}

static int open_store(struct serve *s)
{
	const struct meta_conf *c = s->conf;
	switch ((enum meta_engine)c->engine) {
	case META_ENGINE_ROCKSDB:
		return kv_rocksdb_open(
			&s->kv, &(struct kv_rocksdb_options){.dir = c->dir,
							     .cache_bytes = c->cache_bytes,
							     .memtable_bytes = c->memtable_bytes,
							     .salvage = c->salvage});
	case META_ENGINE_RADOS:
		return kv_rados_open(&s->kv,
				     &(struct kv_rados_options){.conf = or_null(c->ceph_conf),
								.user = or_null(c->ceph_user),
								.pool = c->pool,
								.space = c->space});
	default:
		s->mem = kv_mem_new(&(struct kv_mem_options){.seed = rt_random_u64()});
		return s->mem == NULL ? -ENOMEM : kv_mem_open(&s->kv, s->mem);
	}
}

static void close_store(struct serve *s)
{
	if (s->kv != NULL)
		kv_close(s->kv);
	if (s->mem != NULL)
		kv_mem_free(s->mem);
}

/* --- the operator's endpoint ------------------------------------------------------------------- */

static int serve_metrics(void *ctx, struct strbuf *out)
{
	struct serve *s = ctx;
	return meta_service_metrics(s->service, out);
}

static int serve_health(void *ctx, struct strbuf *out)
{
	struct serve *s = ctx;
	int rc = meta_service_health(s->service);
	int said = strbuf_printf(out, "%s\n", rc == 0 ? "serving" : err_text(rc));
	return said < 0 ? said : rc;
}

/* --- serving ----------------------------------------------------------------------------------- */

static void print_id(const struct cluster_id *id)
{
	printf("%016" PRIx64 "%016" PRIx64, id->high, id->low);
}

static int serve_ready(void *ctx, const char *addr, struct meta_service *service)
{
	struct serve *s = ctx;
	s->service = service;
	if (s->conf->metrics[0] != 0) {
		int rc = ops_http_open(&s->http, s->conf->metrics,
				       &(struct ops_http_options){.metrics = serve_metrics,
								  .health = serve_health,
								  .ctx = s});
		if (rc < 0) {
			s->stage = STAGE_METRICS;
			return rc;
		}
	}
	const char *metrics = s->http != NULL ? ops_http_addr(s->http) : "";
	if (s->json)
		printf("{\"listening\": \"%s\", \"metrics\": \"%s\"}\n", addr, metrics);
	else
		printf("listening on %s%s%s\n", addr, metrics[0] != 0 ? ", metrics on " : "",
		       metrics);
	fflush(stdout);
	log_info("meta_ready", "addr=%s", addr);
	return 0;
}

static void serve_ended(void *ctx)
{
	struct serve *s = ctx;
	log_info("meta_stopping");
	ops_http_close(s->http);
	s->http = NULL;
}

static struct meta_options layer_options(const struct meta_conf *c)
{
	struct meta_options o;
	meta_options_init(&o);
	o.partition_bits = (unsigned)c->partition_bits;
	o.spread_entries = (uint64_t)c->spread;
	if (c->spread == 0 && c->engine == META_ENGINE_RADOS)
		o.spread_entries = 20000;
	o.cache_bytes = c->sealed_cache_bytes;
	o.cache_ttl_ns = c->sealed_ttl_ns;
	return o;
}

static int serve_store(struct serve *s)
{
	const struct meta_conf *c = s->conf;
	struct meta_serve_options o = {
		.listen = c->listen,
		.meta = layer_options(c),
		.map = {.beat_ns = c->beat_ns,
			.suspect_ns = c->suspect_ns,
			.failed_ns = c->failed_ns},
		.partition_rate = (uint64_t)c->partition_rate,
		.partition_burst = (uint64_t)c->partition_burst,
		.pool_bytes = c->pool_bytes,
		.connections_max = (size_t)c->connections,
		.grace_ns = c->grace_ns,
		.ready = serve_ready,
		.ended = serve_ended,
		.ctx = s,
	};
	s->stage = STAGE_SERVE;
	return meta_serve(s->kv, &o);
}

static int format_store(struct serve *s)
{
	struct meta_options o = layer_options(s->conf);
	s->stage = STAGE_FORMAT;
	int rc = meta_format(s->kv, &o, &s->id, (enum place_kind)s->conf->network_place,
			     s->conf->tenant);
	if (rc < 0 || !s->only_format)
		return rc;
	printf(s->json ? "{\"cluster\": \"" : "cluster ");
	print_id(&s->id);
	printf(s->json ? "\"}\n" : "\n");
	return 0;
}

static void serve_main(void *arg)
{
	struct serve *s = arg;
	s->stage = STAGE_STORE;
	s->rc = open_store(s);
	if (s->rc == 0 && (s->only_format || s->conf->format || s->conf->engine == META_ENGINE_MEM))
		s->rc = format_store(s);
	if (s->rc == 0 && !s->only_format)
		s->rc = serve_store(s);
	close_store(s);
}

/* --- what went wrong ---------------------------------------------------------------------------- */

static int store_failed(const struct meta_conf *c, int rc)
{
	const char *what = c->engine == META_ENGINE_RADOS ? c->pool : c->dir;
	switch (rc) {
	case -EBUSY:
		return cli_fail("cannot open %s: another process serves it", what);
	case -EBADMSG:
		return cli_fail("cannot open %s: it is damaged, or not ours; the log above says "
				"where",
				what);
	case -ENOENT:
		return cli_fail("cannot open %s: %s does not exist; make it first", what,
				c->engine == META_ENGINE_RADOS ? "the pool" : "its parent");
	case -ETIMEDOUT:
		return cli_fail("cannot open %s: no monitor of the Ceph cluster answers", what);
	default:
		return cli_fail("cannot open %s: %s", what, err_text(rc));
	}
}

static int failed(const struct serve *s)
{
	const struct meta_conf *c = s->conf;
	switch (s->stage) {
	case STAGE_STORE:
		return store_failed(c, s->rc);
	case STAGE_FORMAT:
		return cli_fail("cannot make a cluster: %s", err_text(s->rc));
	case STAGE_METRICS:
		return cli_fail("cannot serve metrics on %s: %s", c->metrics, err_text(s->rc));
	default:
		break;
	}
	if (s->rc == -ENOENT)
		return cli_fail("there is no cluster in the store; make one with terrane meta "
				"format, or format in [cluster]");
	if (s->rc == -EIO)
		return cli_fail("the disk failed; start it again when the disk is well");
	return cli_fail("cannot serve on %s: %s", c->listen, err_text(s->rc));
}

/* --- the command -------------------------------------------------------------------------------- */

static int parse_id(const char *text, struct cluster_id *id)
{
	if (text[0] == 0)
		return 0;
	if (strlen(text) != 32 || strspn(text, "0123456789abcdefABCDEF") != 32)
		return -EINVAL;
	char high[17] = {0};
	memcpy(high, text, 16);
	id->high = strtoull(high, NULL, 16);
	id->low = strtoull(text + 16, NULL, 16);
	return 0;
}

static int run_with(struct serve *s)
{
	const struct meta_conf *c = s->conf;
	if (parse_id(c->cluster, &s->id) < 0)
		return cli_fail("id in [cluster] must be 32 hexadecimal digits");
	if (c->engine == META_ENGINE_ROCKSDB && c->dir[0] == 0)
		return cli_fail("the engine rocksdb needs dir in [store]");
	rt_real_log((enum log_level)c->log_level);
	int rc = rt_real_run(&(struct rt_real_options){.signals = true}, serve_main, s);
	if (rc < 0)
		return cli_fail("cannot start: %s", err_text(rc));
	return s->rc < 0 ? failed(s) : CLI_OK;
}

static int run(const char *config, bool json, bool only_format)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	struct meta_conf c = {0};
	int rc = conf_load(config, meta_conf_schema, meta_conf_count, &c, &err);
	if (rc < 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	struct serve s = {.conf = &c, .json = json, .only_format = only_format};
	int status = run_with(&s);
	conf_free(meta_conf_schema, meta_conf_count, &c);
	return status;
}

int cmd_meta(int argc, char **argv)
{
	static const struct option options[] = {
		{"config", required_argument, NULL, 'c'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	const char *config = NULL;
	bool json = false;
	int c;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'c') {
			config = optarg;
		} else if (c == 'j') {
			json = true;
		} else if (c == 'h') {
			fputs(usage_text, stdout);
			return CLI_OK;
		} else {
			return CLI_USAGE;
		}
	}
	bool only_format = argc - optind == 1 && strcmp(argv[optind], "format") == 0;
	if (argc - optind > (only_format ? 1 : 0))
		return cli_usage("meta: \"%s\" is not understood", argv[optind]);
	if (config == NULL)
		return cli_usage("meta needs --config FILE");
	return run(config, json, only_format);
}
