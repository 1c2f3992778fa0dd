// SPDX-License-Identifier: Apache-2.0
/* terrane dataset list and show. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "cli/cmd_dataset.h"

#define SHOW_MAX 10000u

static const char *time_text(char out[32], uint64_t ns)
{
	time_t seconds = (time_t)(ns / NS_PER_S);
	struct tm tm;
	if (gmtime_r(&seconds, &tm) == NULL || strftime(out, 32, "%Y-%m-%d %H:%M:%S", &tm) == 0)
		snprintf(out, 32, "-");
	return out;
}

static json_t *version_json(const struct manifest *m)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:i, s:s, s:I, s:I}", "version",
			 (json_int_t)m->version, "parent", (json_int_t)m->parent, "samples",
			 (json_int_t)m->samples, "bytes", (json_int_t)m->payload_bytes, "shards",
			 (int)m->shards_n, "source", m->source, "seed", (json_int_t)m->seed,
			 "created_ns", (json_int_t)m->created_ns);
}

/* --- list --------------------------------------------------------------------------------------- */

static int list_one(struct dataset_command *q, const char *path, uint64_t version, json_t *all)
{
	char size[FS_SIZE_TEXT], when[32];
	struct manifest m;
	manifest_init(&m);
	int rc = versions_read(q->t, path, version, &m, &q->o);
	if (rc == 0 && all != NULL)
		json_array_append_new(all, version_json(&m));
	else if (rc == 0)
		printf("%7" PRIu64 " %14" PRIu64 " %12s %7" PRIu32 "  %s  %s\n", m.version,
		       m.samples, fs_size(size, (double)m.payload_bytes), m.shards_n,
		       time_text(when, m.created_ns), m.source);
	manifest_fini(&m);
	return rc < 0 ? dataset_failed(q, rc, "cannot read") : CLI_OK;
}

int dataset_run_list(struct dataset_command *q)
{
	char path[DATASET_PATH_MAX];
	AUTO_FREE uint64_t *versions = NULL;
	AUTO_JSON json_t *all = q->json ? json_array() : NULL;
	int64_t n = dataset_path(path, q->path, &q->error);
	if (n == 0)
		n = versions_list(q->t, path, &versions, &q->o);
	if (n < 0)
		return dataset_failed(q, n, "cannot list");
	if (!q->json)
		printf("%7s %14s %12s %7s  %-19s  %s\n", "version", "samples", "bytes", "shards",
		       "created", "source");
	for (int64_t i = 0; versions != NULL && i < n; i++)
		if (list_one(q, path, versions[i], all) != CLI_OK)
			return CLI_FAILED;
	return q->json && json_emit(stdout, all) < 0 ? cli_fail("cannot write the output") : CLI_OK;
}

/* --- show --------------------------------------------------------------------------------------- */

struct shown {
	const struct manifest *m;
	const struct dataset_entry *e;
	const struct index_tail *tail;
};

static const char *label_of(const struct shown *s, char out[16])
{
	if (s->e->label < 0)
		return "-";
	if (s->m->label_kind == LABELS_NAMES && (uint32_t)s->e->label < s->m->labels.count)
		return s->m->labels.text[s->e->label];
	snprintf(out, 16, "%" PRId32, s->e->label);
	return out;
}

static const char *part_of(const struct shown *s, uint32_t i)
{
	struct index_part part = index_tail_part(s->tail, i);
	return part.name < s->m->parts.count ? s->m->parts.text[part.name] : "?";
}

static json_t *sample_json(const struct shown *s)
{
	char number[16], hex[2 * SHA256_BYTES + 1];
	json_t *parts = json_object();
	for (uint32_t i = 0; i < s->tail->parts; i++)
		json_object_set_new(parts, part_of(s, i),
				    json_integer((json_int_t)index_tail_part(s->tail, i).size));
	json_t *o = json_pack(
		"{s:I, s:o, s:I, s:s, s:i, s:i, s:i, s:I, s:I, s:o}", "sample",
		(json_int_t)s->e->sample, "key", json_text(s->tail->key, s->tail->key_len), "size",
		(json_int_t)s->e->size, "label", label_of(s, number), "number", (int)s->e->label,
		"width", (int)s->e->width, "height", (int)s->e->height, "shard",
		(json_int_t)s->e->shard, "offset", (json_int_t)s->e->offset, "parts", parts);
	if (s->tail->sha256 != NULL) {
		for (size_t i = 0; i < SHA256_BYTES; i++)
			snprintf(hex + 2 * i, 3, "%02x", s->tail->sha256[i]);
		json_object_set_new(o, "sha256", json_string(hex));
	}
	return o;
}

static void sample_print(const struct shown *s)
{
	char number[16], size[FS_SIZE_TEXT], key[FS_PATH_MAX], shown[FS_PATH_MAX], shape[32] = "-";
	snprintf(key, sizeof(key), "%.*s", (int)s->tail->key_len, s->tail->key);
	if (s->e->width > 0)
		snprintf(shape, sizeof(shape), "%" PRIu32 "x%" PRIu32, s->e->width, s->e->height);
	printf("%12" PRIu64 " %12s %-12s %-11s ", s->e->sample, fs_size(size, (double)s->e->size),
	       label_of(s, number), shape);
	for (uint32_t i = 0; i < s->tail->parts; i++)
		printf("%s%s", i > 0 ? "," : "", part_of(s, i));
	printf("  %s\n", fs_show(shown, key));
}

/* Prints the first samples, or adds them to a list. */
static int show_samples(struct dataset_command *q, struct dataset *d, json_t *list)
{
	const struct manifest *m = dataset_manifest(d);
	uint64_t n = min_u64(min_u64(q->show, SHOW_MAX), m->samples);
	for (uint64_t i = 0; i < n; i++) {
		struct dataset_entry e;
		struct index_tail tail;
		int rc = dataset_ready(d, &i, 1, &q->o);
		if (rc < 0)
			return dataset_failed(q, rc, "cannot read the index of");
		dataset_lookup(d, &i, 1, &e);
		dataset_tail(d, i, &tail);
		struct shown s = {.m = m, .e = &e, .tail = &tail};
		if (list != NULL)
			json_array_append_new(list, sample_json(&s));
		else
			sample_print(&s);
	}
	return CLI_OK;
}

static int show_json(struct dataset_command *q, struct dataset *d)
{
	const struct manifest *m = dataset_manifest(d);
	AUTO_JSON json_t *o = version_json(m);
	json_t *labels = json_array(), *parts = json_array(), *samples = json_array();
	for (uint32_t i = 0; i < m->labels.count; i++)
		json_array_append_new(labels,
				      json_text(m->labels.text[i], strlen(m->labels.text[i])));
	for (uint32_t i = 0; i < m->parts.count; i++)
		json_array_append_new(parts, json_text(m->parts.text[i], strlen(m->parts.text[i])));
	json_object_set_new(o, "path", json_string(q->path));
	json_object_set_new(o, "labels", labels);
	json_object_set_new(o, "parts", parts);
	json_object_set_new(o, "first_samples", samples);
	int status = show_samples(q, d, samples);
	return status == CLI_OK && json_emit(stdout, o) < 0 ? cli_fail("cannot write the output")
							    : status;
}

static int show_text(struct dataset_command *q, struct dataset *d)
{
	const struct manifest *m = dataset_manifest(d);
	char size[FS_SIZE_TEXT], when[32];
	printf("%s: version %" PRIu64 ", made %s UTC from %s\n", q->path, m->version,
	       time_text(when, m->created_ns), m->source);
	printf("%" PRIu64 " samples, %s, %" PRIu32 " shards", m->samples,
	       fs_size(size, (double)m->payload_bytes), m->shards_n);
	if (m->label_kind == LABELS_NAMES)
		printf(", %" PRIu32 " labels", m->labels.count);
	printf("\nparts:");
	for (uint32_t i = 0; i < m->parts.count; i++)
		printf(" %s", m->parts.text[i][0] != 0 ? m->parts.text[i] : "(none)");
	if (q->show > 0)
		printf("\n\n%12s %12s %-12s %-11s parts  key", "sample", "size", "label", "image");
	printf("\n");
	return show_samples(q, d, NULL);
}

int dataset_run_show(struct dataset_command *q)
{
	struct dataset *d;
	int rc = dataset_open_version(&d, q->t, q->path, q->version, &q->o);
	if (rc < 0)
		return dataset_failed(q, rc, "cannot open");
	int status = q->json ? show_json(q, d) : show_text(q, d);
	dataset_close(d);
	return status;
}
