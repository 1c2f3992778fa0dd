// SPDX-License-Identifier: Apache-2.0
#include "analysis/encode.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/rng.h"
#include "code/codec.h"

#define ALIGN 64
#define SEED 1

struct stripe {
	struct codec *codec;
	size_t len;
	uint8_t *memory;
	struct iovec *iov;
	struct sg *sg;
};

static int stripe_init(struct stripe *s, const struct encoding *e, size_t chunk_bytes)
{
	*s = (struct stripe){0};
	int rc = codec_open(e, &s->codec);
	if (rc != 0)
		return rc;
	size_t n = (size_t)encoding_total_chunks(e);
	s->len = (size_t)min_u64(chunk_bytes, ENCODE_MEMORY_MAX / n);
	size_t stride = (s->len + ALIGN - 1) / ALIGN * ALIGN;
	struct rng rng;
	s->memory = aligned_alloc(ALIGN, n * stride);
	s->iov = calloc(n, sizeof(*s->iov));
	s->sg = calloc(n, sizeof(*s->sg));
	if (s->memory == NULL || s->iov == NULL || s->sg == NULL)
		return -ENOMEM;
	rng_init(&rng, SEED);
	rng_fill(&rng, s->memory, stride);
	for (size_t i = 0; i < n; i++) {
		if (i > 0) /* any bytes will do: the throughput does not depend on them */
			memcpy(s->memory + i * stride, s->memory, stride);
		s->iov[i] = (struct iovec){s->memory + i * stride, s->len};
		s->sg[i] = (struct sg){&s->iov[i], 1};
	}
	return 0;
}

static void stripe_fini(struct stripe *s)
{
	codec_close(s->codec);
	free(s->memory);
	free(s->iov);
	free(s->sg);
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int encode_measure(const struct encoding *e, const struct encode_options *o,
		   struct encode_speed *speed)
{
	assert(o->cpu_s != NULL);
	struct stripe s;
	double slice[ENCODE_SLICES], user = encoding_data_chunks(e);
	int rc = stripe_init(&s, e, o->chunk_bytes);
	/* the first run is not timed: it maps pages, fills caches and raises the clock rate */
	if (rc == 0)
		rc = codec_encode(s.codec, s.len, s.sg);
	for (int i = 0; i < ENCODE_SLICES && rc == 0; i++) {
		double began = o->cpu_s(), took = 0;
		uint64_t rounds = 0;
		while (took < o->slice_s && rc == 0) {
			rc = codec_encode(s.codec, s.len, s.sg);
			rounds++;
			took = o->cpu_s() - began;
		}
		slice[i] = (double)rounds * user * (double)s.len / took;
	}
	stripe_fini(&s);
	if (rc != 0)
		return rc;
	qsort(slice, ENCODE_SLICES, sizeof(slice[0]), compare_doubles);
	speed->bytes_per_s = slice[ENCODE_SLICES / 2];
	speed->range = (struct interval){slice[0], slice[ENCODE_SLICES - 1]};
	return 0;
}
