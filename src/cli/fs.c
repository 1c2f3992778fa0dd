// SPDX-License-Identifier: Apache-2.0
/* Code that the commands on files share: options, opening the cluster, errors, paths. */
#include "cli/fs.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "base/utf8.h"
#include "cli/cli.h"

#define INTERRUPT_S 2 /* seconds in which calls in flight may end after the first signal */

/* --- options ---------------------------------------------------------------------------------- */

enum option_kind {
	OPTION_FLAG,
	OPTION_TEXT,
	OPTION_SIZE,
	OPTION_MEDIA,
	OPTION_COUNT,
	OPTION_FEATURE
};

struct fs_option {
	char letter;
	const char *name;
	const char *arg; /* name of the argument in the help; NULL: the option is a flag */
	const char *help;
	enum option_kind kind;
	size_t offset;
	char typed; /* the letter on the command line; 0: `letter` */
};

#define FLAG(letter, name, field, help)                                                    \
	{                                                                                  \
		letter, name, NULL, help, OPTION_FLAG, offsetof(struct fs_flags, field), 0 \
	}
/* An option that is typed with another letter than it is known by here, where that letter means something else. */
#define FLAG_AS(letter, typed, name, field, help)                                              \
	{                                                                                      \
		letter, name, NULL, help, OPTION_FLAG, offsetof(struct fs_flags, field), typed \
	}
#define VALUE(letter, name, arg, kind, field, help)                                \
	{                                                                          \
		letter, name, arg, help, kind, offsetof(struct fs_flags, field), 0 \
	}

static const struct fs_option options[] = {
	VALUE('c', "cluster", "FILE", OPTION_TEXT, cluster,
	      "the cluster file, or the folder of a cluster (default: $TERRANE_CLUSTER, else .)"),
	VALUE('t', "tenant", "NAME", OPTION_TEXT, tenant,
	      "use the tree of this tenant (default: the cluster file's)"),
	FLAG('j', "json", json, "print JSON"),
	FLAG('l', "long", details, "show kind, size, time and id"),
	FLAG('a', "all", accepted, "accepted; names that begin with a dot are always shown"),
	FLAG('h', "human", human, "show sizes with units"),
	FLAG_AS('w', 't', "time", by_time, "sort by time, newest first"),
	FLAG('S', "by-size", by_size, "sort by size, largest first"),
	FLAG('1', "one", accepted, "accepted; each name is on a line of its own"),
	FLAG_AS('y', 's', "summarize", accepted, "accepted; each PATH has one line"),
	FLAG_AS('N', 'n', "no-replace", keep, "leave what exists at the target"),
	VALUE('A', "name", "PATTERN", OPTION_TEXT, name, "the last name matches"),
	VALUE('z', "size", "SIZE", OPTION_TEXT, size_text, "the size of the file: +10MB is more"),
	VALUE('Z', "age", "TIME", OPTION_TEXT, age_text,
	      "the time since the last change: +7d is older"),
	VALUE('K', "kind", "KIND", OPTION_TEXT, kind, "file or directory"),
	FLAG('D', "delete", remove, "remove what is found"),
	FLAG_AS('Y', 'd', "delete", remove, "remove from TARGET what SOURCE does not have"),
	FLAG_AS('X', 'n', "dry-run", dry, "print what would be done, and change nothing"),
	FLAG('G', "get", pull, "SOURCE is in the cluster, and TARGET is local"),
	FLAG('R', "recursive", recursive, "include everything below"),
	FLAG('r', "recursive", recursive, "include everything below"),
	FLAG('p', "parents", parents, "make missing parents; accept a directory that exists"),
	FLAG('f', "force", force,
	     "rm: do not fail on a name that does not exist; seal: also the root"),
	FLAG('F', "replace", replace, "replace files that exist"),
	FLAG('u', "resume", resume,
	     "skip files that exist with the same size and time, or with the same bytes; with "
	     "--verify all are compared"),
	FLAG('v', "verify", verify, "read everything back and compare it"),
	FLAG('q', "quiet", quiet, "show no progress"),
	FLAG('B', "no-attributes", bare, "leave out modes, owners, times and user attributes"),
	FLAG('k', "packed", packed, "write or read many files in one call"),
	FLAG('U', "unseal", unseal, "remove from sealed directories, too, after unsealing them"),
	VALUE('e', "encoding", "CODE", OPTION_TEXT, encoding,
	      "r3, rs:4+2, lrc:12+2+2, mlec:4+2/4+1 (default: the cluster's)"),
	VALUE('M', "media", "MEDIA", OPTION_MEDIA, media,
	      "disk, flash, or flash-or-disk: disk if flash has no room"),
	VALUE('b', "block", "SIZE", OPTION_SIZE, block_bytes, "size of a block, 64KiB to 64MiB"),
	VALUE('g', "group", "NAME", OPTION_TEXT, group, "the traffic group"),
	VALUE('J', "jobs", "N", OPTION_COUNT, jobs,
	      "transfers at the same time, 1 to 64 (default 4)"),
	VALUE('s', "size", "SIZE", OPTION_SIZE, size_bytes, "size of a file"),
	VALUE('n', "count", "N", OPTION_COUNT, count, "number of files"),
	VALUE('d', "depth", "N", OPTION_COUNT, depth, "requests in flight"),
	VALUE('T', "threads", "N", OPTION_COUNT, threads,
	      "threads of the library, 1 to 255 (default: the cluster file's)"),
	VALUE('m', "model", "FILE", OPTION_TEXT, model,
	      "the placement model that decides on flash or disk"),
	VALUE('x', "feature", "NAME=VALUE", OPTION_FEATURE, features,
	      "what is known of the job: n_NAME=NUMBER or s_NAME=TEXT; repeatable"),
	VALUE('i', "job-id", "N", OPTION_COUNT, job_id,
	      "the job that the files are written or read for"),
	VALUE('O', "bytes", "SIZE", OPTION_SIZE, quota_bytes, "limit of the sizes of all files"),
	VALUE('I', "files", "N", OPTION_COUNT, quota_files,
	      "limit of the number of files and directories"),
	VALUE('P', "pattern", "NAME", OPTION_TEXT, pattern,
	      "seq or random; create, stat, list or remove"),
};

static const char common_letters[] = "ctj";

static bool takes(const struct fs_command *c, char letter)
{
	return strchr(common_letters, letter) != NULL || strchr(c->letters, letter) != NULL;
}

/* Returns the option of a command that is typed with a letter, NULL if there is none. An option of the command itself comes
 * before one of all commands. */
static const struct fs_option *typed_option(const struct fs_command *c, char typed)
{
	const struct fs_option *found = NULL;
	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		const struct fs_option *o = &options[i];
		if (!takes(c, o->letter) || (o->typed != 0 ? o->typed : o->letter) != typed)
			continue;
		if (found == NULL || strchr(common_letters, found->letter) != NULL)
			found = o;
	}
	return found;
}

static char typed_letter(const struct fs_option *o)
{
	return o->typed != 0 ? o->typed : o->letter;
}

static void print_help(const struct fs_command *c)
{
	printf("usage: terrane %s [options] %s\n\n%s\n\n", c->name, c->operands, c->more);
	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		const struct fs_option *o = &options[i];
		char left[48];
		if (!takes(c, o->letter))
			continue;
		char typed[8] = "    ";
		if (typed_option(c, typed_letter(o)) == o)
			snprintf(typed, sizeof(typed), "-%c, ", typed_letter(o));
		snprintf(left, sizeof(left), "%s--%s%s%s", typed, o->name,
			 o->arg != NULL ? " " : "", o->arg != NULL ? o->arg : "");
		printf("  %-24s %s\n", left, o->help);
	}
	printf("  %-24s %s\n", takes(c, 'h') ? "    --help" : "-h, --help", "print this help");
}

int fs_option_words(const struct fs_command *c, struct strbuf *out)
{
	int rc = strbuf_puts(out, "--help ");
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(options); i++)
		if (takes(c, options[i].letter))
			rc = strbuf_printf(out, "--%s ", options[i].name);
	return rc;
}

static int take_media(const char *text, enum terrane_media *out)
{
	static const char *const names[] = {[TERRANE_MEDIA_DISK] = "disk",
					    [TERRANE_MEDIA_FLASH] = "flash",
					    [TERRANE_MEDIA_FLASH_OR_DISK] = "flash-or-disk"};
	for (size_t i = TERRANE_MEDIA_DISK; i < ARRAY_LEN(names); i++) {
		if (strcmp(text, names[i]) == 0) {
			*out = (enum terrane_media)i;
			return 0;
		}
	}
	return -EINVAL;
}

/* Adds a feature. The text is one of the arguments, which are ours to cut. */
static int take_feature(char *text, struct fs_flags *flags)
{
	char *value = strchr(text, '='), *end;
	if (value == NULL || flags->feature_count == TERRANE_FEATURES_MAX)
		return -EINVAL;
	*value++ = 0;
	struct terrane_feature *f = &flags->features[flags->feature_count++];
	*f = (struct terrane_feature){.name = text};
	if (text[0] != 'n') {
		f->text = value;
		return 0;
	}
	f->number = strtod(value, &end);
	return end == value || *end != 0 ? -EINVAL : 0;
}

static int option_set(const struct fs_option *o, struct fs_flags *flags)
{
	void *field = (char *)flags + o->offset;
	int rc = 0;
	switch (o->kind) {
	case OPTION_FLAG:
		*(bool *)field = true;
		return 0;
	case OPTION_TEXT:
		*(const char **)field = optarg;
		return 0;
	case OPTION_SIZE:
		rc = units_parse_size(optarg, field);
		break;
	case OPTION_MEDIA:
		return take_media(optarg, field);
	case OPTION_FEATURE:
		return take_feature(optarg, flags);
	case OPTION_COUNT:
		rc = units_parse_int(optarg, field);
		if (rc == 0 && *(int64_t *)field < 1)
			rc = -ERANGE;
		break;
	}
	return rc;
}

#define LONG_BASE 256 /* value of getopt_long for the first long option */
#define LONG_HELP 1024

/* Fills in what getopt_long needs. */
static void option_tables(const struct fs_command *c, struct option *table, char *letters)
{
	size_t n = 0, m = 0;
	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		const struct fs_option *o = &options[i];
		if (!takes(c, o->letter))
			continue;
		int has = o->arg != NULL ? required_argument : no_argument;
		table[n++] =
			(struct option){.name = o->name, .has_arg = has, .val = LONG_BASE + (int)i};
		if (typed_option(c, typed_letter(o)) != o)
			continue;
		letters[m++] = typed_letter(o);
		if (o->arg != NULL)
			letters[m++] = ':';
	}
	if (!takes(c, 'h'))
		letters[m++] = 'h';
	letters[m] = 0;
	table[n++] = (struct option){.name = "help", .has_arg = no_argument, .val = LONG_HELP};
	table[n] = (struct option){0};
}

/* Parses the options into *flags; afterwards the operands begin at argv[optind]. Returns CLI_OK or CLI_USAGE; sets
 * *help if it printed the help, after which the command ends. */
static int parse(const struct fs_command *c, int argc, char **argv, struct fs_flags *flags,
		 bool *help)
{
	struct option table[ARRAY_LEN(options) + 2];
	char letters[3 * ARRAY_LEN(options) + 2];
	option_tables(c, table, letters);
	int value;
	while ((value = getopt_long(argc, argv, letters, table, NULL)) != -1) {
		if (value == '?')
			return CLI_USAGE;
		if (value == LONG_HELP || (value == 'h' && !takes(c, 'h'))) {
			print_help(c);
			*help = true;
			return CLI_OK;
		}
		const struct fs_option *o = value >= LONG_BASE ? &options[value - LONG_BASE]
							       : typed_option(c, (char)value);
		if (o != NULL && option_set(o, flags) < 0)
			return cli_usage("%s: --%s %s: must be a %s", c->name, o->name, optarg,
					 o->kind == OPTION_FEATURE
						 ? "feature, n_NAME=NUMBER or s_NAME=TEXT"
					 : o->kind == OPTION_SIZE ? "size, such as 64KiB or 10MB"
								  : "number, 1 or more");
	}
	return CLI_OK;
}

/* --- running a command ------------------------------------------------------------------------ */

static const struct {
	const struct fs_command *commands;
	const size_t *count;
} tables[] = {
	{fs_attr_commands, &fs_attr_count},     {fs_copy_commands, &fs_copy_count},
	{fs_list_commands, &fs_list_count},     {fs_find_commands, &fs_find_count},
	{fs_names_commands, &fs_names_count},   {fs_pipe_commands, &fs_pipe_count},
	{fs_remove_commands, &fs_remove_count}, {fs_seal_commands, &fs_seal_count},
	{fs_quota_commands, &fs_quota_count},   {fs_read_commands, &fs_read_count},
	{fs_write_commands, &fs_write_count},   {fs_bench_commands, &fs_bench_count},
	{fs_sync_commands, &fs_sync_count},
};

const struct fs_command *fs_at(size_t i)
{
	for (size_t t = 0; t < ARRAY_LEN(tables); t++) {
		if (i < *tables[t].count)
			return &tables[t].commands[i];
		i -= *tables[t].count;
	}
	return NULL;
}

const struct fs_command *fs_find(const char *name)
{
	const struct fs_command *c;
	for (size_t i = 0; (c = fs_at(i)) != NULL; i++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

struct terrane_options fs_options(const struct fs *fs, struct terrane_error *error)
{
	return (struct terrane_options){
		.error = error,
		.encoding = fs->flags.encoding,
		.media = fs->flags.media,
		.block_bytes = fs->flags.block_bytes,
		.traffic_group = fs->flags.group,
		.placement_model = fs->model,
		.features = fs->flags.features,
		.feature_count = fs->flags.feature_count,
		.job_id = (uint64_t)fs->flags.job_id,
	};
}

static bool is_remote(const struct fs_command *c, int i, int n)
{
	return c->remote == FS_REMOTE_ALL || (c->remote == FS_REMOTE_LAST && i == n - 1) ||
	       (c->remote == FS_REMOTE_SOURCES && (i < n - 1 || n == 1));
}

/* Runs the command with its operands, after patterns were replaced by what they match. */
static int run_expanded(const struct fs_command *c, struct fs *fs, int n, char **operands)
{
	struct fs_words words = {0};
	int status = CLI_OK;
	bool target = c->remote == FS_REMOTE_LAST || strcmp(c->name, "mkdir") == 0 ||
		      strcmp(c->name, "touch") == 0;
	for (int i = 0; i < n && status == CLI_OK; i++) {
		bool last = i == n - 1 && n > 1 &&
			    (strcmp(c->name, "mv") == 0 || strcmp(c->name, "cp") == 0);
		if (is_remote(c, i, n) && !target && !last) {
			status = fs_expand(fs, c->name, operands[i], &words);
		} else {
			status = fs_words_add(&words, operands[i]);
		}
	}
	if (status == CLI_OK && words.count > 0)
		status = c->run(fs, (int)words.count, words.all);
	else if (status == CLI_OK && n == 0)
		status = c->run(fs, 0, operands);
	fs_words_free(&words);
	return status;
}

int cmd_fs(int argc, char **argv)
{
	const struct fs_command *c = fs_find(argv[0]);
	struct fs fs = {.flags = {.jobs = 4}};
	bool help = false;
	int status = parse(c, argc, argv, &fs.flags, &help);
	if (status != CLI_OK || help)
		return status;
	int n = argc - optind;
	if (n < c->operands_min || n > c->operands_max)
		return cli_usage("%s: wrong number of arguments; usage: terrane %s [options] %s",
				 c->name, c->name, c->operands);
	for (int i = optind; i < argc; i++)
		/* an empty operand often comes from an unset variable, which must not mean the root */
		if (argv[i][0] == 0)
			return cli_usage("%s: a path is empty; the root is /", c->name);
	for (int i = 0; i < n; i++)
		if (is_remote(c, i, n) && fs_path_check(c->name, argv[optind + i]) != CLI_OK)
			return CLI_FAILED;
	if (fs.flags.threads > UINT8_MAX)
		return cli_usage("%s: --threads is too large: give 1 to %d", c->name, UINT8_MAX);
	/* What moves no data needs no more threads than one. */
	bool moves = takes(c, 'T');
	struct terrane_open_options o = {.tenant = fs.flags.tenant,
					 .threads = moves ? (uint32_t)fs.flags.threads : 1,
					 .error = &fs.error};
	int rc = terrane_open(&fs.t, fs.flags.cluster, &o);
	if (rc < 0)
		return fs_fail(&fs.error, rc, "cannot open", "the cluster");
	rc = fs.flags.model != NULL ? terrane_model_open(&fs.model, fs.flags.model) : 0;
	fs.o = fs_options(&fs, &fs.error);
	status = rc < 0 ? cli_fail("cannot open the model %s: %s", fs.flags.model,
				   terrane_error_text(rc))
			: run_expanded(c, &fs, n, argv + optind);
	terrane_model_close(fs.model);
	terrane_close(fs.t);
	return status != CLI_OK && fs_interrupted() ? fs_signal_status() : status;
}

/* --- errors, paths, sizes ----------------------------------------------------------------------------- */

int fs_fail(const struct terrane_error *error, int64_t rc, const char *what, const char *path)
{
	char shown[FS_PATH_MAX];
	const char *text = terrane_error_text((int)rc);
	if (error != NULL && error->code == (int)rc && error->text[0] != 0)
		text = error->text;
	return cli_fail("%s %s: %s", what, fs_show(shown, path), text);
}

const char *fs_show(char out[FS_PATH_MAX], const char *name)
{
	size_t left = strlen(name), at = 0;
	while (left > 0 && at + 5 < FS_PATH_MAX) {
		size_t n = utf8_char_len(name, left);
		unsigned char first = (unsigned char)name[0];
		if (n == 0 || first < 0x20 || first == 0x7f) {
			at += (size_t)snprintf(out + at, FS_PATH_MAX - at, "\\x%02x", first);
			n = 1;
		} else {
			memcpy(out + at, name, n);
			at += n;
		}
		name += n;
		left -= n;
	}
	out[at] = 0;
	return out;
}

bool fs_join(char out[FS_PATH_MAX], const char *dir, const char *name)
{
	size_t len = strlen(dir);
	const char *slash = len > 0 && dir[len - 1] != '/' ? "/" : "";
	return snprintf(out, FS_PATH_MAX, "%s%s%s", dir, slash, name) < FS_PATH_MAX;
}

bool fs_path_set(struct fs_path *p, const char *text)
{
	p->len = strlen(text);
	if (p->len >= FS_PATH_MAX)
		return false;
	memcpy(p->text, text, p->len + 1);
	return true;
}

size_t fs_path_push(struct fs_path *p, const char *name)
{
	size_t before = p->len, len = strlen(name);
	bool slash = before > 0 && p->text[before - 1] != '/';
	if (before + slash + len >= FS_PATH_MAX)
		return SIZE_MAX;
	if (slash)
		p->text[p->len++] = '/';
	memcpy(p->text + p->len, name, len + 1);
	p->len += len;
	return before;
}

void fs_path_pop(struct fs_path *p, size_t len)
{
	p->len = len;
	p->text[len] = 0;
}

bool fs_is_root(const char *path)
{
	return path[strspn(path, "/")] == 0;
}

bool fs_means_dir(const char *target)
{
	size_t len = strlen(target);
	return (len > 0 && target[len - 1] == '/') || strcmp(target, ".") == 0 ||
	       strcmp(target, "..") == 0;
}

const char *fs_base(char out[FS_PATH_MAX], const char *path)
{
	snprintf(out, FS_PATH_MAX, "%s", path);
	size_t len = strlen(out);
	while (len > 0 && out[len - 1] == '/')
		out[--len] = 0;
	char *slash = strrchr(out, '/');
	return slash != NULL ? slash + 1 : out;
}

double fs_clock(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

uint64_t fs_wall_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

double fs_cpu(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

const char *fs_size(char out[FS_SIZE_TEXT], double bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
	size_t u = 0;
	while (bytes >= 1024 && u + 1 < ARRAY_LEN(units)) {
		bytes /= 1024;
		u++;
	}
	snprintf(out, FS_SIZE_TEXT, u == 0 ? "%.0f %s" : "%.1f %s", bytes, units[u]);
	return out;
}

static volatile sig_atomic_t interrupted;

/* Ends the process from a signal handler. Nothing has to be undone: a file of the cluster is invisible before it is
 * closed, and a local file has no name before it is complete. */
static void on_alarm(int number)
{
	static const char words[] =
		"terrane: interrupted while the cluster did not answer; incomplete files "
		"were discarded\n";
	(void)number;
	ssize_t n = write(STDERR_FILENO, words, sizeof(words) - 1);
	(void)n;
	_exit(fs_signal_status());
}

static void on_signal(int number)
{
	interrupted = number;
	alarm(INTERRUPT_S);
}

void fs_catch_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
	struct sigaction late = {.sa_handler = on_alarm};
	sigaction(SIGALRM, &late, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

bool fs_interrupted(void)
{
	return interrupted != 0;
}

int fs_signal_status(void)
{
	return interrupted != 0 ? 128 + (int)interrupted : 0;
}
