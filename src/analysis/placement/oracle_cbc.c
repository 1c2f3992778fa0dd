// SPDX-License-Identifier: Apache-2.0
/*
 * The problem with two non-zeros for each job: o_k is the share of flash in use from event k to the next one.
 *
 *   o_k = o_(k-1) + sum of size_j * x_j over jobs that start at k - the same over jobs that end at k,  0 <= o_k <= 1
 *
 * Written in the LP format, solved by the program `cbc`.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/placement/oracle_impl.h"
#include "base/base.h"

extern char **environ;

struct event {
	double time_s;
	size_t job;
	bool end;
};

static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;
	if (x->time_s != y->time_s)
		return x->time_s < y->time_s ? -1 : 1;
	return x->job < y->job ? -1 : x->job > y->job;
}

static void write_row(const struct cbc_order *o, const struct event *events, size_t count,
		      size_t row, FILE *out)
{
	fprintf(out, " c%zu: o%zu", row, row);
	if (row > 0)
		fprintf(out, " - o%zu", row - 1);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "\n %c %.17g x%zu", events[i].end ? '+' : '-',
			(double)o->jobs[events[i].job].size / (double)o->capacity, events[i].job);
	fprintf(out, " = 0\n");
}

static double gain_max(const struct cbc_order *o)
{
	double most = 0;
	for (size_t i = 0; i < o->n; i++)
		most = o->jobs[i].gain > most ? o->jobs[i].gain : most;
	return most > 0 ? most : 1;
}

int cbc_write(const struct cbc_order *o, FILE *out)
{
	size_t rows = 0, events_n = 0;
	double scale = 1000 / gain_max(o);
	AUTO_FREE struct event *events = calloc(2 * o->n + 1, sizeof(*events));
	if (events == NULL)
		return -ENOMEM;
	assert(o->capacity > 0);
	fprintf(out, "Maximize\n obj: 0 o0");
	for (size_t i = 0; i < o->n; i++) {
		const struct flow_job *j = &o->jobs[i];
		if (j->gain <= 0)
			continue;
		fprintf(out, "\n + %.17g x%zu", j->gain * scale, i);
		events[events_n++] = (struct event){j->start_s, i, false};
		events[events_n++] = (struct event){j->end_s, i, true};
	}
	if (events_n > 1)
		qsort(events, events_n, sizeof(*events), by_time);
	fprintf(out, "\nSubject To\n");
	for (size_t i = 0, same; i < events_n; i += same) {
		for (same = 1; i + same < events_n && events[i + same].time_s <= events[i].time_s;)
			same++;
		write_row(o, events + i, same, rows++, out);
	}
	fprintf(out, "Bounds\n");
	for (size_t i = 0; i < (rows > 0 ? rows : 1); i++)
		fprintf(out, " 0 <= o%zu <= 1\n", i);
	for (size_t i = 0; o->relaxed && i < o->n; i++)
		if (o->jobs[i].gain > 0)
			fprintf(out, " 0 <= x%zu <= 1\n", i);
	fprintf(out, o->relaxed ? "" : "Binaries\n");
	for (size_t i = 0; !o->relaxed && i < o->n; i++)
		if (o->jobs[i].gain > 0)
			fprintf(out, " x%zu\n", i);
	fprintf(out, "End\n");
	return fflush(out) != 0 || ferror(out) ? -EIO : 0;
}

/* Reads "NUMBER NAME VALUE COST". Returns false for another form. */
static bool read_value(const char *line, double *value, size_t n)
{
	/* "**" marks a value that breaks a bound by more than a tolerance. */
	const char *name = line + strspn(line, " *");
	name += strspn(name, "0123456789");
	name += strspn(name, " ");
	if (name[0] != 'x')
		return name[0] == 'o';
	char *end, *after;
	unsigned long long job = strtoull(name + 1, &end, 10);
	double v = strtod(end, &after);
	if (end == name + 1 || *end != ' ' || after == end || job >= n ||
	    !(v >= -1e-6 && v <= 1 + 1e-6))
		return false;
	value[job] = v;
	return true;
}

int cbc_read(FILE *in, double *value, size_t n)
{
	char line[256];
	if (fgets(line, sizeof(line), in) == NULL)
		return -ENODATA;
	bool solved = strncmp(line, "Optimal", 7) == 0 || strncmp(line, "Stopped", 7) == 0;
	if (!solved || strstr(line, "no integer solution") != NULL)
		return -ENODATA;
	memset(value, 0, n * sizeof(*value));
	while (fgets(line, sizeof(line), in) != NULL) {
		if (!read_value(line, value, n))
			return -EILSEQ;
	}
	return 0;
}

static int run_cbc(const struct cbc_order *o, const char *problem, const char *solution)
{
	char gap[32], limit[32];
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int status;
	snprintf(gap, sizeof(gap), "%.6g", o->gap);
	snprintf(limit, sizeof(limit), "%.0f", o->limit_s);
	const char *argv[] = {"cbc",   problem,    "ratio",  gap,    "sec", limit,
			      "solve", "solution", solution, "quit", NULL};
	if (posix_spawn_file_actions_init(&actions) != 0)
		return -ENOMEM;
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	int rc = posix_spawnp(&pid, "cbc", &actions, NULL, (char **)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (rc != 0)
		return -rc;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

static int solve_in(const struct cbc_order *o, const char *folder, double *value)
{
	char problem[600], solution[600];
	snprintf(problem, sizeof(problem), "%s/p.lp", folder);
	snprintf(solution, sizeof(solution), "%s/s.txt", folder);
	FILE *out = fopen(problem, "we");
	if (out == NULL)
		return -EIO;
	int rc = cbc_write(o, out);
	if (fclose(out) != 0 && rc == 0)
		rc = -EIO;
	if (rc == 0)
		rc = run_cbc(o, problem, solution);
	FILE *in = rc == 0 ? fopen(solution, "re") : NULL;
	if (rc == 0)
		rc = in == NULL ? -ENODATA : cbc_read(in, value, o->n);
	if (in != NULL)
		fclose(in);
	unlink(problem);
	unlink(solution);
	return rc == -EILSEQ ? -EIO : rc;
}

int cbc_solve(const struct cbc_order *o, double *value)
{
	char folder[512];
	const char *tmp = getenv("TMPDIR");
	snprintf(folder, sizeof(folder), "%.480s/terrane-cbc-XXXXXX",
		 tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp");
	if (mkdtemp(folder) == NULL)
		return -EIO;
	int rc = solve_in(o, folder, value);
	rmdir(folder);
	return rc;
}
