// SPDX-License-Identifier: Apache-2.0
/* terrane node: a storage node as a process. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/node_beat.h"
#include "cli/node_conf.h"
#include "node/service.h"
#include "ops/http.h"
#include "rt/real.h"
#include "rt/rt.h"

static const char usage_text[] =
	"usage: terrane node [format] --config FILE [--json]\n"
	"\n"
	"Serves the disks of this machine until it is asked to stop (SIGTERM, SIGINT). A disk that "
	"is\n"
	"missing, broken or another's does not stop it: the log and /metrics say which.\n"
	"\n"
	"  format         make disks of the empty folders that FILE names, and end\n"
	"  --config FILE  its settings: terrane config show node prints them all, with their "
	"meaning\n"
	"  --json         print as JSON\n"
	"\n"
	"Ends with 0 when it was asked to stop, 1 when it could not serve, 2 when asked wrongly.\n";

struct serve {
	const struct node_conf *conf;
	struct node_serve_options options;
	struct node *node;
	struct ops_http *http;
	struct node_beat *beat;
	bool json;
	bool http_failed;
	int rc;
};

/* --- the operator's endpoint ------------------------------------------------------------------ */

static int serve_metrics(void *ctx, struct strbuf *out)
{
	struct serve *s = ctx;
	return node_metrics(s->node, out);
}

/* A node lives as long as it serves one disk; which ones is for /metrics. */
static int serve_health(void *ctx, struct strbuf *out)
{
	struct serve *s = ctx;
	size_t serving = 0, all = 0;
	node_health(s->node, &serving, &all);
	int rc = strbuf_printf(out, "%zu of %zu disks serve\n", serving, all);
	return rc != 0 ? rc : serving > 0 || all == 0 ? 0 : -EIO;
}

/* --- serving ---------------------------------------------------------------------------------- */

/* From now on the metadata knows of it. */
static int serve_announce(struct serve *s, const char *addr)
{
	const struct node_conf *c = s->conf;
	if (c->metadata[0] == 0)
		return 0;
	return node_beat_open(&s->beat, &(struct node_beat_options){
						.metadata = c->metadata,
						.cluster = {s->options.disks.cluster[0],
							    s->options.disks.cluster[1]},
						.node = (uint64_t)c->node,
						.name = c->name,
						.rack = c->rack,
						.addr = c->announce[0] != 0 ? c->announce : addr,
						.flash = c->kind != 0,
					});
}

static int serve_ready(void *ctx, struct node *n, const char *addr)
{
	struct serve *s = ctx;
	s->node = n;
	if (s->conf->metrics[0] != 0) {
		int rc = ops_http_open(&s->http, s->conf->metrics,
				       &(struct ops_http_options){.metrics = serve_metrics,
								  .health = serve_health,
								  .ctx = s});
		if (rc < 0) {
			s->http_failed = true;
			return rc;
		}
	}
	int rc = serve_announce(s, addr);
	if (rc < 0) {
		ops_http_close(s->http);
		return rc;
	}
	const char *metrics = s->http != NULL ? ops_http_addr(s->http) : "";
	if (s->json)
		printf("{\"listening\": \"%s\", \"metrics\": \"%s\"}\n", addr, metrics);
	else
		printf("listening on %s%s%s\n", addr, metrics[0] != 0 ? ", metrics on " : "",
		       metrics);
	fflush(stdout);
	size_t serving = 0, all = 0;
	node_health(n, &serving, &all);
	log_info("node_ready", "addr=%s disks=%zu serving=%zu", addr, all, serving);
	return 0;
}

static void serve_ended(void *ctx)
{
	struct serve *s = ctx;
	log_info("node_stopping");
	node_beat_close(s->beat);
	s->beat = NULL;
	ops_http_close(s->http);
	s->http = NULL;
}

static void serve_main(void *arg)
{
	struct serve *s = arg;
	s->options.ready = serve_ready;
	s->options.ended = serve_ended;
	s->options.ctx = s;
	s->rc = node_serve(&s->options);
}

static int serve(struct serve *s)
{
	int rc = rt_real_run(&(struct rt_real_options){.signals = true}, serve_main, s);
	if (rc < 0)
		return cli_fail("cannot start: %s", err_text(rc));
	if (s->http_failed)
		return cli_fail("cannot serve metrics on %s: %s", s->conf->metrics,
				err_text(s->rc));
	if (s->rc < 0)
		return cli_fail("cannot serve on %s: %s", s->conf->listen, err_text(s->rc));
	return CLI_OK;
}

/* --- formatting ------------------------------------------------------------------------------- */

/* Opening with leave to format does it all; what is not open afterwards has a reason. */
static void format_main(void *arg)
{
	struct serve *s = arg;
	struct node_disks disks;
	s->options.disks.format = true;
	s->rc = node_disks_open(&disks, &s->options.disks);
	if (s->rc != 0)
		return;
	for (size_t i = 0; i < disks.count; i++) {
		const struct node_disk *d = &disks.disks[i];
		bool open = d->store != NULL;
		if (s->json)
			printf("{\"disk\": %llu, \"ready\": %s}\n",
			       (unsigned long long)d->spec->disk, open ? "true" : "false");
		else
			printf("disk %llu: %s\n", (unsigned long long)d->spec->disk,
			       open ? "ready" : d->trouble);
		if (!open)
			s->rc = -ENODEV;
	}
	node_disks_close(&disks);
}

static int format(struct serve *s)
{
	int rc = rt_real_run(NULL, format_main, s);
	if (rc < 0)
		return cli_fail("cannot start: %s", err_text(rc));
	return s->rc < 0 ? cli_fail("not all disks are ready") : CLI_OK;
}

/* --- the command ------------------------------------------------------------------------------ */

static int run(const char *config, bool json, bool only_format)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	struct node_conf c = {0};
	int rc = conf_load(config, node_conf_schema, node_conf_count, &c, &err);
	if (rc < 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	struct node_setup setup;
	rc = node_setup_init(&setup, &c, &err);
	int status = CLI_FAILED;
	if (rc < 0) {
		cli_fail("%s: %s", config, err.len > 0 ? strbuf_text(&err) : err_text(rc));
	} else {
		struct serve s = {.conf = &c, .options = setup.options, .json = json};
		rt_real_log((enum log_level)c.log_level);
		status = only_format ? format(&s) : serve(&s);
		node_setup_fini(&setup);
	}
	conf_free(node_conf_schema, node_conf_count, &c);
	return status;
}

int cmd_node(int argc, char **argv)
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
		return cli_usage("node: \"%s\" is not understood", argv[optind]);
	if (config == NULL)
		return cli_usage("node needs --config FILE");
	return run(config, json, only_format);
}
