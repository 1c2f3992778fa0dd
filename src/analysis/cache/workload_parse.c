// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analysis/cache/workload.h"
#include "base/base.h"
#include "base/json.h"

#define PARTITION_BYTES_MAX 1e17
#define SEGMENTS_MAX (1ULL << 27) /* on the flash of all nodes, and in their DRAM */
#define UNITS_MAX 1e12            /* requests of all jobs */
#define SECONDS_MAX 1e8           /* of virtual time */
#define WINDOWS 10.0              /* of a partition */
#define WINDOW_BYTES 15e9         /* at most */
#define NOT_PLACED UINT32_MAX
#define ON_PATH (UINT32_MAX - 1) /* it waits for what is being placed */

struct parse {
	struct workload *w;
	json_t *jobs;        /* array of the file */
	json_t *ids;         /* id of a job: its place in the file */
	json_t *names;       /* partition: its number */
	uint32_t *number_of; /* [place in the file]: number of the job, NOT_PLACED or ON_PATH */
	size_t after_n;      /* ids in all "after" */
	char *why;
	size_t why_size;
};

__attribute__((format(printf, 3, 4))) static int refuse(struct parse *p, int rc, const char *fmt,
							...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(p->why, p->why_size, fmt, args);
	va_end(args);
	return rc;
}

/* A job that is placed when the jobs that it waits for are. */
struct waiting {
	size_t place; /* in the file */
	size_t next;  /* in its "after" */
};

/* ---- single fields ---- */

struct number_field {
	const char *name;
	double fallback, min, max;
	bool whole, null_is_zero;
};

/* Reads a number of an object. `where` names the object in a refusal. */
static int read_number(struct parse *p, json_t *in, const char *where, const struct number_field *f,
		       double *out)
{
	json_t *v = json_object_get(in, f->name);
	*out = f->fallback;
	if (v == NULL || (f->null_is_zero && json_is_null(v)))
		return 0;
	if (!json_is_number(v))
		return refuse(p, -EINVAL, "%.60s%s: must be a number", where, f->name);
	double value = json_number_value(v);
	if (!(value >= f->min && value <= f->max) || (f->whole && value != floor(value)))
		return refuse(p, -EINVAL, "%.60s%s: must be %s from %g to %g", where, f->name,
			      f->whole ? "a whole number" : "a number", f->min, f->max);
	*out = value;
	return 0;
}

static int read_flag(struct parse *p, json_t *in, const char *where, const char *name, bool *out)
{
	json_t *v = json_object_get(in, name);
	*out = true;
	if (v == NULL)
		return 0;
	if (!json_is_boolean(v))
		return refuse(p, -EINVAL, "%.60s%s: must be true or false", where, name);
	*out = json_is_true(v);
	return 0;
}

/* Refuses fields that are not in the list, which ends with NULL. */
static int check_fields(struct parse *p, json_t *in, const char *where, const char *const *known)
{
	const char *key;
	json_t *v;
	json_object_foreach(in, key, v)
	{
		const char *const *k = known;
		while (*k != NULL && strcmp(*k, key) != 0)
			k++;
		if (*k == NULL)
			return refuse(p, -EINVAL, "%.60s%.60s: no such field", where, key);
	}
	return 0;
}

/* ---- the whole ---- */

static int read_sizes(struct parse *p, json_t *root)
{
	struct workload *w = p->w;
	double nodes, seed;
	struct {
		struct number_field field;
		uint64_t *out;
	} sizes[] = {
		{{"segment_bytes", 262144, 512, (double)CACHE_SEGMENT_BYTES_MAX, true, false},
		 &w->segment_bytes},
		{{"partition_bytes", 5e12, 1, PARTITION_BYTES_MAX, false, false},
		 &w->partition_bytes},
		{{"file_bytes", 0, 1, PARTITION_BYTES_MAX, false, true}, &w->file_bytes},
		{{"block_bytes", 0, 1, PARTITION_BYTES_MAX, false, true}, &w->block_bytes},
		{{"region_bytes", 0, 1, 1e12, false, true}, &w->region_bytes},
		{{"flash_bytes", 1.28e12, 1, PARTITION_BYTES_MAX, false, false}, &w->flash_bytes},
		{{"dram_bytes", 1.6e10, 1, PARTITION_BYTES_MAX, false, false}, &w->dram_bytes},
		{{"write_limit_bytes_s", 0, 0, 1e15, false, true}, &w->write_limit_bytes_s},
		{{"history_bytes", 0, 4096, 1e12, false, true}, &w->history_bytes},
	};
	struct {
		struct number_field field;
		double *out;
	} others[] = {
		{{"nodes", 6, 1, WORKLOAD_NODES_MAX, true, false}, &nodes},
		{{"seed", 1, 0, 9007199254740992.0, true, false}, &seed},
		{{"history_s", 6 * 3600, 1, 1e9, false, false}, &w->history_s},
		{{"refresh_s", 10, 1e-3, 1e6, false, false}, &w->refresh_s},
		{{"min_threshold", 1.1, 0, 1e5, false, false}, &w->min_threshold},
		{{"reinsert_offset", 0, 0, 1e5, false, true}, &w->reinsert_offset},
	};
	double v;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		int rc = read_number(p, root, "", &sizes[i].field, &v);
		if (rc != 0)
			return rc;
		*sizes[i].out = (uint64_t)v;
	}
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		int rc = read_number(p, root, "", &others[i].field, others[i].out);
		if (rc != 0)
			return rc;
	}
	w->nodes = (uint32_t)nodes;
	w->seed = (uint64_t)seed;
	return 0;
}

static int settle_sizes(struct parse *p)
{
	struct workload *w = p->w;
	uint64_t segment = w->segment_bytes;
	if (w->file_bytes == 0)
		w->file_bytes = min_u64(GIB, w->partition_bytes);
	if (w->block_bytes == 0)
		w->block_bytes = (72 * MIB + segment - 1) / segment * segment;
	if (w->block_bytes % segment != 0)
		return refuse(p, -EINVAL, "block_bytes: must be a multiple of segment_bytes");
	if (w->file_bytes > w->partition_bytes)
		return refuse(p, -EINVAL, "file_bytes: must be at most partition_bytes");
	if (w->block_bytes / segment > UINT32_MAX || w->partition_bytes / segment >= UINT32_MAX - 1)
		return refuse(p, -EINVAL,
			      "segment_bytes: a block or partition has more than 2^32 segments");
	if (w->flash_bytes / segment > SEGMENTS_MAX)
		return refuse(p, -E2BIG,
			      "flash_bytes: more than 2^27 segments; use a larger "
			      "segment_bytes");
	if (w->flash_bytes / w->nodes / segment < 4)
		return refuse(p, -EINVAL, "flash_bytes: each node needs at least 4 segments");
	if (w->dram_bytes < segment)
		return refuse(p, -EINVAL, "dram_bytes: must be at least segment_bytes");
	if (w->dram_bytes / segment > SEGMENTS_MAX / w->nodes)
		return refuse(p, -E2BIG, "dram_bytes: more than 2^27 segments on all nodes");
	return 0;
}

/* ---- partitions ---- */

static int find_bucket(struct parse *p, const char *name, uint16_t *out)
{
	struct workload *w = p->w;
	json_t *known = json_object_get(p->names, name);
	if (known != NULL) {
		*out = (uint16_t)json_integer_value(known);
		return 0;
	}
	if (w->buckets_n == CACHE_BUCKETS_MAX)
		return refuse(p, -E2BIG, "partitions: more than %u different ones",
			      CACHE_BUCKETS_MAX);
	char **more = realloc(w->buckets, (w->buckets_n + 1ULL) * sizeof(*more));
	if (more == NULL)
		return -ENOMEM;
	w->buckets = more;
	if (json_object_set_new(p->names, name, json_integer(w->buckets_n)) != 0 ||
	    (more[w->buckets_n] = strdup(name)) == NULL)
		return -ENOMEM;
	*out = (uint16_t)w->buckets_n++;
	return 0;
}

static int read_partitions(struct parse *p, json_t *list, const char *where,
			   struct workload_list *out)
{
	size_t n = json_array_size(list);
	if (!json_is_array(list) || n == 0 || n > CACHE_PARTS_MAX)
		return refuse(p, -EINVAL, "%.80s: must be an array of 1 to %u names", where,
			      CACHE_PARTS_MAX);
	out->of = calloc(n, sizeof(*out->of));
	if (out->of == NULL)
		return -ENOMEM;
	for (; out->n < n; out->n++) {
		json_t *name = json_array_get(list, out->n);
		size_t len = json_string_length(name);
		if (!json_is_string(name) || len == 0 || len > WORKLOAD_ID_MAX ||
		    strlen(json_string_value(name)) != len)
			return refuse(p, -EINVAL, "%.80s: must be names of 1 to %u bytes", where,
				      WORKLOAD_ID_MAX);
		int rc = find_bucket(p, json_string_value(name), &out->of[out->n]);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* Partitions whose names begin with the same "table/" belong to one table. */
static int find_tables(struct workload *w)
{
	AUTO_JSON json_t *tables = json_object();
	w->bucket_table = calloc(w->buckets_n + 1ULL, sizeof(*w->bucket_table));
	if (tables == NULL || w->bucket_table == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < w->buckets_n; i++) {
		char name[WORKLOAD_ID_MAX + 1];
		const char *slash = strchr(w->buckets[i], '/');
		w->bucket_table[i] = i;
		if (slash == NULL)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(slash - w->buckets[i]), w->buckets[i]);
		json_t *first = json_object_get(tables, name);
		if (first != NULL)
			w->bucket_table[i] = (uint32_t)json_integer_value(first);
		else if (json_object_set_new(tables, name, json_integer(i)) != 0)
			return -ENOMEM;
	}
	return 0;
}

/* ---- jobs ---- */

static int read_order(struct parse *p, json_t *in, const char *where, struct workload_job *j)
{
	static const char *const names[] = {[CACHE_SCAN] = "scan",
					    [CACHE_SEEDED] = "seeded",
					    [CACHE_RANDOM] = "random",
					    [CACHE_WINDOW] = "window",
					    [CACHE_FREE] = "free"};
	json_t *v = json_object_get(in, "order");
	j->order = CACHE_SCAN;
	if (v == NULL)
		return 0;
	for (uint32_t i = 0; json_is_string(v) && i < ARRAY_LEN(names); i++)
		if (strcmp(json_string_value(v), names[i]) == 0) {
			j->order = (enum cache_order_kind)i;
			return 0;
		}
	return refuse(
		p, -EINVAL,
		"%.60sorder: must be \"scan\", \"seeded\", \"random\", \"window\" or \"free\"",
		where);
}

static int read_ranges(struct parse *p, json_t *in, const char *where, struct workload_job *j)
{
	json_t *list = json_object_get(in, "byte_ranges");
	double before = 0;
	j->ranges_n = 1;
	j->shares[0][1] = 1;
	if (list == NULL || json_is_null(list))
		return 0;
	size_t n = json_array_size(list);
	if (!json_is_array(list) || n == 0 || n > CACHE_RANGES_MAX)
		return refuse(p, -EINVAL, "%.60sbyte_ranges: must be null or 1 to %u pairs", where,
			      CACHE_RANGES_MAX);
	j->ranges_n = (uint32_t)n;
	for (size_t i = 0; i < n; i++) {
		json_t *pair = json_array_get(list, i);
		double from = json_number_value(json_array_get(pair, 0));
		double to = json_number_value(json_array_get(pair, 1));
		if (json_array_size(pair) != 2 || !json_is_number(json_array_get(pair, 0)) ||
		    !json_is_number(json_array_get(pair, 1)) || !(from >= before) || !(to > from) ||
		    !(to <= 1))
			return refuse(p, -EINVAL,
				      "%.60sbyte_ranges: must be pairs [from, to] of shares of a "
				      "file, from 0 to 1, rising",
				      where);
		j->shares[i][0] = from;
		j->shares[i][1] = before = to;
	}
	return 0;
}

/* Turns shares of a file to bytes. */
static int make_ranges(struct parse *p, struct workload_job *j)
{
	double file = (double)p->w->file_bytes;
	j->ranges = calloc(j->ranges_n, sizeof(*j->ranges));
	if (j->ranges == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < j->ranges_n; i++) {
		j->ranges[i].from = (uint64_t)llround(j->shares[i][0] * file);
		j->ranges[i].to = (uint64_t)llround(j->shares[i][1] * file);
	}
	return 0;
}

static int make_parts(struct parse *p, struct workload_job *j, const struct workload_list *list,
		      struct cache_part **out)
{
	*out = calloc(list->n, sizeof(**out));
	if (*out == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < list->n; i++) {
		(*out)[i] = (struct cache_part){.bucket = list->of[i],
						.order = {.kind = j->order,
							  .bytes = p->w->partition_bytes,
							  .file_bytes = p->w->file_bytes,
							  .unit_bytes = j->request_bytes,
							  .readers = j->readers,
							  .windows = j->windows,
							  .ranges_n = j->ranges_n}};
		int rc = cache_order_init(&(*out)[i].order, j->ranges);
		if (rc == -E2BIG)
			return refuse(p, rc,
				      "job \"%.40s\": more than 2^32 requests in a "
				      "partition; use larger request_bytes",
				      j->id);
		if (rc != 0)
			return refuse(p, rc,
				      "job \"%.40s\": byte_ranges are empty or overlap in "
				      "files of %llu bytes",
				      j->id, (unsigned long long)p->w->file_bytes);
	}
	return 0;
}

static int read_id(struct parse *p, json_t *in, size_t place, char **out)
{
	json_t *id = json_object_get(in, "id");
	size_t len = json_string_length(id);
	if (!json_is_object(in))
		return refuse(p, -EINVAL, "jobs[%zu]: must be an object", place);
	if (!json_is_string(id) || len == 0 || len > WORKLOAD_ID_MAX ||
	    strlen(json_string_value(id)) != len)
		return refuse(p, -EINVAL, "jobs[%zu].id: must be a name of 1 to %u bytes", place,
			      WORKLOAD_ID_MAX);
	*out = strdup(json_string_value(id));
	return *out != NULL ? 0 : -ENOMEM;
}

static int read_job(struct parse *p, size_t place, struct workload_job *j)
{
	static const char *const known[] = {"id",
					    "start_s",
					    "readers",
					    "partitions",
					    "after",
					    "reader_bytes_s",
					    "order",
					    "pace_spread",
					    "request_bytes",
					    "byte_ranges",
					    "registered",
					    "runs",
					    "spec_partitions",
					    "windows",
					    NULL};
	json_t *in = json_array_get(p->jobs, place);
	char where[160];
	double readers = 0, request = 0, windows = 0;
	int rc = read_id(p, in, place, &j->id);
	if (rc != 0)
		return rc;
	snprintf(where, sizeof(where), "job \"%.40s\": ", j->id);
	const struct number_field fields[] = {
		{"start_s", 0, 0, 1e8, false, true},
		{"reader_bytes_s", 1.5e9, 1, 1e15, false, false},
		{"pace_spread", 0.05, 0, 0.99, false, false},
		{"readers", 4, 1, 1e6, true, false},
		{"request_bytes", 1e6, 1, 1e12, true, false},
		{"windows", fmax(WINDOWS, ceil((double)p->w->partition_bytes / WINDOW_BYTES)), 1,
		 1e6, true, false},
	};
	double *const out[] = {&j->start_s, &j->reader_bytes_s, &j->pace_spread,
			       &readers,    &request,           &windows};
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(fields); i++)
		rc = read_number(p, in, where, &fields[i], out[i]);
	if (rc == 0)
		rc = check_fields(p, in, where, known);
	if (rc == 0)
		rc = read_flag(p, in, where, "registered", &j->registered);
	if (rc == 0)
		rc = read_flag(p, in, where, "runs", &j->runs);
	if (rc == 0)
		rc = read_order(p, in, where, j);
	if (rc == 0)
		rc = read_ranges(p, in, where, j);
	if (rc != 0)
		return rc;
	j->readers = (uint32_t)readers;
	j->request_bytes = (uint64_t)request;
	j->windows = (uint32_t)windows;
	size_t at = strlen(where);
	snprintf(where + at, sizeof(where) - at, "partitions");
	rc = read_partitions(p, json_object_get(in, "partitions"), where, &j->reads);
	json_t *told = json_object_get(in, "spec_partitions");
	snprintf(where + at, sizeof(where) - at, "spec_partitions");
	if (rc == 0 && told != NULL)
		rc = read_partitions(p, told, where, &j->told);
	if (rc == 0)
		rc = make_ranges(p, j);
	if (rc == 0)
		rc = make_parts(p, j, &j->reads, &j->parts);
	if (rc == 0 && j->told.n > 0)
		rc = make_parts(p, j, &j->told, &j->told_parts);
	return rc;
}

/* Returns the place in the file of the job with this id, or SIZE_MAX. */
static size_t find_job(const struct parse *p, const char *id)
{
	json_t *place = json_object_get(p->ids, id);
	return place != NULL ? (size_t)json_integer_value(place) : SIZE_MAX;
}

/* Returns the list of "after", made an array by the caller before. */
static json_t *after_of(const struct parse *p, size_t place)
{
	return json_object_get(json_array_get(p->jobs, place), "after");
}

static int check_after(struct parse *p, size_t place)
{
	json_t *job = json_array_get(p->jobs, place), *after = after_of(p, place);
	if (json_is_string(after)) {
		json_t *list = json_array();
		if (list == NULL || json_array_append(list, after) != 0 ||
		    json_object_set_new(job, "after", list) != 0)
			return -ENOMEM;
		after = list;
	}
	if (after != NULL && !json_is_null(after) && !json_is_array(after))
		return refuse(p, -EINVAL, "jobs[%zu].after: must be null or an array of ids",
			      place);
	p->after_n += json_array_size(after);
	if (p->after_n > WORKLOAD_AFTER_MAX)
		return refuse(p, -E2BIG, "after: more than %u ids in all jobs together",
			      WORKLOAD_AFTER_MAX);
	for (size_t i = 0; i < json_array_size(after); i++) {
		const char *id = json_string_value(json_array_get(after, i));
		size_t other = id != NULL ? find_job(p, id) : SIZE_MAX;
		if (other == SIZE_MAX)
			return refuse(p, -EINVAL, "jobs[%zu].after: no job has the id \"%.40s\"",
				      place, id != NULL ? id : "");
	}
	return 0;
}

static int place_job(struct parse *p, size_t place)
{
	struct workload *w = p->w;
	json_t *after = after_of(p, place);
	size_t n = json_array_size(after);
	struct workload_job *j = &w->jobs[w->jobs_n];
	p->number_of[place] = w->jobs_n++;
	int rc = read_job(p, place, j);
	if (rc != 0)
		return rc;
	j->after = calloc(n + 1, sizeof(*j->after));
	if (j->after == NULL)
		return -ENOMEM;
	for (; j->after_n < n; j->after_n++) {
		const char *id = json_string_value(json_array_get(after, j->after_n));
		j->after[j->after_n] = p->number_of[find_job(p, id)];
		assert(j->after[j->after_n] < p->number_of[place]);
	}
	return 0;
}

static int read_ids(struct parse *p)
{
	size_t n = json_array_size(p->jobs);
	for (size_t i = 0; i < n; i++) {
		json_t *id = json_object_get(json_array_get(p->jobs, i), "id");
		p->number_of[i] = NOT_PLACED;
		if (!json_is_string(id))
			continue; /* read_id() refuses it */
		if (find_job(p, json_string_value(id)) != SIZE_MAX)
			return refuse(p, -EINVAL, "jobs[%zu].id: another job has the id \"%.40s\"",
				      i, json_string_value(id));
		if (json_object_set_new(p->ids, json_string_value(id),
					json_integer((json_int_t)i)) != 0)
			return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		int rc = check_after(p, i);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* Gives a job its number after those that it waits for: a depth-first walk with the path in `stack`. */
static int place_after_others(struct parse *p, size_t place, struct waiting *stack)
{
	size_t depth = 1;
	stack[0] = (struct waiting){.place = place};
	p->number_of[place] = ON_PATH;
	while (depth > 0) {
		struct waiting *top = &stack[depth - 1];
		json_t *after = after_of(p, top->place);
		if (top->next == json_array_size(after)) {
			int rc = place_job(p, top->place);
			if (rc != 0)
				return rc;
			depth--;
			continue;
		}
		size_t other = find_job(p, json_string_value(json_array_get(after, top->next++)));
		if (p->number_of[other] == ON_PATH)
			return refuse(p, -EINVAL, "jobs[%zu].after: jobs wait for each other",
				      top->place);
		if (p->number_of[other] != NOT_PLACED)
			continue;
		p->number_of[other] = ON_PATH;
		stack[depth++] = (struct waiting){.place = other};
	}
	return 0;
}

static int read_jobs(struct parse *p)
{
	struct workload *w = p->w;
	size_t n = json_array_size(p->jobs);
	if (!json_is_array(p->jobs) || n == 0 || n > WORKLOAD_JOBS_MAX)
		return refuse(p, -EINVAL, "jobs: must be an array of 1 to %u jobs",
			      WORKLOAD_JOBS_MAX);
	AUTO_FREE struct waiting *stack = calloc(n, sizeof(*stack));
	w->jobs = calloc(n, sizeof(*w->jobs));
	p->number_of = calloc(n, sizeof(*p->number_of));
	if (stack == NULL || w->jobs == NULL || p->number_of == NULL)
		return -ENOMEM;
	int rc = read_ids(p);
	for (size_t i = 0; rc == 0 && i < n; i++)
		if (p->number_of[i] == NOT_PLACED)
			rc = place_after_others(p, i, stack);
	assert(rc != 0 || w->jobs_n == n);
	return rc;
}

static int sum_up(struct parse *p)
{
	struct workload *w = p->w;
	double units = 0, bytes = 0;
	uint64_t parts = 0;
	for (uint32_t i = 0; i < w->jobs_n; i++) {
		struct workload_job *j = &w->jobs[i];
		parts += (uint64_t)j->reads.n + j->told.n;
		for (uint32_t k = 0; k < j->reads.n; k++) {
			uint64_t part = cache_order_total(&j->parts[k].order);
			bytes += (double)part;
			units += (double)j->parts[k].order.units;
			if (bytes < 9e18)
				j->bytes += part;
		}
		if (j->runs && bytes < 9e18)
			w->bytes += j->bytes;
	}
	if (parts > WORKLOAD_PARTS_MAX)
		return refuse(p, -E2BIG, "partitions: more than %u in all jobs together",
			      WORKLOAD_PARTS_MAX);
	if (bytes >= 9e18 || units > UNITS_MAX)
		return refuse(p, -E2BIG, "jobs: more than 10^12 requests or 9 exabytes");
	return 0;
}

/* Refuses jobs that would read for longer than any simulation can count. */
static int check_time(struct parse *p)
{
	const struct workload *w = p->w;
	AUTO_FREE double *end_s = calloc(w->jobs_n, sizeof(*end_s));
	if (end_s == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < w->jobs_n; i++) {
		const struct workload_job *j = &w->jobs[i];
		double slowest = j->readers * j->reader_bytes_s * (1 - j->pace_spread);
		end_s[i] = j->start_s;
		for (uint32_t k = 0; k < j->after_n; k++)
			end_s[i] = fmax(end_s[i], end_s[j->after[k]]);
		end_s[i] += j->runs ? (double)j->bytes / slowest : 0;
		if (end_s[i] > SECONDS_MAX)
			return refuse(p, -E2BIG,
				      "job \"%.40s\": may end after %g seconds; use a higher "
				      "reader_bytes_s",
				      j->id, SECONDS_MAX);
	}
	return 0;
}

static int parse_root(struct parse *p, json_t *root)
{
	static const char *const known[] = {"partition_bytes",
					    "segment_bytes",
					    "file_bytes",
					    "block_bytes",
					    "region_bytes",
					    "flash_bytes",
					    "dram_bytes",
					    "nodes",
					    "jobs",
					    "write_limit_bytes_s",
					    "history_bytes",
					    "history_s",
					    "refresh_s",
					    "min_threshold",
					    "reinsert_offset",
					    "seed",
					    NULL};
	if (!json_is_object(root))
		return refuse(p, -EINVAL, "the file must hold a JSON object");
	p->jobs = json_object_get(root, "jobs");
	int rc = check_fields(p, root, "", known);
	if (rc == 0)
		rc = read_sizes(p, root);
	if (rc == 0)
		rc = settle_sizes(p);
	if (rc == 0)
		rc = read_jobs(p);
	if (rc == 0)
		rc = find_tables(p->w);
	if (rc == 0)
		rc = sum_up(p);
	if (rc == 0)
		rc = check_time(p);
	return rc;
}

int workload_parse(struct workload *w, const char *text, size_t len, char *why, size_t why_size)
{
	struct parse p = {.w = w, .why = why, .why_size = why_size};
	json_error_t error;
	*w = (struct workload){0};
	if (len > WORKLOAD_FILE_BYTES_MAX)
		return refuse(&p, -E2BIG, "the file is larger than %u bytes",
			      WORKLOAD_FILE_BYTES_MAX);
	AUTO_JSON json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
	if (root == NULL)
		return refuse(&p, -EINVAL, "line %d: %.120s", error.line, error.text);
	p.ids = json_object();
	p.names = json_object();
	int rc = p.ids != NULL && p.names != NULL ? parse_root(&p, root) : -ENOMEM;
	free(p.number_of);
	json_decref(p.ids);
	json_decref(p.names);
	if (rc == -ENOMEM)
		refuse(&p, rc, "not enough memory for the workload");
	if (rc != 0)
		workload_fini(w);
	else
		workload_draw(w, w->seed);
	return rc;
}
