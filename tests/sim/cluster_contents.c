// SPDX-License-Identifier: Apache-2.0
/* Looks up and reads every file that clients were told exists: see cluster_check.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "cluster_check.h"
#include "rt/rt.h"

/* --- reading all ------------------------------------------------------------------------------ */

/* Pauses before a retry. A disk with too many errors stays out of use until the operator brings it back online. */
static void try_later(struct checker *k)
{
	if (!k->world->over)
		operate(k);
	(void)rt_sleep_ns(NS_PER_S);
}

/* Reads a file; retries for a while after every error but -ENOENT, which is an answer. */
static int64_t read_try(struct checker *k, const char *path, uint8_t **bytes)
{
	int64_t rc = -EIO;
	*bytes = NULL;
	for (int i = 0; i < TRIES && rc < 0 && rc != -ENOENT; i++) {
		free(*bytes);
		if (i > 0)
			try_later(k);
		rc = world_read(k->engine, path, bytes, READ_ROOM);
	}
	return rc;
}

static int stat_try(struct checker *k, const char *path, struct terrane_stat *out)
{
	int rc = -EIO;
	for (int i = 0; i < TRIES && rc < 0 && rc != -ENOENT; i++) {
		struct call c;
		if (i > 0)
			(void)rt_sleep_ns(NS_PER_S);
		engine_call(k->engine, &c, NULL);
		rc = engine_stat(&c, path, out);
		rt_background();
	}
	if (rc < 0 && rc != -ENOENT && !k->world->over)
		model_violation(&k->world->model, "I1", "%s cannot be looked up: %s", path,
				err_name(rc));
	return rc;
}

static void read_file(struct checker *k, const struct model_file *f)
{
	struct world *w = k->world;
	uint8_t *bytes;
	int64_t rc = read_try(k, f->path, &bytes);
	w->refused += rc < 0 && rc != -ENOENT;
	model_check_read(&w->model, f, f, rc, bytes, !w->over);
	free(bytes);
}

/* Sets *there to whether the file exists. Returns false if the lookup failed. */
static bool file_lookup(struct checker *k, const struct model_file *f, bool *there)
{
	struct terrane_stat st;
	int rc = stat_try(k, f->path, &st);
	*there = rc == 0;
	if (rc == 0)
		model_check_stat(&k->world->model, f, f, st.size, st.sealed);
	return rc == 0 || rc == -ENOENT;
}

static void check_onto(struct checker *k, const struct model_file *f)
{
	uint8_t *bytes;
	bool there;
	if (!file_lookup(k, f, &there))
		return;
	int64_t rc = read_try(k, f->onto->path, &bytes);
	if (rc >= 0)
		model_check_onto(&k->world->model, f, there, bytes, (uint64_t)rc);
	free(bytes);
}

static bool find_dir(struct checker *k, const char *path, bool *found)
{
	struct terrane_stat st;
	int rc = stat_try(k, path, &st);
	*found = rc == 0;
	return rc == 0 || rc == -ENOENT;
}

static void look_at_dirs(struct checker *k, const struct worker_state *state)
{
	for (unsigned i = 0; i < state->dir_count; i++) {
		const struct model_dir *d = &state->dirs[i];
		bool found, twin_found = false;
		if (find_dir(k, d->path, &found) &&
		    (d->twin == NULL || find_dir(k, d->twin->path, &twin_found)))
			model_check_dir(&k->world->model, d, found, twin_found);
	}
}

void check_contents(struct checker *k)
{
	struct world *w = k->world;
	for (unsigned c = 0; c < w->plan.clients; c++)
		for (unsigned i = 0; i < WORKERS; i++)
			look_at_dirs(k, &w->worker_states[c][i]);
	for (unsigned c = 0; c < w->plan.clients; c++)
		for (unsigned i = 0; i < WORKERS; i++)
			for (unsigned n = 0; n < w->worker_states[c][i].count; n++) {
				const struct model_file *f = worker_file(w, c, i, n);
				bool a, b;
				if (model_violated(&w->model))
					return;
				read_file(k, f);
				if (f->twin != NULL && file_lookup(k, f, &a) &&
				    file_lookup(k, f->twin, &b))
					model_check_twins(&w->model, f, a, b);
				if (f->onto != NULL)
					check_onto(k, f);
			}
	for (unsigned i = 0; i < SHARED_LOGS; i++) {
		struct shared_log *l = &w->logs[i];
		uint8_t *bytes = NULL;
		int64_t rc = -EIO;
		for (int t = 0; t < TRIES && rc < 0 && rc != -ENOENT; t++) {
			free(bytes);
			if (t > 0)
				try_later(k);
			rc = world_read(k->engine, l->path, &bytes,
					(uint64_t)SHARED_WRITERS * RECORDS_MAX * RECORD_BYTES);
		}
		if (rc >= 0)
			shared_check(&w->model, l, l, bytes, (uint64_t)rc);
		else if (l->there && !w->over)
			model_violation(&w->model, "I1", "%s cannot be read: %s", l->path,
					err_name((int)rc));
		free(bytes);
	}
}

/* --- logs without a writer ----------------------------------------------------------- */

static int end_log(struct checker *k, const char *path, uint64_t *size)
{
	int rc = -EIO;
	for (int i = 0; i < TRIES && rc < 0 && rc != -ENOENT && rc != -EROFS; i++) {
		struct call c;
		struct efile *f;
		struct terrane_options o = {.encoding = "r3", .block_bytes = BLOCK_BYTES};
		struct terrane_stat st = {0};
		engine_call(k->engine, &c, &o);
		rc = engine_append_open(&c, path, &o, &f);
		if (rc == 0) {
			rc = engine_file_stat(&c, f, &st);
			*size = st.size;
			int closed = engine_file_close(&c, f);
			rc = rc < 0 ? rc : closed;
		}
		rt_background();
		if (rc < 0)
			try_later(k);
	}
	return rc;
}

void check_logs_end(struct checker *k)
{
	struct world *w = k->world;
	uint64_t size;
	for (unsigned c = 0; c < w->plan.clients; c++)
		for (unsigned i = 0; i < WORKERS; i++)
			for (unsigned n = 0; n < w->worker_states[c][i].count; n++) {
				struct model_file *f = worker_file(w, c, i, n);
				if (!f->log || f->sealed || f->state == MODEL_GONE)
					continue;
				int rc = end_log(k, f->path, &size);
				if (rc == 0)
					model_log_found(&w->model, f, size);
				else if (rc != -ENOENT && rc != -EROFS && !w->over)
					model_violation(&w->model, "I1",
							"%s cannot be taken over: %s", f->path,
							err_name(rc));
			}
	for (unsigned i = 0; i < SHARED_LOGS; i++) {
		int rc = end_log(k, w->logs[i].path, &size);
		if (rc < 0 && w->logs[i].there && !w->over)
			model_violation(&w->model, "I1", "%s cannot be taken over: %s",
					w->logs[i].path, err_name(rc));
	}
}
