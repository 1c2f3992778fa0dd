// SPDX-License-Identifier: Apache-2.0
/*
 * Notes: small texts that services and operators keep in the metadata, such as the progress of a scrub, the policies
 * of operators, or the last actions of a janitor. The store does not parse them; each reader checks what it reads.
 *
 * A note's name is "family/rest". The notes of a family are in one partition of the SYSTEM layer and are listed
 * together, in order of names: a family is for hundreds or thousands of notes, not for millions.
 *
 * Each change increments the note's turn, and its request must have the current turn: so of two concurrent changes one
 * is refused, and a request that arrives twice has no second effect. A note with an empty text keeps its turn and is
 * listed. A dropped note starts again at turn 0, so only notes with a single writer may be dropped.
 */
#ifndef META_API_NOTE_H
#define META_API_NOTE_H

#include <stdint.h>

#define META_NOTE_NAME_MAX 63
#define META_NOTE_TEXT_MAX 4000
#define META_NOTES_MAX 200 /* largest number of notes in one page of a listing */

struct meta_note {
	char name[META_NOTE_NAME_MAX + 1];
	uint64_t turn; /* number of changes of the note; 0: the note does not exist */
	const char *text;
};

#endif
