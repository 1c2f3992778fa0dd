// SPDX-License-Identifier: Apache-2.0
/*
 * get and cat: read files of the cluster. Bytes are checked against their checksums. A local file gets its name when it
 * is complete.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/fs_transfer.h"

#define PAGE 512

static int write_all(int fd, const char *from, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, from, len);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			from += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

/* --- reading ahead ---------------------------------------------------------------- */

struct piece {
	struct terrane_op op;
	char *buf;
	bool under_way;
};

/* Reads a file in order, TRANSFER_DEPTH pieces ahead, and writes it to fd. progress may be NULL. Returns the number of
 * bytes. */
static int64_t copy_out(struct terrane *t, struct terrane_file *f, int fd,
			struct progress *progress, const struct terrane_options *o)
{
	struct piece pieces[TRANSFER_DEPTH] = {0};
	uint64_t asked = 0;
	int64_t copied = 0;
	int rc = 0;
	for (size_t i = 0; i < TRANSFER_DEPTH && rc == 0; i++) {
		pieces[i].buf = malloc(TRANSFER_PIECE_BYTES);
		rc = pieces[i].buf != NULL ? 0 : -ENOMEM;
	}
	bool end = false;
	for (size_t i = 0; rc == 0; i = (i + 1) % TRANSFER_DEPTH) {
		struct piece *p = &pieces[i];
		if (p->under_way) {
			int64_t n = terrane_wait(t, &p->op);
			p->under_way = false;
			rc = n < 0 ? (int)n : write_all(fd, p->buf, (size_t)n);
			end = end || (n >= 0 && (size_t)n < TRANSFER_PIECE_BYTES);
			copied += n > 0 ? n : 0;
			if (rc == 0 && progress != NULL)
				progress_add(progress, (uint64_t)n, 0);
		} else if (end) {
			break;
		}
		if (rc == 0 && fs_interrupted())
			rc = -ECANCELED;
		if (rc == 0 && !end) {
			p->op = (struct terrane_op){0};
			rc = terrane_pread_start(f, p->buf, TRANSFER_PIECE_BYTES, asked, o, &p->op);
			p->under_way = rc == 0;
			asked += TRANSFER_PIECE_BYTES;
		}
	}
	for (size_t i = 0; i < TRANSFER_DEPTH; i++) {
		if (pieces[i].under_way) {
			terrane_cancel(t, &pieces[i].op);
			terrane_wait(t, &pieces[i].op);
		}
		free(pieces[i].buf);
	}
	return rc < 0 ? rc : copied;
}

/* --- local files ------------------------------------------------------------------------------ */

/*
 * A file that is to become `local` when it is complete. It has no name (O_TMPFILE), so that nothing remains of it if
 * this process dies; on filesystems without such files it has a temporary name in the same directory.
 */
struct part {
	int fd;
	char name[FS_PATH_MAX]; /* temporary name of the file; empty: the file has no name */
};

static int part_open(const char *local, struct part *p)
{
	const char *slash = strrchr(local, '/');
	int dir = slash != NULL ? (int)(slash - local) + 1 : 0;
	if (snprintf(p->name, FS_PATH_MAX, "%.*s.", dir, local) >= FS_PATH_MAX)
		return -ENAMETOOLONG;
	p->fd = open(p->name, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);
	if (p->fd >= 0) {
		p->name[0] = 0;
		return 0;
	}
	if (snprintf(p->name, FS_PATH_MAX, "%.*s.terrane-XXXXXX", dir, local) >= FS_PATH_MAX)
		return -ENAMETOOLONG;
	p->fd = mkostemp(p->name, O_CLOEXEC);
	if (p->fd >= 0 && fchmod(p->fd, 0644) == 0)
		return 0;
	int rc = -errno;
	if (p->fd >= 0) {
		close(p->fd);
		unlink(p->name);
	}
	return rc;
}

static int part_link(const struct part *p, const char *to)
{
	char own[64];
	snprintf(own, sizeof(own), "/proc/self/fd/%d", p->fd);
	int rc = p->name[0] != 0 ? link(p->name, to)
				 : linkat(AT_FDCWD, own, AT_FDCWD, to, AT_SYMLINK_FOLLOW);
	return rc < 0 ? -errno : 0;
}

/* Replaces the existing file atomically: links a temporary name, then renames it. */
static int part_replace(struct part *p, const char *local)
{
	if (p->name[0] == 0) {
		const char *slash = strrchr(local, '/');
		int dir = slash != NULL ? (int)(slash - local) + 1 : 0;
		if (snprintf(p->name, FS_PATH_MAX, "%.*s.terrane-%d-%d", dir, local, (int)getpid(),
			     p->fd) >= FS_PATH_MAX)
			return -ENAMETOOLONG;
		char name[FS_PATH_MAX];
		memcpy(name, p->name, sizeof(name));
		p->name[0] = 0;
		int rc = part_link(p, name);
		if (rc < 0)
			return rc;
		memcpy(p->name, name, sizeof(name));
	}
	return rename(p->name, local) < 0 ? -errno : 0;
}

/* Gives the file its attributes and its name, or removes it if rc is an error. Closes it in both cases. */
static int part_close(struct transfer *x, struct part *p, const struct transfer_file *file, int rc,
		      const struct terrane_options *o)
{
	const char *local = file->local;
	bool replace = x->fs->flags.replace;
	if (rc == 0)
		rc = transfer_give(x, p->fd, &file->wish, file->user ? file->remote : NULL, o);
	if (rc == 0) {
		rc = part_link(p, local);
		if (rc == -EEXIST && replace)
			rc = part_replace(p, local);
	}
	if (p->name[0] != 0)
		unlink(p->name); /* the temporary name; after a rename it does not exist */
	if (close(p->fd) < 0 && rc == 0)
		rc = -errno;
	return rc;
}

/* --resume: returns whether a local file is as it should be, because it has these bytes. If it has others, reports it as
 * failed unless --replace is given, and returns whether it did. */
static bool kept(struct transfer *x, const struct transfer_file *file, int64_t len, uint32_t crc,
		 const struct terrane_options *o)
{
	uint64_t have = 0;
	uint32_t have_crc = 0;
	int rc = transfer_local_crc(file->local, &have, &have_crc);
	bool same = rc == 0 && have == (uint64_t)len && have_crc == crc;
	if (!same && rc == 0 && x->fs->flags.replace)
		return false;
	if (!same && rc == 0) {
		transfer_refuse(x, "cannot get", file->local,
				"it exists with other bytes; --replace replaces it");
		return true;
	}
	int fd = same ? open(file->local, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		/* With the stored time the next --resume need not compare. */
		(void)transfer_give(x, fd, &file->wish, file->user ? file->remote : NULL, o);
		close(fd);
	}
	if (rc < 0)
		transfer_fail(x, NULL, rc, "cannot read", file->local);
	else
		atomic_fetch_add(&x->left_alone, 1);
	progress_add(&x->progress, file->size, 1);
	return true;
}

/* --resume: reads a large file to compare it with the local one. Returns whether nothing is left to do. */
static bool kept_large(struct transfer *x, const struct transfer_file *file,
		       const struct terrane_options *o)
{
	struct terrane_file *f = NULL;
	uint64_t len = 0;
	uint32_t crc = 0;
	int rc = terrane_file_open_id(x->fs->t, file->id, &f, o);
	if (rc == 0)
		rc = transfer_remote_crc(f, &len, &crc, o);
	if (f != NULL)
		terrane_file_close(f, NULL);
	if (rc < 0)
		transfer_fail(x, o->error, rc, "cannot get", file->local);
	return rc < 0 || kept(x, file, (int64_t)len, crc, o);
}

static void get_large(struct transfer *x, const struct transfer_file *file)
{
	struct terrane_error error = {0};
	struct terrane_options o = fs_options(x->fs, &error);
	if (file->compare && kept_large(x, file, &o))
		return;
	struct part part = {.fd = -1};
	struct terrane_file *f = NULL;
	const char *what = "cannot write";
	int64_t bytes = 0;
	int rc = part_open(file->local, &part);
	if (rc == 0) {
		what = "cannot get";
		rc = terrane_file_open_id(x->fs->t, file->id, &f, &o);
		if (rc == 0)
			bytes = copy_out(x->fs->t, f, part.fd, &x->progress, &o);
		if (bytes < 0)
			rc = (int)bytes;
		if (f != NULL)
			terrane_file_close(f, NULL);
		rc = part_close(x, &part, file, rc, &o);
	}
	if (rc < 0) {
		transfer_fail_file(x, &error, rc, what, file->local);
		return;
	}
	transfer_done(x, (uint64_t)bytes);
	progress_add(&x->progress, 0, 1);
}

static void get_one_of_many(struct transfer *x, const struct transfer_file *file,
			    const struct terrane_range *r, const struct terrane_options *o)
{
	struct part part = {.fd = -1};
	if (file->compare && r->result >= 0 && kept(x, file, r->result, r->crc32c, o))
		return;
	int rc = r->result < 0 ? (int)r->result : part_open(file->local, &part);
	if (rc == 0) {
		rc = write_all(part.fd, r->buf, (size_t)r->result);
		rc = part_close(x, &part, file, rc, o);
	}
	if (rc < 0) {
		transfer_fail_file(x, o->error, rc, "cannot get", file->local);
		return;
	}
	transfer_done(x, (uint64_t)r->result);
	progress_add(&x->progress, (uint64_t)r->result, 1);
}

static void get_small(struct transfer *x, const struct transfer_job *job)
{
	struct terrane_error error = {0};
	struct terrane_options o = fs_options(x->fs, &error);
	struct terrane_range *ranges = calloc(job->count, sizeof(*ranges));
	char *bytes = malloc(job->bytes + 1);
	if (ranges == NULL || bytes == NULL) {
		transfer_fail(x, NULL, -ENOMEM, "cannot get", job->files->local);
		free(ranges);
		free(bytes);
		return;
	}
	char *at = bytes;
	size_t n = 0;
	for (struct transfer_file *f = job->files; f != NULL; f = f->next) {
		ranges[n++] = (struct terrane_range){
			.id = f->id, .len = f->size, .buf = at, .user = f, .result = -ECANCELED};
		at += f->size;
	}
	(void)terrane_read_batch(x->fs->t, ranges, n, &o);
	for (size_t i = 0; i < n; i++)
		get_one_of_many(x, ranges[i].user, &ranges[i], &o);
	free(ranges);
	free(bytes);
}

void get_job(void *ctx, void *item)
{
	struct transfer *x = ctx;
	struct transfer_job *job = item;
	if (transfer_ended(x))
		; /* the transfer stops, so the job is dropped */
	else if (job->large)
		get_large(x, job->files);
	else
		get_small(x, job);
	transfer_job_free(job);
}

/* --- the walk --------------------------------------------------------------------------------- */

/* What the walk knows of a remote file or directory. */
struct found {
	const char *remote;
	struct terrane_entry e; /* without its name */
};

static void get_dir(struct transfer *x, const struct found *dir, struct fs_path *remote,
		    struct fs_path *local);

static struct local_wish wish_of(const struct terrane_entry *e)
{
	return (struct local_wish){.has = e->has,
				   .mode = e->mode,
				   .uid = e->uid,
				   .gid = e->gid,
				   .mtime_ns = e->mtime_ns};
}

/*
 * Looks at the local target of a file. Returns whether the file is to be fetched; sets *compare if that is to find out
 * whether it is the same: with --resume a local file of the same size and time counts as the same, and one of the same
 * size is compared.
 */
static bool is_wanted(struct transfer *x, const char *local, const struct terrane_entry *e,
		      bool *compare)
{
	struct stat st;
	struct terrane_attributes a;
	const struct fs_flags *flags = &x->fs->flags;
	if (lstat(local, &st) < 0)
		return true;
	if (S_ISDIR(st.st_mode)) {
		transfer_refuse(x, "cannot get", local, "it is a directory here");
		return false;
	}
	local_attrs_of(&st, &a);
	bool file = S_ISREG(st.st_mode) && flags->resume && e->sealed;
	bool same_size = file && (uint64_t)st.st_size == e->size;
	if (same_size && (a.set & TERRANE_HAS_MTIME) != 0 && a.mtime_ns == e->mtime_ns) {
		atomic_fetch_add(&x->left_alone, 1);
		return false;
	}
	*compare = same_size;
	if (same_size || flags->replace)
		return true;
	if (file)
		transfer_refuse(x, "cannot get", local,
				"it exists with another size; --replace replaces it");
	else
		transfer_fail_file(x, NULL, -EEXIST, "cannot get", local);
	return false;
}

static void get_file(struct transfer *x, const struct found *f, const char *local)
{
	bool compare = false;
	const struct terrane_entry *e = &f->e;
	if (!is_wanted(x, local, e, &compare))
		return;
	atomic_fetch_add(&x->progress.total_bytes, e->size);
	/* The size of an unsealed log may change until it is read: treat it as large. */
	int rc = transfer_add(x, &(struct transfer_file){.local = (char *)local,
							 .remote = (char *)f->remote,
							 .id = e->id,
							 .size = e->sealed ? e->size : UINT64_MAX,
							 .wish = wish_of(e),
							 .user = e->user_attributes > 0,
							 .compare = compare});
	if (rc < 0)
		transfer_fail(x, NULL, rc, "cannot get", local);
}

static void get_entry(struct transfer *x, const struct terrane_entry *e, struct fs_path *remote,
		      struct fs_path *local)
{
	size_t before = fs_path_push(local, e->name);
	size_t there = before != SIZE_MAX ? fs_path_push(remote, e->name) : SIZE_MAX;
	const struct found f = {.remote = remote->text, .e = *e};
	if (there == SIZE_MAX)
		transfer_fail(x, NULL, -ENAMETOOLONG, "cannot get", local->text);
	else if (e->kind == TERRANE_DIRECTORY)
		get_dir(x, &f, remote, local);
	else
		get_file(x, &f, local->text);
	if (there != SIZE_MAX)
		fs_path_pop(remote, there);
	if (before != SIZE_MAX)
		fs_path_pop(local, before);
}

/* Makes a local directory. One that exists keeps its attributes. */
static int make_local(struct transfer *x, const struct found *dir, const char *local)
{
	bool bare = x->fs->flags.bare, mode = (dir->e.has & TERRANE_HAS_MODE) != 0;
	if (mkdir(local, mode && !bare ? 0700 : 0755) < 0)
		return errno == EEXIST ? 0 : -errno;
	/* The root has a time and nothing else. */
	if (bare || fs_is_root(dir->remote))
		return 0;
	return transfer_add_dir(x, &(struct transfer_dir){.local = (char *)local,
							  .remote = (char *)dir->remote,
							  .wish = wish_of(&dir->e),
							  .user = dir->e.user_attributes > 0});
}

static void get_dir(struct transfer *x, const struct found *dir, struct fs_path *remote,
		    struct fs_path *local)
{
	struct terrane_entry *page = calloc(PAGE, sizeof(*page));
	int rc = page == NULL ? -ENOMEM : make_local(x, dir, local->text);
	if (rc < 0) {
		transfer_fail(x, NULL, rc, "cannot make", local->text);
		free(page);
		return;
	}
	uint64_t id = dir->e.id;
	struct terrane_cursor at = {0};
	int64_t n = 0;
	while (!transfer_ended(x) &&
	       (n = terrane_list_id(x->fs->t, id, &at, page, PAGE, &x->fs->o)) > 0) {
		for (int64_t i = 0; i < n && !transfer_ended(x); i++)
			get_entry(x, &page[i], remote, local);
	}
	if (n < 0)
		transfer_fail(x, &x->fs->error, n, "cannot list", local->text);
	free(page);
}

/* --- the operands ----------------------------------------------------------------------------- */

struct get_target {
	const char *path;
	bool several; /* the command has several sources */
	bool dir;     /* the target exists and is a directory */
};

static void get_source(struct transfer *x, const struct get_target *to, const char *source,
		       const struct terrane_entry *e)
{
	struct fs_path local, remote;
	const struct found f = {.remote = source, .e = *e};
	char last[FS_PATH_MAX];
	/* A tree becomes TARGET, whether or not TARGET exists; a file goes into TARGET if that is a directory. */
	bool tree = e->kind == TERRANE_DIRECTORY;
	bool into = to->several || fs_means_dir(to->path) || (to->dir && !tree);
	if (into && !to->dir && mkdir(to->path, 0755) < 0 && errno != EEXIST)
		transfer_fail(x, NULL, -errno, "cannot make", to->path);
	else if (!fs_path_set(&local, to->path) || !fs_path_set(&remote, source) ||
		 (into && fs_path_push(&local, fs_base(last, source)) == SIZE_MAX))
		transfer_fail(x, NULL, -ENAMETOOLONG, "cannot get", source);
	else if (tree)
		get_dir(x, &f, &remote, &local);
	else
		get_file(x, &f, local.text);
}

/* Looks the sources up; st[i].kind is 0 for a source that could not be read. Returns the number of these sources. */
static int look_at(struct fs *fs, int n, char **sources, struct terrane_entry *st, bool *is_file)
{
	int failed = 0;
	for (int i = 0; i < n; i++) {
		int rc = fs_entry(fs, sources[i], &st[i]);
		is_file[i] = rc == 0 && st[i].kind == TERRANE_FILE;
		if (rc < 0) {
			st[i] = (struct terrane_entry){0};
			fs_fail(&fs->error, rc, "cannot get", sources[i]);
			failed++;
		}
	}
	return failed;
}

static int get_sources(struct fs *fs, const struct get_target *to, int n, char **sources,
		       struct terrane_entry *st, bool *is_file)
{
	struct transfer x;
	int failed = look_at(fs, n, sources, st, is_file);
	int status = transfer_distinct("get", n, sources, is_file);
	if (status == CLI_OK)
		status = transfer_start(&x, fs, "get", get_job);
	if (status != CLI_OK)
		return status;
	atomic_fetch_add(&x.failed, (unsigned)failed);
	for (int i = 0; i < n && !transfer_ended(&x); i++)
		if (st[i].kind != 0)
			get_source(&x, to, sources[i], &st[i]);
	return transfer_finish(&x);
}

static int run_cat(struct fs *fs, int n, char **paths)
{
	int status = CLI_OK;
	fs_catch_signals();
	for (int i = 0; i < n && !fs_interrupted(); i++) {
		struct terrane_file *f = NULL;
		int64_t rc = terrane_file_open(fs->t, paths[i], &f, &fs->o);
		if (rc == 0) {
			rc = copy_out(fs->t, f, STDOUT_FILENO, NULL, &fs->o);
			terrane_file_close(f, NULL);
		}
		if (rc < 0)
			status = fs_fail(&fs->error, rc, "cannot read", paths[i]);
	}
	return status;
}

static int run_get(struct fs *fs, int n, char **operands)
{
	struct get_target to = {.path = n > 1 ? operands[n - 1] : ".", .several = n > 2};
	int sources = n > 1 ? n - 1 : 1;
	struct stat st;
	if (n > 1 && strcmp(to.path, "-") == 0)
		return run_cat(fs, sources, operands);
	bool there = stat(to.path, &st) == 0;
	to.dir = there && S_ISDIR(st.st_mode);
	if (to.several && !to.dir && !fs_means_dir(to.path))
		return cli_fail("cannot get several sources to %s: it is not a directory%s",
				to.path, there ? "" : "; end it with \"/\" to make one");
	struct terrane_entry *found = calloc((size_t)sources, sizeof(*found));
	bool *is_file = calloc((size_t)sources, sizeof(*is_file));
	int status = found != NULL && is_file != NULL
			     ? get_sources(fs, &to, sources, operands, found, is_file)
			     : fs_fail(NULL, -ENOMEM, "cannot get to", to.path);
	free(found);
	free(is_file);
	return status;
}

const struct fs_command fs_read_commands[] = {
	{"get", "fetch files and trees", "SOURCE... [TARGET]",
	 "Fetches files and trees. A source goes into TARGET if TARGET ends in \"/\" (it is made\n"
	 "if it does not exist), if there are several sources, or if TARGET is a directory and\n"
	 "SOURCE a file. Else TARGET is the new name. Without TARGET sources go into the current\n"
	 "directory. A file gets its name when it is complete. The TARGET \"-\" is standard "
	 "output.\n"
	 "Local files and new directories get the modes, times and user attributes that are\n"
	 "stored, and from root also the owners. Files that exist are left, and counted;\n"
	 "--resume skips those with the same size and time or the same bytes.",
	 "gFuqJTiB", 1, 100000, run_get, FS_REMOTE_SOURCES},
	{"cat", "print files", "PATH...", "Writes the bytes of files to standard output.", "gTi", 1,
	 1000, run_cat, FS_REMOTE_ALL},
};
const size_t fs_read_count = ARRAY_LEN(fs_read_commands);
