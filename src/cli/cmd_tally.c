// SPDX-License-Identifier: Apache-2.0
/* terrane tally: the commands of a client, and the command line. */
#include "cli/cmd_tally.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "rt/real.h"
#include "tally/tally_client.h"

#define CLIENT_POOL_BYTES (8 * MIB)
#define OPERANDS_MAX 3

static const char usage_text[] =
	"usage: terrane tally COMMAND [ARGUMENTS] [OPTIONS]\n"
	"\n"
	"Named counters and blobs, kept in a directory and served over the network.\n"
	"\n"
	"  serve              serve a directory until SIGTERM or SIGINT\n"
	"  add NAME DELTA     add to a counter and print its value\n"
	"  get NAME           print a counter's value\n"
	"  put NAME [FILE]    store a file (default: standard input) as a blob\n"
	"  cat NAME           print a blob\n"
	"  stat               print what the server holds\n"
	"\n"
	"  --config FILE      of serve: settings (terrane config show tally prints them)\n"
	"  --listen ADDR      of serve: where to listen (default " TALLY_ADDR_DEFAULT ")\n"
	"  --dir DIR          of serve: where the data is\n"
	"  --connect ADDR     of the others: HOST:PORT or unix:PATH (default " TALLY_ADDR_DEFAULT
	")\n"
	"  --timeout TIME     of the others: give up after this long (default 10s)\n"
	"  --wait             of the others: wait for a server that is not there yet\n"
	"  --json             print JSON\n"
	"  -h, --help         print this\n"
	"  --                 what follows is no option\n";

struct session {
	const struct tally_arguments *args;
	const struct command *command;
	/* What the command got before the runtime started, and has to show after it. */
	int64_t delta;
	uint8_t *data;
	size_t data_len;
	int64_t value;
	struct tally_stat stat;
	int rc;
	bool in_doubt;
	char error[160];
};

struct command {
	const char *name;
	int operands_min;
	int operands_max;
	/* Before the runtime. 0, or the exit status after a message. NULL: nothing to do. */
	int (*prepare)(struct session *s);
	/* In a fiber. */
	int (*call)(struct session *s, struct tally_client *c, struct rt_pool *pool);
	/* After success. 0 or -errno. */
	int (*show)(const struct session *s);
};

static const char *operand_name(const struct session *s)
{
	return s->args->operands[0];
}

static int prepare_add(struct session *s)
{
	if (units_parse_int(s->args->operands[1], &s->delta) == 0)
		return 0;
	return cli_usage("\"%s\" is not a whole number", s->args->operands[1]);
}

static int call_add(struct session *s, struct tally_client *c, struct rt_pool *pool)
{
	return tally_client_add(c, operand_name(s), s->delta, &s->value);
}

static int call_get(struct session *s, struct tally_client *c, struct rt_pool *pool)
{
	return tally_client_get(c, operand_name(s), &s->value);
}

static int show_value(const struct session *s)
{
	if (!s->args->json)
		return printf("%" PRId64 "\n", s->value) < 0 ? -EIO : 0;
	AUTO_JSON json_t *json = json_object();
	json_object_set_new(json, "name", json_text(operand_name(s), strlen(operand_name(s))));
	json_object_set_new(json, "value", json_integer(s->value));
	return json_emit(stdout, json);
}

static int prepare_put(struct session *s)
{
	const char *path = s->args->operand_count > 1 ? s->args->operands[1] : "-";
	bool from_stdin = strcmp(path, "-") == 0;
	FILE *f = from_stdin ? stdin : fopen(path, "rb");
	if (f == NULL)
		return cli_fail("cannot read %s: %s", path, strerror(errno));
	s->data = malloc(TALLY_BLOB_MAX + 1);
	int status = 0;
	if (s->data == NULL)
		status = cli_fail("cannot read %s: %s", path, err_text(-ENOMEM));
	else
		s->data_len = fread(s->data, 1, TALLY_BLOB_MAX + 1, f);
	if (status == 0 && ferror(f))
		status = cli_fail("cannot read %s: %s", path, strerror(errno));
	else if (status == 0 && s->data_len > TALLY_BLOB_MAX)
		status = cli_fail("cannot store %s: a blob has at most 1 MiB", path);
	if (!from_stdin)
		fclose(f);
	return status;
}

static int call_put(struct session *s, struct tally_client *c, struct rt_pool *pool)
{
	AUTO_BUF struct buf *b = NULL;
	int rc = rt_pool_get(pool, s->data_len, &b);
	if (rc < 0)
		return rc;
	memcpy(b->data, s->data, s->data_len);
	return tally_client_put(c, operand_name(s), b, s->data_len,
				crc32c(0, b->data, s->data_len));
}

static int show_put(const struct session *s)
{
	if (!s->args->json)
		return 0;
	AUTO_JSON json_t *json = json_object();
	json_object_set_new(json, "name", json_text(operand_name(s), strlen(operand_name(s))));
	json_object_set_new(json, "bytes", json_integer((json_int_t)s->data_len));
	return json_emit(stdout, json);
}

static int call_cat(struct session *s, struct tally_client *c, struct rt_pool *pool)
{
	AUTO_BUF struct buf *b = NULL;
	int rc = tally_client_get_blob(c, operand_name(s), &b);
	if (rc < 0 || b == NULL)
		return rc;
	s->data = malloc(b->len + 1);
	if (s->data == NULL)
		return -ENOMEM;
	memcpy(s->data, b->data, b->len);
	s->data_len = b->len;
	return 0;
}

static int show_cat(const struct session *s)
{
	if (s->args->json) {
		AUTO_JSON json_t *json = json_object();
		json_object_set_new(json, "name",
				    json_text(operand_name(s), strlen(operand_name(s))));
		json_object_set_new(json, "bytes", json_integer((json_int_t)s->data_len));
		json_object_set_new(json, "text", json_text((const char *)s->data, s->data_len));
		return json_emit(stdout, json);
	}
	bool ok = fwrite(s->data, 1, s->data_len, stdout) == s->data_len && fflush(stdout) == 0;
	return ok ? 0 : -EIO;
}

static int call_stat(struct session *s, struct tally_client *c, struct rt_pool *pool)
{
	return tally_client_stat(c, &s->stat);
}

static int show_stat(const struct session *s)
{
	const struct tally_stat *t = &s->stat;
	const struct {
		const char *name;
		uint64_t value;
	} rows[] = {
		{"counters", t->counters},     {"blobs", t->blobs},
		{"live_bytes", t->live_bytes}, {"log_bytes", t->log_bytes},
		{"sessions", t->sessions},     {"changes", t->changes},
		{"commits", t->commits},       {"compactions", t->compactions},
	};
	AUTO_JSON json_t *json = json_object();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!s->args->json)
			printf("%-12s %" PRIu64 "\n", rows[i].name, rows[i].value);
		json_object_set_new(json, rows[i].name, json_integer((json_int_t)rows[i].value));
	}
	if (!s->args->json)
		return printf("%-12s %s\n", "state", t->failed ? "failed" : "ok") < 0 ? -EIO : 0;
	json_object_set_new(json, "failed", json_boolean(t->failed));
	return json_emit(stdout, json);
}

static const struct command commands[] = {
	{"add", 2, 2, prepare_add, call_add, show_value}, {"get", 1, 1, NULL, call_get, show_value},
	{"put", 1, 2, prepare_put, call_put, show_put},   {"cat", 1, 1, NULL, call_cat, show_cat},
	{"stat", 0, 0, NULL, call_stat, show_stat},
};

static void session_main(void *arg)
{
	struct session *s = arg;
	struct rt_pool pool;
	struct tally_client *c = NULL;
	rt_pool_init(&pool, CLIENT_POOL_BYTES);
	struct tally_client_options o = {.channel.pool = &pool,
					 .timeout_ns = s->args->timeout_ns,
					 .impatient = !s->args->wait};
	s->rc = tally_client_open(&c, s->args->connect, &o);
	if (s->rc == 0) {
		s->rc = s->command->call(s, c, &pool);
		s->in_doubt = tally_client_in_doubt(c);
		snprintf(s->error, sizeof(s->error), "%s", tally_client_error(c));
	}
	tally_client_close(c);
	rt_pool_fini(&pool);
}

static const char *session_hint(const struct session *s)
{
	if (s->in_doubt && (s->rc == -ETIME || s->rc == -ECONNRESET || s->rc == -EIO))
		return "; it may have been applied";
	return s->rc == -ECONNREFUSED || s->rc == -ENOENT
		       ? "; is `terrane tally serve` running there? (--wait waits for it)"
		       : "";
}

static bool is_utf8(const char *text)
{
	size_t left = strlen(text);
	while (left > 0) {
		size_t n = utf8_char_len(text, left);
		if (n == 0)
			return false;
		text += n;
		left -= n;
	}
	return true;
}

static int session_run(struct session *s)
{
	int status = s->command->prepare != NULL ? s->command->prepare(s) : 0;
	if (status != 0)
		return status;
	rt_real_log(LOG_WARN);
	int rc = rt_real_run(&(struct rt_real_options){0}, session_main, s);
	if (rc < 0)
		return cli_fail("cannot start: %s", err_text(rc));
	if (s->rc < 0)
		return cli_fail("tally %s%s%s on %s: %s%s", s->command->name,
				s->args->operand_count > 0 ? " " : "",
				s->args->operand_count > 0 ? operand_name(s) : "", s->args->connect,
				s->error[0] != 0 ? s->error : err_text(s->rc), session_hint(s));
	rc = s->command->show(s);
	return rc < 0 ? cli_fail("cannot write the output: %s", err_text(rc)) : CLI_OK;
}

static int cmd_client(const struct tally_arguments *a)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		const struct command *c = &commands[i];
		if (strcmp(c->name, a->command) != 0)
			continue;
		if (a->operand_count < c->operands_min || a->operand_count > c->operands_max)
			return cli_usage("wrong number of arguments for tally %s", c->name);
		if (a->operand_count > 0 && !is_utf8(a->operands[0]))
			return cli_usage("the name is not UTF-8 text");
		struct session s = {.args = a, .command = c};
		int status = session_run(&s);
		free(s.data);
		return status;
	}
	return cli_usage("tally has no command \"%s\"", a->command);
}

/* --- the command line ------------------------------------------------------------------------ */

/* An option with a value: the value is what follows the name, or its "=". */
struct value_option {
	const char *name;
	const char **slot;
};

/* Takes argv[*i], and the next one when the value is there. */
static int set_value(const struct value_option *options, size_t count, char **argv, int *i)
{
	const char *arg = argv[*i];
	size_t len = strcspn(arg, "=");
	for (size_t k = 0; k < count; k++) {
		if (strlen(options[k].name) != len || strncmp(options[k].name, arg, len) != 0)
			continue;
		const char *value = arg[len] == '=' ? arg + len + 1 : argv[++*i];
		if (value == NULL)
			return cli_usage("%s needs a value", arg);
		*options[k].slot = value;
		return CLI_OK;
	}
	return cli_usage("tally has no option %s", arg);
}

static int take_word(struct tally_arguments *a, char *word)
{
	if (a->command == NULL)
		a->command = word;
	else if (a->operand_count < OPERANDS_MAX)
		a->operands[a->operand_count++] = word;
	else
		return cli_usage("too many arguments");
	return CLI_OK;
}

/* By hand, because a negative number is an operand here. */
static int parse_line(int argc, char **argv, struct tally_arguments *a, const char **timeout)
{
	const struct value_option options[] = {
		{"--config", &a->config},   {"--listen", &a->listen}, {"--dir", &a->dir},
		{"--connect", &a->connect}, {"--timeout", timeout},
	};
	bool words = false; /* only, from now on */
	int status = CLI_OK;
	for (int i = 1; i < argc && status == CLI_OK; i++) {
		if (words || (strncmp(argv[i], "--", 2) != 0 && strcmp(argv[i], "-h") != 0))
			status = take_word(a, argv[i]);
		else if (strcmp(argv[i], "--") == 0)
			words = true;
		else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			a->help = true;
		else if (strcmp(argv[i], "--json") == 0)
			a->json = true;
		else if (strcmp(argv[i], "--wait") == 0)
			a->wait = true;
		else
			status = set_value(options, ARRAY_LEN(options), argv, &i);
	}
	return status;
}

int cmd_tally(int argc, char **argv)
{
	char *operands[OPERANDS_MAX];
	const char *timeout = "10s";
	struct tally_arguments a = {.connect = TALLY_ADDR_DEFAULT, .operands = operands};
	int status = parse_line(argc, argv, &a, &timeout);
	if (status != CLI_OK)
		return status;
	if (a.help) {
		fputs(usage_text, stdout);
		return CLI_OK;
	}
	if (units_parse_duration(timeout, &a.timeout_ns) < 0 || a.timeout_ns == 0)
		return cli_usage("--timeout: \"%s\" is not a time such as 500ms or 10s", timeout);
	if (a.command == NULL)
		return cli_usage("tally needs a command");
	if (strcmp(a.command, "serve") != 0)
		return cmd_client(&a);
	if (a.operand_count > 0)
		return cli_usage("tally serve takes no arguments");
	return cmd_tally_serve(&a);
}
