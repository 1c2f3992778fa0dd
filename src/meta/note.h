// SPDX-License-Identifier: Apache-2.0
/* The notes of meta_api/note.h in the store. */
#ifndef META_NOTE_H
#define META_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "meta_api/note.h"

struct arena;
struct meta;

/*
 * Writes text on condition that the note has the turn note->turn (0: that there is none); note->turn is the new
 * one then. An empty text empties it. Again: 0. -ESTALE: it has another turn; note->turn says which.
 * -EINVAL: the name has no family, or is not printable; -EFBIG: the text.
 */
int meta_note_put(struct meta *m, struct meta_note *note);
/* Takes it away whatever its turn. Again: 0. */
int meta_note_drop(struct meta *m, const char *name);
/* Those whose name begins with prefix ("family/..."), above after ("": from the first), at most max; returns how
 * many. *end: there are no more. Texts are the arena's. */
int64_t meta_note_list(struct meta *m, const char *prefix, const char *after, struct arena *a,
		       struct meta_note *out, size_t max, bool *end);

#endif
