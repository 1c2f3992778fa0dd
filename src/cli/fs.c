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
};

#define FLAG(letter, name, field, help)                                                 \
	{                                                                               \
		letter, name, NULL, help, OPTION_FLAG, offsetof(struct fs_flags, field) \
	}
#define VALUE(letter, name, arg, kind, field, help)                             \
	{                                                                       \
		letter, name, arg, help, kind, offsetof(struct fs_flags, field) \
	}

static const struct fs_option options[] = {
	VALUE('c', "cluster", "FILE", OPTION_TEXT, cluster,
	      "the cluster file (default: $TERRANE_CLUSTER, else ./cluster.ini)"),
	VALUE('t', "tenant", "NAME", OPTION_TEXT, tenant,
	      "use the tree of this tenant (default: the cluster file's)"),
	FLAG('j', "json", json, "print JSON"),
	FLAG('l', "long", details, "show kind, size, time and id"),
	FLAG('R', "recursive", recursive, "include everything below"),
	FLAG('r', "recursive", recursive, "include everything below"),
	FLAG('p', "parents", parents, "make missing parents; accept a directory that exists"),
	FLAG('f', "force", force,
	     "rm: do not fail on a name that does not exist; seal: also the root"),
	FLAG('F', "replace", replace, "replace files that exist"),
	FLAG('u', "resume", resume,
	     "skip files that exist with the same size and are not older; with --verify: with "
	     "the same bytes"),
	FLAG('v', "verify", verify, "read everything back and compare it"),
	FLAG('q', "quiet", quiet, "show no progress"),
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
	VALUE('i', "job-id", "N", OPTION_COUNT, job_id, "the job that writes the files"),
	VALUE('P', "pattern", "NAME", OPTION_TEXT, pattern,
	      "seq or random; create, stat, list or remove"),
};

static const char common_letters[] = "ctj";

static bool takes(const struct fs_command *c, char letter)
{
	return strchr(common_letters, letter) != NULL || strchr(c->letters, letter) != NULL;
}

static void print_help(const struct fs_command *c)
{
	printf("usage: terrane %s [options] %s\n\n%s\n\n", c->name, c->operands, c->more);
	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		const struct fs_option *o = &options[i];
		char left[48];
		if (!takes(c, o->letter))
			continue;
		snprintf(left, sizeof(left), "-%c, --%s%s%s", o->letter, o->name,
			 o->arg != NULL ? " " : "", o->arg != NULL ? o->arg : "");
		printf("  %-24s %s\n", left, o->help);
	}
	printf("  %-24s %s\n", "-h, --help", "print this help");
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

/* Parses the options into *flags; afterwards the operands begin at argv[optind]. Returns CLI_OK or CLI_USAGE; sets
 * *help if it printed the help, after which the command ends. */
static int parse(const struct fs_command *c, int argc, char **argv, struct fs_flags *flags,
		 bool *help)
{
	struct option table[ARRAY_LEN(options) + 2];
	char letters[3 * ARRAY_LEN(options) + 2];
	size_t n = 0, m = 0;
	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		const struct fs_option *o = &options[i];
		if (!takes(c, o->letter))
			continue;
		int has = o->arg != NULL ? required_argument : no_argument;
		table[n++] = (struct option){.name = o->name, .has_arg = has, .val = o->letter};
		letters[m++] = o->letter;
		if (o->arg != NULL)
			letters[m++] = ':';
	}
	letters[m++] = 'h';
	letters[m] = 0;
	table[n++] = (struct option){.name = "help", .has_arg = no_argument, .val = 'h'};
	table[n] = (struct option){0};
	int letter;
	while ((letter = getopt_long(argc, argv, letters, table, NULL)) != -1) {
		if (letter == '?')
			return CLI_USAGE;
		if (letter == 'h') {
			print_help(c);
			*help = true;
			return CLI_OK;
		}
		for (size_t i = 0; i < ARRAY_LEN(options); i++) {
			if (options[i].letter == letter && option_set(&options[i], flags) < 0)
				return cli_usage("%s: --%s %s: must be a %s", c->name,
						 options[i].name, optarg,
						 options[i].kind == OPTION_FEATURE
							 ? "feature, n_NAME=NUMBER or s_NAME=TEXT"
						 : options[i].kind == OPTION_SIZE
							 ? "size, such as 64KiB"
							 : "number, 1 or more");
		}
	}
	return CLI_OK;
}

/* --- running a command ------------------------------------------------------------------------ */

static const struct {
	const struct fs_command *commands;
	const size_t *count;
} tables[] = {
	{fs_names_commands, &fs_names_count}, {fs_remove_commands, &fs_remove_count},
	{fs_seal_commands, &fs_seal_count},   {fs_read_commands, &fs_read_count},
	{fs_write_commands, &fs_write_count}, {fs_bench_commands, &fs_bench_count},
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
			: c->run(&fs, n, argv + optind);
	terrane_model_close(fs.model);
	terrane_close(fs.t);
	return status;
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
	_exit(CLI_FAILED);
}

static void on_signal(int number)
{
	(void)number;
	interrupted = 1;
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
