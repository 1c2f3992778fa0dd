// SPDX-License-Identifier: Apache-2.0
/* terrane job list, show and top: what the registry says about jobs. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/cmd_job.h"

#define PAGE 64

static const char *status_of(const struct terrane_job_info *i)
{
	return i->active ? "active" : i->ended ? "done" : "lease ended";
}

/* --- JSON ----------------------------------------------------------------------------------------- */

static json_t *parts_json(const struct terrane_job *j)
{
	json_t *all = json_array();
	char id[17];
	for (size_t i = 0; i < j->part_count; i++) {
		snprintf(id, sizeof(id), "%016" PRIx64, j->parts[i].id);
		json_array_append_new(all,
				      json_pack("{s:s, s:s, s:s}", "kind",
						job_part_name((enum job_part_kind)j->parts[i].kind),
						"path", j->parts[i].path, "id", id));
	}
	return all;
}

static json_t *ranges_json(const struct terrane_job *j)
{
	json_t *all = json_array();
	for (size_t i = 0; i < j->range_count; i++)
		json_array_append_new(all, json_pack("[f, f]",
						     (double)j->ranges[i].from / JOB_RANGE_WHOLE,
						     (double)j->ranges[i].to / JOB_RANGE_WHOLE));
	return all;
}

static json_t *columns_json(const struct terrane_job *j)
{
	json_t *all = json_array();
	for (size_t i = 0; i < j->column_count; i++)
		json_array_append_new(all, json_string(j->columns[i]));
	return all;
}

static json_t *progress_json(const struct terrane_job_info *i)
{
	const struct terrane_job_progress *p = &i->progress;
	return json_pack("{s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:i}", "epoch",
			 (int)p->epoch, "part", (int)p->part, "position", (json_int_t)p->position,
			 "total", (json_int_t)p->total, "steps", (json_int_t)p->steps, "compute_us",
			 (json_int_t)p->compute_us, "wait_us", (json_int_t)p->wait_us, "bytes",
			 (json_int_t)p->bytes, "hit_bytes", (json_int_t)p->hit_bytes, "window",
			 (int)p->window, "windows", (int)p->windows);
}

/* null: no manager has decided yet. */
static json_t *flash_json(const struct terrane_job_flash *f)
{
	if (f == NULL)
		return json_null();
	return json_pack("{s:s, s:b, s:b, s:f, s:I, s:f, s:f, s:f, s:s, s:I}", "keep",
			 job_keep_name((enum job_keep)f->keep), "off", (int)f->off, "probed",
			 (int)f->probed, "share", f->share, "bytes", (json_int_t)f->bytes, "hit_s",
			 f->hit_s, "miss_s", f->miss_s, "saved", f->saved, "why", f->why, "at_ms",
			 (json_int_t)f->at_ms);
}

static json_t *job_json(const struct terrane_job_info *i)
{
	const struct terrane_job *j = &i->job;
	json_t *o = json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:I, s:i, s:i, s:i, s:I, s:I}", "id",
			      (json_int_t)j->id, "name", j->name, "owner", i->owner, "status",
			      status_of(i), "order", job_order_name((enum job_order)j->order),
			      "shuffle", job_shuffle_name((enum job_shuffle)j->shuffle), "seed",
			      (json_int_t)j->seed, "readers", (int)j->readers, "epochs",
			      (int)j->epochs, "accelerators", (int)j->accelerators, "lease_ms",
			      (json_int_t)j->lease_ms, "left_ms", (json_int_t)i->left_ms);
	json_t *more =
		json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "flash",
			  flash_json(i->flash), "parts", parts_json(j), "ranges", ranges_json(j),
			  "columns", columns_json(j), "progress", progress_json(i), "added_ms",
			  (json_int_t)i->added_ms, "reported_ms", (json_int_t)i->reported_ms,
			  "steps_s", i->steps_s, "bytes_s", i->bytes_s, "wait_share", i->wait_share,
			  "hit_share", i->hit_share, "done_share", i->done_share);
	if (o != NULL && more != NULL)
		json_object_update(o, more);
	json_decref(more);
	return o;
}

/* --- text ----------------------------------------------------------------------------------------- */

static const char *shown(char out[FS_PATH_MAX], const char *text)
{
	return text[0] != 0 ? fs_show(out, text) : "-";
}

static void list_head(void)
{
	printf("%-20s %-16s %-12s %-7s %5s %5s  %s\n", "id", "name", "status", "order", "acc.",
	       "done", "reads");
}

static void list_line(const struct terrane_job_info *i)
{
	char name[FS_PATH_MAX], path[FS_PATH_MAX];
	const struct terrane_job *j = &i->job;
	printf("%-20" PRIu64 " %-16s %-12s %-7s %5" PRIu32 " %4.0f%%  %s", j->id,
	       shown(name, j->name), status_of(i), job_order_name((enum job_order)j->order),
	       j->accelerators, 100 * i->done_share, shown(path, j->parts[0].path));
	printf(j->part_count > 1 ? " and %zu more\n" : "\n", j->part_count - 1);
}

static void top_head(void)
{
	printf("%-20s %-16s %5s %8s %9s %6s %6s %-9s %-7s %5s %9s  %s\n", "id", "name", "acc.",
	       "steps/s", "read/s", "wait", "hits", "window", "order", "done", "lease", "flash");
}

#define FLASH_TEXT (FS_SIZE_TEXT + 128)

/* Says what flash the data set of a job has, and why. */
static const char *flash_text(char out[FLASH_TEXT], const struct terrane_job_flash *f)
{
	static const char *const keeps[] = {[TERRANE_KEEP_ANY] = "by policy",
					    [TERRANE_KEEP_NOTHING] = "none",
					    [TERRANE_KEEP_WINDOWS] = "two windows",
					    [TERRANE_KEEP_PART] = "a part",
					    [TERRANE_KEEP_ALL] = "all"};
	char size[FS_SIZE_TEXT];
	if (f == NULL)
		return "-";
	if (f->bytes == 0 || f->off)
		snprintf(out, FLASH_TEXT, "%s: %s", f->off ? "none" : keeps[f->keep], f->why);
	else
		snprintf(out, FLASH_TEXT, "%s, %s: %s; frees %.1f accelerators", keeps[f->keep],
			 fs_size(size, (double)f->bytes), f->why, f->saved);
	return out;
}

static void top_line(const struct terrane_job_info *i)
{
	char name[FS_PATH_MAX], rate[FS_SIZE_TEXT], window[32] = "-", flash[FLASH_TEXT];
	const struct terrane_job *j = &i->job;
	const struct terrane_job_progress *p = &i->progress;
	if (p->windows > 0)
		snprintf(window, sizeof(window), "%" PRIu32 "/%" PRIu32, p->window + 1, p->windows);
	printf("%-20" PRIu64 " %-16s %5" PRIu32
	       " %8.2f %9s %5.1f%% %5.1f%% %-9s %-7s %4.0f%% %8.0fs  %s\n",
	       j->id, shown(name, j->name), j->accelerators, i->steps_s, fs_size(rate, i->bytes_s),
	       100 * i->wait_share, 100 * i->hit_share, window,
	       job_order_name((enum job_order)j->order), 100 * i->done_share,
	       (double)i->left_ms / 1000, flash_text(flash, i->flash));
}

static void show_text(const struct terrane_job_info *i)
{
	char text[FS_PATH_MAX], flash[FLASH_TEXT];
	const struct terrane_job *j = &i->job;
	printf("job %" PRIu64 ": %s, %s", j->id, shown(text, j->name), status_of(i));
	if (i->active)
		printf(", lease of %.0f s, %.0f s left", (double)j->lease_ms / 1000,
		       (double)i->left_ms / 1000);
	printf("\nowner         %s\n", shown(text, i->owner));
	printf("order         %s, shuffle %s, seed %" PRIu64 "\n",
	       job_order_name((enum job_order)j->order),
	       job_shuffle_name((enum job_shuffle)j->shuffle), j->seed);
	printf("readers       %" PRIu32 ", accelerators %" PRIu32 ", epochs %" PRIu32 "\n",
	       j->readers, j->accelerators, j->epochs);
	printf("progress      epoch %" PRIu32 ", part %" PRIu32 ", %" PRIu64 " of %" PRIu64
	       ", %" PRIu64 " steps (%.1f%% of the job)\n",
	       i->progress.epoch, i->progress.part, i->progress.position, i->progress.total,
	       i->progress.steps, 100 * i->done_share);
	printf("now           %.2f steps/s, %.1f%% of the time waiting for data, %.1f%% of bytes "
	       "from caches\n",
	       i->steps_s, 100 * i->wait_share, 100 * i->hit_share);
	printf("flash         %s\n", flash_text(flash, i->flash));
	if (i->flash != NULL && i->flash->miss_s > 0)
		printf("a step        %.3f s with a cache, %.3f s without\n", i->flash->hit_s,
		       i->flash->miss_s);
	for (size_t k = 0; k < j->range_count; k++)
		printf("range         %.6g to %.6g of each file\n",
		       (double)j->ranges[k].from / JOB_RANGE_WHOLE,
		       (double)j->ranges[k].to / JOB_RANGE_WHOLE);
	for (size_t k = 0; k < j->column_count; k++)
		printf("column        %s\n", shown(text, j->columns[k]));
	for (size_t k = 0; k < j->part_count; k++)
		printf("part %-8zu %s (%s)\n", k, shown(text, j->parts[k].path),
		       job_part_name((enum job_part_kind)j->parts[k].kind));
}

/* --- verbs ---------------------------------------------------------------------------------------- */

/* Calls each for all jobs, or those that count. */
static int each_job(struct job_command *q, bool active,
		    void (*each)(void *ctx, const struct terrane_job_info *i), void *ctx)
{
	struct terrane_job_info *page[PAGE];
	uint64_t after = 0;
	int64_t n;
	while ((n = terrane_job_list(q->t, after, page, PAGE, &q->o)) > 0) {
		for (int64_t i = 0; i < n; i++) {
			if (page[i]->active || !active)
				each(ctx, page[i]);
			after = page[i]->job.id;
			terrane_job_free(page[i]);
		}
	}
	return n < 0 ? fs_fail(&q->error, n, "cannot list", "jobs") : CLI_OK;
}

static void add_json(void *ctx, const struct terrane_job_info *i)
{
	json_array_append_new(ctx, job_json(i));
}

static void print_listed(void *ctx, const struct terrane_job_info *i)
{
	(void)ctx;
	list_line(i);
}

static void print_top(void *ctx, const struct terrane_job_info *i)
{
	(void)ctx;
	top_line(i);
}

static int emit(const json_t *o)
{
	return json_emit(stdout, o) < 0 ? cli_fail("cannot write the output") : CLI_OK;
}

static int list_once(struct job_command *q, bool active, void (*head)(void),
		     void (*line)(void *ctx, const struct terrane_job_info *i))
{
	AUTO_JSON json_t *all = q->json ? json_array() : NULL;
	if (!q->json)
		head();
	int status = each_job(q, active, q->json ? add_json : line, all);
	if (status != CLI_OK || !q->json)
		return status;
	return emit(all);
}

int job_run_list(struct job_command *q)
{
	return list_once(q, q->active, list_head, print_listed);
}

int job_run_show(struct job_command *q)
{
	struct terrane_job_info *info = NULL;
	int rc = terrane_job_get(q->t, q->job.id, &info, &q->o);
	if (rc < 0)
		return job_failed(q, rc, "cannot show job");
	int status = CLI_OK;
	if (q->json) {
		AUTO_JSON json_t *o = job_json(info);
		status = emit(o);
	} else {
		show_text(info);
	}
	terrane_job_free(info);
	return status;
}

int job_run_top(struct job_command *q)
{
	int status;
	fs_catch_signals();
	do {
		status = list_once(q, true, top_head, print_top);
		if (fflush(stdout) != 0)
			return CLI_OK; /* nobody reads the output any more */
		if (q->watch && status == CLI_OK && !fs_interrupted()) {
			sleep(1);
			putchar('\n');
		}
	} while (q->watch && status == CLI_OK && !fs_interrupted());
	return status;
}
