// SPDX-License-Identifier: Apache-2.0
/* Attributes of local files: what put reads of them and get gives them. A user attribute NAME is the local extended
 * attribute user.NAME. */
#ifndef CLI_FS_LOCAL_H
#define CLI_FS_LOCAL_H

#include <sys/stat.h>

#include "cli/fs.h"

/* Permission bits that get gives to local files: a stored bit must not make a program run as its owner. */
#define LOCAL_MODE_MASK 0777u

/* Attributes of one local file, with the memory that they point to. */
struct local_attrs {
	struct terrane_attributes all;
	struct terrane_attribute user[TERRANE_ATTRIBUTES_MAX];
	char bytes[TERRANE_ATTRIBUTE_BYTES_MAX + TERRANE_ATTRIBUTES_MAX];
};

/* Takes mode, owner and time of a stat, without user attributes. */
void local_attrs_of(const struct stat *st, struct terrane_attributes *out);

/* Reads the attributes of the file at path, which has the stat st. User attributes beyond the limits of a stored file are
 * left out, with a message. */
void local_attrs_read(const char *path, const struct stat *st, struct local_attrs *out);

/* Attributes that a file of the cluster gives to a local one. */
struct local_wish {
	uint16_t has;
	uint32_t mode, uid, gid;
	uint64_t mtime_ns;
};

/* Sets owner (for root only), mode and time of an open local file. Returns 0 or a negative errno. */
int local_attrs_give(int fd, const struct local_wish *wish);

/* Copies the user attributes of a file of the cluster to an open local file. -ENOTSUP: its filesystem has none. */
int local_user_give(struct fs *fs, const char *remote, int fd, const struct terrane_options *o);

#endif
