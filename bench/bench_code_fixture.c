// SPDX-License-Identifier: Apache-2.0
#include "bench_code_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/base.h"
#include "base/rng.h"

#define ROUNDS 16
#define SLICE_S 0.01
#define PAGE 4096

static void *must(void *p)
{
	if (p == NULL) {
		fprintf(stderr, "bench: out of memory\n");
		exit(1);
	}
	return p;
}

void block_init(struct block *b, const char *encoding, size_t len)
{
	struct encoding e;
	struct rng rng;
	char why[ENCODING_WHY_MAX];
	*b = (struct block){.len = len};
	if (encoding_parse(encoding, &e, why, sizeof(why)) != 0 || codec_open(&e, &b->codec) != 0) {
		fprintf(stderr, "bench: cannot open %s\n", encoding);
		exit(1);
	}
	b->data = encoding_data_chunks(&e);
	b->total = encoding_total_chunks(&e);
	size_t n = (size_t)b->total, stride = (len + PAGE - 1) / PAGE * PAGE;
	b->memory = must(aligned_alloc(PAGE, n * stride));
	b->chunk = must(calloc(n, sizeof(*b->chunk)));
	b->iov = must(calloc(n, sizeof(*b->iov)));
	b->sg = must(calloc(n, sizeof(*b->sg)));
	rng_init(&rng, 1);
	rng_fill(&rng, b->memory, n * stride);
	for (size_t i = 0; i < n; i++) {
		b->chunk[i] = b->memory + i * stride;
		b->iov[i] = (struct iovec){b->chunk[i], len};
		b->sg[i] = (struct sg){&b->iov[i], 1};
	}
}

void block_fini(struct block *b)
{
	codec_close(b->codec);
	free(b->memory);
	free(b->chunk);
	free(b->iov);
	free(b->sg);
}

static double cpu_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns how many runs fill a slice. */
static int calibrate(const struct work *w, double slice_s)
{
	for (int n = 1;; n *= 2) {
		double start = cpu_s();
		for (int i = 0; i < n; i++)
			w->run(w->arg);
		double took = cpu_s() - start;
		if (took > slice_s / 4)
			return (int)(slice_s / took * n) + 1;
	}
}

static double slice(const struct work *w, int n)
{
	double start = cpu_s();
	for (int i = 0; i < n; i++)
		w->run(w->arg);
	return (cpu_s() - start) / n;
}

static double faster(double best_gb_s, double bytes, double took_s)
{
	double gb_s = bytes / took_s / 1e9;
	return gb_s > best_gb_s ? gb_s : best_gb_s;
}

double compare(const struct work *a, const struct work *b, struct speed *speed_a,
	       struct speed *speed_b)
{
	int n_a = calibrate(a, SLICE_S), n_b = calibrate(b, SLICE_S);
	*speed_a = *speed_b = (struct speed){0};
	for (int i = 0; i < ROUNDS; i++) {
		speed_a->gb_s = faster(speed_a->gb_s, a->bytes, slice(a, n_a));
		speed_b->gb_s = faster(speed_b->gb_s, b->bytes, slice(b, n_b));
	}
	return speed_a->gb_s / speed_b->gb_s;
}

struct speed measure(const struct work *w, double slice_s)
{
	struct speed s = {0};
	int n = calibrate(w, slice_s);
	for (int i = 0; i < 3; i++)
		s.gb_s = faster(s.gb_s, w->bytes, slice(w, n));
	return s;
}
