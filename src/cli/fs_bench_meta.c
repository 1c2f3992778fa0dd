// SPDX-License-Identifier: Apache-2.0
/* bench meta: creates, stats, lists and removes empty files, with --depth calls in flight. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/fs_bench.h"

enum step { STEP_CREATE, STEP_STAT, STEP_REMOVE, STEP_LIST, STEP_COUNT };

static const char *const step_names[STEP_COUNT] = {[STEP_CREATE] = "create",
						   [STEP_STAT] = "stat",
						   [STEP_REMOVE] = "remove",
						   [STEP_LIST] = "list"};

/* One name that the bench works on. */
struct job {
	struct terrane_op op;
	struct terrane_file *file; /* the file between its creation and its close */
	struct terrane_stat st;
	char path[FS_PATH_MAX];
	double since;
	bool closing; /* the file was created and is being closed */
	struct job *next_free;
};

struct names {
	struct bench b;
	const char *dir;
	enum step step;
	size_t next, count;
	struct terrane_queue *queue;
	struct job *jobs, *free;
	size_t depth, in_flight;
};

static int job_begin(struct names *n, struct job *j)
{
	struct fs *fs = n->b.fs;
	char name[24];
	snprintf(name, sizeof(name), "m%08zu", n->next++);
	if (!fs_join(j->path, n->dir, name))
		return -ENAMETOOLONG;
	j->op = (struct terrane_op){.queue = n->queue, .user = j};
	j->file = NULL;
	j->closing = false;
	j->since = fs_clock();
	switch (n->step) {
	case STEP_CREATE:
		return terrane_create_start(fs->t, j->path, bench_create_flags(fs), &j->file,
					    &fs->o, &j->op);
	case STEP_STAT:
		return terrane_stat_start(fs->t, j->path, &j->st, &fs->o, &j->op);
	default:
		return terrane_remove_start(fs->t, j->path, &fs->o, &j->op);
	}
}

/* Continues a job whose call has returned. Returns 1 while the job has another call in flight, 0 after its end, or an
 * error. */
static int job_continue(struct names *n, struct job *j)
{
	int64_t rc = j->op.result;
	if (rc < 0)
		return (int)rc;
	if (n->step == STEP_CREATE && !j->closing) {
		j->closing = true;
		j->op = (struct terrane_op){.queue = n->queue, .user = j};
		rc = terrane_file_close_start(j->file, &n->b.fs->o, &j->op);
		return rc < 0 ? (int)rc : 1;
	}
	bench_op(&n->b, j->since);
	return 0;
}

/* Begins jobs until `depth` are in flight, or no name is left. */
static int jobs_begin(struct names *n)
{
	while (n->next < n->count && n->free != NULL) {
		struct job *j = n->free;
		int rc = job_begin(n, j);
		if (rc < 0)
			return rc;
		n->free = j->next_free;
		n->in_flight++;
	}
	return 0;
}

/* Waits for calls and continues their jobs. */
static int jobs_continue(struct names *n)
{
	struct terrane_op *done[64];
	int first = 0;
	int got = terrane_queue_take(n->queue, done, ARRAY_LEN(done), -1);
	assert(got > 0); /* without a limit of time it waits for an op */
	for (int i = 0; i < got; i++) {
		struct job *j = done[i]->user;
		int rc = job_continue(n, j);
		if (rc == 1)
			continue;
		assert(n->in_flight > 0);
		n->in_flight--;
		j->next_free = n->free;
		n->free = j;
		first = first == 0 ? rc : first;
	}
	return first;
}

static int names_run(struct names *n)
{
	int rc = terrane_queue_open(n->b.fs->t, &n->queue);
	n->jobs = calloc(n->depth, sizeof(*n->jobs));
	if (rc == 0 && n->jobs == NULL)
		rc = -ENOMEM;
	for (size_t i = 0; rc == 0 && i < n->depth; i++) {
		n->jobs[i].next_free = n->free;
		n->free = &n->jobs[i];
	}
	while (rc == 0 && (n->next < n->count || n->in_flight > 0)) {
		rc = jobs_begin(n);
		if (rc == 0)
			rc = jobs_continue(n);
	}
	/* After an error, the jobs that are in flight come to their end. */
	while (n->in_flight > 0)
		(void)jobs_continue(n);
	if (n->queue != NULL)
		terrane_queue_close(n->queue);
	free(n->jobs);
	return rc;
}

static int meta_each(struct fs *fs, const char *dir, enum step step, size_t count)
{
	struct names n = {.dir = dir, .step = step, .count = count};
	size_t depth = (size_t)(fs->flags.depth > 0 ? fs->flags.depth : 1);
	n.depth = depth < DEPTH_MAX ? depth : DEPTH_MAX;
	int rc = bench_begin(&n.b, fs, step_names[step], dir, count);
	if (rc == 0)
		rc = names_run(&n);
	return bench_end(&n.b, rc);
}

static int meta_list(struct fs *fs, const char *dir, size_t count)
{
	struct bench b;
	struct terrane_entry *page = calloc(1000, sizeof(*page));
	struct terrane_cursor at = {0};
	int64_t n = page != NULL ? 1 : -ENOMEM;
	int rc = bench_begin(&b, fs, "list", dir, count);
	while (rc == 0 && n > 0) {
		double since = fs_clock();
		n = terrane_list(fs->t, dir, &at, page, 1000, &fs->o);
		for (int64_t i = 0; i < n; i++)
			bench_op(&b, since);
	}
	free(page);
	return bench_end(&b, rc < 0 ? rc : n);
}

/* Runs all steps, or the one that --pattern names, so that each can be measured with empty caches. */
int bench_meta(struct fs *fs, const char *dir)
{
	static const enum step order[] = {STEP_CREATE, STEP_STAT, STEP_LIST, STEP_REMOVE};
	const char *only = fs->flags.pattern;
	size_t count = (size_t)(fs->flags.count > 0 ? fs->flags.count : 2000);
	int rc = terrane_mkdir(fs->t, dir, TERRANE_PARENTS, &fs->o);
	if (rc < 0)
		return fs_fail(&fs->error, rc, "cannot make", dir);
	int status = CLI_OK;
	bool any = false;
	for (size_t i = 0; i < ARRAY_LEN(order) && status == CLI_OK; i++) {
		if (only != NULL && strcmp(only, step_names[order[i]]) != 0)
			continue;
		any = true;
		status = order[i] == STEP_LIST ? meta_list(fs, dir, count)
					       : meta_each(fs, dir, order[i], count);
	}
	return any ? status
		   : cli_usage("bench meta: unknown pattern \"%s\"; it is create, stat, list or "
			       "remove",
			       only);
}
