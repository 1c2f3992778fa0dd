// SPDX-License-Identifier: Apache-2.0
/* What the janitors say of their repairs: the notes "repair/..." (janitor/tell.c). */
#ifndef CLI_REPAIR_TOLD_H
#define CLI_REPAIR_TOLD_H

#include "base/json.h"
#include "cli/admin.h"
#include "meta_api/note.h"

/* An array of repairs, each an object with "janitor" and what its note says, with rate and end reckoned; NULL when
 * the metadata does not answer. */
json_t *repair_told(struct admin *a);
/* The repairs of one note, which may say anything: what is not a list of objects is left out. */
void repair_told_add(json_t *told, const struct meta_note *n);
/* Of a pool: what is left of a disk the metadata knows. */
bool repair_told_under_way(const json_t *told);
void repair_told_print(const json_t *told);

#endif
