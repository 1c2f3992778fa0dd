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
#include "base/json.h"
#include "base/strbuf.h"
#include <terrane/terrane.h>

/* bytes of a path buffer; longer than any path of a cluster or a local filesystem */
#define FS_PATH_MAX 8192

/* The values of the options; the table in fs.c has the letter of each option. */
struct fs_flags {
	const char *name, *size_text, *age_text, *kind; /* of find */
	const char *cluster, *tenant, *encoding, *group, *pattern, *model;
	struct terrane_feature features[TERRANE_FEATURES_MAX];
	size_t feature_count;
	int64_t job_id;
	enum terrane_media media;
	uint64_t block_bytes, size_bytes, quota_bytes;
	int64_t jobs, count, depth, threads, quota_files;
	bool json, details, recursive, parents, force, replace, resume, verify, quiet, packed,
		unseal, bare, dry, pull;
	bool human, by_time, by_size, keep, remove, accepted;
};

struct fs {
	struct terrane *t;
	struct terrane_model *model; /* --model; NULL: none */
	struct fs_flags flags;
	/* The error of calls by the command's main thread; other threads call fs_options with an error of their own. */
	struct terrane_error error;
	struct terrane_options o;
};

/* The operands of a command that are paths of the cluster: these are checked, and patterns in them are expanded. */
enum fs_remote {
	FS_REMOTE_NONE,
	FS_REMOTE_ALL,
	FS_REMOTE_LAST,    /* the target */
	FS_REMOTE_SOURCES, /* all but the last, or the only one */
};

struct fs_command {
	const char *name;
	const char *summary;  /* one line for the list of commands */
	const char *operands; /* operands in the usage line, such as "SOURCE... TARGET" */
	const char *more;     /* one or two paragraphs of help */
	/* letters of the command's options, besides the options of all commands */
	const char *letters;
	int operands_min, operands_max;
	int (*run)(struct fs *fs, int n, char **operands);
	enum fs_remote remote;
};

extern const struct fs_command fs_attr_commands[], fs_names_commands[], fs_copy_commands[],
	fs_list_commands[], fs_find_commands[], fs_pipe_commands[], fs_remove_commands[],
	fs_seal_commands[], fs_quota_commands[], fs_read_commands[], fs_write_commands[],
	fs_bench_commands[], fs_sync_commands[];
extern const size_t fs_attr_count, fs_names_count, fs_copy_count, fs_list_count, fs_find_count,
	fs_pipe_count, fs_remove_count, fs_seal_count, fs_quota_count, fs_read_count,
	fs_write_count, fs_bench_count, fs_sync_count;

/* Runs the command that argv[0] names; returns its exit status. */
int cmd_fs(int argc, char **argv);
/* Returns the row of the command of this name, or NULL. */
const struct fs_command *fs_find(const char *name);
/* Returns row i of the table of commands, NULL beyond the last row. */
const struct fs_command *fs_at(size_t i);
/* Appends the long options of a command, each with its dashes and a blank. Errors: those of strbuf. */
int fs_option_words(const struct fs_command *c, struct strbuf *out);

/* Returns the options for a library call of this command; the call reports its error in *error. */
struct terrane_options fs_options(const struct fs *fs, struct terrane_error *error);

/* Prints "terrane: WHAT PATH: why" on standard error and returns CLI_FAILED. Any thread may call it. */
int fs_fail(const struct terrane_error *error, int64_t rc, const char *what, const char *path);

/* Returns the name with control characters and invalid UTF-8 as \xNN, for a terminal. The result may point into out. */
const char *fs_show(char out[FS_PATH_MAX], const char *name);

/* Joins "a/" and "b" to "a/b". Returns false when the result is too long. */
bool fs_join(char out[FS_PATH_MAX], const char *dir, const char *name);

/* A path that grows and shrinks during a walk over a tree: one buffer for all levels. */
struct fs_path {
	char text[FS_PATH_MAX];
	size_t len;
};

/* Sets the path to a text. Returns false if the text is too long. */
bool fs_path_set(struct fs_path *p, const char *text);
/* Appends a name to the path. Returns the old length, for fs_path_pop; SIZE_MAX if the path would be too long. */
size_t fs_path_push(struct fs_path *p, const char *name);
void fs_path_pop(struct fs_path *p, size_t len);

/*
 * Walks over all entries below a directory whose path and entry are given. entry (may be NULL) is called with the path of
 * each entry, before the contents of a directory; leave (may be NULL) after the contents of a directory, also of the first
 * one, if nothing in it failed. They return CLI_OK, another exit status, which becomes the result while the walk goes on
 * without the contents of that directory; FS_WALK_SKIP: the same without failure; FS_WALK_STOP: the walk ends.
 * Prints errors. An interrupted walk ends early.
 */
enum { FS_WALK_SKIP = -3, FS_WALK_STOP = -4 };
struct fs_walk {
	struct fs *fs;
	void *ctx;
	int (*entry)(void *ctx, struct fs_path *path, const struct terrane_entry *e);
	int (*leave)(void *ctx, struct fs_path *path, const struct terrane_entry *dir);
};
int fs_walk(const struct fs_walk *w, struct fs_path *path, const struct terrane_entry *dir);

/* Fills in the entry of a path, without its name. Errors of terrane_stat. */
int fs_entry(struct fs *fs, const char *path, struct terrane_entry *out);
/* Returns whether the path is an existing directory. */
bool fs_is_directory(struct fs *fs, const char *path);
/* Removes everything in the root of a tenant, sealed directories too. file, dir: where the cluster is, as in admin.h.
 * Returns an exit status. */
int fs_remove_all(const char *file, const char *dir, const char *tenant);
/* Removes a file, or a directory with its contents unless one of them is sealed. Returns an exit status. */
int fs_remove_tree(struct fs *fs, const char *path, bool directory);
/* Refuses a path that is malformed UTF-8 or has a step "." or "..". Returns CLI_OK, or CLI_FAILED after it printed why. */
int fs_path_check(const char *command, const char *path);
/* A list of words, each allocated. */
struct fs_words {
	char **all;
	size_t count, room;
};
/* Appends a copy of a word. Returns an exit status. */
int fs_words_add(struct fs_words *w, const char *word);
/* Appends the paths that match an operand, sorted, or the operand itself if it has no pattern or exists as it is. Returns an
 * exit status; a pattern without a match is an error, but not with --force. */
int fs_expand(struct fs *fs, const char *command, const char *operand, struct fs_words *out);
void fs_words_free(struct fs_words *w);
/* Stores standard input as a file. Returns an exit status. */
int fs_put_pipe(struct fs *fs, const char *target);

/* Returns "file" or "directory". */
const char *fs_kind(enum terrane_kind kind);
#define FS_MODE_TEXT 11
/* Returns the kind and mode of an entry as `ls -l` shows them, with ? for a mode that is not known. */
const char *fs_mode(char out[FS_MODE_TEXT], bool directory, bool known, uint32_t mode);
#define FS_OWNER_TEXT 12
/* Returns a uid or gid as text, "?" if it is not known. */
const char *fs_owner(char out[FS_OWNER_TEXT], bool known, uint32_t id);
/* Adds mode, uid and gid to an object, as far as they are known. */
void fs_owner_json(json_t *to, uint32_t has, uint32_t mode, uint32_t uid, uint32_t gid);
/* Returns a time since 1970 as text in UTC. */
const char *fs_time(char out[32], uint64_t ns);
/* Returns the wall clock in ns since 1970. */
uint64_t fs_wall_ns(void);
/* Returns whether a path is "", "/" or "//": more likely an unset variable than a wish to change everything. */
bool fs_is_root(const char *path);

/* Returns whether a target is a directory by the form of its name: it ends in "/", "." or "..". */
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

/* Installs signal handlers. After this call the first SIGINT or SIGTERM makes fs_interrupted return true. A second
 * signal ends the process, and so does a timer two seconds after the first signal. */
void fs_catch_signals(void);
bool fs_interrupted(void);
/* Returns 128 plus the number of the signal that interrupted the command; 0: none did. */
int fs_signal_status(void);

#endif
