// SPDX-License-Identifier: Apache-2.0
#include "dataset/build.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "dataset/order.h"
#include "dataset/pack.h"
#include "dataset/packing.h"
#include "dataset/versions.h"

struct builder {
	struct terrane *t;
	const struct catalog *c;
	const struct build_options *b;
	struct build_result *result;
	char path[DATASET_PATH_MAX];
	struct packing packing;
	struct manifest m;
	uint64_t plan;
	uint64_t next;   /* position of the next sample in the shuffled order */
	int32_t *labels; /* number in the manifest of each label of the catalog */
	uint8_t parts[PARTS_MAX];
	/* The shard that is built: */
	uint32_t number;
	uint64_t n, length, payload;
	uint64_t *samples, *sizes, *offsets;
	struct catalog_sample *sample;
	struct pack pack;
	struct index_writer index;
};

static int fail(const struct builder *w, int rc, const char *text)
{
	return dataset_fail(w->b->o.error, rc, "%s", text);
}

/* --- preparing ---------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b, void *texts)
{
	char **text = texts;
	return strcmp(text[*(const uint32_t *)a], text[*(const uint32_t *)b]);
}

/* Whether a label is a number as the index can have it: "7", not "07". */
static bool is_number(const char *text)
{
	size_t len = strlen(text);
	return len > 0 && len <= 9 && strspn(text, "0123456789") == len &&
	       (len == 1 || text[0] != '0');
}

static enum label_kind kind_of(const struct catalog *c)
{
	if (c->labels.count == 0)
		return LABELS_NONE;
	for (uint32_t i = 0; i < c->labels.count; i++)
		if (!is_number(c->labels.text[i]))
			return LABELS_NAMES;
	/* Folders are names, even if they look like numbers, as in other loaders of folders. */
	return strcmp(c->kind, "folder") == 0 ? LABELS_NAMES : LABELS_NUMBERS;
}

/* Gives the labels of the catalog their numbers: the labels of the parent version keep theirs, new names follow in
 * sorted order. */
static int take_labels(struct builder *w)
{
	const struct names *labels = &w->c->labels;
	enum label_kind kind = kind_of(w->c), had = w->m.label_kind;
	if (kind != LABELS_NONE && had != LABELS_NONE && kind != had)
		return fail(w, -EINVAL,
			    kind == LABELS_NAMES ? "the labels of the source are names and those "
						   "of the data set are numbers"
						 : "the labels of the source are numbers and those "
						   "of the data set are names");
	if (kind != LABELS_NONE)
		w->m.label_kind = kind;
	w->labels = calloc(labels->count + 1, sizeof(*w->labels));
	AUTO_FREE uint32_t *sorted = calloc(labels->count + 1, sizeof(*sorted));
	if (w->labels == NULL || sorted == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < labels->count; i++)
		sorted[i] = i;
	if (kind == LABELS_NAMES)
		qsort_r(sorted, labels->count, sizeof(*sorted), by_text, labels->text);
	for (uint32_t i = 0; i < labels->count; i++) {
		const char *text = labels->text[sorted[i]];
		int64_t number = kind == LABELS_NUMBERS
					 ? (int64_t)strtoul(text, NULL, 10)
					 : names_add(&w->m.labels, text, strlen(text));
		if (number < 0)
			return number == -E2BIG
				       ? fail(w, -E2BIG,
					      "the data set would have more than 1,048,576 labels")
				       : (int)number;
		w->labels[sorted[i]] = (int32_t)number;
	}
	return 0;
}

static int take_parts(struct builder *w)
{
	for (uint32_t i = 0; i < w->c->parts.count; i++) {
		const char *text = w->c->parts.text[i];
		int64_t number = names_add(&w->m.parts, text, strlen(text));
		if (number < 0)
			return number == -E2BIG ? fail(w, -E2BIG,
						       "the data set would have more than 255 "
						       "names of parts")
						: (int)number;
		w->parts[i] = (uint8_t)number;
	}
	return 0;
}

/* Reads the parent version, or finds that there is none. */
static int take_parent(struct builder *w)
{
	AUTO_FREE uint64_t *all = NULL;
	const struct terrane_options *o = &w->b->o;
	int64_t n = versions_list(w->t, w->path, &all, o);
	if (n < 0 && n != -ENOENT)
		return (int)n;
	if (w->b->append && n <= 0)
		return fail(w, -ENOENT, "there is no data set to append to: use build");
	if (!w->b->append && n > 0)
		return fail(w, -EEXIST,
			    "the data set exists: use append to add to it, or rm to remove it");
	w->m.version = 1;
	if (!w->b->append)
		return 0;
	int rc = versions_read(w->t, w->path, all[n - 1], &w->m, o);
	if (rc < 0)
		return rc;
	w->m.parent = w->m.version;
	w->m.version++;
	return 0;
}

/* Makes the directories, and finds out the encoding and the block size that files get in them. */
static int take_place(struct builder *w)
{
	char path[DATASET_FILE_MAX];
	struct terrane_file *f;
	struct terrane_stat st;
	snprintf(path, sizeof(path), "%s/data", w->path);
	int rc = terrane_mkdir(w->t, path, TERRANE_PARENTS, &w->b->o);
	if (rc < 0)
		return rc;
	snprintf(path, sizeof(path), "%s/data/probe", w->path);
	rc = terrane_create(w->t, path, TERRANE_REPLACE, &f, &w->b->o);
	if (rc < 0)
		return rc;
	rc = terrane_file_stat(f, &st, &w->b->o);
	terrane_file_discard(f);
	if (rc == 0 && packing_init(&w->packing, st.encoding, st.block_bytes) < 0)
		rc = fail(w, -EINVAL, "the encoding of the data set is not known to this program");
	if (rc < 0)
		return rc;
	uint64_t numbers[] = {w->c->fingerprint, w->b->seed,   w->b->shard_bytes,
			      w->b->sha256,      w->m.version, st.block_bytes};
	w->plan = hash64(st.encoding, strlen(st.encoding), hash64(numbers, sizeof(numbers), 0));
	return 0;
}

static int prepare(struct builder *w)
{
	int rc = dataset_path(w->path, w->b->path, w->b->o.error);
	if (rc == 0)
		rc = take_parent(w);
	if (rc == 0)
		rc = take_labels(w);
	if (rc == 0)
		rc = take_parts(w);
	if (rc == 0)
		rc = take_place(w);
	w->samples = calloc(SHARD_SAMPLES_MAX, sizeof(*w->samples));
	w->sizes = calloc(SHARD_SAMPLES_MAX, sizeof(*w->sizes));
	w->offsets = calloc(SHARD_SAMPLES_MAX, sizeof(*w->offsets));
	w->sample = malloc(sizeof(*w->sample));
	if (rc == 0 &&
	    (w->samples == NULL || w->sizes == NULL || w->offsets == NULL || w->sample == NULL))
		rc = -ENOMEM;
	return rc < 0 ? rc : pack_init(&w->pack, w->c, w->b);
}

/* --- shards ------------------------------------------------------------------------------------- */

static int sample_get(struct builder *w, uint64_t number, uint64_t *size)
{
	int rc = catalog_get(w->c, number, w->sample);
	*size = 0;
	if (rc < 0)
		return fail(w, rc, "cannot read a temporary file of the build");
	for (uint32_t i = 0; i < w->sample->parts; i++)
		*size += w->sample->part[i].size;
	return 0;
}

/* Chooses the samples of the next shard and places them. */
static int shard_plan(struct builder *w)
{
	uint64_t at = 0, tails = 0;
	w->n = w->payload = 0;
	while (w->next < w->c->samples && w->n < SHARD_SAMPLES_MAX) {
		uint64_t number = order_permute(w->c->samples, w->b->seed, w->next), size;
		int rc = sample_get(w, number, &size);
		if (rc < 0)
			return rc;
		uint64_t offset = packing_next(&w->packing, at, size);
		/* KEY_MAX etc. bound one tail; this bounds the index of a shard of long keys. */
		tails += w->sample->key_len + w->sample->parts * 9ULL + SHA256_BYTES + INDEX_RECORD;
		if (w->n > 0 && (offset + size > w->b->shard_bytes || tails > INDEX_BYTES_MAX / 2))
			break;
		w->samples[w->n] = number;
		w->sizes[w->n++] = size;
		w->payload += size;
		at = offset + size;
		w->next++;
	}
	assert(w->n > 0);
	w->length = packing_all(&w->packing, w->sizes, w->n, w->offsets);
	return 0;
}

static int index_add(struct builder *w, uint64_t i, const struct pack_found *found)
{
	struct index_part part[PARTS_MAX];
	uint64_t size;
	int rc = sample_get(w, w->samples[i], &size);
	if (rc < 0)
		return rc;
	for (uint32_t k = 0; k < w->sample->parts; k++)
		part[k] = (struct index_part){w->parts[w->sample->part[k].name],
					      w->sample->part[k].size};
	struct index_sample s = {
		.entry = {.offset = w->offsets[i],
			  .size = size,
			  .crc = found->crc,
			  .label = w->sample->label >= 0 ? w->labels[w->sample->label] : -1,
			  .width = found->width,
			  .height = found->height},
		.key = w->sample->key,
		.key_len = w->sample->key_len,
		.parts = w->sample->parts,
		.part = part,
		.sha256 = w->b->sha256 ? found->sha256 : NULL,
	};
	return index_writer_add(&w->index, &s);
}

/* Appends all samples to the open file. */
static int shard_fill(struct builder *w)
{
	int rc = 0;
	for (uint64_t i = 0; rc == 0 && i < w->n;) {
		uint64_t n = pack_count(w->sizes + i, w->offsets + i, w->n - i);
		w->pack.why[0] = 0;
		rc = pack_append(&w->pack, w->samples + i, w->sizes + i, w->offsets + i, n);
		if (rc < 0 && w->pack.why[0] != 0)
			fail(w, rc, w->pack.why);
		for (uint64_t k = 0; rc == 0 && k < n; k++)
			rc = index_add(w, i + k, &w->pack.found[k]);
		i += n;
	}
	return rc < 0 ? rc : pack_pad(&w->pack, w->length);
}

static int shard_write(struct builder *w, const char *samples_path, const char *index_path,
		       struct manifest_shard *shard)
{
	const struct terrane_options *o = &w->b->o;
	AUTO_STRBUF struct strbuf index;
	strbuf_init(&index, INDEX_BYTES_MAX + index_head_bytes(SHARD_SAMPLES_MAX));
	int rc = terrane_create(w->t, samples_path, TERRANE_REPLACE, &w->pack.file, o);
	if (rc < 0)
		return rc;
	w->pack.at = 0;
	index_writer_init(&w->index);
	rc = shard_fill(w);
	if (rc == 0)
		rc = index_writer_end(&w->index, w->length, w->plan, w->number, &index);
	index_writer_fini(&w->index);
	if (rc == 0)
		rc = terrane_file_close(w->pack.file, o);
	else
		terrane_file_discard(w->pack.file);
	w->pack.file = NULL;
	if (rc < 0)
		return rc;
	shard->index_bytes = index.len;
	return versions_write_file(w->t, index_path, index.text, index.len, TERRANE_REPLACE, o);
}

/* Whether an earlier build with the same plan has written this shard completely. Sets its index_bytes. */
static bool shard_is_there(struct builder *w, const char *samples_path, const char *index_path,
			   struct manifest_shard *shard)
{
	struct terrane_options o = w->b->o;
	struct terrane_stat st;
	struct index_header h;
	AUTO_FREE uint8_t *raw = NULL;
	o.error = NULL;
	if (terrane_stat(w->t, samples_path, &st, &o) < 0 || st.size != w->length)
		return false;
	int64_t len = versions_read_file(w->t, index_path, INDEX_BYTES_MAX, &raw, &o);
	AUTO_FREE struct index_place *places = calloc(PAGES_MAX, sizeof(*places));
	if (len < 0 || places == NULL ||
	    index_head_parse(raw, (size_t)len, (uint64_t)len, &h, places) < 0)
		return false;
	shard->index_bytes = (uint64_t)len;
	return h.plan == w->plan && h.shard == w->number && h.samples == w->n &&
	       h.data_bytes == w->length;
}

static int shard_build(struct builder *w)
{
	char samples_path[DATASET_FILE_MAX], index_path[DATASET_FILE_MAX];
	int rc = shard_plan(w);
	if (rc < 0)
		return rc;
	struct manifest_shard shard = {
		.samples = w->n, .data_bytes = w->length, .payload_bytes = w->payload};
	snprintf(shard.name, sizeof(shard.name), "%016" PRIx64 "-%05" PRIu32, w->plan, w->number);
	if (!manifest_shard_path(samples_path, sizeof(samples_path), w->path, shard.name,
				 "samples") ||
	    !manifest_shard_path(index_path, sizeof(index_path), w->path, shard.name, "index"))
		return -ENAMETOOLONG;
	if (shard_is_there(w, samples_path, index_path, &shard)) {
		w->result->reused++;
		if (w->b->stop != NULL && w->b->stop(w->b->stop_ctx, w->payload, w->n))
			rc = -ECANCELED;
	} else {
		rc = shard_write(w, samples_path, index_path, &shard);
	}
	if (rc == 0)
		rc = manifest_add(&w->m, &shard);
	if (rc == -E2BIG)
		return fail(w, rc,
			    "the data set would have more than 65,536 shards: use larger ones "
			    "(--shard)");
	w->number++;
	w->result->shards++;
	w->result->bytes += w->payload;
	w->result->stored_bytes += w->length;
	return rc;
}

static int build(struct builder *w)
{
	int rc = prepare(w);
	while (rc == 0 && w->next < w->c->samples)
		rc = shard_build(w);
	if (rc < 0)
		return rc;
	w->m.seed = w->b->seed;
	w->m.created_ns = w->b->now_ns;
	static_assert(sizeof(w->m.source) == sizeof(w->c->kind), "the kind of a source fits");
	memcpy(w->m.source, w->c->kind, sizeof(w->m.source));
	w->result->version = w->m.version;
	w->result->samples = w->c->samples;
	w->result->total_samples = w->m.samples;
	return versions_write(w->t, w->path, &w->m, &w->b->o);
}

int dataset_build(struct terrane *t, const struct catalog *c, const struct build_options *b,
		  struct build_result *out)
{
	struct build_options options = *b;
	assert(c->samples > 0 && b->o.error != NULL);
	if (options.shard_bytes == 0)
		options.shard_bytes = BUILD_SHARD_BYTES_DEFAULT;
	if (options.seed > INT64_MAX || options.shard_bytes > SHARD_BYTES_MAX / 2)
		return dataset_fail(b->o.error, -EINVAL, "%s is too large",
				    options.seed > INT64_MAX ? "the seed" : "the size of shards");
	*out = (struct build_result){0};
	b->o.error->text[0] = 0;
	AUTO_FREE struct builder *w = calloc(1, sizeof(*w));
	if (w == NULL)
		return -ENOMEM;
	*w = (struct builder){.t = t, .c = c, .b = &options, .result = out};
	manifest_init(&w->m);
	int rc = build(w);
	pack_fini(&w->pack);
	manifest_fini(&w->m);
	free(w->labels);
	free(w->samples);
	free(w->sizes);
	free(w->offsets);
	free(w->sample);
	return rc;
}
