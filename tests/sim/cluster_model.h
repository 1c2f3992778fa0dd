// SPDX-License-Identifier: Apache-2.0
/*
 * The requests of the clients of a simulated cluster and the answers to them, kept outside of the simulated memory;
 * and what clients may see because of them. The model knows nothing of Terrane.
 *
 * A name is used for one file only. After an operation with an unknown outcome (an error, a crash) clients change
 * the file no more, and it may be in the state before or after the operation. So a read of a name may return one
 * content, or one of two if the file was being replaced. A content is made from a number (text_fill), so a
 * read can be compared with it.
 *
 * A violation names its invariant by the numbers of docs/reliability.md. The first violation is kept.
 */
#ifndef TESTS_SIM_CLUSTER_MODEL_H
#define TESTS_SIM_CLUSTER_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

#define VIOLATION_BYTES 256
#define MODEL_PATH_MAX 48
#define VERSIONS_MAX 8 /* contents of a file that is replaced again and again */

/* --- contents --------------------------------------------------------------------------------- */

/* Writes, or compares with, bytes [off, off + len) of the endless text of this number. */
void text_fill(uint64_t text, uint64_t off, void *bytes, size_t len);
bool text_same(uint64_t text, uint64_t off, const void *bytes, size_t len);

/* --- files of one owner ------------------------------------------------------------------------ */

enum model_state {
	MODEL_NEVER, /* no client has created it */
	MODEL_MAYBE, /* an operation is running, or its outcome is unknown */
	MODEL_THERE,
	MODEL_GONE, /* a client has removed it or renamed it away, and this was acknowledged */
};

struct model_file {
	char path[MODEL_PATH_MAX];
	enum model_state state;
	bool log, sealed;
	bool in_doubt; /* the outcome of an operation is unknown: clients change the file no more */
	/*
	 * The content is contents[version]; while it is replaced, and if that is in doubt (alt), it may be the next
	 * one.
	 */
	struct {
		uint64_t text, size;
	} contents[VERSIONS_MAX];
	unsigned version;
	bool alt;
	uint64_t text;
	uint64_t size;     /* number of acknowledged bytes */
	uint64_t size_max; /* bytes with appends in doubt, of a log */
	/* The other name while the file is renamed, and if that is in doubt: exactly one of both exists. */
	struct model_file *twin;
	/*
	 * The target while the file is renamed onto it, and if that is in doubt: this name exists, or the target
	 * has its content.
	 */
	struct model_file *onto;
	uint64_t changes; /* number of begins and ends of operations */
};

struct model_dir {
	char path[MODEL_PATH_MAX];
	bool there;
	bool in_doubt; /* the outcome of an operation is unknown: clients change the directory no more */
	/* The other name while the directory is moved, and if that is in doubt: exactly one of both exists. */
	struct model_dir *twin;
};

struct model {
	char *violation; /* text of the first violation, of VIOLATION_BYTES bytes; empty: none */
	/* Gets a line for every change and its result. May be NULL. */
	void (*note)(void *ctx, const char *text);
	void *note_ctx;
	uint64_t acknowledged, reads, reads_failed;
};

void model_violation(struct model *m, const char *invariant, const char *fmt, ...) PRINTF(3, 4);
void model_note(struct model *m, const char *fmt, ...) PRINTF(2, 3);
static inline bool model_violated(const struct model *m)
{
	return m->violation[0] != '\0';
}

/* Notes the begin of an operation that may create, change or remove the file. */
void model_begin(struct model *m, struct model_file *f, const char *what);
/* Notes its end: with this state, or with an unknown outcome. */
void model_end(struct model *m, struct model_file *f, enum model_state now);
void model_set_in_doubt(struct model *m, struct model_file *f, int rc);

void model_rename_begin(struct model *m, struct model_file *from, struct model_file *to);
void model_rename_end(struct model *m, struct model_file *from, struct model_file *to, int rc);

/* A rename onto an existing file. */
void model_rename_onto_begin(struct model *m, struct model_file *from, struct model_file *to);
void model_rename_onto_end(struct model *m, struct model_file *from, struct model_file *to, int rc);

/* A replacement; at most VERSIONS_MAX - 1 for each file. */
void model_replace_begin(struct model *m, struct model_file *f, uint64_t text, uint64_t size);
void model_replace_end(struct model *m, struct model_file *f, int rc);

/* An append of len bytes to a log. */
void model_append_begin(struct model *m, struct model_file *f, uint64_t len);
void model_append_end(struct model *m, struct model_file *f, int rc);
/* Checks the size that a writer found when it took over the log. */
void model_log_found(struct model *m, struct model_file *f, uint64_t size);

/* Checks that a change of a file in this state may fail with this error. */
void model_check_refusal(struct model *m, const struct model_file *f, const char *what, int rc);

/*
 * Checks a read of a complete file, with room for more bytes than it has. `before` is a copy of the file made when
 * the read began. rc: bytes, or the error. quiet: there are no faults, so an error is a violation too.
 */
void model_check_read(struct model *m, const struct model_file *before, const struct model_file *f,
		      int64_t rc, const void *bytes, bool quiet);
/* Checks at rest that exactly one of both names of a rename exists. */
void model_check_twins(struct model *m, const struct model_file *f, bool there, bool twin_there);
/* Checks at rest a rename onto a file, given whether f exists and the bytes of the target. */
void model_check_onto(struct model *m, const struct model_file *f, bool there, const void *bytes,
		      uint64_t len);
/* Checks at rest whether a directory, and its twin if it has one, was found as it must be. */
void model_check_dir(struct model *m, const struct model_dir *d, bool found, bool twin_found);
/* Checks the result of a stat of an existing file. */
void model_check_stat(struct model *m, const struct model_file *before, const struct model_file *f,
		      uint64_t size, bool sealed);

/* --- a log of many writers -------------------------------------------------------------------- */

#define RECORD_BYTES 256
#define RECORDS_MAX 256
#define SHARED_WRITERS 8

enum record_fate { RECORD_NONE, RECORD_DOUBT, RECORD_ACKED };

struct model_record {
	uint8_t fate;
	bool fenced; /* another writer had taken over before the append began */
};

struct shared_log {
	char path[MODEL_PATH_MAX];
	uint64_t number;
	bool there; /* a client was told that it exists */
	struct model_record records[SHARED_WRITERS][RECORDS_MAX];
	uint32_t next[SHARED_WRITERS];
	uint64_t tick;
	uint64_t taken; /* tick at which the last successful opening began */
};

/* A handle of a writer on the log: ticks at which its opening began and ended. */
struct shared_handle {
	uint64_t begun, opened;
};

void shared_open_begin(struct shared_log *l, struct shared_handle *h);
void shared_open_end(struct model *m, struct shared_log *l, struct shared_handle *h,
		     unsigned writer);
/* Returns the number of the writer's next record and sets its bytes; RECORDS_MAX when there are no more. */
uint32_t shared_append_begin(struct shared_log *l, const struct shared_handle *h, unsigned writer,
			     uint8_t bytes[RECORD_BYTES]);
void shared_append_end(struct model *m, struct shared_log *l, unsigned writer, uint32_t record,
		       int rc);
/* Checks the bytes of the log. `before` is a copy of the model made when the read began. */
void shared_check(struct model *m, const struct shared_log *before, const struct shared_log *l,
		  const uint8_t *bytes, uint64_t len);

#endif
