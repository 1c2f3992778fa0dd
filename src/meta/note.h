// SPDX-License-Identifier: Apache-2.0
/* Functions that store and read notes; meta_api/note.h explains notes. */
#ifndef META_NOTE_H
#define META_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "meta_api/note.h"

struct arena;
struct meta;

/*
 * Writes the text of a note if its stored turn is note->turn (0: if the note does not exist), and sets note->turn
 * to the new turn. Idempotent. -ESTALE: the note has another turn, which is stored in note->turn; -EINVAL: the
 * name has no family, or is not printable; -EFBIG: the text is too long.
 */
int meta_note_put(struct meta *m, struct meta_note *note);
/* Deletes a note, whatever its turn. Returns 0 also if it does not exist. */
int meta_note_drop(struct meta *m, const char *name);
/* Lists at most max notes whose names begin with prefix ("family/...") and sort after `after` ("": from the
 * first). Returns their number. Sets *end to whether there are no more notes. The texts are in the arena. */
int64_t meta_note_list(struct meta *m, const char *prefix, const char *after, struct arena *a,
		       struct meta_note *out, size_t max, bool *end);

#endif
