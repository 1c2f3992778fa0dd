// SPDX-License-Identifier: Apache-2.0
/*
 * Notes: small texts that services and operators keep in the metadata. Where a scrub stands, which policies
 * there are, what a janitor did last. The store does not look into them; who reads one checks it.
 *
 * A note's name is "family/rest". Those of a family lie in one partition of the SYSTEM layer and are listed
 * together, in the order of their names: families are for hundreds or thousands of notes, not for millions.
 *
 * Each change counts the note's turn up, and names the turn that it is made on: so of two who change it at once
 * one is told, and a request that comes twice does nothing twice. A note that is emptied keeps its turn, and is
 * listed with an empty text; one that is dropped begins anew, which is for notes that only one writes.
 */
#ifndef META_API_NOTE_H
#define META_API_NOTE_H

#include <stdint.h>

#define META_NOTE_NAME_MAX 63
#define META_NOTE_TEXT_MAX 4000
#define META_NOTES_MAX 200 /* of one page */

struct meta_note {
	char name[META_NOTE_NAME_MAX + 1];
	uint64_t turn; /* 0: there is none */
	const char *text;
};

#endif
