// SPDX-License-Identifier: Apache-2.0
#include "training/source.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/err.h"
#include "training/job.h"

int train_source_add(struct train_source *s, uint64_t id, const char *path, uint64_t size)
{
	if (s->file_count == TRAIN_FILES_MAX)
		return -E2BIG;
	size_t n = s->file_count;
	if ((n & (n - 1)) == 0) { /* full at powers of two */
		size_t room = n == 0 ? 1 : 2 * n;
		struct train_file *grown = realloc(s->files, room * sizeof(*grown));
		if (grown == NULL)
			return -ENOMEM;
		s->files = grown;
	}
	char *copy = strdup(path);
	if (copy == NULL)
		return -ENOMEM;
	s->files[s->file_count++] = (struct train_file){.id = id, .path = copy, .size = size};
	return 0;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct train_file *)a)->path, ((const struct train_file *)b)->path);
}

/* Numbers the samples; empty files have none. */
static void number(struct train_source *s, uint64_t limit)
{
	if (s->file_count > 1)
		qsort(s->files, s->file_count, sizeof(*s->files), by_path);
	for (size_t i = 0; i < s->file_count; i++) {
		struct train_file *f = &s->files[i];
		f->first = s->samples;
		uint64_t each = s->sample_bytes != 0 ? min_u64(s->sample_bytes, f->size) : f->size;
		uint64_t n = f->size == 0 ? 0 : f->size / each;
		if (limit != 0)
			n = min_u64(n, limit - s->samples);
		s->samples += n;
		s->total_bytes += n * each;
		s->largest = n > 0 ? max_u64(s->largest, each) : s->largest;
	}
}

const struct train_file *train_sample_at(const struct train_source *s, uint32_t sample,
					 uint64_t *offset)
{
	assert(sample < s->samples && s->file_count > 0);
	/* The last file whose first sample is not behind this one; empty files share the number of their successor. */
	size_t low = 0, high = s->file_count;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (s->files[middle].first <= sample)
			low = middle;
		else
			high = middle;
	}
	const struct train_file *f = &s->files[low];
	assert(f->size > 0 && f->first <= sample);
	*offset = (sample - f->first) * s->sample_bytes;
	return f;
}

uint64_t train_sample_bytes(const struct train_source *s, uint32_t sample)
{
	uint64_t offset;
	if (s->file_count == 0)
		return s->sample_bytes;
	const struct train_file *f = train_sample_at(s, sample, &offset);
	return s->sample_bytes != 0 ? min_u64(s->sample_bytes, f->size) : f->size;
}

/* --- memory: nothing is read -------------------------------------------------------------------- */

static int memory_read(struct train_source *s, const uint32_t *samples, size_t n, uint8_t *memory,
		       struct strbuf *err)
{
	(void)s;
	(void)samples;
	(void)n;
	(void)memory;
	(void)err;
	return 0;
}

static int memory_write(struct train_source *s, const char *path, uint64_t bytes,
			struct strbuf *err)
{
	(void)s;
	(void)path;
	(void)bytes;
	(void)err;
	return 0;
}

const struct train_source_ops train_memory_ops = {
	.read = memory_read, .write = memory_write, .read_back = memory_write};

bool train_piece_check(const uint8_t *piece, size_t bytes)
{
	/* Each byte equals the one before, and the first one is right. */
	return bytes == 0 ||
	       (piece[0] == TRAIN_PIECE_FILL && memcmp(piece, piece + 1, bytes - 1) == 0);
}

/* --- opening ------------------------------------------------------------------------------------ */

static int list(struct train_source *s, const struct train_job *j, struct strbuf *err)
{
	int rc = 0;
	if (j->from == TRAIN_MEMORY) {
		s->ops = &train_memory_ops;
		s->samples = (uint64_t)j->samples;
		s->total_bytes = s->samples * s->sample_bytes;
		s->largest = s->sample_bytes;
		return 0;
	}
	if (j->from == TRAIN_CLUSTER) {
		assert(s->engine != NULL);
		s->ops = &train_cluster_ops;
		rc = train_cluster_list(s, j->path, err);
	} else {
		s->ops = &train_folder_ops;
		rc = train_folder_list(s, j->path, 0, err);
	}
	if (rc < 0 && err->len == 0)
		(void)strbuf_printf(err, "cannot list %s: %s", j->path, err_text(rc));
	return rc;
}

int train_source_open(struct train_source *s, const struct train_job *j, struct engine *engine,
		      struct strbuf *err)
{
	*s = (struct train_source){.engine = engine,
				   .timeout_ns = j->read_timeout_ns,
				   .sample_bytes = j->sample_bytes};
	int rc = list(s, j, err);
	if (rc == 0 && j->from != TRAIN_MEMORY)
		number(s, (uint64_t)j->samples);
	if (rc == 0 && s->samples == 0) {
		(void)strbuf_printf(err, "%s has no samples: it has no file with bytes", j->path);
		rc = -ENODATA;
	} else if (rc == 0 && s->samples > TRAIN_SAMPLES_MAX) {
		(void)strbuf_printf(err, "%s has %llu samples; at most %llu are supported", j->path,
				    (unsigned long long)s->samples,
				    (unsigned long long)TRAIN_SAMPLES_MAX);
		rc = -E2BIG;
	} else if (rc == 0 && s->largest > TRAIN_SAMPLE_MAX) {
		(void)strbuf_printf(err,
				    "%s has a sample of %llu bytes; at most %llu are supported: "
				    "set [data] sample",
				    j->path, (unsigned long long)s->largest,
				    (unsigned long long)TRAIN_SAMPLE_MAX);
		rc = -EFBIG;
	}
	if (rc == 0 && j->cache_bytes != 0)
		rc = train_cache_open(s, j->cache_bytes, j->cache_policy);
	if (rc < 0)
		train_source_close(s);
	return rc;
}

void train_source_close(struct train_source *s)
{
	train_cache_close(s);
	for (size_t i = 0; i < s->file_count; i++)
		free(s->files[i].path);
	free(s->files);
	s->files = NULL;
	s->file_count = 0;
}
