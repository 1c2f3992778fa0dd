// SPDX-License-Identifier: Apache-2.0
#include "history.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/rng.h"

void history_init(struct history *h)
{
	*h = (struct history){0};
}

void history_fini(struct history *h)
{
	free(h->ops);
	*h = (struct history){0};
}

size_t history_begin(struct history *h, const struct history_op *op)
{
	if (h->count == h->capacity) {
		h->capacity = h->capacity == 0 ? 64 : 2 * h->capacity;
		h->ops = reallocarray(h->ops, h->capacity, sizeof(*h->ops));
		assert(h->ops != NULL);
	}
	h->ops[h->count] = *op;
	h->ops[h->count].invoked = ++h->tick;
	h->ops[h->count].returned = HISTORY_NEVER;
	return h->count++;
}

void history_end(struct history *h, size_t index)
{
	h->ops[index].returned = ++h->tick;
}

/* --- the search ------------------------------------------------------------------------------- */

struct state {
	uint32_t value[HISTORY_KEYS];
};

/*
 * One level of the search: the operation that was placed at this position, and the next operation
 * to try there.
 */
struct frame {
	struct state before; /* the state before `chosen` was taken */
	size_t chosen;
	size_t taken_mark; /* length of search.taken before `chosen` */
	size_t next;       /* index of the next operation to try */
	size_t first;      /* all operations with a smaller index are placed */
};

struct search {
	const struct history *h;
	bool *done;
	size_t *taken; /* indexes of placed operations, in order */
	size_t taken_count;
	size_t must_left; /* operations with a known result that are not placed */
	struct state state;
	uint64_t hash[2]; /* hash of the set of placed operations */
	struct frame *frames;
	size_t depth;
	/* Lowe's memory: configurations (placed set and state) that lead to no complete order */
	uint64_t (*seen)[2];
	size_t seen_cap;
	size_t seen_count;
	size_t seen_max;
	size_t best; /* the longest order found, for the explanation */
	size_t best_blocked;
};

static uint64_t op_code(size_t index, unsigned which)
{
	return mix_u64((index + 1) * 0x9e3779b97f4a7c15ULL + which * 0xd1342543de82ef95ULL);
}

static bool check_holds(const struct state *s, const struct history_item *c)
{
	return c->check == HISTORY_EXISTS ? s->value[c->key] != 0 : s->value[c->key] == c->value;
}

static bool all_hold(const struct state *s, const struct history_op *op)
{
	for (size_t i = 0; i < op->check_count; i++)
		if (!check_holds(s, &op->checks[i]))
			return false;
	return true;
}

static bool changes(const struct history_op *op)
{
	return op->kind == HISTORY_TXN && op->result != HISTORY_REFUSED;
}

/*
 * Returns whether the operation, placed in this state, gives the result that its client received.
 */
static bool fits(const struct state *s, const struct history_op *op)
{
	if (op->kind == HISTORY_READ) {
		for (unsigned k = 0; k < HISTORY_KEYS; k++)
			if ((op->mask >> k & 1) != 0 && op->seen[k] != s->value[k])
				return false;
		return true;
	}
	if (op->result == HISTORY_REFUSED)
		return op->failed < op->check_count && !check_holds(s, &op->checks[op->failed]);
	return all_hold(s, op);
}

static void take(struct search *s, size_t index)
{
	const struct history_op *op = &s->h->ops[index];
	s->done[index] = true;
	s->taken[s->taken_count++] = index;
	s->hash[0] ^= op_code(index, 0);
	s->hash[1] ^= op_code(index, 1);
	if (op->result != HISTORY_UNKNOWN || op->kind == HISTORY_READ)
		s->must_left--;
	if (!changes(op))
		return;
	uint32_t moved = s->state.value[op->from];
	for (size_t i = 0; i < op->write_count; i++)
		s->state.value[op->writes[i].key] = op->writes[i].value;
	if (op->moves)
		s->state.value[op->writes[op->write_count - 1].key] = moved;
}

static void untake_to(struct search *s, size_t mark)
{
	while (s->taken_count > mark) {
		size_t index = s->taken[--s->taken_count];
		const struct history_op *op = &s->h->ops[index];
		s->done[index] = false;
		s->hash[0] ^= op_code(index, 0);
		s->hash[1] ^= op_code(index, 1);
		if (op->result != HISTORY_UNKNOWN || op->kind == HISTORY_READ)
			s->must_left++;
	}
}

/*
 * Returns the earliest return of an operation that is not placed: an operation that started later
 * cannot come next in the order.
 */
static uint64_t horizon(const struct search *s, size_t first)
{
	uint64_t min = HISTORY_NEVER;
	for (size_t i = first; i < s->h->count && s->h->ops[i].invoked < min; i++)
		if (!s->done[i])
			min = min_u64(min, s->h->ops[i].returned);
	return min;
}

static void take_what_changes_nothing(struct search *s, size_t first)
{
	bool again = true;
	while (again) {
		again = false;
		uint64_t end = horizon(s, first);
		for (size_t i = first; i < s->h->count && s->h->ops[i].invoked < end; i++) {
			const struct history_op *op = &s->h->ops[i];
			if (s->done[i] || changes(op) || !fits(&s->state, op))
				continue;
			take(s, i);
			again = true;
		}
	}
}

/* --- memory of configurations ----------------------------------------------------------------- */

static void config_hash(const struct search *s, uint64_t out[2])
{
	out[0] = s->hash[0];
	out[1] = s->hash[1];
	for (unsigned k = 0; k < HISTORY_KEYS; k++) {
		out[0] = mix_u64(out[0] + s->state.value[k] + 1);
		out[1] = mix_u64(out[1] * 3 + s->state.value[k] + 1);
	}
	out[0] |= 1; /* so that no hash is 0, which marks a free slot */
}

static void seen_place(uint64_t (*table)[2], size_t cap, const uint64_t h[2])
{
	size_t i = h[0] & (cap - 1);
	while (table[i][0] != 0)
		i = (i + 1) & (cap - 1);
	memcpy(table[i], h, sizeof(table[i]));
}

static void seen_grow(struct search *s)
{
	size_t cap = s->seen_cap == 0 ? 1024 : 2 * s->seen_cap;
	uint64_t(*table)[2] = calloc(cap, sizeof(*table));
	assert(table != NULL);
	for (size_t i = 0; i < s->seen_cap; i++)
		if (s->seen[i][0] != 0)
			seen_place(table, cap, s->seen[i]);
	free(s->seen);
	s->seen = table;
	s->seen_cap = cap;
}

/* Adds the configuration to the memory; returns whether it is new. */
static bool remember(struct search *s)
{
	uint64_t h[2];
	config_hash(s, h);
	if (2 * (s->seen_count + 1) > s->seen_cap)
		seen_grow(s);
	for (size_t i = h[0] & (s->seen_cap - 1); s->seen[i][0] != 0;
	     i = (i + 1) & (s->seen_cap - 1))
		if (s->seen[i][0] == h[0] && s->seen[i][1] == h[1])
			return false;
	seen_place(s->seen, s->seen_cap, h);
	s->seen_count++;
	return true;
}

/* --- placing operations and backtracking ------------------------------------------------------------- */

static size_t skip_done(const struct search *s, size_t first)
{
	while (first < s->h->count && s->done[first])
		first++;
	return first;
}

static void note_best(struct search *s, size_t first)
{
	if (s->taken_count < s->best)
		return;
	s->best = s->taken_count;
	uint64_t min = HISTORY_NEVER;
	for (size_t i = first; i < s->h->count; i++) {
		if (!s->done[i] && s->h->ops[i].returned < min) {
			min = s->h->ops[i].returned;
			s->best_blocked = i;
		}
	}
}

/* Finds the next operation of this level that changes the state and fits; false if there is none. */
static bool choose(struct search *s, struct frame *f, size_t *out)
{
	uint64_t end = horizon(s, f->first);
	for (size_t i = f->next; i < s->h->count && s->h->ops[i].invoked < end; i++) {
		const struct history_op *op = &s->h->ops[i];
		if (!s->done[i] && changes(op) && fits(&s->state, op)) {
			f->next = i + 1;
			*out = i;
			return true;
		}
	}
	return false;
}

static void enter(struct search *s, size_t first)
{
	first = skip_done(s, first);
	take_what_changes_nothing(s, first);
	first = skip_done(s, first);
	note_best(s, first);
	s->frames[s->depth].first = first;
	s->frames[s->depth].next = first;
}

static enum history_verdict run(struct search *s)
{
	enter(s, 0);
	for (;;) {
		struct frame *f = &s->frames[s->depth];
		size_t index;
		if (s->must_left == 0)
			return HISTORY_LINEARIZABLE;
		if (s->seen_count > s->seen_max)
			return HISTORY_TOO_HARD;
		bool fresh = f->next != f->first || remember(s);
		if (fresh && choose(s, f, &index)) {
			struct frame *down = &s->frames[++s->depth];
			*down = (struct frame){
				.before = s->state, .chosen = index, .taken_mark = s->taken_count};
			take(s, index);
			enter(s, f->first);
			continue;
		}
		if (s->depth == 0)
			return HISTORY_VIOLATED;
		untake_to(s, f->taken_mark);
		s->state = f->before;
		s->depth--;
	}
}

/* --- explanation of a violation ---------------------------------------------------------------------------------- */

static void print_op(FILE *out, size_t index, const struct history_op *op)
{
	static const char *const results[] = {"applied", "refused", "unknown"};
	fprintf(out, "  #%zu client %u [%" PRIu64 ", ", index, op->client, op->invoked);
	if (op->returned == HISTORY_NEVER)
		fputs("-] ", out);
	else
		fprintf(out, "%" PRIu64 "] ", op->returned);
	if (op->kind == HISTORY_READ) {
		fputs("read", out);
		for (unsigned k = 0; k < HISTORY_KEYS; k++)
			if ((op->mask >> k & 1) != 0)
				fprintf(out, " %u=%" PRIu32, k, op->seen[k]);
		fputc('\n', out);
		return;
	}
	fputs("txn if", out);
	for (size_t i = 0; i < op->check_count; i++)
		fprintf(out, op->checks[i].check == HISTORY_EXISTS ? " %u exists" : " %u=%" PRIu32,
			op->checks[i].key, op->checks[i].value);
	fputs(" then", out);
	for (size_t i = 0; i < op->write_count; i++)
		if (op->moves && i + 1 == op->write_count)
			fprintf(out, " %u:=that of %u", op->writes[i].key, op->from);
		else
			fprintf(out, " %u:=%" PRIu32, op->writes[i].key, op->writes[i].value);
	fprintf(out, ": %s", results[op->result]);
	if (op->result == HISTORY_REFUSED)
		fprintf(out, " by check %zu", op->failed);
	fputc('\n', out);
}

static void explain(const struct search *s, FILE *out)
{
	const struct history_op *blocked = &s->h->ops[s->best_blocked];
	fprintf(out, "not linearizable: %zu of %zu operations fit, then this one does not:\n",
		s->best, s->h->count);
	print_op(out, s->best_blocked, blocked);
	fputs("around it:\n", out);
	size_t lines = 0;
	for (size_t i = 0; i < s->h->count && lines < 40; i++) {
		const struct history_op *op = &s->h->ops[i];
		bool before = op->returned != HISTORY_NEVER && op->returned + 20 < blocked->invoked;
		if (!before && op->invoked <= blocked->returned) {
			print_op(out, i, op);
			lines++;
		}
	}
}

enum history_verdict history_check(const struct history *h, size_t configs_max, FILE *out)
{
	struct search s = {.h = h, .seen_max = configs_max};
	s.done = calloc(h->count + 1, sizeof(*s.done));
	s.taken = calloc(h->count + 1, sizeof(*s.taken));
	s.frames = calloc(h->count + 2, sizeof(*s.frames));
	assert(s.done != NULL && s.taken != NULL && s.frames != NULL);
	for (size_t i = 0; i < h->count; i++) {
		const struct history_op *op = &h->ops[i];
		/* A failed read has no result to check. */
		if (op->returned == HISTORY_NEVER && !changes(op))
			s.done[i] = true;
		else if (op->kind == HISTORY_READ || op->result != HISTORY_UNKNOWN)
			s.must_left++;
	}
	enum history_verdict verdict = run(&s);
	if (verdict == HISTORY_VIOLATED && out != NULL)
		explain(&s, out);
	free(s.done);
	free(s.taken);
	free(s.frames);
	free(s.seen);
	return verdict;
}
