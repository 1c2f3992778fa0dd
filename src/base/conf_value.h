// SPDX-License-Identifier: Apache-2.0
/* Inside conf: one value of one key, from text and back. */
#ifndef BASE_CONF_VALUE_H
#define BASE_CONF_VALUE_H

#include <string.h>

#include "base/conf.h"

/* Sets the key's field; a string it held is freed. On error the field is unchanged: -EINVAL not
 * such a value, -ERANGE out of range, -ENOMEM. */
int conf_value_set(const struct conf_key *key, void *target, const char *text);

/* Zeroes the field; free also frees the string it holds, clear takes it for garbage. */
void conf_value_clear(const struct conf_key *key, void *target);
void conf_value_free(const struct conf_key *key, void *target);

/* Appends the value as it would stand in a file. */
int conf_value_print(const struct conf_key *key, const void *target, struct strbuf *out);

/* Appends what is allowed, in words: "a size from 4KiB to 1MiB". */
int conf_value_allowed(const struct conf_key *key, struct strbuf *out);

/* Whether the i-th key is the first of its section; sections stand together in a schema. */
static inline bool conf_section_starts(const struct conf_key *schema, size_t i)
{
	return i == 0 || strcmp(schema[i].section, schema[i - 1].section) != 0;
}

const char *conf_type_name(enum conf_type type);

#endif
