// SPDX-License-Identifier: Apache-2.0
/* A store that fails, corrupts or delays chosen calls of the store below, for tests. */
#ifndef STORE_FAULT_H
#define STORE_FAULT_H

#include "store/store.h"

enum store_call {
	STORE_CALL_PUT = 1 << 0,
	STORE_CALL_APPEND = 1 << 1,
	STORE_CALL_GET = 1 << 2,
	STORE_CALL_SEAL = 1 << 3,
	STORE_CALL_DELETE = 1 << 4,
	STORE_CALL_LIST = 1 << 5,
	STORE_CALL_SCAN = 1 << 6,
	STORE_CALL_STAT = 1 << 7,
	STORE_CALL_RESERVE = 1 << 8,
	STORE_CALL_ALL = (1 << 9) - 1,
};

struct store_fault {
	unsigned calls;  /* which kinds count, STORE_CALL_ALL for all */
	uint64_t nth;    /* of these, from now on, which one is struck; 0: none */
	bool from_there; /* and all after it */
	int rc;          /* what it returns instead, 0: what the store below does */
	bool after;      /* with rc: it happens below all the same, as when an answer is lost */
	bool corrupt;    /* a bit of the payload flips: on the way in (put, append) or out (get) */
	uint64_t delay_ns;
};

/* Nothing is struck until told to. Takes below. -ENOMEM, and below is the caller's. */
int store_fault_open_take(struct store *below, struct store **out);

/* Starts counting anew. */
void store_fault_set(struct store *s, const struct store_fault *fault);

/* How many calls of the kinds counted there were since, and how many were struck. */
uint64_t store_fault_calls(const struct store *s);
uint64_t store_fault_hits(const struct store *s);

#endif
