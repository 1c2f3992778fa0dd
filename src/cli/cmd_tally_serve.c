// SPDX-License-Identifier: Apache-2.0
/* terrane tally serve: the counter-and-blob service as a process. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/cmd_tally.h"
#include "rt/real.h"
#include "tally/service.h"

struct serve_conf {
	char *listen;
	int64_t connections;
	uint64_t pool_bytes;
	uint64_t grace_ns;
	char *dir;
	uint64_t size_bytes;
	uint64_t compact_bytes;
	int64_t sessions;
	uint64_t session_idle_ns;
	int log_level;
};

static const char *const log_levels[] = {"debug", "info", "warn", "error", "off", NULL};

static const struct conf_key schema[] = {
	CONF_STRING("server", "listen", struct serve_conf, listen, TALLY_ADDR_DEFAULT, 1, 120,
		    "where to listen: HOST:PORT or unix:PATH"),
	CONF_INT("server", "connections", struct serve_conf, connections, "1024", 1, 100000,
		 "connections at once; more are refused"),
	CONF_SIZE("server", "memory", struct serve_conf, pool_bytes, "32MiB", 4 * MIB, 64 * GIB,
		  "for blobs on their way in and out"),
	CONF_DURATION("server", "grace", struct serve_conf, grace_ns, "5s", 0, CONF_MAX,
		      "for requests under way when asked to stop"),
	CONF_STRING("store", "dir", struct serve_conf, dir, "", 0, 400,
		    "the directory that holds the data; it must exist"),
	CONF_SIZE("store", "size", struct serve_conf, size_bytes, "64MiB", 1 * MIB, 16 * GIB,
		  "the most data to hold"),
	CONF_SIZE("store", "compact", struct serve_conf, compact_bytes, "4MiB", 64 * KIB, 16 * GIB,
		  "a log shorter than this is not compacted"),
	CONF_INT("store", "sessions", struct serve_conf, sessions, "4096", 1, 1000000,
		 "clients that are remembered, so that what they retry is applied once"),
	CONF_DURATION("store", "session_idle", struct serve_conf, session_idle_ns, "1h",
		      1 * NS_PER_S, CONF_MAX, "a client idle for so long may be forgotten"),
	CONF_CHOICE("log", "level", struct serve_conf, log_level, "info", log_levels,
		    "what to log: this level and above"),
};

struct serve {
	const struct serve_conf *conf;
	bool json;
	int rc;
};

static void serve_ready(void *ctx, const char *addr)
{
	const struct serve *s = ctx;
	if (s->json)
		printf("{\"listening\": \"%s\"}\n", addr);
	else
		printf("listening on %s\n", addr);
	fflush(stdout);
}

static void serve_main(void *arg)
{
	struct serve *s = arg;
	const struct serve_conf *c = s->conf;
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

static int serve_with(const struct tally_arguments *a, struct serve_conf *c)
{
	if (a->show_config) {
		AUTO_STRBUF struct strbuf text;
		strbuf_init(&text, CONF_FILE_MAX);
		int rc = 0;
		if (a->json) {
			AUTO_JSON json_t *json = conf_show_json(schema, ARRAY_LEN(schema), c);
			rc = json_emit(stdout, json);
		} else {
			rc = conf_show(schema, ARRAY_LEN(schema), c, &text);
			fputs(strbuf_text(&text), stdout);
		}
		return rc < 0;
	}
	if (c->dir[0] == 0)
		return cli_usage("tally serve needs --dir DIR, or dir in [store] of --config");
	log_set_level((enum log_level)c->log_level);
	struct serve s = {.conf = c, .json = a->json};
	int rc = rt_real_run(&(struct rt_real_options){.signals = true}, serve_main, &s);
	if (rc < 0)
		return cli_fail("cannot start: %s", err_text(rc));
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
	struct serve_conf c = {0};
	int rc = a->config != NULL ? conf_load(a->config, schema, ARRAY_LEN(schema), &c, &err)
				   : conf_defaults(schema, ARRAY_LEN(schema), &c);
	if (rc < 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	rc = override(&c.listen, a->listen);
	if (rc == 0)
		rc = override(&c.dir, a->dir);
	int status = rc == 0 ? serve_with(a, &c) : cli_fail("%s", err_text(rc));
	conf_free(schema, ARRAY_LEN(schema), &c);
	return status;
}
