// SPDX-License-Identifier: Apache-2.0
/*
 * The manifest of a version of a data set: its shards, and the names of labels and parts. It is a JSON object in the file
 * `v<N>.json` of the data set's directory, written last and never changed. A version exists once its manifest does.
 *
 * A version that was made by `append` has the shards of its parent first. Numbers of labels and parts keep their meaning
 * from version to version, as the index of a shard refers to them.
 */
#ifndef DATASET_MANIFEST_H
#define DATASET_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

#define MANIFEST_VERSION 1
#define MANIFEST_BYTES_MAX (256u << 20)
#define SHARDS_MAX 65536u
#define LABELS_MAX (1u << 20)
#define LABEL_BYTES_MAX 1024u
#define PART_NAME_MAX 64u
#define SHARD_NAME_MAX 32u

struct manifest_shard {
	char name[SHARD_NAME_MAX]; /* its files are data/NAME.samples and data/NAME.index */
	uint64_t samples, data_bytes, index_bytes;
	uint64_t payload_bytes; /* bytes of samples, without padding */
	uint64_t first;         /* number of its first sample in the data set */
};

/* Distinct texts with numbers from 0: labels, names of parts. */
struct names {
	char **text;
	uint32_t count, cap, max;
	uint32_t *slots; /* hash table with linear probing: number + 1, 0: empty */
	uint32_t slots_n;
};

enum label_kind {
	LABELS_NONE,
	LABELS_NUMBERS, /* labels are numbers, without names */
	LABELS_NAMES,
};

struct manifest {
	uint64_t version, parent; /* parent 0: none */
	uint64_t samples, payload_bytes, seed;
	uint64_t created_ns;
	enum label_kind label_kind;
	struct names labels, parts;
	struct manifest_shard *shards;
	uint32_t shards_n, shards_cap;
	char source[32]; /* kind of the source of the newest shards */
};

void manifest_init(struct manifest *m);
void manifest_fini(struct manifest *m);

/* Parses the text of a manifest into an initialized object. -EPROTONOSUPPORT: a newer version of the format; -EBADMSG: no
 * manifest, or an invalid one; -ENOMEM. The caller releases m in any case. */
int manifest_parse(struct manifest *m, const char *text, size_t len);
/* Appends the text of a manifest. -ENOMEM, -EMSGSIZE. */
int manifest_print(const struct manifest *m, struct strbuf *out);

/* Appends a shard; sets its `first`, and counts its samples. -ENOMEM, -E2BIG. */
int manifest_add(struct manifest *m, const struct manifest_shard *shard);

/* Returns the shard of a sample < samples. */
uint32_t manifest_find(const struct manifest *m, uint64_t sample);

void names_init(struct names *n, uint32_t max);
void names_fini(struct names *n);
/* Returns the number of a text, -ENOENT. */
int64_t names_find(const struct names *n, const char *text, size_t len);
/* Returns the number of a text, and adds the text if it is new. -E2BIG: too many; -ENOMEM. */
int64_t names_add(struct names *n, const char *text, size_t len);

/* Writes the path of a file of a data set: `dir`/data/NAME.suffix. Returns false if it is too long. */
bool manifest_shard_path(char *out, size_t room, const char *dir, const char *name,
			 const char *suffix);

#endif
