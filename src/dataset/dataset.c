// SPDX-License-Identifier: Apache-2.0
#include "dataset/dataset.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/base.h"
#include "base/list.h"

#define PAGES_PER_NEED 256u /* pages that are read together */

/* A page of the index in memory. */
struct page {
	struct list node; /* in dataset.pages, least recently used first */
	uint64_t used;    /* number of the call of dataset_need that last needed it */
	uint32_t shard, number, len;
	uint8_t raw[];
};

struct shard {
	struct terrane_file *samples, *index; /* NULL: not open */
	struct index_header head;             /* pages 0: not read */
	struct index_place *places;           /* [head.pages] */
	struct page **pages;                  /* [head.pages], NULL: not in memory */
};

struct dataset {
	struct terrane *t;
	char path[DATASET_PATH_MAX];
	struct manifest m;
	struct shard *shards;
	struct list pages;
	uint64_t bytes, bytes_max; /* of pages in memory */
	uint64_t calls;            /* of dataset_need */
};

/* --- open and close ----------------------------------------------------------------------------- */

static struct dataset *dataset_new(struct terrane *t, uint64_t cache_bytes)
{
	struct dataset *d = calloc(1, sizeof(*d));
	if (d == NULL)
		return NULL;
	d->t = t;
	d->bytes_max = cache_bytes != 0 ? cache_bytes : DATASET_CACHE_BYTES_DEFAULT;
	list_init(&d->pages);
	manifest_init(&d->m);
	return d;
}

/* Ends opening with the result of reading the manifest; frees d after an error. */
static int open_end(struct dataset **out, struct dataset *d, int rc)
{
	assert(list_empty(&d->pages));
	if (rc == 0) {
		d->shards = calloc(d->m.shards_n, sizeof(*d->shards));
		rc = d->shards != NULL ? 0 : -ENOMEM;
	}
	if (rc < 0) {
		dataset_close(d);
		return rc;
	}
	*out = d;
	return 0;
}

int dataset_open(struct dataset **out, struct terrane *t, const char *path, const char *manifest,
		 size_t len, uint64_t cache_bytes, struct terrane_error *e)
{
	struct dataset *d = dataset_new(t, cache_bytes);
	if (d == NULL)
		return -ENOMEM;
	int rc = dataset_path(d->path, path, e);
	return open_end(out, d, rc < 0 ? rc : versions_parse(d->path, manifest, len, &d->m, e));
}

int dataset_open_version(struct dataset **out, struct terrane *t, const char *path,
			 uint64_t version, const struct terrane_options *o)
{
	struct dataset *d = dataset_new(t, 0);
	if (d == NULL)
		return -ENOMEM;
	int rc = dataset_path(d->path, path, o->error);
	return open_end(out, d, rc < 0 ? rc : versions_read(t, d->path, version, &d->m, o));
}

static void page_drop(struct dataset *d, struct page *p)
{
	struct page **slot = &d->shards[p->shard].pages[p->number];
	assert(*slot == p && d->bytes >= p->len);
	*slot = NULL;
	d->bytes -= p->len;
	list_remove(&p->node);
	free(p);
}

void dataset_close(struct dataset *d)
{
	if (d == NULL)
		return;
	while (d->shards != NULL && !list_empty(&d->pages))
		page_drop(d, container_of(list_first(&d->pages), struct page, node));
	assert(d->bytes == 0);
	for (uint32_t i = 0; d->shards != NULL && i < d->m.shards_n; i++) {
		struct shard *s = &d->shards[i];
		if (s->samples != NULL)
			terrane_file_discard(s->samples);
		if (s->index != NULL)
			terrane_file_discard(s->index);
		free(s->places);
		free(s->pages);
	}
	free(d->shards);
	manifest_fini(&d->m);
	free(d);
}

const struct manifest *dataset_manifest(const struct dataset *d)
{
	return &d->m;
}

const char *dataset_name(const struct dataset *d)
{
	return d->path;
}

uint64_t dataset_cached_bytes(const struct dataset *d)
{
	return d->bytes;
}

/* --- what is needed ----------------------------------------------------------------------------- */

static int need_file(struct dataset *d, uint32_t shard, bool index, struct dataset_need *need)
{
	need->kind = DATASET_OPEN_FILE;
	need->shard = shard;
	need->index = index;
	if (!manifest_shard_path(need->path, sizeof(need->path), d->path, d->m.shards[shard].name,
				 index ? "index" : "samples"))
		return -ENAMETOOLONG;
	return 1;
}

static int need_head(struct dataset *d, uint32_t shard, struct dataset_need *need)
{
	const struct manifest_shard *ms = &d->m.shards[shard];
	need->kind = DATASET_READ_HEAD;
	need->shard = shard;
	need->file = d->shards[shard].index;
	need->len = index_head_bytes(ms->samples);
	need->raw = malloc(need->len);
	return need->raw != NULL ? 1 : -ENOMEM;
}

/* Returns 1 if the shard is not ready, with what it needs first. */
static int need_shard(struct dataset *d, uint32_t shard, struct dataset_need *need)
{
	struct shard *s = &d->shards[shard];
	if (s->samples == NULL)
		return need_file(d, shard, false, need);
	if (s->index == NULL)
		return need_file(d, shard, true, need);
	return s->head.pages == 0 ? need_head(d, shard, need) : 0;
}

static void need_free(struct dataset_need *need)
{
	for (size_t i = 0; i < need->n; i++)
		free(need->ranges[i].user);
	free(need->ranges);
	free(need->raw);
	need->ranges = NULL;
	need->raw = NULL;
	need->n = 0;
}

/* Adds a page to those that are read together. */
static int need_page(struct dataset *d, uint32_t shard, uint32_t number, struct dataset_need *need)
{
	const struct index_place *place = &d->shards[shard].places[number];
	for (size_t i = 0; i < need->n; i++) {
		const struct page *p = need->ranges[i].user;
		if (p->shard == shard && p->number == number)
			return 0;
	}
	if (need->ranges == NULL)
		need->ranges = calloc(PAGES_PER_NEED, sizeof(*need->ranges));
	struct page *p = malloc(sizeof(*p) + place->len);
	if (need->ranges == NULL || p == NULL) {
		free(p);
		return -ENOMEM;
	}
	*p = (struct page){.shard = shard, .number = number, .len = place->len, .used = d->calls};
	need->kind = DATASET_READ_PAGES;
	need->ranges[need->n++] = (struct terrane_range){.file = d->shards[shard].index,
							 .offset = place->offset,
							 .len = place->len,
							 .buf = p->raw,
							 .user = p};
	return 0;
}

int dataset_need(struct dataset *d, const uint64_t *samples, size_t n, struct dataset_need *need)
{
	int rc = 0;
	need->raw = NULL;
	need->ranges = NULL;
	need->file = NULL;
	need->n = 0;
	need->o = (struct terrane_options){.error = &need->error};
	need->error = (struct terrane_error){0};
	if (n > DATASET_LOOKUP_MAX)
		return -E2BIG;
	d->calls++;
	for (size_t i = 0; i < n; i++) {
		if (samples[i] >= d->m.samples) {
			rc = dataset_fail(&need->error, -ERANGE,
					  "sample %" PRIu64 " does not exist: %s has "
					  "%" PRIu64,
					  samples[i], d->path, d->m.samples);
			break;
		}
		uint32_t shard = manifest_find(&d->m, samples[i]);
		uint32_t number = (uint32_t)((samples[i] - d->m.shards[shard].first) / INDEX_PAGE);
		struct shard *s = &d->shards[shard];
		if (s->head.pages == 0) {
			if (need->n > 0)
				break; /* read those pages first */
			return need_shard(d, shard, need);
		}
		struct page *p = s->pages[number];
		if (p != NULL) {
			p->used = d->calls;
			list_remove(&p->node);
			list_push_back(&d->pages, &p->node);
			continue;
		}
		rc = need_page(d, shard, number, need);
		if (rc < 0 || need->n == PAGES_PER_NEED)
			break;
	}
	if (rc < 0)
		need_free(need);
	return rc < 0 ? rc : need->n > 0;
}

int dataset_need_start(struct dataset *d, struct dataset_need *need, struct terrane_op *op)
{
	switch (need->kind) {
	case DATASET_OPEN_FILE:
		return terrane_file_open_start(d->t, need->path, &need->file, &need->o, op);
	case DATASET_READ_HEAD:
		return terrane_pread_start(need->file, need->raw, need->len, 0, &need->o, op);
	case DATASET_READ_PAGES:
		return terrane_read_batch_start(d->t, need->ranges, need->n, &need->o, op);
	}
	assert(!"a kind that dataset_need does not set");
	return -EINVAL;
}

/* --- taking results ----------------------------------------------------------------------------- */

static int damaged(const struct dataset *d, struct dataset_need *need, const char *what)
{
	return dataset_fail(&need->error, -EBADMSG,
			    "%s of shard %s of %s does not belong to its samples: "
			    "run `terrane dataset verify`, and build the data set again",
			    what, d->m.shards[need->shard].name, d->path);
}

static int take_file(struct dataset *d, struct dataset_need *need)
{
	struct shard *s = &d->shards[need->shard];
	struct terrane_file **slot = need->index ? &s->index : &s->samples;
	assert(need->file != NULL);
	if (*slot == NULL)
		*slot = need->file;
	else
		terrane_file_discard(need->file); /* another caller has opened it in the meantime */
	return 0;
}

static int take_head(struct dataset *d, struct dataset_need *need, uint64_t got)
{
	struct shard *s = &d->shards[need->shard];
	const struct manifest_shard *ms = &d->m.shards[need->shard];
	struct index_header head = {0};
	uint32_t pages = (uint32_t)((ms->samples + INDEX_PAGE - 1) / INDEX_PAGE);
	struct index_place *places = calloc(PAGES_MAX, sizeof(*places));
	struct page **slots = calloc(pages, sizeof(struct page *));
	int rc = places == NULL || slots == NULL ? -ENOMEM : 0;
	if (rc == 0 && got == need->len)
		rc = index_head_parse(need->raw, need->len, ms->index_bytes, &head, places);
	else if (rc == 0)
		rc = -EBADMSG;
	if (rc == 0 && (head.samples != ms->samples || head.data_bytes != ms->data_bytes))
		rc = -EBADMSG;
	if (rc < 0 || s->head.pages > 0) { /* or another caller has read it in the meantime */
		free(places);
		free(slots);
		if (rc == 0)
			return 0;
		if (rc == -EPROTONOSUPPORT)
			return dataset_fail(
				&need->error, rc,
				"the index of shard %s of %s has a newer format "
				"than this program knows: use a newer version of Terrane",
				ms->name, d->path);
		return rc == -ENOMEM ? rc : damaged(d, need, "the index");
	}
	assert(s->head.pages == 0 && head.pages == pages);
	struct index_place *fitting = realloc(places, pages * sizeof(*places));
	s->places = fitting != NULL ? fitting : places;
	s->pages = slots;
	s->head = head;
	return 0;
}

/* Drops pages beyond the limit, but none that the last dataset_need asked for. */
static void shrink(struct dataset *d)
{
	while (d->bytes > d->bytes_max && !list_empty(&d->pages)) {
		struct page *p = container_of(list_first(&d->pages), struct page, node);
		if (p->used == d->calls)
			return;
		page_drop(d, p);
	}
}

static int take_pages(struct dataset *d, struct dataset_need *need)
{
	int rc = 0;
	for (size_t i = 0; i < need->n; i++) {
		struct terrane_range *r = &need->ranges[i];
		struct page *p = r->user;
		struct shard *s = &d->shards[p->shard];
		need->shard = p->shard;
		if (rc == 0 && r->result != (int64_t)r->len)
			rc = r->result < 0 ? (int)r->result
					   : damaged(d, need, "a page of the index");
		if (rc == 0 &&
		    index_page_check(&s->head, p->number, &s->places[p->number], p->raw) < 0)
			rc = damaged(d, need, "a page of the index");
		if (rc < 0)
			break;
		if (s->pages[p->number] != NULL)
			continue; /* another caller has loaded it in the meantime */
		s->pages[p->number] = p;
		p->used = d->calls;
		d->bytes += p->len;
		list_push_back(&d->pages, &p->node);
		r->user = NULL;
	}
	shrink(d);
	return rc;
}

int dataset_need_end(struct dataset *d, struct dataset_need *need, int64_t result)
{
	int rc;
	if (result < 0)
		rc = (int)result;
	else if (need->kind == DATASET_OPEN_FILE)
		rc = take_file(d, need);
	else if (need->kind == DATASET_READ_HEAD)
		rc = take_head(d, need, (uint64_t)result);
	else
		rc = take_pages(d, need);
	if (result == -ENOENT && need->kind == DATASET_OPEN_FILE)
		dataset_fail(&need->error, rc,
			     "%s is missing: the version was removed, or its files were",
			     need->path);
	need_free(need);
	assert(rc <= 0);
	return rc;
}

int dataset_ready(struct dataset *d, const uint64_t *samples, size_t n,
		  const struct terrane_options *o)
{
	AUTO_FREE struct dataset_need *need = malloc(sizeof(*need));
	int rc;
	if (need == NULL)
		return -ENOMEM;
	while ((rc = dataset_need(d, samples, n, need)) > 0) {
		struct terrane_op op = {0};
		struct terrane_error *error = need->o.error;
		need->o = *o;
		need->o.error = error;
		rc = dataset_need_start(d, need, &op);
		rc = dataset_need_end(d, need, rc < 0 ? rc : terrane_wait(d->t, &op));
		if (rc < 0)
			break;
	}
	if (rc < 0 && o->error != NULL) {
		*o->error = need->error;
		o->error->code = rc;
	}
	return rc;
}

/* --- samples ------------------------------------------------------------------------------------ */

static const struct page *page_of(const struct dataset *d, uint64_t sample, uint32_t *shard,
				  uint32_t *in)
{
	*shard = manifest_find(&d->m, sample);
	uint64_t at = sample - d->m.shards[*shard].first;
	*in = (uint32_t)(at % INDEX_PAGE);
	assert(d->shards[*shard].head.pages > 0);
	const struct page *p = d->shards[*shard].pages[at / INDEX_PAGE];
	assert(p != NULL); /* the caller has waited until nothing is needed */
	return p;
}

void dataset_lookup(struct dataset *d, const uint64_t *samples, size_t n, struct dataset_entry *out)
{
	struct index_entry e;
	uint32_t shard, in;
	for (size_t i = 0; i < n; i++) {
		const struct page *p = page_of(d, samples[i], &shard, &in);
		index_page_entry(p->raw, in, &e);
		out[i] = (struct dataset_entry){.sample = samples[i],
						.offset = e.offset,
						.size = e.size,
						.shard = shard,
						.crc = e.crc,
						.label = e.label,
						.width = e.width,
						.height = e.height};
		struct index_tail tail;
		index_page_tail(p->raw, index_page_samples(&d->shards[shard].head, p->number), in,
				&tail);
		out[i].digested = tail.sha256 != NULL;
		if (tail.sha256 != NULL)
			memcpy(out[i].sha256, tail.sha256, SHA256_BYTES);
	}
}

void dataset_tail(struct dataset *d, uint64_t sample, struct index_tail *out)
{
	uint32_t shard, in;
	const struct page *p = page_of(d, sample, &shard, &in);
	index_page_tail(p->raw, index_page_samples(&d->shards[shard].head, p->number), in, out);
}

bool dataset_entries_ok(const struct dataset *d, const struct dataset_entry *entries, size_t n,
			uint64_t *bytes)
{
	*bytes = 0;
	for (size_t i = 0; i < n; i++) {
		const struct dataset_entry *e = &entries[i];
		if (e->sample >= d->m.samples || e->shard >= d->m.shards_n ||
		    d->shards[e->shard].samples == NULL)
			return false;
		uint64_t data_bytes = d->m.shards[e->shard].data_bytes;
		if (e->size > SAMPLE_BYTES_MAX || e->size > data_bytes ||
		    e->offset > data_bytes - e->size || *bytes > UINT64_MAX / 2)
			return false;
		*bytes += e->size;
	}
	return true;
}

uint64_t dataset_ranges(struct dataset *d, const struct dataset_entry *entries, size_t n,
			uint8_t *buf, struct terrane_range *ranges)
{
	uint64_t at = 0;
	for (size_t i = 0; i < n; i++) {
		assert(entries[i].shard < d->m.shards_n);
		assert(d->shards[entries[i].shard].samples != NULL);
		ranges[i] = (struct terrane_range){.file = d->shards[entries[i].shard].samples,
						   .offset = entries[i].offset,
						   .len = entries[i].size,
						   .buf = buf + at};
		if (entries[i].part == 0 && entries[i].digested != 0)
			ranges[i].sha256 = entries[i].sha256;
		at += entries[i].size;
	}
	return at;
}

/* Returns whether a range has the bytes of the index, or was made of them by an operation. */
static bool is_sample(const struct dataset_entry *e, const struct terrane_range *r)
{
	const struct terrane_prep *p = r->prep;
	if (p != NULL && p->got != TERRANE_PREP_RAW)
		return (uint64_t)r->result == p->bytes &&
		       (e->part != 0 || p->source_crc32c == e->crc);
	return (uint64_t)r->result == e->size &&
	       (e->size == 0 || e->part != 0 || r->crc32c == e->crc);
}

int dataset_check(const struct dataset *d, const struct dataset_entry *entries,
		  const struct terrane_range *ranges, size_t n, struct terrane_error *e)
{
	for (size_t i = 0; i < n; i++) {
		if (ranges[i].result < 0)
			return dataset_fail(e, (int)ranges[i].result,
					    "cannot read sample %" PRIu64 " of %s: %s",
					    entries[i].sample, d->path,
					    terrane_error_text((int)ranges[i].result));
		if (!is_sample(&entries[i], &ranges[i]))
			return dataset_fail(e, -EBADMSG,
					    "sample %" PRIu64 " of %s does not match the index: "
					    "run `terrane dataset verify`",
					    entries[i].sample, d->path);
	}
	return 0;
}
