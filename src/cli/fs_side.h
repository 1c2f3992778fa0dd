// SPDX-License-Identifier: Apache-2.0
/* A listing of one directory, local or in the cluster, in a form in which the two can be compared. */
#ifndef CLI_FS_SIDE_H
#define CLI_FS_SIDE_H

#include "cli/fs_transfer.h"

enum side_kind { SIDE_FILE, SIDE_DIRECTORY, SIDE_OTHER };

struct side_entry {
	const char *name;
	size_t offset; /* of the name in the text, until the listing is complete */
	enum side_kind kind;
	bool sealed; /* in the cluster: its contents cannot change; local: true */
	uint64_t id, size;
	struct local_wish attrs;
	uint32_t user_attributes; /* in the cluster only */
};

/* The entries of a directory, sorted by name. */
struct side {
	struct strbuf text;
	struct side_entry *all;
	size_t count, room;
};

void side_init(struct side *s);
void side_free(struct side *s);

/* Fills an empty listing. follow: a link to a file counts as that file; else every link is SIDE_OTHER. Returns 0 or a
 * negative errno; -E2BIG: the directory has too many names. */
int side_local(struct side *s, const char *dir, bool follow);
int side_remote(struct fs *fs, struct side *s, uint64_t dir);

#endif
