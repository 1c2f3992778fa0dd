// SPDX-License-Identifier: Apache-2.0
/*
 * The commands on files: ls, put and so on. Each is a row of a table: its name, its options, its help and its
 * function. Help and completion are printed from the same table.
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

#define FS_PATH_MAX 8192 /* bytes of a path; more than a cluster or a local filesystem takes */

/* The values of the options; fs.c has the letter of each. */
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
	/* For the thread of the command; other threads make options of their own with fs_options. */
	struct terrane_error error;
	struct terrane_options o;
};

struct fs_command {
	const char *name;
	const char *summary;  /* one line */
	const char *operands; /* "SOURCE... TARGET" */
	const char *more;     /* one or two paragraphs of help */
	const char *letters;  /* of its options, beside those of all commands */
	int operands_min, operands_max;
	int (*run)(struct fs *fs, int n, char **operands);
};

extern const struct fs_command fs_names_commands[], fs_read_commands[], fs_write_commands[],
	fs_bench_commands[];
extern const size_t fs_names_count, fs_read_count, fs_write_count, fs_bench_count;

/* Runs the command that argv[0] names; returns its exit status. */
int cmd_fs(int argc, char **argv);
/* Returns the row of the command of this name, or NULL. */
const struct fs_command *fs_find(const char *name);
/* Returns row i of all commands, NULL beyond the last. */
const struct fs_command *fs_at(size_t i);
/* Appends the long options of a command, each with its dashes and a blank. Errors: those of strbuf. */
int fs_option_words(const struct fs_command *c, struct strbuf *out);

/* Returns the options for a call of this command, which reports into *error. */
struct terrane_options fs_options(const struct fs *fs, struct terrane_error *error);

/* Prints "terrane: WHAT PATH: why" on standard error and returns CLI_FAILED. From any thread. */
int fs_fail(const struct terrane_error *error, int64_t rc, const char *what, const char *path);

/* Returns the name with control characters and invalid UTF-8 as \xNN, for a terminal. Points into out. */
const char *fs_show(char out[FS_PATH_MAX], const char *name);

/* Joins "a/" and "b" to "a/b". Returns false when the result is too long. */
bool fs_join(char out[FS_PATH_MAX], const char *dir, const char *name);

/* A path that grows and shrinks during a walk over a tree: one buffer for all levels. */
struct fs_path {
	char text[FS_PATH_MAX];
	size_t len;
};

/* Returns false when the text is too long. */
bool fs_path_set(struct fs_path *p, const char *text);
/* Appends a name. Returns the length before, for fs_path_pop; SIZE_MAX when the path would be too long. */
size_t fs_path_push(struct fs_path *p, const char *name);
void fs_path_pop(struct fs_path *p, size_t len);

/* Returns whether a target names a directory to put sources into by its form alone: "a/", "." and "..". */
bool fs_means_dir(const char *target);

/* Returns the last name of a path: "c" of "/a/b/c/", "" of "/". Points into out. */
const char *fs_base(char out[FS_PATH_MAX], const char *path);

/* Returns the monotonic clock in seconds. */
double fs_clock(void);
/* Returns the user and system time of this process in seconds. */
double fs_cpu(void);

/* Returns bytes as text: 1536 is "1.5 KiB". Points into out. */
#define FS_SIZE_TEXT 32
const char *fs_size(char out[FS_SIZE_TEXT], double bytes);

/* After fs_catch_signals the first SIGINT or SIGTERM makes fs_interrupted return true. A second signal ends the
 * process, and so does a timer two seconds after the first. */
void fs_catch_signals(void);
bool fs_interrupted(void);

#endif
