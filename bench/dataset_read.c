// SPDX-License-Identifier: Apache-2.0
/*
 * dataset_read PATH BATCH PREFETCH RANK WORLD SECONDS: reads batches of a data set in the order of epochs, with read-ahead,
 * and prints as JSON how long that took. It is the C program that `./dev bench python` compares terrane.Loader with.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/base.h"
#include "dataset/dataset.h"
#include "dataset/order.h"

#define PREFETCH_MAX 64u
#define WINDOW 65536u

struct slot {
	struct terrane_op op;
	struct dataset_entry *entries;
	struct terrane_range *ranges;
	uint64_t *samples;
	uint8_t *buf;
	size_t room;
	uint64_t n;
	bool started;
};

struct reader {
	struct terrane *t;
	struct dataset *d;
	struct terrane_options o;
	struct terrane_error error;
	struct order order;
	struct order_reader who;
	uint64_t total, epoch, step; /* samples of the data set; of the next batch */
	struct slot slot[PREFETCH_MAX];
	uint64_t read, bytes;
};

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Starts to read the next batch. */
static int batch_start(struct reader *r, struct slot *s)
{
	struct order_share share = order_step(r->total, 0, r->step, &r->who);
	if (share.count == 0) { /* the next epoch */
		r->epoch++;
		r->step = 0;
		int rc = order_init(&r->order, ORDER_WINDOW, r->total, WINDOW, 1, r->epoch);
		if (rc < 0)
			return rc;
		share = order_step(r->total, 0, 0, &r->who);
	}
	r->step++;
	s->n = share.count;
	order_samples(&r->order, share.first, s->n, s->samples);
	int rc = dataset_ready(r->d, s->samples, s->n, &r->o);
	if (rc < 0)
		return rc;
	dataset_lookup(r->d, s->samples, s->n, s->entries);
	size_t bytes = 0;
	for (uint64_t i = 0; i < s->n; i++)
		bytes += s->entries[i].size;
	if (bytes > s->room) {
		free(s->buf);
		s->room = bytes + bytes / 4;
		s->buf = malloc(s->room);
		if (s->buf == NULL)
			return -ENOMEM;
	}
	dataset_ranges(r->d, s->entries, s->n, s->buf, s->ranges);
	s->op = (struct terrane_op){0};
	rc = terrane_read_batch_start(r->t, s->ranges, s->n, &r->o, &s->op);
	s->started = rc == 0;
	return rc;
}

static int batch_end(struct reader *r, struct slot *s)
{
	int64_t rc = terrane_wait(r->t, &s->op);
	s->started = false;
	if (rc == 0)
		rc = dataset_check(r->d, s->entries, s->ranges, s->n, &r->error);
	for (uint64_t i = 0; rc == 0 && i < s->n; i++)
		r->bytes += s->entries[i].size;
	r->read += s->n;
	return (int)rc;
}

static int run(struct reader *r, uint64_t prefetch, double seconds)
{
	double begin = now(CLOCK_MONOTONIC), first = 0;
	struct rusage before, after;
	getrusage(RUSAGE_SELF, &before);
	int rc = 0;
	for (uint64_t i = 0; rc == 0 && i < prefetch; i++)
		rc = batch_start(r, &r->slot[i]);
	for (uint64_t i = 0; rc == 0; i = (i + 1) % prefetch) {
		rc = batch_end(r, &r->slot[i]);
		if (first == 0)
			first = now(CLOCK_MONOTONIC) - begin;
		if (rc < 0 || now(CLOCK_MONOTONIC) - begin >= seconds)
			break;
		rc = batch_start(r, &r->slot[i]);
	}
	double wall = now(CLOCK_MONOTONIC) - begin;
	getrusage(RUSAGE_SELF, &after);
	double cpu = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) +
		     (double)(after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
		     1e-6 * (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec) +
		     1e-6 * (double)(after.ru_stime.tv_usec - before.ru_stime.tv_usec);
	if (rc < 0)
		fprintf(stderr, "dataset_read: %s\n", r->error.text);
	else
		printf("{\"samples\": %" PRIu64 ", \"bytes\": %" PRIu64
		       ", \"seconds\": %.6f, \"cpu\": %.6f, \"first\": %.6f}\n",
		       r->read, r->bytes, wall, cpu, first);
	return rc;
}

static int prepare(struct reader *r, const char *path, uint64_t prefetch)
{
	struct terrane_open_options open = {.error = &r->error};
	r->o.error = &r->error;
	int rc = terrane_open(&r->t, NULL, &open);
	if (rc == 0)
		rc = dataset_open_version(&r->d, r->t, path, 0, &r->o);
	if (rc < 0)
		return rc;
	r->total = dataset_manifest(r->d)->samples;
	for (uint64_t i = 0; i < prefetch; i++) {
		struct slot *s = &r->slot[i];
		s->entries = calloc(r->who.batch, sizeof(*s->entries));
		s->ranges = calloc(r->who.batch, sizeof(*s->ranges));
		s->samples = calloc(r->who.batch, sizeof(*s->samples));
		if (s->entries == NULL || s->ranges == NULL || s->samples == NULL)
			return -ENOMEM;
	}
	return order_init(&r->order, ORDER_WINDOW, r->total, WINDOW, 1, 0);
}

int main(int argc, char **argv)
{
	static struct reader r;
	if (argc != 7) {
		fprintf(stderr, "usage: dataset_read PATH BATCH PREFETCH RANK WORLD SECONDS\n");
		return 2;
	}
	uint64_t prefetch = strtoull(argv[3], NULL, 10);
	r.who = (struct order_reader){.batch = strtoull(argv[2], NULL, 10),
				      .rank = strtoull(argv[4], NULL, 10),
				      .world = strtoull(argv[5], NULL, 10)};
	if (prefetch == 0 || prefetch > PREFETCH_MAX || r.who.batch == 0 ||
	    r.who.batch > ORDER_BATCH_MAX || r.who.rank >= r.who.world)
		return 2;
	int rc = prepare(&r, argv[1], prefetch);
	if (rc < 0)
		fprintf(stderr, "dataset_read: cannot open %s: %s\n", argv[1], r.error.text);
	else
		rc = run(&r, prefetch, strtod(argv[6], NULL));
	for (uint64_t i = 0; i < prefetch; i++) {
		if (r.slot[i].started)
			terrane_wait(r.t, &r.slot[i].op);
		free(r.slot[i].entries);
		free(r.slot[i].ranges);
		free(r.slot[i].samples);
		free(r.slot[i].buf);
	}
	dataset_close(r.d);
	if (r.t != NULL)
		terrane_close(r.t);
	return rc < 0 ? 1 : 0;
}
