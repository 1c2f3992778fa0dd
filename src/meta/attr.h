// SPDX-License-Identifier: Apache-2.0
/* Attributes in stored entries. */
#ifndef META_ATTR_H
#define META_ATTR_H

#include "meta/record.h"

/* Sets the attributes of a new entry; *room must live as long as the entry. from may be NULL. User attributes are in the
 * arena or in the memory of `from`. -ENOMEM. */
int attr_to_record(struct arena *a, const struct meta_attrs *from, rec_attrs *room, rec_entry *e);

/* Reads the attributes of an entry, without the values of user attributes. */
void attr_brief(const rec_entry *e, struct meta_attrs *out);

/* Returns whether the attributes of a record are valid (meta_attrs_check). */
bool attr_record_ok(const rec_attrs *r);

#endif
