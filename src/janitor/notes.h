// SPDX-License-Identifier: Apache-2.0
/* Parsers of the notes that janitors keep in the metadata (meta/note.h). Other versions, other
 * processes and operators write such notes, and the store does not check them: a parser
 * accepts any text, and a note that does not parse completely counts as missing. stats.h
 * parses the counts; the command line has its own parsers (cli/status.h, cli/repair_told.h,
 * cli/policy_told.h). tests/fuzz/fuzz_note.c fuzzes all of them. */
#ifndef JANITOR_NOTES_H
#define JANITOR_NOTES_H

#include "meta_client/meta_client.h"
#include "node/node_client.h" /* for struct store_cursor */

/* Parses one hexadecimal number and nothing else: no sign, no space, at most 16 digits. */
bool hex_read(const char *text, uint64_t *out);
/* Parses the number in the name of a note "familyNUMBER"; family includes its slash. */
bool note_number(const char *name, const char *family, uint64_t *out);

/* --- "policy/TENANT", "policy/TENANT/DIRECTORY": see policy.c --------------------------------------------------- */

struct policy {
	uint32_t tenant;
	/* id of the directory that the policy is for; META_ROOT: all directories of the tenant */
	uint64_t dir;
	uint64_t after_ns;
	/* encoding that old blocks get; empty: blocks are not re-encoded */
	char encoding[META_ENCODING_MAX];
};
/* -EINVAL: the note is not a policy. */
int policy_read(const struct meta_note *n, struct policy *out);

/* --- "scrub/DISK": see scrub.c ---------------------------------------------------------------------------------- */

struct pass {
	uint64_t since_ns; /* wall clock when a janitor first saw the disk */
	uint64_t begun_ns; /* wall clock at the begin of the running pass; 0: no pass runs */
	/* wall clock at the begin of the last complete pass; 0: no pass was completed yet */
	uint64_t done_ns;
	struct store_cursor at;
	uint64_t turn;     /* turn of the stored note: its next write must name this number */
	uint64_t saved_ns; /* monotonic time of the last write */
};
#define PASS_TEXT_MAX 256

/* Fills p from a note. A note that does not parse is a pass that has not begun. Times in the
 * future were written by a clock that was ahead and are ignored: they would delay the next pass
 * until then. */
void pass_read(struct pass *p, const char *text, uint64_t now_ns);
void pass_print(const struct pass *p, char text[PASS_TEXT_MAX]);

/* --- "janitor/HOLDER": see report.c ----------------------------------------------------------------------------- */

/* Returns the wall clock at which the report was written; 0: the text has none. */
uint64_t report_at_ns(const char *text);

/*
 * The order of an operator to collect soon: until the store has this epoch, janitors advance epochs after META_GRACE_MIN, if
 * their own grace period is longer. In COLLECT_EPOCHS epochs everything that was deleted before is gone: collection has
 * four steps, each waits for two epochs, and the first looks may be one epoch late.
 */
#define COLLECT_FAMILY "collect/"
#define COLLECT_NOTE "collect/now"
#define COLLECT_EPOCHS 9
/* Returns the epoch of the text of the note; 0 if it has none. */
uint64_t collect_until(const char *text);

#endif
