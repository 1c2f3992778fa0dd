// SPDX-License-Identifier: Apache-2.0
/*
 * Paths and the prefixes of grants. Both are bytes that start with "/" and have names between slashes; "/" alone is the
 * root of a tenant. They are compared byte by byte, without any normalization, as the metadata compares names.
 *
 * A request's path may have any names that a directory can hold. A prefix is what a person types and reads to decide who
 * may do what, so it also has no characters that are invisible, or look like a slash or a dot, or are composed from
 * several code points.
 */
#ifndef AUTH_PATH_H
#define AUTH_PATH_H

#include <stdbool.h>
#include <stddef.h>

#define AUTH_PATH_MAX ((size_t)4096)
#define AUTH_PATH_DEPTH_MAX 128

/*
 * Checks a path of a request: -EINVAL if it does not start with "/", ends with a further one, has an empty name, "." or
 * "..", or a NUL; -ENAMETOOLONG beyond AUTH_PATH_MAX; -ELOOP with more than AUTH_PATH_DEPTH_MAX names.
 */
int path_check(const char *path, size_t len);

/*
 * Checks a prefix of a grant: the errors of path_check, and -EILSEQ if it is not UTF-8 or has a character that prefixes
 * must not have.
 */
int path_prefix_check(const char *prefix, size_t len);

/* Returns whether the prefix covers the path: it is the same, or a directory above it. Both were
 * checked. */
bool path_covers(const char *prefix, size_t prefix_len, const char *path, size_t len);

#endif
