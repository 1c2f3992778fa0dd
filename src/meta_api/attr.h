// SPDX-License-Identifier: Apache-2.0
/*
 * Attributes of files and directories: mode, owner and user attributes, which are small values under names of the user.
 * They are part of the entry that leads to the object, so that a listing has them without another read and a create stores
 * them with the name. They are kept and shown; they decide on no access.
 */
#ifndef META_API_ATTR_H
#define META_API_ATTR_H

#include "meta_api/meta.pb-c.h"
#include "meta_api/types.h"

struct arena;

typedef Terrane__Meta__Attrs meta_msg_attrs;

/* Checks one user attribute. -EINVAL: its name is empty or has a control character; -EILSEQ: not UTF-8; -ENAMETOOLONG;
 * -EFBIG: its value is too large. */
int meta_attr_check(const struct meta_attr *a);

/* Checks attributes from a user or from the wire: mode and ids, each user attribute, their number, their bytes, and that
 * their names ascend. -EINVAL, -EFBIG and the errors of meta_attr_check. */
int meta_attrs_check(const struct meta_attrs *a);

/* Returns a negative, zero or positive number as the name of a is before, equal to or after that of b. */
int meta_attr_compare(struct meta_name a, struct meta_name b);

/* Sorts user attributes by name, as meta_attrs_check asks. */
void meta_attrs_sort(struct meta_attr *user, size_t n);

/* Converts attributes to a message in the arena; *out is NULL if there are none. -ENOMEM. */
int meta_wire_attrs_set(struct arena *a, const struct meta_attrs *from, meta_msg_attrs **out);

/* Reads attributes from a message, which may be NULL: there are none. Does not check them. -ENOMEM. */
int meta_wire_attrs_get(struct arena *a, const meta_msg_attrs *m, struct meta_attrs *out);

#endif
