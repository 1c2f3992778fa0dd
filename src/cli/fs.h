// SPDX-License-Identifier: Apache-2.0
/*
 * The commands on files: ls, put and the like. Each is a row of a table: how it is called, which
 * options it takes, what it does. Help and completion come out of the same table.
 *
 * A command gets an open cluster and its operands, and returns an exit status.
 */
#ifndef CLI_FS_H
#define CLI_FS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "base/strbuf.h"
#include <terrane/terrane.h>

#define FS_PATH_MAX 8192 /* longer than any that a cluster or a local filesystem takes */

/* What the options said; the letter of each is in fs.c. */
struct fs_flags {
	const char *cluster, *tenant, *encoding, *group, *pattern;
	enum terrane_media media;
	uint64_t block_bytes, size_bytes;
	int64_t jobs, count, depth;
	bool json, details, recursive, parents, force, replace, resume, verify, quiet, packed;
};

struct fs {
	struct terrane *t;
	struct fs_flags flags;
	/* For the thread of the command; others make their own of fs_options. */
	struct terrane_error error;
	struct terrane_options o;
};

struct fs_command {
	const char *name;
	const char *summary;  /* one line */
	const char *operands; /* "SOURCE... TARGET" */
	const char *more;     /* a paragraph or two */
	const char *letters;  /* of the options it takes, beside those that all take */
	int operands_min, operands_max;
	int (*run)(struct fs *fs, int n, char **operands);
};

extern const struct fs_command fs_names_commands[], fs_read_commands[], fs_write_commands[],
	fs_bench_commands[];
extern const size_t fs_names_count, fs_read_count, fs_write_count, fs_bench_count;

/* Runs the command that argv[0] names. */
int cmd_fs(int argc, char **argv);
/* "ls" -> its row, or NULL. */
const struct fs_command *fs_find(const char *name);
/* Walks all of them: i from 0 until NULL. */
const struct fs_command *fs_at(size_t i);
/* The long options a command takes, one after the other, each with its dashes and a blank. */
int fs_option_words(const struct fs_command *c, struct strbuf *out);

/* The options of a call by this command, with its own place for errors. */
struct terrane_options fs_options(const struct fs *fs, struct terrane_error *error);

/* "terrane: WHAT PATH: why" on standard error; CLI_FAILED. From any thread. */
int fs_fail(const struct terrane_error *error, int64_t rc, const char *what, const char *path);

/* A name for people: control characters and what is not UTF-8 as \xNN. */
const char *fs_show(char out[FS_PATH_MAX], const char *name);

/* "a/" and "b" to "a/b". False when it is too long. */
bool fs_join(char out[FS_PATH_MAX], const char *dir, const char *name);
/* A path that grows and shrinks with a walk over a tree: one buffer for all levels. */
struct fs_path {
	char text[FS_PATH_MAX];
	size_t len;
};

/* False when it is too long. */
bool fs_path_set(struct fs_path *p, const char *text);
/* Adds a step. The length before, for fs_path_pop; SIZE_MAX when it would be too long. */
size_t fs_path_push(struct fs_path *p, const char *name);
void fs_path_pop(struct fs_path *p, size_t len);

/* Whether a target names a directory that things go into: "a/", "." and "..". */
bool fs_means_dir(const char *target);

/* The last step of a path: "c" of "/a/b/c/"; "" of "/". Points into out. */
const char *fs_base(char out[FS_PATH_MAX], const char *path);

/* Seconds since some moment. */
double fs_clock(void);
/* User and system time of this process. */
double fs_cpu(void);

/* 1536 -> "1.5 KiB". */
#define FS_SIZE_TEXT 32
const char *fs_size(char out[FS_SIZE_TEXT], double bytes);

/* Set by the first SIGINT or SIGTERM after fs_catch_signals. The second ends the process, and so does a call
 * that has not returned two seconds later. */
void fs_catch_signals(void);
bool fs_interrupted(void);

#endif
