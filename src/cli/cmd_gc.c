// SPDX-License-Identifier: Apache-2.0
/* terrane gc: what was deleted and still takes space, and a collection with the shortest safe grace period. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/fs.h"
#include "janitor/notes.h"
#include "meta_api/note.h"
#include "rt/rt.h"

#define POLL_NS (2 * NS_PER_S)

static const char usage_text[] =
	"usage: terrane gc status [options]\n"
	"       terrane gc now [--wait] [options]\n"
	"       terrane gc hold REASON | resume [options]\n"
	"\n"
	"Deleted files can be read by who has them open for a grace period ([collection] grace of\n"
	"the janitors), and their chunks are deleted after several. They do not count for the "
	"quota\n"
	"of their tenant: a janitor notices a deleted file within its round (30 s).\n"
	"\n"
	"  status   print the bytes that were deleted and still take space\n"
	"  now      until everything that is deleted now is gone, let janitors use the shortest\n"
	"           grace period that is safe (3 minutes). That takes about half an hour\n"
	"  hold     delete nothing until resume. REASON is shown by status. What is deleted\n"
	"           meanwhile waits; repair goes on\n"
	"  resume   collect again. Whatever waits is kept for a whole grace period more\n"
	"  --wait   wait for that\n"
	"  -c, --cluster FILE  the cluster file (default: $TERRANE_CLUSTER, else ./cluster.ini)\n"
	"  --dir DIR           the cluster in this folder\n"
	"  --json              print JSON\n";

struct gc_asked {
	bool json, wait;
	uint64_t waiting_bytes;
	const char *reason; /* of hold; NULL: resume */
	struct meta_gc_state state;
};

/* Reads the epoch of the collection, and the epoch up to which the grace period is short. */
static int read_state(struct admin *a, uint64_t *epoch, struct meta_note *note, uint64_t *until)
{
	struct meta_call c = {.client = a->client};
	struct arena arena;
	bool end;
	*note = (struct meta_note){.name = COLLECT_NOTE};
	*until = 0;
	struct gc_asked *q = a->ctx;
	int rc = meta_client_gc_state(&c, &q->state);
	*epoch = q->state.epoch;
	arena_init(&arena, MIB);
	struct meta_note found[2];
	int64_t n =
		rc < 0 ? rc : meta_client_note_list(&c, COLLECT_FAMILY, "", &arena, found, 2, &end);
	for (int64_t i = 0; i < n; i++) {
		if (strcmp(found[i].name, COLLECT_NOTE) != 0)
			continue;
		note->turn = found[i].turn;
		*until = collect_until(found[i].text);
	}
	arena_fini(&arena);
	return n < 0 ? cli_fail("cannot read the state of the collection: %s",
				c.error[0] != 0 ? c.error : err_text((int)n))
		     : CLI_OK;
}

static int tell(const struct gc_asked *q, uint64_t epoch, uint64_t until)
{
	char size[FS_SIZE_TEXT];
	uint64_t left = until > epoch ? until - epoch : 0;
	if (q->json) {
		AUTO_JSON json_t *o = json_pack(
			"{s:I, s:I, s:I, s:b, s:s}", "waiting_bytes", (json_int_t)q->waiting_bytes,
			"epoch", (json_int_t)epoch, "epochs_left", (json_int_t)left, "held",
			(int)q->state.held, "held_why", q->state.why);
		return json_emit(stdout, o) < 0 ? cli_fail("cannot write the output") : CLI_OK;
	}
	printf("%s of deleted files wait to be freed", fs_size(size, (double)q->waiting_bytes));
	if (left > 0)
		printf("; %" PRIu64 " short grace periods are left", left);
	putchar('\n');
	if (q->state.held)
		printf("collection is held: %s. terrane gc resume releases it\n", q->state.why);
	return CLI_OK;
}

static int show(struct admin *a)
{
	struct gc_asked *q = a->ctx;
	struct meta_note note;
	uint64_t epoch = 0, until = 0;
	int status = read_state(a, &epoch, &note, &until);
	if (status == CLI_OK)
		status = admin_waiting(a, &q->waiting_bytes);
	return status == CLI_OK ? tell(q, epoch, until) : status;
}

/* Writes the note for the janitors. If two commands run at once, the later epoch of the two is as good. */
static int ask(struct admin *a)
{
	struct meta_call c = {.client = a->client};
	struct meta_note note;
	char text[64];
	uint64_t epoch = 0, until = 0;
	int status = read_state(a, &epoch, &note, &until);
	if (status != CLI_OK)
		return status;
	uint64_t want = epoch + COLLECT_EPOCHS;
	snprintf(text, sizeof(text), "{\"until\": %" PRIu64 "}", want);
	note.text = text;
	int rc = meta_client_note_put(&c, &note);
	if (rc < 0 && rc != -ESTALE)
		return cli_fail("cannot ask the janitors: %s",
				c.error[0] != 0 ? c.error : err_text(rc));
	const struct gc_asked *q = a->ctx;
	while (status == CLI_OK && q->wait && epoch < want) {
		if (rt_sleep_ns(POLL_NS) < 0)
			return cli_fail("interrupted; janitors go on");
		status = read_state(a, &epoch, &note, &until);
	}
	return status == CLI_OK ? show(a) : status;
}

static int hold(struct admin *a)
{
	const struct gc_asked *q = a->ctx;
	struct meta_call c = {.client = a->client};
	bool held = q->reason != NULL;
	int rc = meta_client_gc_hold(&c, held, held ? q->reason : "");
	return rc < 0 ? cli_fail("cannot %s the collection: %s", held ? "hold" : "resume",
				 c.error[0] != 0 ? c.error : err_text(rc))
		      : show(a);
}

int cmd_gc(int argc, char **argv)
{
	static const struct option options[] = {
		{"cluster", required_argument, NULL, 'c'}, {"dir", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},          {"wait", no_argument, NULL, 'w'},
		{"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
	};
	struct admin_where where = {0};
	struct gc_asked q = {0};
	int c;
	while ((c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (admin_option(c, &where, &q.json))
			continue;
		if (c == 'w')
			q.wait = true;
		else if (c == 'h')
			return fputs(usage_text, stdout) < 0 ? CLI_FAILED : CLI_OK;
		else
			return CLI_USAGE;
	}
	const char *verb = argc - optind == 1 ? argv[optind] : "";
	if (strcmp(verb, "status") == 0 && !q.wait)
		return admin_run(&where, show, &q);
	if (strcmp(verb, "now") == 0)
		return admin_run(&where, ask, &q);
	verb = argc - optind > 0 ? argv[optind] : "";
	bool holds = strcmp(verb, "hold") == 0;
	q.reason = holds && argc - optind == 2 ? argv[optind + 1] : NULL;
	if ((q.reason != NULL && q.reason[0] != 0) ||
	    (strcmp(verb, "resume") == 0 && argc - optind == 1))
		return admin_run(&where, hold, &q);
	return cli_usage("gc needs status, now [--wait], hold REASON, or resume");
}
