// SPDX-License-Identifier: Apache-2.0
/* The policies that `terrane policy list` shows: the notes "policy/..." (janitor/policy.c). In cmd_policy.c. */
#ifndef CLI_POLICY_TOLD_H
#define CLI_POLICY_TOLD_H

#include "base/json.h"
#include "meta_api/note.h"

/* Appends the policy of a note. The text of the note is not trusted: the policy is left out unless the janitors accept
 * it. */
void policy_told_add(json_t *told, const struct meta_note *n);
/* Prints the policies as a table. */
void policy_told_print(const json_t *told);

#endif
