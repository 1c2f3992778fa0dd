// SPDX-License-Identifier: Apache-2.0
/*
 * The trace: every event of a run is added to a 64-bit hash. The last events are kept for sim_trace_print; all of
 * them are written to the trace file, if there is one. Two runs with equal hashes are taken to be
 * equal.
 */
#include <inttypes.h>
#include <string.h>

#include "rt/sim/sim.h"

#define KEEP 4096   /* number of last events that are kept */
#define TEXT_MAX 96 /* most bytes of an event's text that are kept */

struct entry {
	uint64_t time_ns;
	const char *kind;
	const char *node;
	uint64_t a;
	uint64_t b;
	char text[TEXT_MAX];
};

struct sim_trace {
	FILE *out;
	uint64_t hash;
	uint64_t count;
	struct entry ring[KEEP];
};

struct sim_trace *sim_trace_open(FILE *out)
{
	struct sim_trace *t = calloc(1, sizeof(*t));
	if (t != NULL)
		t->out = out;
	return t;
}

void sim_trace_close(struct sim_trace *t)
{
	free(t);
}

static void hash_add(struct sim_trace *t, uint64_t x)
{
	t->hash = mix_u64(t->hash + 0x9e3779b97f4a7c15ULL + x);
}

static void hash_text(struct sim_trace *t, const char *text)
{
	uint64_t h = 0xcbf29ce484222325ULL; /* FNV-1a */
	for (; *text != '\0'; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3ULL;
	hash_add(t, h);
}

static void entry_print(const struct entry *e, FILE *out)
{
	fprintf(out, "%12.6f %-10s %-16s %" PRIu64 " %" PRIu64 "%s%s\n", (double)e->time_ns / 1e9,
		e->node, e->kind, e->a, e->b, e->text[0] != '\0' ? " " : "", e->text);
}

void sim_trace(struct sim *s, const struct sim_node *n, const char *kind, uint64_t a, uint64_t b,
	       const char *text)
{
	struct sim_trace *t = s->trace;
	hash_add(t, s->now_ns);
	hash_add(t, n != NULL ? n->id + 1 : 0);
	hash_text(t, kind);
	hash_add(t, a);
	hash_add(t, b);
	struct entry *e = &t->ring[t->count++ % KEEP];
	e->time_ns = s->now_ns;
	e->kind = kind;
	e->node = n != NULL ? n->name : "-";
	e->a = a;
	e->b = b;
	e->text[0] = '\0';
	if (text != NULL) {
		hash_text(t, text);
		snprintf(e->text, sizeof(e->text), "%s", text);
	}
	if (t->out != NULL)
		entry_print(e, t->out);
}

uint64_t sim_trace_hash(const struct sim *s)
{
	return s->trace->hash;
}

void sim_trace_print(const struct sim *s, FILE *out, size_t max_lines)
{
	const struct sim_trace *t = s->trace;
	uint64_t n = t->count < KEEP ? t->count : KEEP;
	if (n > max_lines)
		n = max_lines;
	for (uint64_t i = t->count - n; i < t->count; i++)
		entry_print(&t->ring[i % KEEP], out);
}
