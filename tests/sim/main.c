// SPDX-License-Identifier: Apache-2.0
/*
 * Runs seeds in bulk. Worker processes take the next seed from a counter in shared memory and add up their results
 * there. If a worker dies (an assertion, a sanitizer, a hang), its seed has failed, and another worker replaces it.
 * The time limits here are of the real clock: this is a tool, not a test.
 *
 * A scenario may have a list instead of independent seeds (`row` in scenario.h): seed = depth * row + column + 1.
 * The first row (depth 0) measures the length of each column.
 */
#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/log.h"
#include "base/rng.h"
#include "death.h"
#include "options.h"
#include "shrink.h"

#define FAILURES_MAX 16
#define SEED_SECONDS_MAX 120 /* a seed that takes more processor time hangs; a seed never blocks */
#define TRACE_LINES 60
#define SHOWN_MAX 3
#define UNJUDGED_PART 100 /* one in so many seeds may have a history that is too hard to judge */
#define REFUSED_SEEDS 20  /* of so many seeds one must refuse a read, if the scenario requires it */

struct failure {
	uint64_t seed;
	char what[256];
};

/* Results of a run, in memory that all its processes share. */
struct totals {
	atomic_uint_fast64_t next; /* the next seed, or the next place of a list */
	atomic_uint_fast64_t done;
	atomic_uint_fast64_t failed;
	atomic_uint_fast64_t shown; /* failed seeds whose last events were printed */
	atomic_uint_fast64_t repeated;
	atomic_uint_fast64_t simulated_ms;
	atomic_uint_fast64_t steps;
	atomic_uint_fast64_t operations;
	atomic_uint_fast64_t refused, unjudged, given_up;
	atomic_uint_fast64_t lengths[SCENARIO_ROW_MAX]; /* length of each column of a list */
	atomic_uint_fast64_t faults[SIM_FAULT_COUNT];
	atomic_bool stop;
	struct failure failures[FAILURES_MAX];
};

struct run {
	const struct options *options;
	struct totals *totals;
	double start_s;
	bool measures; /* runs the first row of a list, to measure its columns */
};

static double now_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static bool is_single(const struct options *o)
{
	return o->seed_first == o->seed_last;
}

static void add_failure(struct run *r, uint64_t seed, const char *what)
{
	uint64_t i = atomic_fetch_add(&r->totals->failed, 1);
	if (i < FAILURES_MAX) {
		r->totals->failures[i].seed = seed;
		snprintf(r->totals->failures[i].what, sizeof(r->totals->failures[i].what), "%s",
			 what);
	}
	if (r->options->hunt)
		atomic_store(&r->totals->stop, true);
	else if (!is_single(r->options)) /* of many seeds: print it at once, not only at the end */
		fprintf(stderr, "\rseed %" PRIu64 " failed: %s\n", seed, what);
}

/* --- lists ------------------------------------------------------------------------------------ */

static bool is_list(const struct run *r)
{
	return r->options->scenario->row > 0 && !is_single(r->options);
}

static uint64_t list_depth(const struct run *r)
{
	uint64_t depth = 0;
	for (unsigned i = 0; i < r->options->scenario->row; i++)
		if (atomic_load(&r->totals->lengths[i]) > depth)
			depth = atomic_load(&r->totals->lengths[i]);
	return depth;
}

static uint64_t list_places(const struct run *r)
{
	uint64_t places = r->options->scenario->row;
	for (unsigned i = 0; i < r->options->scenario->row; i++)
		places += atomic_load(&r->totals->lengths[i]);
	return places;
}

/*
 * Returns the depth of the nth of `spread` evenly spaced places of a column; each column has another offset. 0:
 * none.
 */
static uint64_t spread_depth(uint64_t column, uint64_t length, uint64_t nth, uint64_t spread)
{
	double shift = (double)(mix_u64(column) % 1024) / 1024;
	uint64_t at = (uint64_t)((double)length * ((double)nth + shift) / (double)spread);
	uint64_t before = (uint64_t)((double)length * ((double)nth - 1 + shift) / (double)spread);
	return at >= length || (nth > 0 && at == before) ? 0 : at + 1;
}

/*
 * Sets *seed to the seed of a place below the first row, or 0 if the column is shorter. Returns false at the end of
 * the list.
 */
static bool list_seed(const struct run *r, uint64_t index, uint64_t *seed)
{
	uint64_t row = r->options->scenario->row, spread = r->options->spread;
	uint64_t column = index % row, n = index / row;
	uint64_t length = atomic_load(&r->totals->lengths[column]);
	assert(column < SCENARIO_ROW_MAX);
	bool more = spread > 0 ? n < spread : n < list_depth(r);
	if (spread > 0)
		n = spread_depth(column, length, n, spread);
	else
		n = n < length ? n + 1 : 0;
	*seed = n > 0 ? n * row + column + 1 : 0;
	if (*seed < r->options->seed_first || *seed > r->options->seed_last)
		*seed = 0;
	return more;
}

/* --- one seed -------------------------------------------------------------------------------- */

static void watchdog(time_t seconds)
{
	struct itimerval t = {.it_value = {.tv_sec = seconds}};
	setitimer(ITIMER_PROF, &t, NULL);
}

struct seed_run {
	struct run *run;
	uint64_t seed;
	struct sim *sim;
	const struct scenario_result *result;
};

/*
 * Prints the last events, and the last requests of clients with their results. Of many seeds only the first
 * SHOWN_MAX that fail.
 */
static void write_end(const void *ctx, FILE *f)
{
	const struct seed_run *at = ctx;
	const struct options *o = at->run->options;
	uint64_t n = min_u64(at->result->note_count, SCENARIO_NOTES);
	if (!is_single(o) && (o->hunt || atomic_fetch_add(&at->run->totals->shown, 1) >= SHOWN_MAX))
		return;
	if (!is_single(o))
		fprintf(f, "the end of seed %" PRIu64 ":\n", at->seed);
	sim_trace_print(at->sim, f, TRACE_LINES);
	for (uint64_t i = at->result->note_count - n; i < at->result->note_count; i++)
		fprintf(f, "%s\n", at->result->notes[i % SCENARIO_NOTES]);
}

static void print_end(const struct seed_run *at)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(
		&text, &len); /* buffered, so that the text of several processes does not mix */
	if (f == NULL)
		return;
	write_end(at, f);
	fclose(f);
	fwrite(text, 1, len, stderr);
	free(text);
}

/* For tests of the runner: ends the process in this way. */
static void die(const char *how)
{
	if (strcmp(how, "abort") == 0)
		abort();
	if (strcmp(how, "hang") != 0)
		raise(SIGSEGV);
	watchdog(1);
	for (;;)
		;
}

static uint64_t run_once(struct run *r, uint64_t seed, bool count, char *violation)
{
	struct sim_config config;
	struct scenario_input input;
	options_config(r->options, seed, &config, &input);
	struct sim *s = sim_open(&config);
	struct scenario_result result = {0};
	const struct seed_run at = {r, seed, s, &result};
	death_expect(write_end, &at);
	r->options->scenario->run(s, &input, &result);
	if (r->options->die != NULL)
		die(r->options->die);
	uint64_t hash = sim_trace_hash(s);
	if (count) {
		atomic_fetch_add(&r->totals->simulated_ms, sim_now_ns(s) / NS_PER_MS);
		atomic_fetch_add(&r->totals->steps, sim_steps(s));
		atomic_fetch_add(&r->totals->operations, result.operations);
		atomic_fetch_add(&r->totals->refused, result.refused);
		atomic_fetch_add(&r->totals->unjudged, result.unjudged);
		atomic_fetch_add(&r->totals->given_up, result.given_up);
		for (int f = 0; f < SIM_FAULT_COUNT; f++)
			atomic_fetch_add(&r->totals->faults[f],
					 sim_fault_count(s, (enum sim_fault)f));
	}
	if (count && r->measures)
		atomic_store(&r->totals->lengths[(seed - 1) % r->options->scenario->row],
			     result.length);
	else if (count && result.nothing && is_list(r) && result.violation[0] == '\0')
		snprintf(result.violation, sizeof(result.violation),
			 "I12: this place was in the list, but the operation now has fewer waits");
	memcpy(violation, result.violation, sizeof(result.violation));
	if (violation[0] != '\0')
		print_end(&at);
	sim_close(s);
	death_expect(NULL, NULL);
	return hash;
}

/* In a hunt, runs the seed without the bug. Returns whether it fails then too, so that it is no find of the bug. */
static bool fails_without_bug(struct run *r, uint64_t seed)
{
	char violation[256] = "";
#ifdef TERRANE_PLANTED_BUGS
	if (r->options->hunt) {
		bug_plant(BUG_NONE);
		(void)run_once(r, seed, false, violation);
		bug_plant(r->options->bug);
	}
#endif
	if (violation[0] != '\0')
		fprintf(stderr, "\rseed %" PRIu64 " fails without the bug: %s\n", seed, violation);
	return violation[0] != '\0';
}

static void run_seed(struct run *r, uint64_t seed)
{
	char violation[256];
	uint64_t hash = run_once(r, seed, true, violation);
	struct rng pick;
	rng_init(&pick, ~seed);
	if (violation[0] == '\0' && rng_chance(&pick, r->options->repeat)) {
		char again[256];
		uint64_t second = run_once(r, seed, false, again);
		atomic_fetch_add(&r->totals->repeated, 1);
		if (second != hash)
			snprintf(violation, sizeof(violation),
				 "I12: the same seed gave two traces: %016" PRIx64
				 " and %016" PRIx64,
				 hash, second);
	}
	if (violation[0] != '\0' && !fails_without_bug(r, seed))
		add_failure(r, seed, violation);
	atomic_fetch_add(&r->totals->done, 1);
}

/* --- workers --------------------------------------------------------------------------------- */

struct worker {
	pid_t pid;
	atomic_uint_fast64_t *place; /* in shared memory: the current seed + 1, or 0 */
};

static bool time_is_up(const struct run *r)
{
	double minutes = r->options->minutes;
	return minutes > 0 && now_s() - r->start_s >= minutes * 60;
}

static void work_begin(const struct options *o)
{
	struct log_config quiet = {.level = LOG_OFF};
	log_setup(&quiet);
	/* The process keeps freed memory, because the next seed needs the same amount. */
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
#ifdef TERRANE_PLANTED_BUGS
	bug_plant(o->bug);
#else
	(void)o;
#endif
}

/* Sets *seed to the next seed, or 0 to skip a place. Returns false when there are no more. */
static bool seed_next(struct run *r, uint64_t *seed)
{
	uint64_t index = atomic_fetch_add(&r->totals->next, 1);
	if (is_list(r) && !r->measures)
		return list_seed(r, index, seed);
	*seed = index;
	return index <= (r->measures ? r->options->scenario->row : r->options->seed_last);
}

static void work(struct run *r, atomic_uint_fast64_t *at)
{
	work_begin(r->options);
	death_watch();
	while (!atomic_load(&r->totals->stop) && !time_is_up(r)) {
		uint64_t seed;
		if (!seed_next(r, &seed))
			break;
		if (seed == 0 && is_list(r))
			continue;
		atomic_store(at, seed + 1);
		watchdog(SEED_SECONDS_MAX);
		run_seed(r, seed);
	}
	watchdog(0);
}

static void worker_start(struct run *r, struct worker *w)
{
	fflush(NULL);
	atomic_store(w->place, 0);
	w->pid = fork();
	if (w->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a worker ends with its parent */
		work(r, w->place);
		exit(0); /* not _exit, which would lose the counters of coverage */
	}
	if (w->pid < 0) {
		perror("sim: fork");
		exit(1);
	}
}

/*
 * In a hunt, runs a seed that killed its worker without the bug, in a process of its own. Returns whether it fails
 * then too.
 */
static bool dies_without_bug(struct run *r, uint64_t seed)
{
	int status;
	if (!r->options->hunt)
		return false;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		work_begin(r->options);
		watchdog(SEED_SECONDS_MAX);
		_exit(fails_without_bug(r, seed) ? 1 : 0);
	}
	return pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0;
}

/* Handles the end of a worker. Returns true if a new worker must replace it. */
static bool worker_ended(struct run *r, struct worker *w, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return false;
	char what[128];
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF)
		snprintf(what, sizeof(what), "hangs: more than %d s of processor time",
			 SEED_SECONDS_MAX);
	else if (WIFSIGNALED(status))
		snprintf(what, sizeof(what), "the process died: %s", strsignal(WTERMSIG(status)));
	else
		snprintf(what, sizeof(what), "the process exited with %d", WEXITSTATUS(status));
	uint64_t place = atomic_load(w->place), seed = place - (place > 0);
	if (!dies_without_bug(r, seed))
		add_failure(r, seed, what);
	atomic_fetch_add(&r->totals->done, 1);
	return !atomic_load(&r->totals->stop) && place != 0;
}

static void show_progress(const struct run *r)
{
	double s = now_s() - r->start_s;
	uint64_t done = atomic_load(&r->totals->done);
	uint64_t total =
		is_list(r) ? list_places(r) : r->options->seed_last - r->options->seed_first + 1;
	fprintf(stderr, "\r%" PRIu64 "/%" PRIu64 " seeds, %" PRIu64 " failed, %.0f/s, %.0f s ",
		done, total, (uint64_t)atomic_load(&r->totals->failed), (double)done / s, s);
	fflush(stderr);
}

static void run_workers(struct run *r, atomic_uint_fast64_t *places)
{
	bool terminal = isatty(STDERR_FILENO) && !r->options->trace;
	unsigned live = r->options->jobs;
	AUTO_FREE struct worker *workers = calloc(live, sizeof(*workers));
	if (workers == NULL)
		exit(1);
	for (unsigned i = 0; i < r->options->jobs; i++) {
		workers[i].place = &places[i];
		worker_start(r, &workers[i]);
	}
	while (live > 0) {
		int status;
		pid_t pid = waitpid(-1, &status, terminal ? WNOHANG : 0);
		if (pid < 0) {
			perror("sim: waitpid");
			exit(1);
		}
		if (pid == 0) {
			show_progress(r);
			usleep(200000);
			continue;
		}
		for (unsigned i = 0; i < r->options->jobs; i++) {
			if (workers[i].pid != pid)
				continue;
			if (worker_ended(r, &workers[i], status))
				worker_start(r, &workers[i]);
			else
				live--;
		}
	}
	if (terminal)
		fprintf(stderr, "\r\033[K");
}

/* --- results --------------------------------------------------------------------------------- */

static void print_failures(const struct run *r, uint64_t failed)
{
	const char *commit = getenv("TERRANE_COMMIT"); /* ./dev sets it */
	if (failed > 0 && commit != NULL)
		printf("at commit %s\n", commit);
	for (uint64_t i = 0; i < failed && i < FAILURES_MAX; i++)
		printf("FAILED seed %" PRIu64 ": %s\n  replay: ./dev sim --seeds %" PRIu64 "%s\n",
		       r->totals->failures[i].seed, r->totals->failures[i].what,
		       r->totals->failures[i].seed, r->options->replay);
	if (failed > FAILURES_MAX)
		printf("... and %" PRIu64 " more\n", failed - FAILURES_MAX);
}

static void print_text(const struct run *r, double seconds)
{
	struct totals *b = r->totals;
	uint64_t done = atomic_load(&b->done);
	uint64_t failed = atomic_load(&b->failed);
	double simulated_s = (double)atomic_load(&b->simulated_ms) / 1e3;
	printf("%s: %" PRIu64
	       " seeds in %.1f s: %.1f seeds/s, %.1f simulated hours per real minute, %.0f "
	       "steps/s, %" PRIu64 " operations, %" PRIu64 " seeds run twice\n",
	       r->options->scenario->name, done, seconds, (double)done / seconds,
	       simulated_s / 60 / seconds, (double)atomic_load(&b->steps) / seconds,
	       (uint64_t)atomic_load(&b->operations), (uint64_t)atomic_load(&b->repeated));
	if (r->options->scenario->refuses)
		printf("%" PRIu64 " reads refused\n", (uint64_t)atomic_load(&b->refused));
	if (atomic_load(&b->unjudged) > 0)
		printf("%" PRIu64 " histories too hard to judge\n",
		       (uint64_t)atomic_load(&b->unjudged));
	if (atomic_load(&b->given_up) > 0)
		printf("%" PRIu64 " pools that lost a drive did not recover and were removed\n",
		       (uint64_t)atomic_load(&b->given_up));
	if (is_list(r))
		printf("%" PRIu64 " of %" PRIu64 " places of the list\n", done, list_places(r));
	printf("faults (per simulated hour):");
	for (int f = 0; f < SIM_FAULT_COUNT; f++) {
		uint64_t n = atomic_load(&b->faults[f]);
		printf("%s %s %" PRIu64 " (%.1f)", f % 4 == 0 ? "\n " : ",",
		       sim_fault_table[f].name, n,
		       simulated_s > 0 ? (double)n * 3600 / simulated_s : 0);
	}
	printf("\n");
	print_failures(r, failed);
	if (r->options->hunt && failed > 0)
		printf("bug %s found by seed %" PRIu64 ", after %" PRIu64 " seeds\n",
		       bug_name(r->options->bug), b->failures[0].seed, done);
	else if (r->options->hunt)
		printf("bug %s NOT found in %" PRIu64 " seeds\n", bug_name(r->options->bug), done);
	else
		printf("%" PRIu64 " passed, %" PRIu64 " failed\n", done - failed, failed);
}

static void print_json(const struct run *r, double seconds)
{
	struct totals *b = r->totals;
	json_t *faults = json_object();
	for (int f = 0; f < SIM_FAULT_COUNT; f++)
		json_object_set_new(faults, sim_fault_table[f].name,
				    json_integer((json_int_t)atomic_load(&b->faults[f])));
	json_t *failures = json_array();
	uint64_t failed = atomic_load(&b->failed);
	for (uint64_t i = 0; i < failed && i < FAILURES_MAX; i++)
		json_array_append_new(failures, json_pack("{s:I, s:s}", "seed",
							  (json_int_t)b->failures[i].seed,
							  "violation", b->failures[i].what));
	json_t *root = json_pack(
		"{s:s, s:I, s:I, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "scenario",
		r->options->scenario->name, "seeds", (json_int_t)atomic_load(&b->done), "failed",
		(json_int_t)failed, "seconds", seconds, "simulated_seconds",
		(double)atomic_load(&b->simulated_ms) / 1e3, "steps",
		(json_int_t)atomic_load(&b->steps), "operations",
		(json_int_t)atomic_load(&b->operations), "repeated",
		(json_int_t)atomic_load(&b->repeated), "unjudged",
		(json_int_t)atomic_load(&b->unjudged), "given_up",
		(json_int_t)atomic_load(&b->given_up), "faults", faults, "failures", failures);
	json_dumpf(root, stdout, JSON_INDENT(2));
	printf("\n");
	json_decref(root);
}

/* For shrinking: runs a seed in the calling process. */
static void run_alone(const struct options *o, uint64_t seed, char violation[VIOLATION_TEXT])
{
	struct sim_config config;
	struct scenario_input input;
	struct scenario_result result = {0};
	work_begin(o);
	watchdog(SEED_SECONDS_MAX);
	options_config(o, seed, &config, &input);
	struct sim *s = sim_open(&config);
	o->scenario->run(s, &input, &result);
	memcpy(violation, result.violation, VIOLATION_TEXT);
	sim_close(s);
}

static uint64_t run_seeds(struct run *r)
{
	const struct options *o = r->options;
	size_t bytes = sizeof(struct totals) + o->jobs * sizeof(atomic_uint_fast64_t);
	void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) {
		perror("sim: mmap");
		exit(1);
	}
	assert(o->scenario->row <= SCENARIO_ROW_MAX);
	r->totals = shared;
	r->start_s = now_s();
	if (is_list(r)) {
		r->measures = true;
		atomic_store(&r->totals->next, 1);
		run_workers(r, (atomic_uint_fast64_t *)(r->totals + 1));
		r->measures = false;
	}
	atomic_store(&r->totals->next, is_list(r) ? 0 : o->seed_first);
	run_workers(r, (atomic_uint_fast64_t *)(r->totals + 1));
	double seconds = now_s() - r->start_s;
	if (o->scenario->refuses && !o->hunt && atomic_load(&r->totals->refused) == 0 &&
	    atomic_load(&r->totals->done) >= REFUSED_SEEDS)
		add_failure(r, o->seed_last,
			    "no read was refused, but with so much damage some reads must be");
	if (!o->hunt &&
	    atomic_load(&r->totals->unjudged) > 1 + atomic_load(&r->totals->done) / UNJUDGED_PART)
		add_failure(r, o->seed_last,
			    "the search for one order was given up in too many histories");
	uint64_t failed = atomic_load(&r->totals->failed);
	if (o->plants)
		printf("%-20s %s%6" PRIu64 " seeds  %s\n", bug_name(o->bug),
		       failed > 0 ? "found after" : "NOT FOUND in",
		       (uint64_t)atomic_load(&r->totals->done),
		       failed > 0 ? r->totals->failures[0].what : "");
	else if (o->json)
		print_json(r, seconds);
	else
		print_text(r, seconds);
	fflush(stdout);
	munmap(shared, bytes);
	return failed;
}

/* Hunts every planted bug of the scenario in turn. Returns 0 when all are found. */
static int run_plants(struct options *o)
{
	bool all = true;
	for (const enum bug *b = o->scenario->bugs; *b != BUG_NONE; b++) {
		o->bug = *b;
		struct run r = {.options = o};
		all = run_seeds(&r) > 0 && all;
	}
	return all ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct options options;
	options_parse(&options, argc, argv);
	if (options.shrink)
		return shrink(&options, options.seed_first, run_alone);
	if (options.plants)
		return run_plants(&options);
	struct run r = {.options = &options};
	uint64_t failed = run_seeds(&r);
	return options.hunt ? failed == 0 : failed != 0;
}
