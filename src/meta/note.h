// SPDX-License-Identifier: Apache-2.0
/* The storage of notes; meta_api/note.h describes them. */
#ifndef META_NOTE_H
#define META_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "meta_api/note.h"

struct arena;
struct meta;

/*
 * Writes the text of a note on condition that its turn is note->turn (0: that it does not exist), and sets note->turn to
 * the new turn. Idempotent. -ESTALE: the note has another turn, to which note->turn is set; -EINVAL: the name has no
 * family, or is not printable; -EFBIG: the text is too long.
 */
int meta_note_put(struct meta *m, struct meta_note *note);
/* Deletes a note, whatever its turn. Returns 0 also if it does not exist. */
int meta_note_drop(struct meta *m, const char *name);
/* Lists at most max notes whose names begin with prefix ("family/...") and are above after ("": from the first). Returns
 * their number. *end: there are no more. The texts are in the arena. */
int64_t meta_note_list(struct meta *m, const char *prefix, const char *after, struct arena *a,
		       struct meta_note *out, size_t max, bool *end);

#endif
