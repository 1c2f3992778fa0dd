// SPDX-License-Identifier: Apache-2.0
/* terrane cachesim: the flash cache of training jobs in virtual time. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "analysis/work.h"
#include "base/err.h"
#include "cli/cachesim.h"
#include "cli/fs.h"
#include "cli/progress.h"

struct study {
	const struct cachesim_args *args;
	const struct workload *workload;
	struct cachesim_result *results; /* [policy] */
	struct progress progress;
};

static void add_progress(void *arg, uint64_t bytes)
{
	struct study *s = arg;
	progress_add(&s->progress, bytes, 0);
}

static int simulate(void *arg, uint64_t task, struct rng *rng)
{
	struct study *s = arg;
	(void)rng; /* seeds follow from the workload, so that all policies see the same jobs */
	struct cachesim_options o = {
		.nodes = s->args->nodes, .progress = add_progress, .arg = s, .now_s = fs_clock};
	int rc = cachesim_run(s->workload, s->args->policies[task], &o, &s->results[task]);
	progress_add(&s->progress, 0, 1);
	return rc;
}

/* Reads a file into *text, which the caller frees. Returns its length or -errno. */
static int64_t read_text(const char *path, char **text)
{
	bool is_stdin = strcmp(path, "-") == 0;
	*text = malloc(WORKLOAD_FILE_BYTES_MAX + 1ULL);
	FILE *f = is_stdin ? stdin : fopen(path, "re");
	if (*text == NULL || f == NULL) {
		int rc = *text == NULL ? -ENOMEM : -errno;
		if (f != NULL && !is_stdin)
			(void)fclose(f);
		return rc;
	}
	size_t len = fread(*text, 1, WORKLOAD_FILE_BYTES_MAX + 1ULL, f);
	int64_t rc = ferror(f) ? -EIO : len > WORKLOAD_FILE_BYTES_MAX ? -EFBIG : (int64_t)len;
	if (!is_stdin)
		(void)fclose(f);
	return rc;
}

static int load_workload(const struct cachesim_args *a, struct workload *w)
{
	AUTO_FREE char *text = NULL;
	char why[WORKLOAD_WHY_MAX] = "";
	struct cachesim_node node;
	int64_t len = read_text(a->workload, &text);
	if (len < 0)
		return cachesim_fail("cannot read %s: %s", a->workload, err_text((int)len));
	int rc = workload_parse(w, text, (size_t)len, why, sizeof(why));
	if (rc == 0)
		rc = cachesim_node(w, &node, why, sizeof(why));
	if (rc != 0)
		return cachesim_fail("%s: %s", a->workload, why);
	if (a->seeded)
		workload_draw(w, a->seed);
	return CLI_GO_ON;
}

static int load_power(const struct cachesim_args *a, struct power *out)
{
	AUTO_FREE char *text = NULL;
	char why[POWER_WHY_MAX] = "";
	struct power_demand d;
	int64_t len = read_text(a->power_file, &text);
	if (len < 0)
		return cachesim_fail("cannot read %s: %s", a->power_file, err_text((int)len));
	if (power_parse(&d, text, (size_t)len, why, sizeof(why)) != 0)
		return cachesim_fail("%s: %s", a->power_file, why);
	*out = power_of(&d);
	return CLI_GO_ON;
}

int cmd_cachesim(int argc, char **argv)
{
	struct cachesim_args a;
	AUTO_WORKLOAD struct workload w = {0};
	int status = cachesim_args(argc, argv, &a);
	if (status == CLI_GO_ON)
		status = load_workload(&a, &w);
	struct power power;
	if (status == CLI_GO_ON && a.power_file != NULL)
		status = load_power(&a, &power);
	if (status != CLI_GO_ON)
		return status;
	AUTO_FREE struct cachesim_result *results = calloc(a.policies_n, sizeof(*results));
	if (results == NULL)
		return cachesim_fail("%s", err_text(-ENOMEM));
	struct study s = {.args = &a, .workload = &w, .results = results};
	double share = a.nodes > 0 && a.nodes < w.nodes ? (double)a.nodes / w.nodes : 1;
	progress_begin(&s.progress, "cachesim", a.quiet);
	s.progress.unit = "policies done";
	atomic_store(&s.progress.total_bytes,
		     (unsigned long long)((double)w.bytes * share * a.policies_n));
	const struct work work = {.threads = a.threads};
	int rc = work_run(&work, a.policies_n, simulate, &s);
	(void)progress_end(&s.progress);
	if (rc != 0)
		return cachesim_fail("cannot simulate %s: %s", a.workload, err_text(rc));
	return cachesim_show(&a, &w, a.power_file != NULL ? &power : NULL, results, a.policies_n);
}
