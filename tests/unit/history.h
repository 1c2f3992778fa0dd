// SPDX-License-Identifier: Apache-2.0
/*
 * A checker of linearizability, independent of what it checks: it knows only what clients asked, when
 * they asked and what they were told, and searches for one order of all operations, each between its
 * start and its return, in which a plain map would have given the same answers.
 *
 * The search is Wing and Gong's with Lowe's memory of configurations already tried. Two things keep it
 * small: operations that change nothing are taken as soon as they fit (taking one early never spoils
 * another), and histories are short.
 *
 * An operation whose outcome is unknown may take effect at any time after its start, or never.
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
	enum history_check_kind check; /* of a check */
	unsigned key;
	uint32_t value;
};

struct history_op {
	enum history_kind kind;
	unsigned client;
	uint64_t invoked;
	uint64_t returned; /* HISTORY_NEVER when unknown */
	/* HISTORY_READ: what was seen of the keys in mask, all at one instant */
	unsigned mask;
	uint32_t seen[HISTORY_KEYS];
	/* HISTORY_TXN */
	size_t check_count;
	struct history_item checks[HISTORY_ITEMS];
	size_t write_count;
	struct history_item writes[HISTORY_ITEMS];
	bool moves;    /* the last write puts what another key had before, whatever its value: */
	unsigned from; /* this one */
	enum history_result result;
	size_t failed; /* of HISTORY_REFUSED: a check that did not hold */
};

struct history {
	struct history_op *ops;
	size_t count;
	size_t capacity;
	uint64_t tick;
};

void history_init(struct history *h);
void history_fini(struct history *h);

/* Adds the operation with its start; the index names it from now on, for pointers move. */
size_t history_begin(struct history *h, const struct history_op *op);
void history_end(struct history *h, size_t index);

enum history_verdict { HISTORY_LINEARIZABLE, HISTORY_VIOLATED, HISTORY_TOO_HARD };

/* configs_max bounds the memory; out, when not NULL, gets an account of a violation. */
enum history_verdict history_check(const struct history *h, size_t configs_max, FILE *out);

#endif
