// SPDX-License-Identifier: Apache-2.0
/* The policies that `terrane policy list` shows: the notes "policy/..." (janitor/policy.c). In cmd_policy.c. */
#ifndef CLI_POLICY_TOLD_H
#define CLI_POLICY_TOLD_H

#include "base/json.h"
#include "meta_api/note.h"

/* One note, which may say anything: left out unless the janitors take it for a policy. */
void policy_told_add(json_t *told, const struct meta_note *n);
void policy_told_print(const json_t *told);

#endif
