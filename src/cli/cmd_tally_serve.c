// SPDX-License-Identifier: Apache-2.0
/* terrane tally serve: the counter-and-blob service as a process. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/cmd_tally.h"
#include "cli/tally_conf.h"
#include "ops/http.h"
#include "rt/real.h"
#include "tally/service.h"

struct serve {
	const struct tally_conf *conf;
	const struct rpc_counters *counters;
	struct ops_http *http;
	bool json;
	bool http_failed;
	int rc;
};

static int serve_metrics(void *ctx, struct strbuf *out)
{
	const struct serve *s = ctx;
	return rpc_counters_print(s->counters, "tally", out);
}

static int serve_ready(void *ctx, const char *addr, const struct rpc_counters *counters)
{
	struct serve *s = ctx;
	s->counters = counters;
	if (s->conf->metrics[0] != 0) {
		struct ops_http_options o = {.metrics = serve_metrics, .ctx = s};
		int rc = ops_http_open(&s->http, s->conf->metrics, &o);
		if (rc < 0) {
			s->http_failed = true;
			return rc;
		}
	}
	if (s->json)
		printf("{\"listening\": \"%s\"}\n", addr);
	else
		printf("listening on %s\n", addr);
	fflush(stdout);
	return 0;
}

static void serve_ended(void *ctx, const struct rpc_counters *counters)
{
	struct serve *s = ctx;
	(void)counters;
	ops_http_close(s->http);
	s->http = NULL;
}

static void serve_main(void *arg)
{
	struct serve *s = arg;
	const struct tally_conf *c = s->conf;
	struct tally_serve_options o = {
		.listen = c->listen,
		.store = {.dir = c->dir,
			  .size_max_bytes = c->size_bytes,
			  .compact_min_bytes = c->compact_bytes,
			  .session_max = (size_t)c->sessions,
			  .session_idle_ns = c->session_idle_ns},
		.pool_bytes = c->pool_bytes,
		.connections_max = (size_t)c->connections,
		.grace_ns = c->grace_ns,
		.ready = serve_ready,
		.ended = serve_ended,
		.ctx = s,
	};
	s->rc = tally_serve(&o);
}

static const char *serve_why(int rc)
{
	switch (rc) {
	case -EBUSY:
		return "another process serves it";
	case -ENOENT:
		return "the directory does not exist; make it first";
	case -EBADMSG:
		return "the log is damaged and was left as it is; see the message above for the "
		       "place";
	case -EIO:
		return "the disk failed; start it again when the disk is well";
	default:
		return err_text(rc);
	}
}

static int serve_with(const struct tally_arguments *a, struct tally_conf *c)
{
	if (c->dir[0] == 0)
		return cli_usage("tally serve needs --dir DIR, or dir in [store] of --config");
	rt_real_log((enum log_level)c->log_level);
	struct serve s = {.conf = c, .json = a->json};
	int rc = rt_real_run(&(struct rt_real_options){.signals = true}, serve_main, &s);
	if (rc < 0)
		return cli_fail("cannot start: %s", err_text(rc));
	if (s.http_failed)
		return cli_fail("cannot serve metrics on %s: %s", c->metrics, err_text(s.rc));
	if (s.rc == -EADDRINUSE || s.rc == -EADDRNOTAVAIL || s.rc == -EINVAL || s.rc == -EACCES)
		return cli_fail("cannot listen on %s: %s", c->listen, err_text(s.rc));
	return s.rc < 0 ? cli_fail("cannot serve %s: %s", c->dir, serve_why(s.rc)) : CLI_OK;
}

/* A value of the command line takes the place of the file's. */
static int override(char **slot, const char *value)
{
	if (value == NULL)
		return 0;
	char *copy = strdup(value);
	if (copy == NULL)
		return -ENOMEM;
	free(*slot);
	*slot = copy;
	return 0;
}

int cmd_tally_serve(const struct tally_arguments *a)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	struct tally_conf c = {0};
	int rc = a->config != NULL
			 ? conf_load(a->config, tally_conf_schema, tally_conf_count, &c, &err)
			 : conf_defaults(tally_conf_schema, tally_conf_count, &c);
	if (rc < 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	rc = override(&c.listen, a->listen);
	if (rc == 0)
		rc = override(&c.dir, a->dir);
	int status = rc == 0 ? serve_with(a, &c) : cli_fail("%s", err_text(rc));
	conf_free(tally_conf_schema, tally_conf_count, &c);
	return status;
}
