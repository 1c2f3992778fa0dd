// SPDX-License-Identifier: Apache-2.0
/* terrane policy: which encoding the janitors give to sealed files. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/fs.h"
#include "cli/policy_told.h"
#include "cluster/choose.h"
#include "code/encoding.h"
#include "janitor/notes.h"

static const char usage_text[] =
	"usage: terrane policy list [options]\n"
	"       terrane policy set PATH encoding=CODE [after=TIME] [options]\n"
	"       terrane policy clear PATH [options]\n"
	"\n"
	"Janitors give sealed files below the directory PATH another encoding, if the files are\n"
	"stored as replicas (r2, r3, ...) and did not change for TIME. The policy of the\n"
	"nearest directory applies; / is the whole tree of the tenant. encoding=keep excludes\n"
	"the files below PATH.\n"
	"\n"
	"  -t, --tenant NAME   use the tree of this tenant (default: the cluster file's)\n"
	"  -c, --cluster FILE  the cluster file (default: $TERRANE_CLUSTER, else ./cluster.ini)\n"
	"  --dir DIR           the cluster in this folder\n"
	"  --json              print JSON\n"
	"\n"
	"  terrane policy set /logs encoding=rs:4+2 after=1d\n";

struct asked {
	const char *tenant; /* name of the tenant; NULL: the tenant of the cluster file */
	const char *path;
	char encoding[META_ENCODING_MAX]; /* encoding to set; empty: clear the policy */
	uint64_t after_ns;
	bool json;
};

static int failed(const struct meta_call *c, int rc, const char *what)
{
	return cli_fail("%s: %s", what, c->error[0] != 0 ? c->error : err_text(rc));
}

/* --- setting ------------------------------------------------------------------------------------ */

static int find(struct admin *a, const struct asked *q, struct meta_note *note)
{
	struct meta_call c = {.client = a->client};
	struct meta_tenant t;
	struct meta_entry e;
	char name[32];
	const char *tenant = q->tenant != NULL ? q->tenant : a->file.tenant;
	int rc = meta_client_tenant_get(&c, 0, tenant, &t);
	if (rc < 0)
		return failed(&c, rc, tenant);
	snprintf(name, sizeof(name), META_SYSTEM ":%u", t.id);
	AUTO_CONTEXT const struct context *system = NULL;
	rc = context_new(&system, &(struct context){.tenant = name});
	if (rc < 0)
		return cli_fail("%s", err_text(rc));
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(system);
	rc = meta_client_resolve(&c, META_ROOT, meta_name(q->path), &e);
	if (rc < 0)
		return failed(&c, rc, q->path);
	if (e.kind != META_DIR)
		return cli_fail("cannot set a policy for %s: it is not a directory", q->path);
	if (e.id == META_ROOT)
		snprintf(note->name, sizeof(note->name), "policy/%08" PRIx32, t.id);
	else
		snprintf(note->name, sizeof(note->name), "policy/%08" PRIx32 "/%016" PRIx64, t.id,
			 e.id);
	return CLI_OK;
}

static char *text_of(struct admin *a, const struct asked *q)
{
	const char *tenant = q->tenant != NULL ? q->tenant : a->file.tenant;
	AUTO_JSON json_t *o = json_pack("{s:s, s:I, s:o, s:s}", "encoding", q->encoding, "after_ns",
					(json_int_t)q->after_ns, "path",
					json_text(q->path, strlen(q->path)), "tenant", tenant);
	return o == NULL ? NULL : json_dumps(o, JSON_COMPACT);
}

/* Refuses an encoding that needs more racks than the cluster has, because each re-encoding by a janitor would fail. */
static int check_racks(struct admin *a, const char *encoding)
{
	struct cluster_want want = {0};
	struct cluster_spread s;
	if (encoding_parse(encoding, &want.encoding, NULL, 0) < 0)
		return CLI_OK; /* the policy "keep" and clearing a policy need no racks */
	struct cluster *c = admin_map(a);
	if (c == NULL)
		return CLI_FAILED;
	int rc = cluster_spread(c, &want, &s);
	if (rc < 0)
		return cli_fail("%s: %s", encoding, err_text(rc));
	if (cluster_spread_accepted(&s))
		return CLI_OK;
	return cli_fail(
		"encoding=%s: it tolerates the loss of %u %s; %u in %u racks put %u into one; "
		"add racks, or choose another encoding",
		encoding, s.tolerance, want.encoding.kind == ENCODING_MLEC ? "columns" : "chunks",
		s.width, s.racks, s.rack_most);
}

static int run_set(struct admin *a)
{
	const struct asked *q = a->ctx;
	struct meta_note note = {.text = ""};
	int status = find(a, q, &note);
	if (status == CLI_OK)
		status = check_racks(a, q->encoding);
	if (status != CLI_OK)
		return status;
	AUTO_FREE char *text = q->encoding[0] != 0 ? text_of(a, q) : NULL;
	if (q->encoding[0] != 0 && text == NULL)
		return cli_fail("out of memory");
	if (text != NULL)
		note.text = text;
	int rc = -ESTALE;
	struct meta_call c = {.client = a->client};
	for (int i = 0; rc == -ESTALE && i < 5; i++)
		rc = meta_client_note_put(&c, &note);
	return rc < 0 ? failed(&c, rc, q->path) : CLI_OK;
}

/* --- list --------------------------------------------------------------------------------------- */

void policy_told_add(json_t *told, const struct meta_note *n)
{
	struct policy p;
	if (policy_read(n, &p) == 0)
		json_array_append_new(told, json_loads(n->text, 0, NULL));
}

static const char *word(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text != NULL ? text : "?";
}

void policy_told_print(const json_t *told)
{
	size_t i;
	const json_t *o;
	printf("%-16s %-14s %-10s %s\n", "tenant", "encoding", "after", "path when it was set");
	json_array_foreach(told, i, o)
	{
		char after[32];
		json_int_t ns = json_integer_value(json_object_get(o, "after_ns"));
		snprintf(after, sizeof(after), "%" JSON_INTEGER_FORMAT "s", ns / 1000000000);
		printf("%-16s %-14s %-10s %s\n", word(o, "tenant"), word(o, "encoding"), after,
		       word(o, "path"));
	}
}

static int run_list(struct admin *a)
{
	const struct asked *q = a->ctx;
	AUTO_JSON json_t *all = json_array();
	AUTO_FREE struct meta_note *notes = calloc(META_NOTES_MAX, sizeof(*notes));
	char after[META_NOTE_NAME_MAX + 1] = "";
	bool end = false;
	if (notes == NULL || all == NULL)
		return cli_fail("out of memory");
	while (!end) {
		struct meta_call c = {.client = a->client};
		struct arena arena;
		arena_init(&arena, 2 * MIB);
		int64_t n = meta_client_note_list(&c, "policy/", after, &arena, notes,
						  META_NOTES_MAX, &end);
		for (int64_t i = 0; i < n; i++) {
			policy_told_add(all, &notes[i]);
			memcpy(after, notes[i].name, sizeof(after));
		}
		arena_fini(&arena);
		if (n < 0)
			return failed(&c, (int)n, "policies");
	}
	if (!q->json)
		policy_told_print(all);
	return q->json && json_emit(stdout, all) < 0 ? cli_fail("cannot write the output") : CLI_OK;
}

/* --- the command -------------------------------------------------------------------------------- */

static int take_word(struct asked *q, const char *word)
{
	struct encoding e;
	char why[ENCODING_WHY_MAX];
	if (strncmp(word, "after=", 6) == 0)
		return units_parse_duration(word + 6, &q->after_ns) == 0
			       ? CLI_OK
			       : cli_usage("policy: %s: must be a time, such as 30m or 7d", word);
	if (strncmp(word, "encoding=", 9) != 0)
		return cli_usage("policy: unexpected argument \"%s\"", word);
	if (strcmp(word + 9, "keep") == 0) {
		strcpy(q->encoding, "keep");
		return CLI_OK;
	}
	if (encoding_parse(word + 9, &e, why, sizeof(why)) < 0)
		return cli_usage("policy: %s: %s", word, why);
	encoding_print(&e, q->encoding);
	return CLI_OK;
}

static int run(const struct admin_where *where, struct asked *q, int n, char **words)
{
	const char *verb = n > 0 ? words[0] : "";
	if (n == 1 && strcmp(verb, "list") == 0)
		return admin_run(where, run_list, q);
	q->path = n > 1 ? words[1] : NULL;
	if (n == 2 && strcmp(verb, "clear") == 0)
		return admin_run(where, run_set, q);
	if (n < 3 || strcmp(verb, "set") != 0)
		return cli_usage("policy needs list, set PATH encoding=CODE, or clear PATH");
	for (int i = 2; i < n; i++) {
		int status = take_word(q, words[i]);
		if (status != CLI_OK)
			return status;
	}
	if (q->encoding[0] == 0)
		return cli_usage("policy set needs encoding=CODE");
	return admin_run(where, run_set, q);
}

int cmd_policy(int argc, char **argv)
{
	static const struct option options[] = {
		{"cluster", required_argument, NULL, 'c'}, {"dir", required_argument, NULL, 'd'},
		{"tenant", required_argument, NULL, 't'},  {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
	};
	struct admin_where where = {0};
	struct asked q = {0};
	int c;
	while ((c = getopt_long(argc, argv, "c:t:h", options, NULL)) != -1) {
		if (c == 'c') {
			where.file = optarg;
		} else if (c == 'd') {
			where.dir = optarg;
		} else if (c == 't') {
			q.tenant = optarg;
		} else if (c == 'j') {
			q.json = true;
		} else if (c == 'h') {
			fputs(usage_text, stdout);
			return CLI_OK;
		} else {
			return CLI_USAGE;
		}
	}
	return run(&where, &q, argc - optind, argv + optind);
}
