// SPDX-License-Identifier: Apache-2.0
/* Operations of workers on names: see cluster_work.h. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cluster_work.h"
#include "rt/rt.h"

#define DIR_PICKS 8
#define DIR_FILES_MAX 12 /* files in a directory that is moved */

/* --- places ----------------------------------------------------------------------------------- */

static void top_path(const struct worker *k, char side, char out[MODEL_PATH_MAX])
{
	snprintf(out, MODEL_PATH_MAX, "/c%uw%u%c", k->client, k->number, side);
}

static struct model_dir *dir_pick(struct worker *k)
{
	struct worker_state *d = k->state;
	for (int i = 0; i < DIR_PICKS && d->dir_count > 0; i++) {
		struct model_dir *dir = &d->dirs[rng_below(&k->rng, d->dir_count)];
		if (dir->there && !dir->in_doubt)
			return dir;
	}
	return NULL;
}

/* Draws an existing directory of the worker. */
static void place_draw(struct worker *k, char out[MODEL_PATH_MAX])
{
	const struct model_dir *dir = rng_chance(&k->rng, 0.25) ? dir_pick(k) : NULL;
	if (dir != NULL)
		snprintf(out, MODEL_PATH_MAX, "%s", dir->path);
	else
		top_path(k, (char)('a' + rng_below(&k->rng, 2)), out);
}

static size_t parent_len(const char *path)
{
	return (size_t)(strrchr(path, '/') - path);
}

static bool is_in(const char *path, const char *dir)
{
	size_t n = strlen(dir);
	return strncmp(path, dir, n) == 0 && parent_len(path) == n;
}

struct model_file *file_new(struct worker *k, const char *dir)
{
	struct worker_state *d = k->state;
	assert(d->count <= FILES_MAX);
	char drawn[MODEL_PATH_MAX];
	if (d->count == FILES_MAX)
		return NULL;
	if (dir == NULL)
		place_draw(k, drawn);
	struct model_file *f = &d->files[d->count++];
	*f = (struct model_file){.text = k->world->texts++};
	snprintf(f->path, sizeof(f->path), "%.30s/f%u", dir != NULL ? dir : drawn, d->count);
	return f;
}

/* --- files ------------------------------------------------------------------------------------ */

static int rename_call(struct worker *k, const char *from, const char *to)
{
	struct call c;
	struct terrane_options o = {0};
	work_call(k->engine, &c, &o);
	int rc = engine_rename(&c, from, to);
	rt_background();
	return rc;
}

static int rename_once(struct worker *k, struct model_file *f, struct model_file *to)
{
	struct model_file was = *f;
	model_rename_begin(&k->world->model, f, to);
	int rc = rename_call(k, f->path, to->path);
	model_check_refusal(&k->world->model, &was, "rename", rc);
	model_rename_end(&k->world->model, f, to, rc);
	return rc;
}

static void rename_to(struct worker *k, struct model_file *f, bool move, unsigned times)
{
	char dir[MODEL_PATH_MAX];
	do
		if (move)
			place_draw(k, dir);
		else
			snprintf(dir, sizeof(dir), "%.*s", (int)parent_len(f->path), f->path);
	while (move && is_in(f->path, dir));
	struct model_file *to = file_new(k, dir);
	if (to == NULL)
		return;
	/* Back and forth: a late copy of a request must not be applied again. */
	for (int rc = 0; rc == 0 && times > 0; times--) {
		struct model_file *back = f;
		if (times > 1 && k->world->plan.freezes && rng_chance(&k->rng, 0.2))
			world_request_fault(k->world, REQUEST_FREEZE, k->client,
					    8 + (unsigned)rng_below(&k->rng, 16));
		rc = rename_once(k, f, to);
		f = to;
		to = back;
	}
}

void op_rename(struct worker *k)
{
	struct model_file *f = file_any(k);
	if (f != NULL && f->size == f->size_max)
		rename_to(k, f, false, 1);
}

void op_move(struct worker *k)
{
	struct model_file *f = file_any(k);
	if (f != NULL && f->sealed)
		rename_to(k, f, true, 1);
}

void op_rename_back(struct worker *k)
{
	struct model_file *f = file_any(k);
	if (f != NULL && f->sealed)
		rename_to(k, f, rng_chance(&k->rng, 0.5), 6);
}

/* Renames a file onto another one and replaces that. */
void op_rename_onto(struct worker *k)
{
	struct model *m = &k->world->model;
	struct model_file *f = file_pick(k, false, true), *to = file_pick(k, false, true);
	if (f == NULL || to == NULL || f == to || to->version + 2 >= VERSIONS_MAX)
		return;
	struct model_file was = *f;
	model_rename_onto_begin(m, f, to);
	int rc = rename_call(k, f->path, to->path);
	model_check_refusal(m, &was, "rename", rc);
	model_rename_onto_end(m, f, to, rc);
}

void op_remove(struct worker *k)
{
	struct call c;
	struct terrane_options o = {0};
	struct model_file *f = file_any(k);
	if (f == NULL)
		return;
	struct model_file was = *f;
	model_begin(&k->world->model, f, "remove");
	work_call(k->engine, &c, &o);
	int rc = engine_remove(&c, f->path);
	rt_background();
	model_check_refusal(&k->world->model, &was, "remove", rc);
	if (rc == 0)
		model_end(&k->world->model, f, MODEL_GONE);
	else
		model_set_in_doubt(&k->world->model, f, rc);
}

/* --- directories ------------------------------------------------------------------------------ */

static int mkdir_call(struct worker *k, const char *path, unsigned flags)
{
	struct call c;
	struct terrane_options o = {0};
	work_call(k->engine, &c, &o);
	int rc = engine_mkdir(&c, path, flags);
	rt_background();
	return rc;
}

int names_prepare(struct worker *k)
{
	for (int side = 'a'; side <= 'b'; side++) {
		char path[MODEL_PATH_MAX];
		int rc;
		top_path(k, (char)side, path);
		do
			rc = mkdir_call(k, path, TERRANE_PARENTS);
		while (rc < 0 && rt_sleep_ns(200 * NS_PER_MS) == 0);
		if (rc < 0)
			return rc;
	}
	k->state->ready = true;
	return 0;
}

static struct model_dir *dir_new(struct worker *k)
{
	struct worker_state *d = k->state;
	char top[MODEL_PATH_MAX];
	if (d->dir_count == DIRS_MAX)
		return NULL;
	struct model_dir *dir = &d->dirs[d->dir_count++];
	top_path(k, (char)('a' + rng_below(&k->rng, 2)), top);
	*dir = (struct model_dir){.in_doubt = true};
	snprintf(dir->path, sizeof(dir->path), "%.20s/d%u", top, d->dir_count);
	return dir;
}

void op_dir_make(struct worker *k)
{
	struct model_dir *dir = dir_new(k);
	if (dir == NULL)
		return;
	int rc = mkdir_call(k, dir->path, 0);
	model_note(&k->world->model, "mkdir %s: %s", dir->path, err_name(rc));
	if (rc == -EEXIST)
		model_violation(&k->world->model, "I6", "mkdir of the new name %s: %s", dir->path,
				err_name(rc));
	if (rc != 0)
		return;
	dir->there = true;
	dir->in_doubt = false;
	k->world->model.acknowledged++;
	work_write(k, dir->path);
}

/* Collects the files in a directory. Returns their number; -1 if the state of one is unknown or changing. */
static int dir_files(struct worker *k, const struct model_dir *dir,
		     struct model_file *files[DIR_FILES_MAX])
{
	struct worker_state *d = k->state;
	int n = 0;
	for (unsigned i = 0; i < d->count; i++) {
		struct model_file *f = &d->files[i];
		if (f->state == MODEL_GONE || !is_in(f->path, dir->path))
			continue;
		if (f->state != MODEL_THERE || f->in_doubt || f->size != f->size_max ||
		    n == DIR_FILES_MAX)
			return -1;
		files[n++] = f;
	}
	return n;
}

/* Moves a directory: all files in it change their paths at once. */
void op_dir_move(struct worker *k)
{
	struct model *m = &k->world->model;
	struct model_file *files[DIR_FILES_MAX], *to_files[DIR_FILES_MAX];
	struct model_dir *dir = dir_pick(k);
	int n = dir == NULL ? -1 : dir_files(k, dir, files);
	if (n < 0 || k->state->count + (unsigned)n > FILES_MAX)
		return;
	struct model_dir *to = dir_new(k);
	if (to == NULL)
		return;
	dir->in_doubt = true;
	dir->twin = to;
	to->twin = dir;
	for (int i = 0; i < n; i++) {
		to_files[i] = file_new(k, to->path);
		snprintf(to_files[i]->path, MODEL_PATH_MAX, "%.30s%.16s", to->path,
			 files[i]->path + parent_len(files[i]->path));
		model_rename_begin(m, files[i], to_files[i]);
	}
	int rc = rename_call(k, dir->path, to->path);
	model_note(m, "move %s to %s: %s", dir->path, to->path, err_name(rc));
	if (rc == -ENOENT || rc == -EEXIST)
		model_violation(m, "I6",
				"the move of %s to %s failed, but only this worker uses them: %s",
				dir->path, to->path, err_name(rc));
	for (int i = 0; i < n; i++)
		model_rename_end(m, files[i], to_files[i], rc);
	if (rc == 0) {
		dir->there = false;
		to->there = true;
		dir->in_doubt = to->in_doubt = false;
		dir->twin = to->twin = NULL;
		m->acknowledged++;
	}
}

/* Removes a directory, which must succeed only if it is empty. */
void op_dir_remove(struct worker *k)
{
	struct model *m = &k->world->model;
	struct model_file *files[DIR_FILES_MAX];
	struct model_dir *dir = dir_pick(k);
	struct call c;
	struct terrane_options o = {0};
	int n = dir == NULL ? -1 : dir_files(k, dir, files);
	if (n < 0)
		return;
	dir->in_doubt = true;
	work_call(k->engine, &c, &o);
	int rc = engine_remove(&c, dir->path);
	rt_background();
	model_note(m, "rmdir %s of %d files: %s", dir->path, n, err_name(rc));
	if (rc == -ENOENT || (rc == -ENOTEMPTY && n == 0) || (rc == 0 && n > 0))
		model_violation(m, "I6", "the removal of %s, which has %d files, returned %s",
				dir->path, n, err_name(rc));
	if (rc == 0)
		dir->there = false;
	if (rc == 0 || rc == -ENOTEMPTY)
		dir->in_doubt = false;
}

/* --- listing ---------------------------------------------------------------------------------- */

static void check_listed(struct worker *k, const char *path, bool there, bool gone, unsigned times)
{
	struct model *m = &k->world->model;
	if (times > 1 || (times == 0 && there))
		model_violation(m, "I6", "%s exists once, but is listed %u times", path, times);
	else if (times > 0 && gone)
		model_violation(m, "I3", "%s was removed, but is listed", path);
}

/* Counts a name that was listed. */
static void note_listed(struct worker *k, const char *path, unsigned files[FILES_MAX],
			unsigned dirs[DIRS_MAX])
{
	const struct worker_state *d = k->state;
	for (unsigned f = 0; f < d->count; f++)
		if (strcmp(d->files[f].path, path) == 0) {
			files[f]++;
			return;
		}
	for (unsigned i = 0; i < d->dir_count; i++)
		if (strcmp(d->dirs[i].path, path) == 0) {
			dirs[i]++;
			return;
		}
	model_violation(&k->world->model, "I6", "%s is listed, but no client created it", path);
}

/* Lists a directory that only this worker changes. */
void op_list(struct worker *k)
{
	const struct worker_state *d = k->state;
	struct terrane_cursor at = {0};
	struct terrane_entry page[8];
	unsigned files[FILES_MAX] = {0}, dirs[DIRS_MAX] = {0};
	char dir[MODEL_PATH_MAX], path[MODEL_PATH_MAX + 1 + TERRANE_NAME_MAX];
	int64_t n = 1;
	place_draw(k, dir);
	while (n > 0) {
		struct call c;
		struct terrane_options o = {0};
		work_call(k->engine, &c, &o);
		n = engine_list(&c, dir, &at, page, ARRAY_LEN(page));
		rt_background();
		for (int64_t i = 0; i < n; i++) {
			snprintf(path, sizeof(path), "%s/%.*s", dir, TERRANE_NAME_MAX,
				 page[i].name);
			note_listed(k, path, files, dirs);
		}
	}
	if (n == -ENOENT && !rt_cancelled())
		model_violation(&k->world->model, "I6", "%s exists, but a list did not find it",
				dir);
	if (n < 0 || rt_cancelled())
		return;
	for (unsigned i = 0; i < d->count; i++) {
		const struct model_file *f = &d->files[i];
		if (is_in(f->path, dir))
			check_listed(k, f->path, f->state == MODEL_THERE,
				     f->state == MODEL_GONE || f->state == MODEL_NEVER, files[i]);
	}
	for (unsigned i = 0; i < d->dir_count; i++) {
		const struct model_dir *in = &d->dirs[i];
		if (is_in(in->path, dir))
			check_listed(k, in->path, in->there && !in->in_doubt,
				     !in->there && !in->in_doubt, dirs[i]);
	}
}
