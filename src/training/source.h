// SPDX-License-Identifier: Apache-2.0
/*
 * Where a job reads its samples and writes its checkpoints. A source belongs to one loop. Samples are numbered from 0 in
 * the order in which they are stored: files by name, and inside of a file by position.
 */
#ifndef TRAINING_SOURCE_H
#define TRAINING_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

struct engine;
struct train_job;

#define TRAIN_FILES_MAX ((size_t)1 << 24)
#define TRAIN_DEPTH_MAX 32 /* levels of directories */

struct train_file {
	uint64_t id; /* in the cluster; 0 in a local folder */
	char *path;
	uint64_t size;
	uint64_t first; /* number of its first sample */
};

struct train_source;
struct train_cache;

struct train_source_ops {
	/* Reads n samples into memory, one behind the other. Waits. Errors with a line in *err. */
	int (*read)(struct train_source *s, const uint32_t *samples, size_t n, uint8_t *memory,
		    struct strbuf *err);
	/* Writes a file of so many bytes and makes it durable; replaces an older one. Waits. Errors as with read. */
	int (*write)(struct train_source *s, const char *path, uint64_t bytes, struct strbuf *err);
	/* Reads such a file. -EBADMSG: it has other bytes. Waits. Errors as with read. */
	int (*read_back)(struct train_source *s, const char *path, uint64_t bytes,
			 struct strbuf *err);
};

struct train_source {
	const struct train_source_ops *ops;
	struct engine *engine; /* of the cluster; NULL in other sources */
	uint64_t timeout_ns;
	uint64_t sample_bytes; /* of the job; 0: each file is a sample */
	struct train_file *files;
	size_t file_count;
	uint64_t samples;
	uint64_t total_bytes;            /* of all samples */
	uint64_t largest;                /* bytes of the largest sample */
	struct train_cache *cache;       /* NULL: none */
	uint64_t hit_samples, hit_bytes; /* that the cache had, in all epochs */
};

/*
 * Opens the source of a job: lists the files below its path. engine is borrowed; only TRAIN_CLUSTER needs it. Waits.
 * -ENOENT: there is no such path; -ENODATA: there are no samples; -E2BIG: too many; -ENOMEM; errors of listing; each
 * with a line in *err.
 */
int train_source_open(struct train_source *s, const struct train_job *j, struct engine *engine,
		      struct strbuf *err);
void train_source_close(struct train_source *s);

/* Puts a modelled cache in front of an open source, which train_source_close closes. -ENOMEM. */
int train_cache_open(struct train_source *s, uint64_t room, int policy);
void train_cache_close(struct train_source *s);

/* For the sources: what a piece of a written file holds. */
#define TRAIN_PIECE_BYTES ((size_t)4 << 20)
#define TRAIN_PIECE_FILL 0x5a
/* Returns whether so many bytes are those of a written file. */
bool train_piece_check(const uint8_t *piece, size_t bytes);

/* Returns the bytes of a sample. */
uint64_t train_sample_bytes(const struct train_source *s, uint32_t sample);

/* For the sources: the file of a sample, and where in the file the sample begins. */
const struct train_file *train_sample_at(const struct train_source *s, uint32_t sample,
					 uint64_t *offset);
/* For the sources: adds a file, whose path is copied. -ENOMEM, -E2BIG. */
int train_source_add(struct train_source *s, uint64_t id, const char *path, uint64_t size);

int train_cluster_list(struct train_source *s, const char *path, struct strbuf *err);
int train_folder_list(struct train_source *s, const char *path, unsigned depth, struct strbuf *err);
extern const struct train_source_ops train_cluster_ops, train_folder_ops, train_memory_ops;

#endif
