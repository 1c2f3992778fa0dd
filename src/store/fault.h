// SPDX-License-Identifier: Apache-2.0
/* A wrapper for tests that fails, corrupts or delays chosen calls of the store below. */
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
	unsigned calls; /* bit mask of the calls to count */
	uint64_t nth; /* number of the counted call to affect, 1 for the next one; 0: affect none */
	bool from_there; /* also affect all later counted calls */
	int rc;          /* error that an affected call returns; 0: the result of the store below */
	/*
	 * only with rc: make the call on the store below nevertheless, as if its answer had been
	 * lost
	 */
	bool after;
	bool corrupt; /* flip a bit of the payload: of the input of put and append, of the output of get */
	uint64_t delay_ns;
};

/*
 * Opens a wrapper over the store below, and owns it when this returns 0. Affects no call until
 * store_fault_set. -ENOMEM.
 */
int store_fault_open_take(struct store *below, struct store **out);

/* Sets the fault and restarts the counts. */
void store_fault_set(struct store *s, const struct store_fault *fault);

/*
 * Returns the number of counted calls since store_fault_set; store_fault_hits returns that of the
 * affected ones.
 */
uint64_t store_fault_calls(const struct store *s);
uint64_t store_fault_hits(const struct store *s);

#endif
