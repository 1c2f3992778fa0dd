// SPDX-License-Identifier: Apache-2.0
/*
 * Identities in the store: one note for each (meta_api/note.h), family "identity", whose text is JSON:
 *
 *     identity/alice   {"id":"00c0ffee00c0ffee","version":3,"disabled":false,"removed":false,
 *                       "grants":[{"id":1,"role":"read-only","tenant":7,"prefix":"/a"}]}
 *
 * A note has no secret: secrets follow from the root, the name and the version (secure/secure.h). So a removed identity
 * stays as a note with its version, and a new identity of that name gets the next one: credentials of the removed one stay
 * invalid. The note "identity-changes/all" grows with every change, and tells other servers that there is one.
 */
#ifndef META_IDENTITY_H
#define META_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/policy.h"
#include "meta_api/note.h"

struct arena;
struct meta;

#define IDENTITY_FAMILY "identity/"
#define IDENTITY_CHANGES "identity-changes/all"
/* Longest name: that of its note has a limit. */
#define IDENTITY_STORED_MAX (META_NOTE_NAME_MAX - sizeof(IDENTITY_FAMILY) + 1)
/* Most grants that may fit the text of a note. */
#define IDENTITY_GRANTS_MAX 64

struct stored_identity {
	char name[IDENTITY_NAME_MAX + 1];
	uint64_t id;
	uint32_t version;
	bool disabled;
	bool removed;
	struct grant grants[IDENTITY_GRANTS_MAX];
	size_t grant_count;
	uint64_t turn; /* of its note; 0: not stored yet */
};

/* Parses a note; the prefixes of the grants are in the arena. -EBADMSG, -ENOMEM. */
int identity_parse(const struct meta_note *note, struct arena *a, struct stored_identity *out);

/* Reads one identity, also a removed one. *out has the name and turn 0 if there is none: -ENOENT. -EINVAL: the name cannot
 * be that of an identity; -EBADMSG; errors of the store. */
int identity_read(struct meta *m, const char *name, struct arena *a, struct stored_identity *out);
/* Writes an identity with the turn that was read, and tells the other servers. -ESTALE: it was changed since; -EFBIG: it
 * has too many grants; errors of the store. */
int identity_write(struct meta *m, const struct stored_identity *s);

/* Loads all identities that are not removed; a damaged note is logged and skipped. -ENOSPC, -ENOMEM, errors of the store. */
int identities_load(struct meta *m, struct policy *p);
/* Reads the number of changes. */
int identities_turn(struct meta *m, uint64_t *turn);

/*
 * Writes the identities of a new cluster: names separated by spaces, commas or newlines. "janitor", "node-7" and "cache-3" become services,
 * others operators that also administer the first tenant. Identities that exist are not changed. -EINVAL: a name is invalid.
 */
int identities_make(struct meta *m, const char *names);

#endif
