// SPDX-License-Identifier: Apache-2.0
/* What the janitors report on their repairs: the notes "repair/..." (janitor/tell.c). */
#ifndef CLI_REPAIR_TOLD_H
#define CLI_REPAIR_TOLD_H

#include "base/json.h"
#include "cli/admin.h"
#include "meta_api/note.h"

/* Returns an array of repairs, each an object with "janitor", the fields of its note, and computed rates and remaining
 * seconds. NULL when the metadata does not answer. */
json_t *repair_told(struct admin *a);
/* Appends the repairs of a note. The text of the note is not trusted: whatever is not a list of objects is left out. */
void repair_told_add(json_t *told, const struct meta_note *n);
/* Returns whether the list has a repair that has not ended: of a pool, or with disks_too of a disk. (repair_left counts
 * the chunks of disks.) */
bool repair_told_under_way(const json_t *told, bool disks_too);
/* Prints the repairs as a table. */
void repair_told_print(const json_t *told);

#endif
