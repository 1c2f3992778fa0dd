// SPDX-License-Identifier: Apache-2.0
/* Private to conf: converts the value of one key from and to text. */
#ifndef BASE_CONF_VALUE_H
#define BASE_CONF_VALUE_H

#include <string.h>

#include "base/conf.h"

/* Sets the key's field and frees the string that it held. -EINVAL: the text is no value of the
 * key's type; -ERANGE; -ENOMEM. An error leaves the field unchanged. */
int conf_value_set(const struct conf_key *key, void *target, const char *text);

/* Set the key's field to zero. conf_value_free first frees the string of the field;
 * conf_value_clear does not read the old value, which may be uninitialized. */
void conf_value_clear(const struct conf_key *key, void *target);
void conf_value_free(const struct conf_key *key, void *target);

/* Appends the key's value to the text, as it is written in a file. */
int conf_value_print(const struct conf_key *key, const void *target, struct strbuf *out);

/* Appends a description of the values that the key allows: "a size of at least 4KiB and at most
 * 1MiB". */
int conf_value_allowed(const struct conf_key *key, struct strbuf *out);

/* Reports whether the i-th key is the first of its section; the keys of a section are adjacent. */
static inline bool conf_section_starts(const struct conf_key *schema, size_t i)
{
	return i == 0 || strcmp(schema[i].section, schema[i - 1].section) != 0;
}

const char *conf_type_name(enum conf_type type);

#endif
