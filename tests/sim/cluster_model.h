// SPDX-License-Identifier: Apache-2.0
/*
 * What the clients of a simulated cluster asked for and were told, kept outside of the simulated memory,
 * and what may therefore be seen. It knows nothing of how Terrane works.
 *
 * A name is used for one file only: after an operation whose outcome is not known (an error, a crash) it is
 * left alone for good, and may be either way. So what may be read under a name is one content, or two where a
 * file was being replaced. Content is made from a number (text_fill), and so is recognised.
 *
 * A violation names its invariant: docs/reliability.md has them by number. The first one counts.
 */
#ifndef TESTS_SIM_CLUSTER_MODEL_H
#define TESTS_SIM_CLUSTER_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

#define VIOLATION_BYTES 256
#define MODEL_PATH_MAX 48
#define VERSIONS_MAX 8 /* of a file that is replaced */

/* --- contents --------------------------------------------------------------------------------- */

/* Bytes [off, off + len) of the endless text. */
void text_fill(uint64_t text, uint64_t off, void *bytes, size_t len);
bool text_same(uint64_t text, uint64_t off, const void *bytes, size_t len);

/* --- files of one owner ------------------------------------------------------------------------ */

enum model_state {
	MODEL_NEVER, /* nobody has asked for it */
	MODEL_MAYBE, /* an operation is under way, or its outcome is not known */
	MODEL_THERE,
	MODEL_GONE, /* removed or renamed away, acknowledged */
};

struct model_file {
	char path[MODEL_PATH_MAX];
	enum model_state state;
	bool log, sealed;
	bool in_doubt; /* an outcome is not known: nobody changes it any more */
	/* What it holds: contents[version]. While it is replaced, and when that is in doubt (alt), the next too. */
	struct {
		uint64_t text, size;
	} contents[VERSIONS_MAX];
	unsigned version;
	bool alt;
	uint64_t text;
	uint64_t size;     /* acknowledged */
	uint64_t size_max; /* with what is in doubt, of a log */
	/* While it is renamed, and when that is in doubt: exactly one of both is there. */
	struct model_file *twin;
	/* While it is renamed onto that file, and when that is in doubt: it is there, or that has its content. */
	struct model_file *onto;
	uint64_t changes; /* counts each begin and end of an operation */
};

struct model_dir {
	char path[MODEL_PATH_MAX];
	bool there;
	bool in_doubt; /* an outcome is not known: nobody changes it any more */
	/* While it is moved, and when that is in doubt: exactly one of both is there. */
	struct model_dir *twin;
};

struct model {
	char *violation; /* of VIOLATION_BYTES */
	/* Told of every change and what came of it, for a person. May be NULL. */
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

/* An operation begins that makes, removes, or only may change the file. */
void model_begin(struct model *m, struct model_file *f, const char *what);
/* It ended: with this state, or its outcome is not known. */
void model_end(struct model *m, struct model_file *f, enum model_state now);
void model_set_in_doubt(struct model *m, struct model_file *f, int rc);

void model_rename_begin(struct model *m, struct model_file *from, struct model_file *to);
void model_rename_end(struct model *m, struct model_file *from, struct model_file *to, int rc);

/* A rename onto a file that is there. */
void model_rename_onto_begin(struct model *m, struct model_file *from, struct model_file *to);
void model_rename_onto_end(struct model *m, struct model_file *from, struct model_file *to, int rc);

/* Not more than VERSIONS_MAX - 1 times. */
void model_replace_begin(struct model *m, struct model_file *f, uint64_t text, uint64_t size);
void model_replace_end(struct model *m, struct model_file *f, int rc);

/* An append of len bytes to a log. */
void model_append_begin(struct model *m, struct model_file *f, uint64_t len);
void model_append_end(struct model *m, struct model_file *f, int rc);
/* A writer has taken over the log and found it to be so long. */
void model_log_found(struct model *m, struct model_file *f, uint64_t size);

/* What an error of a change means: it cannot have happened to a file in this state. */
void model_check_refusal(struct model *m, const struct model_file *f, const char *what, int rc);

/*
 * A read of the whole file from its beginning into room for more: before is the file as it was when the read
 * began. rc: bytes, or the error. quiet: there are no faults, an error is a violation too.
 */
void model_check_read(struct model *m, const struct model_file *before, const struct model_file *f,
		      int64_t rc, const void *bytes, bool quiet);
/* At rest: of both names of a rename exactly one is there. */
void model_check_twins(struct model *m, const struct model_file *f, bool there, bool twin_there);
/* At rest: f is there or not, and these are the bytes of the file that it was to replace. */
void model_check_onto(struct model *m, const struct model_file *f, bool there, const void *bytes,
		      uint64_t len);
/* At rest: what is found of a directory, and of its twin when it has one. */
void model_check_dir(struct model *m, const struct model_dir *d, bool found, bool twin_found);
/* What a stat says of a file that is there. */
void model_check_stat(struct model *m, const struct model_file *before, const struct model_file *f,
		      uint64_t size, bool sealed);

/* --- a log of many writers -------------------------------------------------------------------- */

#define RECORD_BYTES 256
#define RECORDS_MAX 256
#define SHARED_WRITERS 8

enum record_fate { RECORD_NONE, RECORD_DOUBT, RECORD_ACKED };

struct model_record {
	uint8_t fate;
	bool fenced; /* another had taken over before it was begun */
};

struct shared_log {
	char path[MODEL_PATH_MAX];
	uint64_t number;
	bool there; /* acknowledged */
	struct model_record records[SHARED_WRITERS][RECORDS_MAX];
	uint32_t next[SHARED_WRITERS];
	uint64_t tick;
	uint64_t taken; /* the latest begin of an opening that has succeeded */
};

/* A handle of a writer on the log. */
struct shared_handle {
	uint64_t begun, opened;
};

void shared_open_begin(struct shared_log *l, struct shared_handle *h);
void shared_open_end(struct model *m, struct shared_log *l, struct shared_handle *h,
		     unsigned writer);
/* The next record of the writer; RECORDS_MAX: no more. Its bytes. */
uint32_t shared_append_begin(struct shared_log *l, const struct shared_handle *h, unsigned writer,
			     uint8_t bytes[RECORD_BYTES]);
void shared_append_end(struct model *m, struct shared_log *l, unsigned writer, uint32_t record,
		       int rc);
/* All of the log as it was read; before: a copy made when the read began. */
void shared_check(struct model *m, const struct shared_log *before, const struct shared_log *l,
		  const uint8_t *bytes, uint64_t len);

#endif
