// SPDX-License-Identifier: Apache-2.0
/*
 * What the clients of the tally scenario asked for and were told, kept outside the simulated memory,
 * and what may therefore be read.
 *
 * Counters. The j-th change of a counter adds 4^j, so each change has a digit of its own in the
 * counter's value, in base 4: 0 not applied, 1 applied, more: applied more than once. A counter takes
 * 31 changes.
 *
 * Blobs. The content is made from (server, blob, version) and says so, so wrong bytes are seen at any
 * read. The versions of a blob are put one after the other, each by one client.
 *
 * A disk that the simulator has damaged (rot, a misdirected write, loss) may lose what was acknowledged, but nothing else: what is read
 * must still have been asked for, and nothing may be applied twice.
 */
#ifndef TESTS_SIM_TALLY_ORACLE_H
#define TESTS_SIM_TALLY_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

#define SERVERS 3
#define COUNTERS 128
#define CHANGES 31
#define BLOBS 6
#define VERSIONS 1000
#define BLOB_BYTES_MAX ((size_t)(300 * KIB))
#define NAME_BYTES 32

enum asked {
	ASKED_NEVER,
	ASKED_IN_DOUBT, /* under way, or failed so that it may have been applied or may yet be */
	ASKED_REFUSED,  /* failed so that it was not applied */
	ASKED_SEEN,     /* in doubt, but a read has shown it, so it must stay */
	ASKED_DONE,     /* acknowledged */
};

struct counter_oracle {
	uint8_t asked[CHANGES];
	unsigned next;
};

struct blob_oracle {
	uint8_t asked[VERSIONS]; /* of version i */
	uint64_t client[VERSIONS];
	unsigned next; /* version; 0 is never used */
};

struct oracle {
	struct counter_oracle counters[SERVERS][COUNTERS];
	struct blob_oracle blobs[SERVERS][BLOBS];
	uint64_t acknowledged;
	uint64_t reads;
	char *violation; /* of VIOLATION_BYTES */
};

#define VIOLATION_BYTES 256

void oracle_init(struct oracle *o, char *violation);
/* The first one counts. */
void oracle_violation(struct oracle *o, const char *fmt, ...) PRINTF(2, 3);

void oracle_counter_name(char out[NAME_BYTES], unsigned server, unsigned counter);
void oracle_blob_name(char out[NAME_BYTES], unsigned server, unsigned blob);

/* The delta of the counter's next change, which is from now on in doubt; 0 when it has no more. */
int64_t oracle_add_begin(struct oracle *o, unsigned server, unsigned counter, unsigned *change);
void oracle_add_end(struct oracle *o, unsigned server, unsigned counter, unsigned change,
		    enum asked result);

/* What a reader knows before it reads, to be compared with what it gets. */
struct counter_oracle oracle_counter(const struct oracle *o, unsigned server, unsigned counter);
/* lossy: the disk may have lost what was acknowledged. */
void oracle_check_counter(struct oracle *o, unsigned server, unsigned counter,
			  const struct counter_oracle *before, int64_t value, bool lossy);

/* The next version, from now on in doubt; 0 when there are no more. */
unsigned oracle_put_begin(struct oracle *o, unsigned server, unsigned blob, uint64_t client);
void oracle_put_end(struct oracle *o, unsigned server, unsigned blob, unsigned version,
		    enum asked result);
/* The content of a version; out has BLOB_BYTES_MAX bytes. */
size_t oracle_blob_content(unsigned server, unsigned blob, unsigned version, uint8_t *out);
/* The highest version that is acknowledged or was seen by now; 0: none. */
unsigned oracle_blob_latest(const struct oracle *o, unsigned server, unsigned blob);
/* What was read (NULL: there is no such blob), when latest was the latest before. */
void oracle_check_blob(struct oracle *o, unsigned server, unsigned blob, unsigned latest,
		       const uint8_t *data, size_t len, bool lossy);

#endif
