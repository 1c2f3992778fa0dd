// SPDX-License-Identifier: Apache-2.0
/*
 * The trace reader with arbitrary bytes. An accepted trace must keep the rules of trace.h; a refusal must leave
 * nothing behind and name the line.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "analysis/trace.h"
#include "fuzz.h"

#define DISKS 40u

static void check_taken(const struct trace *t)
{
	bool down[DISKS] = {0};
	double last = 0;
	for (size_t i = 0; i < t->n; i++) {
		const struct trace_event *e = &t->events[i];
		assert(isfinite(e->time_s) && e->time_s >= last);
		assert(e->disk < DISKS);
		assert(down[e->disk] == (e->kind == TRACE_REPLACE));
		down[e->disk] = e->kind == TRACE_FAIL;
		last = e->time_s;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace t;
	char why[TRACE_WHY_MAX] = "";
	if (trace_parse(&t, (const char *)data, size, DISKS, why, sizeof(why)) == 0) {
		check_taken(&t);
	} else {
		assert(t.n == 0 && t.events == NULL);
		assert(strncmp(why, "line ", 5) == 0);
	}
	trace_fini(&t);
	return 0;
}
