// SPDX-License-Identifier: Apache-2.0
/*
 * put: stores local files and trees; fs_put_file.c stores the files that this walk finds. Small files of all directories share blocks; large files are streamed. A file
 * becomes visible when it is complete, so after any failure put can be run again with --resume.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/fs_put.h"
#include "cli/fs_quota.h"

#define NAMES_BYTES_MAX (256 * MIB) /* limit for the bytes of the names of one directory */

/* --- the walk --------------------------------------------------------------------------------- */

static void put_inside(struct transfer *x, struct fs_path *local, struct fs_path *remote);

static void skip(struct transfer *x, const char *path, const char *why)
{
	char shown[FS_PATH_MAX];
	atomic_fetch_add(&x->skipped, 1);
	fprintf(stderr, "terrane: skipped %s: it is %s\n", fs_show(shown, path), why);
}

/* Adds a file to be stored in the directory remote. */
static void put_entry(struct transfer *x, const struct fs_path *local, struct fs_path *remote,
		      const char *name, const struct stat *st)
{
	uint64_t size = (uint64_t)st->st_size;
	atomic_fetch_add(&x->progress.total_bytes, size);
	size_t before = fs_path_push(remote, name);
	int rc = before == SIZE_MAX
			 ? -ENAMETOOLONG
			 : transfer_add(x, &(struct transfer_file){.local = (char *)local->text,
								   .remote = remote->text,
								   .size = size});
	if (before != SIZE_MAX)
		fs_path_pop(remote, before);
	if (rc < 0)
		transfer_fail(x, NULL, rc, "cannot put", local->text);
}

/* Adds a file, or appends the name of a directory to subdirs. */
static void put_name(struct transfer *x, struct fs_path *local, struct fs_path *remote,
		     const char *name, struct strbuf *subdirs)
{
	struct stat st;
	size_t before = fs_path_push(local, name);
	if (before == SIZE_MAX) {
		transfer_fail(x, NULL, -ENAMETOOLONG, "cannot put", name);
		return;
	}
	int rc = lstat(local->text, &st);
	bool link = rc == 0 && S_ISLNK(st.st_mode);
	if (link)
		rc = stat(local->text, &st);
	if (rc < 0)
		transfer_fail(x, NULL, -errno, "cannot look at", local->text);
	else if (S_ISREG(st.st_mode))
		put_entry(x, local, remote, name, &st);
	else if (!S_ISDIR(st.st_mode))
		skip(x, local->text, "neither a file nor a directory");
	else if (link)
		transfer_refuse(x, "cannot put", local->text,
				"a link to a directory is not followed; put its target by itself");
	else if (strbuf_add(subdirs, name, strlen(name) + 1) < 0)
		transfer_fail(x, NULL, -ENOMEM, "cannot put", local->text);
	fs_path_pop(local, before);
}

static void put_subdir(struct transfer *x, struct fs_path *local, struct fs_path *remote,
		       const char *name)
{
	size_t here = fs_path_push(local, name);
	size_t there = here != SIZE_MAX ? fs_path_push(remote, name) : SIZE_MAX;
	if (there != SIZE_MAX) {
		put_inside(x, local, remote);
		fs_path_pop(remote, there);
	} else {
		transfer_fail(x, NULL, -ENAMETOOLONG, "cannot put", local->text);
	}
	if (here != SIZE_MAX)
		fs_path_pop(local, here);
}

static void put_subdirs(struct transfer *x, struct fs_path *local, struct fs_path *remote,
			const struct strbuf *subdirs)
{
	bool made[TRANSFER_DIRS_AT_ONCE];
	for (size_t at = 0, n = 1; at < subdirs->len && n > 0 && !transfer_ended(x);) {
		n = transfer_mkdirs(x, local, remote, subdirs->text + at, subdirs->len - at, made);
		for (size_t i = 0; i < n; i++) {
			const char *name = subdirs->text + at;
			at += strlen(name) + 1;
			if (made[i])
				put_subdir(x, local, remote, name);
		}
	}
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int read_names(DIR *d, struct strbuf *text, size_t *n)
{
	struct dirent *e;
	int rc = 0;
	// cppcheck-suppress readdirCalled ; a stream of our own
	while (rc == 0 && !fs_interrupted() && (errno = 0, e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		rc = strbuf_add(text, e->d_name, strlen(e->d_name) + 1);
		*n += rc == 0;
	}
	return rc < 0 ? rc : -errno;
}

/* Lists a local directory in *out, sorted, so that neighbours by name are neighbours in the blocks they share. *out
 * points into text. */
static int list_local(const char *dir, struct strbuf *text, const char ***out, size_t *n)
{
	DIR *d = opendir(dir);
	if (d == NULL)
		return -errno;
	int rc = read_names(d, text, n);
	closedir(d);
	const char **names = malloc((*n + 1) * sizeof(*names));
	if (names == NULL) {
		*n = 0;
		return -ENOMEM;
	}
	size_t at = 0;
	for (size_t i = 0; i < *n; i++) {
		names[i] = text->text + at;
		at += strlen(names[i]) + 1;
	}
	qsort(names, *n, sizeof(*names), by_name);
	*out = names;
	return rc;
}

/* Stores the contents of the local directory into the directory remote, which exists in the cluster. */
static void put_inside(struct transfer *x, struct fs_path *local, struct fs_path *remote)
{
	AUTO_STRBUF struct strbuf subdirs;
	strbuf_init(&subdirs, NAMES_BYTES_MAX);
	if (transfer_ended(x))
		return;
	AUTO_STRBUF struct strbuf text;
	strbuf_init(&text, NAMES_BYTES_MAX);
	const char **names = NULL;
	size_t n = 0;
	int rc = list_local(local->text, &text, &names, &n);
	if (rc < 0)
		transfer_fail(x, NULL, rc, "cannot list", local->text);
	for (size_t i = 0; i < n && !transfer_ended(x); i++)
		put_name(x, local, remote, names[i], &subdirs);
	free(names);
	put_subdirs(x, local, remote, &subdirs);
}

static void put_dir(struct transfer *x, struct fs_path *local, struct fs_path *remote)
{
	if (transfer_ended(x))
		return;
	struct terrane_options o = x->fs->o;
	struct local_attrs attrs;
	struct stat st;
	if (!x->fs->flags.bare && stat(local->text, &st) == 0) {
		local_attrs_read(local->text, &st, &attrs);
		o.attributes = &attrs.all;
	}
	int rc = terrane_mkdir(x->fs->t, remote->text, TERRANE_PARENTS, &o);
	if (rc < 0)
		transfer_fail(x, &x->fs->error, rc, "cannot make", remote->text);
	else
		put_inside(x, local, remote);
}

/* --- the operands ----------------------------------------------------------------------------- */

struct put_target {
	const char *path;
	bool several; /* the command has several sources */
	bool dir;     /* the target is a directory, or has the form of a directory name */
	bool there;   /* the target exists */
};

/* Stores a single file, which shares its blocks with no other file. */
static void put_alone(struct transfer *x, struct fs_path *local, struct fs_path *remote,
		      const struct stat *st)
{
	struct transfer_file f = {
		.local = local->text, .remote = remote->text, .size = (uint64_t)st->st_size};
	atomic_fetch_add(&x->progress.total_bytes, f.size);
	put_large(x, &f);
}

/* Returns whether a source keeps its name inside the target. A tree becomes the target, whether or not the target
 * exists, and the contents of ".", ".." and "/" go into it, as with cp. */
static bool put_into(const struct put_target *to, const char *base, bool tree)
{
	if (tree && (base[0] == 0 || strcmp(base, ".") == 0 || strcmp(base, "..") == 0))
		return false;
	return to->several || fs_means_dir(to->path) || (to->dir && !tree);
}

static void put_source(struct transfer *x, struct put_target *to, const char *source)
{
	struct fs_path local, remote;
	char last[FS_PATH_MAX];
	struct stat st;
	const char *base = fs_base(last, source);
	int rc = fs_path_set(&local, source) && fs_path_set(&remote, to->path) ? 0 : -ENAMETOOLONG;
	if (rc == 0 && stat(source, &st) < 0)
		rc = -errno;
	bool tree = rc == 0 && S_ISDIR(st.st_mode);
	bool into = put_into(to, base, tree);
	if (rc < 0) {
		transfer_fail(x, NULL, rc, "cannot read", source);
		return;
	}
	if (!tree && !S_ISREG(st.st_mode)) {
		transfer_refuse(x, "cannot put", source, "neither a file nor a directory");
		return;
	}
	if (into && !to->there) {
		rc = terrane_mkdir(x->fs->t, to->path, TERRANE_PARENTS, &x->fs->o);
		to->there = rc == 0;
	}
	bool packed = to->several && !tree;
	if (rc == 0 && into && !packed && fs_path_push(&remote, base) == SIZE_MAX)
		rc = -ENAMETOOLONG;
	if (rc < 0) {
		transfer_fail(x, &x->fs->error, rc, "cannot make", to->path);
	} else if (packed) {
		put_entry(x, &local, &remote, base, &st);
	} else if (tree) {
		put_dir(x, &local, &remote);
	} else {
		put_alone(x, &local, &remote, &st);
	}
}

static int put_distinct(int n, char **sources)
{
	bool *files = calloc((size_t)n, sizeof(*files));
	if (files == NULL)
		return fs_fail(NULL, -ENOMEM, "cannot put", sources[0]);
	for (int i = 0; i < n; i++) {
		struct stat st;
		files[i] = stat(sources[i], &st) == 0 && !S_ISDIR(st.st_mode);
	}
	int status = transfer_distinct("put", n, sources, files);
	free(files);
	return status;
}

static int run_put(struct fs *fs, int n, char **operands)
{
	struct transfer x;
	struct put_target to = {.path = operands[n - 1], .several = n > 2};
	struct terrane_stat st = {0};
	if (n == 2 && strcmp(operands[0], "-") == 0)
		return fs_put_pipe(fs, to.path);
	int rc = terrane_stat(fs->t, to.path, &st, &fs->o);
	if (rc < 0 && rc != -ENOENT)
		return fs_fail(&fs->error, rc, "cannot put to", to.path);
	to.there = rc == 0;
	to.dir = fs_means_dir(to.path) || (rc == 0 && st.kind == TERRANE_DIRECTORY);
	if (to.several && !to.dir)
		return cli_fail("cannot put several sources to %s: it is not a directory%s",
				to.path, to.there ? "" : "; end it with \"/\" to make one");
	int status = put_distinct(n - 1, operands);
	/* Of what exists at the target already, put may store nothing. */
	if (status == CLI_OK && !fs->flags.resume && !fs->flags.replace)
		status = fs_quota_check(fs, n - 1, operands, to.path);
	if (status == CLI_OK)
		status = transfer_start(&x, fs, "put", put_job);
	if (status != CLI_OK)
		return status;
	for (int i = 0; i + 1 < n && !transfer_ended(&x); i++)
		put_source(&x, &to, operands[i]);
	return transfer_finish(&x);
}

const struct fs_command fs_write_commands[] = {
	{"put", "store files and trees", "SOURCE... TARGET",
	 "Stores local files and trees. A source goes into TARGET if TARGET ends in \"/\" (it is\n"
	 "made if it does not exist), if there are several sources, or if TARGET is a directory\n"
	 "and SOURCE a file. Else TARGET is the new name. The contents of \".\" and \"..\" go "
	 "into\n"
	 "TARGET. The SOURCE \"-\" is standard input.\n"
	 "Modes, owners, times and extended attributes (user.NAME) are stored with the files.\n"
	 "A file becomes visible when it is complete and durable. After an interruption run put\n"
	 "again with --resume: files with the same size and time or the same bytes are skipped,\n"
	 "incomplete files start again. A file that differs is an error unless --replace is "
	 "given.\n"
	 "Links to files are followed. Links to directories count as failed. Special files are\n"
	 "skipped. put stops when the cluster is full, when a quota is used up, or when too few\n"
	 "disks accept data.\n"
	 "With --model the category of the files, and with it the media, is what the model says\n"
	 "of a job with these features; --feature alone notes them for a later trace. Small\n"
	 "files that share a block have a category and no trace.",
	 "eMbgFuvqJTmxiB", 2, 100000, run_put, FS_REMOTE_LAST},
};
const size_t fs_write_count = ARRAY_LEN(fs_write_commands);
