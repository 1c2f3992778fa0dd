// SPDX-License-Identifier: Apache-2.0
/*
 * Notes that janitors keep in the metadata (meta/note.h), from text to numbers. Other versions, other processes and
 * operators write them, and the store does not look into them: any text is read, and what does not read as a whole
 * is none. What was counted is stats.h's; the command line's tables read for themselves (cli/status.h,
 * cli/repair_told.h, cli/policy_told.h). tests/fuzz/fuzz_note.c tries them all.
 */
#ifndef JANITOR_NOTES_H
#define JANITOR_NOTES_H

#include "meta_client/meta_client.h"
#include "node/node_client.h" /* store_cursor */

/* One hexadecimal number and nothing else: no sign, no space, at most 16 digits. */
bool hex_read(const char *text, uint64_t *out);
/* The number of a note "familyNUMBER"; the family with its slash. */
bool note_number(const char *name, const char *family, uint64_t *out);

/* --- "policy/TENANT", "policy/TENANT/DIRECTORY": see policy.c --------------------------------------------------- */

struct policy {
	uint32_t tenant;
	uint64_t dir; /* META_ROOT: all of the tenant */
	uint64_t after_ns;
	char encoding[META_ENCODING_MAX]; /* empty: keep */
};
/* -EINVAL: not one. */
int policy_read(const struct meta_note *n, struct policy *out);

/* --- "scrub/DISK": see scrub.c ---------------------------------------------------------------------------------- */

struct pass {
	uint64_t since_ns; /* wall clock: when the disk was first met */
	uint64_t begun_ns; /* the pass that goes on; 0: none */
	uint64_t done_ns;  /* when the last whole pass began; 0: none yet */
	struct store_cursor at;
	uint64_t turn;     /* of the note */
	uint64_t saved_ns; /* of this process's clock */
};
#define PASS_TEXT_MAX 256

/* What does not read is a pass that has not begun; what is from the future was written by a clock that was ahead,
 * and says nothing: taken for now it would put off the next pass until that time comes. */
void pass_read(struct pass *p, const char *text, uint64_t now_ns);
void pass_print(const struct pass *p, char text[PASS_TEXT_MAX]);

/* --- "janitor/HOLDER": see report.c ----------------------------------------------------------------------------- */

/* The wall clock when it was written; 0: it does not say. */
uint64_t report_at_ns(const char *text);

#endif
