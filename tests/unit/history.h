// SPDX-License-Identifier: Apache-2.0
/*
 * A checker of linearizability, independent of the system under test. Its input are the calls of clients, their
 * start and return times and their results. It searches for an order of all operations, each placed between its
 * start and its return, in which a plain map gives the same results.
 *
 * The search is Wing and Gong's, with Lowe's memory of configurations that were tried. It stays small because
 * histories are short, and because an operation that changes nothing is placed as soon as it fits: placing it
 * early never prevents another operation.
 *
 * An operation in doubt may take effect at any time after its start, or never.
 */
#ifndef TESTS_HISTORY_H
#define TESTS_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HISTORY_KEYS 6
#define HISTORY_ITEMS 4
#define HISTORY_NEVER UINT64_MAX

enum history_kind { HISTORY_READ, HISTORY_TXN };
enum history_check_kind { HISTORY_IS, HISTORY_EXISTS };
enum history_result { HISTORY_APPLIED, HISTORY_REFUSED, HISTORY_UNKNOWN };

/* Values are numbers; 0 stands for absent. */
struct history_item {
	enum history_check_kind check; /* kind of the check, for an entry of the list of checks */
	unsigned key;
	uint32_t value;
};

struct history_op {
	enum history_kind kind;
	unsigned client;
	uint64_t invoked;
	uint64_t returned; /* time of the return; HISTORY_NEVER: the outcome is in doubt */
	/* HISTORY_READ: the values of the keys in `mask`, all at one instant */
	unsigned mask;
	uint32_t seen[HISTORY_KEYS];
	/* For HISTORY_TXN: */
	size_t check_count;
	struct history_item checks[HISTORY_ITEMS];
	size_t write_count;
	struct history_item writes[HISTORY_ITEMS];
	bool moves;    /* the last write puts the previous value of the key `from` */
	unsigned from; /* index of that key, if `moves` is set */
	enum history_result result;
	size_t failed; /* HISTORY_REFUSED: index of a check that failed */
};

struct history {
	struct history_op *ops;
	size_t count;
	size_t capacity;
	uint64_t tick;
};

void history_init(struct history *h);
void history_fini(struct history *h);

/* Adds an operation with its start time. Returns its index; pointers to operations do not stay valid. */
size_t history_begin(struct history *h, const struct history_op *op);
void history_end(struct history *h, size_t index);

enum history_verdict { HISTORY_LINEARIZABLE, HISTORY_VIOLATED, HISTORY_TOO_HARD };

/* Checks the history. configs_max bounds the memory of configurations; out (may be NULL) gets an explanation. */
enum history_verdict history_check(const struct history *h, size_t configs_max, FILE *out);

#endif
