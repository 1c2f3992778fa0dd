// SPDX-License-Identifier: Apache-2.0
/* terrane job: the registry of training jobs (src/jobs/spec.h). */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/units.h"
#include "cli/cmd_job.h"
#include "jobs/spec.h"

static const char usage_text[] =
	"usage: terrane job add ID PATH... [options]      register a job that reads these, in "
	"order\n"
	"       terrane job list [options]                all jobs of the tenant\n"
	"       terrane job show ID [options]             one job\n"
	"       terrane job progress ID [options]         report progress, and renew the lease\n"
	"       terrane job done ID                       the job has ended: it stops counting\n"
	"       terrane job rm ID                         remove a job\n"
	"       terrane job top [--watch] [options]       what jobs that count do now\n"
	"\n"
	"The registry tells the caches what training jobs will read: files, directories, data\n"
	"sets. A job uses its ID as the job id of its reads. It counts until it is done, or\n"
	"until its lease ends without a report. terrane.Loader registers jobs by itself.\n"
	"\n"
	"  --name NAME          a name for people\n"
	"  --order ORDER        strict: the order follows from a seed (default); window: windows\n"
	"                       that jobs share; free: whatever is in the cache next\n"
	"  --shuffle SHUFFLE    scan: as stored; seeded: from --seed; secret: not known (default)\n"
	"  --seed N             seed of a seeded order\n"
	"  --readers N          processes that read (default 1)\n"
	"  --epochs N           epochs (default: not known)\n"
	"  --accelerators N     accelerators of the job\n"
	"  --lease TIME         1s to 24h (default 60s)\n"
	"  --ranges LIST        shares of each file that are read, such as 0-0.25,0.5-0.75\n"
	"  --columns LIST       names of the parts of samples that are read, such as jpg,cls\n"
	"  --speed SIZE         bytes that the job reads per second, as far as is known\n"
	"\n"
	"  --epoch N, --part N  what it reads (part: number of its PATH, from 0)\n"
	"  --position N, --total N   samples or bytes of the part that were read, and in all\n"
	"  --part-bytes SIZE    bytes of that part: caches get room for it by what they save\n"
	"  --steps N, --compute TIME, --wait TIME   since it began; waiting for data\n"
	"  --bytes SIZE, --hit-bytes SIZE   read, and served by a cache\n"
	"  --window N, --windows N   current window, and number of windows\n"
	"  --sequence N         grows with each report (default: the clock)\n"
	"\n"
	"  -c, --cluster FILE   the cluster file (default: $TERRANE_CLUSTER, else ./cluster.ini)\n"
	"  -t, --tenant NAME    jobs of this tenant (default: the cluster file's)\n"
	"  --active             list: only jobs that count\n"
	"  --watch              top: print again every second, until interrupted\n"
	"  --json               print JSON\n"
	"\n"
	"  terrane job add 17 /sets/birds --order window --accelerators 8 --epochs 90\n";

int job_failed(const struct job_command *q, int64_t rc, const char *what)
{
	char id[32];
	snprintf(id, sizeof(id), "%" PRIu64, q->job.id);
	/* the error begins with "job 17: " */
	return fs_fail(&q->error, rc, what, id);
}

/* --- add, progress, done, rm ---------------------------------------------------------------------- */

static int run_add(struct job_command *q)
{
	struct terrane_job_part *parts = calloc((size_t)q->path_count, sizeof(*parts));
	if (parts == NULL)
		return cli_fail("out of memory");
	for (int i = 0; i < q->path_count; i++)
		parts[i].path = q->paths[i];
	q->job.parts = parts;
	q->job.part_count = (size_t)q->path_count;
	q->job.columns = q->columns;
	q->job.ranges = q->ranges;
	int rc = terrane_job_add(q->t, &q->job, &q->o);
	free(parts);
	return rc < 0 ? job_failed(q, rc, "cannot add job") : CLI_OK;
}

static int run_progress(struct job_command *q)
{
	int rc = terrane_job_report(q->t, q->job.id, q->reports ? &q->progress : NULL, &q->o);
	return rc < 0 ? job_failed(q, rc, "cannot report on job") : CLI_OK;
}

static int run_done(struct job_command *q)
{
	int rc = terrane_job_end(q->t, q->job.id, &q->o);
	return rc < 0 ? job_failed(q, rc, "cannot end job") : CLI_OK;
}

static int run_rm(struct job_command *q)
{
	int rc = terrane_job_remove(q->t, q->job.id, &q->o);
	return rc < 0 ? job_failed(q, rc, "cannot remove job") : CLI_OK;
}

/* --- the command line ----------------------------------------------------------------------------- */

enum operands { NOTHING, ID, ID_AND_PATHS };

static const struct {
	const char *name;
	enum operands operands;
	int (*run)(struct job_command *q);
} verbs[] = {
	{"add", ID_AND_PATHS, run_add}, {"list", NOTHING, job_run_list}, {"show", ID, job_run_show},
	{"progress", ID, run_progress}, {"done", ID, run_done},          {"rm", ID, run_rm},
	{"top", NOTHING, job_run_top},
};

/* Numbers of the command line, by the letter of the option: the largest value, and where it goes. */
enum number_kind { COUNT32, COUNT64, SIZE, TIME_MS, TIME_US };

static const struct number {
	int option;
	enum number_kind kind;
	size_t at; /* in struct job_command */
	bool reports;
} numbers[] = {
	{'s', COUNT64, offsetof(struct job_command, job.seed), false},
	{'r', COUNT32, offsetof(struct job_command, job.readers), false},
	{'e', COUNT32, offsetof(struct job_command, job.epochs), false},
	{'a', COUNT32, offsetof(struct job_command, job.accelerators), false},
	{'l', TIME_MS, offsetof(struct job_command, job.lease_ms), false},
	{'S', SIZE, offsetof(struct job_command, job.bytes_s), false},
	{'E', COUNT32, offsetof(struct job_command, progress.epoch), true},
	{'P', COUNT32, offsetof(struct job_command, progress.part), true},
	{'p', COUNT64, offsetof(struct job_command, progress.position), true},
	{'T', COUNT64, offsetof(struct job_command, progress.total), true},
	{'Y', SIZE, offsetof(struct job_command, progress.part_bytes), true},
	{'n', COUNT64, offsetof(struct job_command, progress.steps), true},
	{'C', TIME_US, offsetof(struct job_command, progress.compute_us), true},
	{'W', TIME_US, offsetof(struct job_command, progress.wait_us), true},
	{'b', SIZE, offsetof(struct job_command, progress.bytes), true},
	{'B', SIZE, offsetof(struct job_command, progress.hit_bytes), true},
	{'w', COUNT32, offsetof(struct job_command, progress.window), true},
	{'X', COUNT32, offsetof(struct job_command, progress.windows), true},
	{'q', COUNT64, offsetof(struct job_command, progress.sequence), true},
};

static int parse_number(enum number_kind kind, const char *text, uint64_t *out)
{
	int64_t n = 0;
	int rc = kind == SIZE                         ? units_parse_size(text, out)
		 : kind == TIME_MS || kind == TIME_US ? units_parse_duration(text, out)
						      : units_parse_int(text, &n);
	if (rc == 0 && (kind == COUNT32 || kind == COUNT64))
		*out = (uint64_t)n;
	if (kind == TIME_MS || kind == TIME_US)
		*out /= kind == TIME_MS ? NS_PER_MS : NS_PER_US;
	return rc < 0 || n < 0 || (kind == COUNT32 && *out > UINT32_MAX) ? -EINVAL : 0;
}

static int take_number(struct job_command *q, int option, const char *text)
{
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		const struct number *m = &numbers[i];
		uint64_t value = 0;
		if (m->option != option)
			continue;
		if (parse_number(m->kind, text, &value) < 0)
			return cli_usage("job: %s is not a value of this option", text);
		uint32_t small = (uint32_t)value;
		if (m->kind == COUNT32)
			memcpy((char *)q + m->at, &small, sizeof(small));
		else
			memcpy((char *)q + m->at, &value, sizeof(value));
		q->reports = q->reports || m->reports;
		return CLI_OK;
	}
	return CLI_USAGE;
}

/* Takes "0-0.25,0.5-0.75". */
static int take_ranges(struct job_command *q, const char *text)
{
	for (const char *at = text; *at != 0;) {
		char *end = NULL;
		double from = strtod(at, &end);
		double to = *end == '-' ? strtod(end + 1, &end) : -1;
		if (!(from >= 0 && from < to && to <= 1) || (*end != ',' && *end != 0) ||
		    q->job.range_count == JOB_RANGES_MAX)
			return cli_usage("job: --ranges %s: must be up to %d shares such as "
					 "0-0.25,0.5-1",
					 text, JOB_RANGES_MAX);
		q->ranges[q->job.range_count++] =
			(struct terrane_job_range){(uint32_t)(from * JOB_RANGE_WHOLE + 0.5),
						   (uint32_t)(to * JOB_RANGE_WHOLE + 0.5)};
		at = end + (*end == ',');
	}
	return CLI_OK;
}

/* Takes "jpg,cls"; splits the text. */
static int take_columns(struct job_command *q, char *text)
{
	char *rest = text, *name;
	while ((name = strsep(&rest, ",")) != NULL) {
		if (name[0] == 0 || q->job.column_count == JOB_COLUMNS_MAX)
			return cli_usage("job: --columns needs up to %d names", JOB_COLUMNS_MAX);
		q->columns[q->job.column_count++] = name;
	}
	return CLI_OK;
}

static int take_order(struct job_command *q, const char *text)
{
	enum job_order o;
	if (job_order_parse(text, &o) < 0)
		return cli_usage("job: --order %s: must be strict, window or free", text);
	q->job.order = (enum terrane_job_order)o;
	return CLI_OK;
}

static int take_shuffle(struct job_command *q, const char *text)
{
	enum job_shuffle s;
	if (job_shuffle_parse(text, &s) < 0)
		return cli_usage("job: --shuffle %s: must be scan, seeded or secret", text);
	q->job.shuffle = (enum terrane_job_shuffle)s;
	return CLI_OK;
}

static int take(struct job_command *q, int option)
{
	switch (option) {
	case 'c':
		q->cluster = optarg;
		return CLI_OK;
	case 't':
		q->tenant = optarg;
		return CLI_OK;
	case 'N':
		q->job.name = optarg;
		return CLI_OK;
	case 'O':
		return take_order(q, optarg);
	case 'F':
		return take_shuffle(q, optarg);
	case 'R':
		return take_ranges(q, optarg);
	case 'L':
		return take_columns(q, optarg);
	case 'A':
		q->active = true;
		return CLI_OK;
	case 'g':
		q->watch = true;
		return CLI_OK;
	case 'j':
		q->json = true;
		return CLI_OK;
	default:
		return take_number(q, option, optarg);
	}
}

static int take_operands(struct job_command *q, enum operands want, int n, char **words)
{
	int64_t id = 0;
	if (want == NOTHING)
		return n == 1 ? CLI_OK : cli_usage("job %s takes no operand", words[0]);
	if (n < 2 || units_parse_int(words[1], &id) < 0 || id <= 0)
		return cli_usage("job %s needs the ID of a job, a number above 0", words[0]);
	q->job.id = (uint64_t)id;
	q->paths = words + 2;
	q->path_count = n - 2;
	if (want == ID && n != 2)
		return cli_usage("job %s needs one ID", words[0]);
	if (want == ID_AND_PATHS && n < 3)
		return cli_usage("job add needs an ID and at least one PATH");
	return CLI_OK;
}

static uint64_t clock_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static int run(struct job_command *q, int n, char **words)
{
	size_t i = 0;
	while (n > 0 && i < ARRAY_LEN(verbs) && strcmp(verbs[i].name, words[0]) != 0)
		i++;
	if (n == 0 || i == ARRAY_LEN(verbs))
		return cli_usage("job needs add, list, show, progress, done, rm or top");
	int status = take_operands(q, verbs[i].operands, n, words);
	if (status != CLI_OK)
		return status;
	if (q->reports && q->progress.sequence == 0)
		q->progress.sequence = clock_us();
	q->o.error = &q->error;
	struct terrane_open_options o = {.tenant = q->tenant, .error = &q->error};
	int rc = terrane_open(&q->t, q->cluster, &o);
	if (rc < 0)
		return fs_fail(&q->error, rc, "cannot open", "the cluster");
	status = verbs[i].run(q);
	terrane_close(q->t);
	return status;
}

int cmd_job(int argc, char **argv)
{
	static const struct option options[] = {
		{"cluster", required_argument, NULL, 'c'},
		{"tenant", required_argument, NULL, 't'},
		{"name", required_argument, NULL, 'N'},
		{"order", required_argument, NULL, 'O'},
		{"shuffle", required_argument, NULL, 'F'},
		{"seed", required_argument, NULL, 's'},
		{"readers", required_argument, NULL, 'r'},
		{"epochs", required_argument, NULL, 'e'},
		{"accelerators", required_argument, NULL, 'a'},
		{"lease", required_argument, NULL, 'l'},
		{"ranges", required_argument, NULL, 'R'},
		{"columns", required_argument, NULL, 'L'},
		{"speed", required_argument, NULL, 'S'},
		{"epoch", required_argument, NULL, 'E'},
		{"part", required_argument, NULL, 'P'},
		{"position", required_argument, NULL, 'p'},
		{"total", required_argument, NULL, 'T'},
		{"part-bytes", required_argument, NULL, 'Y'},
		{"steps", required_argument, NULL, 'n'},
		{"compute", required_argument, NULL, 'C'},
		{"wait", required_argument, NULL, 'W'},
		{"bytes", required_argument, NULL, 'b'},
		{"hit-bytes", required_argument, NULL, 'B'},
		{"window", required_argument, NULL, 'w'},
		{"windows", required_argument, NULL, 'X'},
		{"sequence", required_argument, NULL, 'q'},
		{"active", no_argument, NULL, 'A'},
		{"watch", no_argument, NULL, 'g'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	AUTO_FREE struct job_command *q = calloc(1, sizeof(*q));
	int c, status = CLI_OK;
	if (q == NULL)
		return cli_fail("out of memory");
	while (status == CLI_OK && (c = getopt_long(argc, argv, "c:t:h", options, NULL)) != -1) {
		if (c == 'h') {
			fputs(usage_text, stdout);
			return CLI_OK;
		}
		status = c == '?' ? CLI_USAGE : take(q, c);
	}
	return status != CLI_OK ? status : run(q, argc - optind, argv + optind);
}
