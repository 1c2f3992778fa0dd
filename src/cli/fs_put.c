// SPDX-License-Identifier: Apache-2.0
/*
 * put: stores local files and trees. Small files of all directories share blocks; large files are streamed. A file
 * becomes visible when it is complete, so after any failure put can be run again with --resume.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/fs_transfer.h"

#define NAMES_BYTES_MAX (256 * MIB) /* limit for the bytes of the names of one directory */

/* --- comparing with stored files ------------------------------------------------------------- */

/* Reads an open file of the cluster to compute its length and CRC. */
static int remote_crc(struct terrane_file *f, void *buf, uint64_t *len, uint32_t *crc,
		      const struct terrane_options *o)
{
	*len = 0;
	*crc = 0;
	for (;;) {
		int64_t n = terrane_pread(f, buf, TRANSFER_PIECE_BYTES, *len, o);
		if (n <= 0)
			return (int)n;
		*crc = terrane_crc32c(*crc, buf, (size_t)n);
		*len += (uint64_t)n;
	}
}

/* Opens and reads a file of the cluster to compute its length and CRC. */
static int remote_sum(struct transfer *x, const char *path, uint64_t *len, uint32_t *crc,
		      const struct terrane_options *o)
{
	struct terrane_file *f = NULL;
	void *buf = malloc(TRANSFER_PIECE_BYTES);
	int rc = buf != NULL ? terrane_file_open(x->fs->t, path, &f, o) : -ENOMEM;
	if (rc == 0)
		rc = remote_crc(f, buf, len, crc, o);
	if (f != NULL)
		terrane_file_close(f, NULL);
	free(buf);
	return rc;
}

/* Compares a stored file with the length and CRC of what was put. -EBADMSG: it differs. */
static int verify_remote(struct transfer *x, const char *path, uint64_t len, uint32_t crc,
			 const struct terrane_options *o)
{
	uint64_t have = 0;
	uint32_t have_crc = 0;
	int rc = remote_sum(x, path, &have, &have_crc, o);
	return rc == 0 && (have != len || have_crc != crc) ? -EBADMSG : rc;
}

static int local_crc(const char *path, uint64_t *len, uint32_t *crc)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *buf = malloc(TRANSFER_PIECE_BYTES);
	ssize_t n = -1;
	*len = 0;
	*crc = 0;
	while (fd >= 0 && buf != NULL && (n = read(fd, buf, TRANSFER_PIECE_BYTES)) > 0) {
		*crc = terrane_crc32c(*crc, buf, (size_t)n);
		*len += (uint64_t)n;
	}
	int rc = n < 0 ? (buf == NULL ? -ENOMEM : -errno) : 0;
	free(buf);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* A local file compared with the file of its name in the cluster. */
enum there { NOT_THERE, SAME, DIFFERS };

static int same_bytes(struct transfer *x, const char *local, const char *remote,
		      const struct terrane_options *o)
{
	uint64_t len = 0, have = 0;
	uint32_t crc = 0, have_crc = 0;
	int rc = local_crc(local, &len, &crc);
	if (rc == 0)
		rc = remote_sum(x, remote, &have, &have_crc, o);
	if (rc == -EBADMSG && x->fs->flags.replace)
		return DIFFERS; /* a damaged file counts as different, so that it is stored again */
	return rc < 0 ? rc : have == len && have_crc == crc ? SAME : DIFFERS;
}

/* Returns SAME if the local file did not change after the stored file was made, else DIFFERS. Compares times, because a
 * changed file may have its old size. */
static int not_newer(const char *local, const struct terrane_stat *stored)
{
	struct stat st;
	if (stat(local, &st) < 0)
		return -errno;
	uint64_t mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec;
	return st.st_mtim.tv_sec < 0 || mtime_ns <= stored->mtime_ns ? SAME : DIFFERS;
}

/* Returns NOT_THERE for a file to put: without --resume, if it does not exist, or if it differs and --replace is given.
 * Else SAME, DIFFERS or an error. */
static int is_there(struct transfer *x, const char *local, const char *remote, uint64_t size,
		    const struct terrane_options *o)
{
	struct terrane_stat st = {0};
	if (!x->fs->flags.resume)
		return NOT_THERE;
	int rc = terrane_stat(x->fs->t, remote, &st, o);
	if (rc < 0)
		return rc == -ENOENT ? NOT_THERE : rc;
	if (st.kind != TERRANE_FILE || st.size != size)
		rc = DIFFERS;
	else
		rc = x->fs->flags.verify ? same_bytes(x, local, remote, o) : not_newer(local, &st);
	return rc == DIFFERS && x->fs->flags.replace ? NOT_THERE : rc;
}

/* Counts a file that is not put by the result of is_there, and prints the reason unless it is complete. */
static void left_out(struct transfer *x, const struct terrane_error *error,
		     const struct transfer_file *file, int rc)
{
	if (rc == SAME) {
		atomic_fetch_add(&x->left_alone, 1);
		progress_add(&x->progress, file->size, 1);
	} else if (rc == DIFFERS) {
		transfer_refuse(x, "cannot put", file->local,
				x->fs->flags.verify
					? "differs from what is stored; --replace stores it again"
					: "differs from what is stored, or is newer; "
					  "--replace stores it again, --verify compares");
	} else {
		transfer_fail(x, error, rc, "cannot look at", file->local);
	}
}

/* Returns whether a file changed since a stat; if it did, the bytes read may mix two versions. */
static bool changed(int fd, const struct stat *since)
{
	struct stat st;
	return fstat(fd, &st) < 0 || st.st_size != since->st_size ||
	       st.st_mtim.tv_sec != since->st_mtim.tv_sec ||
	       st.st_mtim.tv_nsec != since->st_mtim.tv_nsec;
}

/* --- one large file --------------------------------------------------------------------------- */

static int stream(struct transfer *x, int fd, struct terrane_file *f, uint64_t *len, uint32_t *crc,
		  struct terrane_options *o)
{
	char *buf = malloc(TRANSFER_PIECE_BYTES);
	int rc = buf != NULL ? 0 : -ENOMEM;
	*len = 0;
	*crc = 0;
	while (rc == 0) {
		ssize_t n = fs_interrupted() ? -1 : read(fd, buf, TRANSFER_PIECE_BYTES);
		if (n <= 0) {
			rc = n == 0 ? 0 : fs_interrupted() ? -ECANCELED : -errno;
			break;
		}
		uint32_t piece = terrane_crc32c(0, buf, (size_t)n);
		if (x->fs->flags.verify)
			*crc = terrane_crc32c(*crc, buf, (size_t)n);
		o->crc32c = &piece;
		rc = terrane_append(f, buf, (size_t)n, o);
		o->crc32c = NULL;
		*len += (uint64_t)n;
		if (rc == 0)
			progress_add(&x->progress, (uint64_t)n, 0);
	}
	free(buf);
	return rc;
}

static int put_open(struct transfer *x, int fd, const struct transfer_file *file, const char **what,
		    struct terrane_options *o)
{
	struct terrane_file *f = NULL;
	uint64_t len = 0;
	uint32_t crc = 0;
	struct stat since;
	if (fstat(fd, &since) < 0)
		return -errno;
	*what = "cannot create";
	int rc = terrane_create(x->fs->t, file->remote, x->fs->flags.replace ? TERRANE_REPLACE : 0,
				&f, o);
	if (rc < 0)
		return rc;
	*what = "cannot put";
	rc = stream(x, fd, f, &len, &crc, o);
	if (rc == 0 && (len != file->size || changed(fd, &since)))
		rc = -ESTALE;
	if (rc < 0) {
		terrane_file_discard(f);
		return rc;
	}
	rc = terrane_file_close(f, o);
	if (rc == 0 && x->fs->flags.verify) {
		*what = "cannot verify";
		rc = verify_remote(x, file->remote, len, crc, o);
	}
	return rc;
}

static void put_large(struct transfer *x, const struct transfer_file *file)
{
	struct terrane_error error = {0};
	struct terrane_options o = fs_options(x->fs, &error);
	o.timeout_ms = UINT32_MAX;
	const char *what = "cannot read";
	int rc = is_there(x, file->local, file->remote, file->size, &o);
	if (rc != NOT_THERE) {
		left_out(x, &error, file, rc);
		return;
	}
	int fd = open(file->local, O_RDONLY | O_CLOEXEC);
	rc = fd < 0 ? -errno : put_open(x, fd, file, &what, &o);
	if (fd >= 0)
		close(fd);
	if (rc == -ESTALE) {
		atomic_fetch_add(&x->failed, 1);
		cli_fail("%s changed while it was read; it was not put", file->local);
	} else if (rc < 0) {
		transfer_fail_file(x, &error, rc, what, file->local);
	} else {
		transfer_done(x, file->size);
		progress_add(&x->progress, 0, 1);
	}
}

/* --- many small files ------------------------------------------------------------------------- */

/*
 * Reads a local file that should have this size. -ESTALE: the file has another size, or it changed while it was read.
 */
static int read_whole(const char *path, char *to, uint64_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	struct stat since;
	uint64_t at = 0;
	ssize_t n = fstat(fd, &since);
	while (n >= 0 && at < size && (n = read(fd, to + at, size - at)) > 0)
		at += (uint64_t)n;
	int rc = n < 0 ? -errno : 0;
	if (rc == 0 && (at != size || (uint64_t)since.st_size != size || changed(fd, &since)))
		rc = -ESTALE;
	close(fd);
	return rc;
}

struct batch {
	struct terrane_small *small;
	const struct transfer_file **file;
	uint32_t *crc;
	char *bytes;
	size_t n;
};

/* Reads into one buffer the files of a job that must be stored. */
static void batch_read(struct transfer *x, const struct transfer_job *job, struct batch *b,
		       const struct terrane_options *o)
{
	char *at = b->bytes;
	for (const struct transfer_file *f = job->files; f != NULL && !transfer_ended(x);
	     f = f->next) {
		int rc = is_there(x, f->local, f->remote, f->size, o);
		if (rc != NOT_THERE) {
			left_out(x, o->error, f, rc);
			continue;
		}
		rc = read_whole(f->local, at, f->size);
		if (rc == -ESTALE) {
			atomic_fetch_add(&x->failed, 1);
			cli_fail("%s changed while it was read; it was not put", f->local);
			continue;
		}
		if (rc < 0) {
			transfer_fail(x, o->error, rc, "cannot put", f->local);
			continue;
		}
		b->crc[b->n] = terrane_crc32c(0, at, f->size);
		b->small[b->n] = (struct terrane_small){.name = f->remote,
							.data = at,
							.len = f->size,
							.crc32c = &b->crc[b->n],
							.result = -ECANCELED};
		b->file[b->n++] = f;
		at += f->size;
	}
}

/* Reads the stored files back in one call. A file that differs counts as failed. */
static void batch_verify(struct transfer *x, struct batch *b, const struct terrane_options *o)
{
	struct terrane_range *ranges = calloc(b->n, sizeof(*ranges));
	size_t n = 0;
	char *at = b->bytes; /* used again: the sent bytes are no longer needed */
	for (size_t i = 0; i < b->n; i++) {
		struct terrane_small *s = &b->small[i];
		if (s->result < 0)
			continue;
		if (ranges == NULL) {
			s->result = -ENOMEM;
			transfer_fail(x, NULL, s->result, "cannot verify", b->file[i]->local);
			continue;
		}
		ranges[n++] = (struct terrane_range){
			.id = s->id, .len = s->len, .buf = at, .user = s, .result = -ECANCELED};
		at += s->len;
	}
	if (n > 0)
		(void)terrane_read_batch(x->fs->t, ranges, n, o);
	for (size_t i = 0; i < n; i++) {
		struct terrane_small *s = ranges[i].user;
		int64_t got = ranges[i].result;
		if (got >= 0 && ((size_t)got != s->len ||
				 terrane_crc32c(0, ranges[i].buf, s->len) != *s->crc32c))
			got = -EBADMSG;
		if (got >= 0)
			continue;
		s->result = (int)got;
		transfer_fail(x, o->error, got, "cannot verify", b->file[s - b->small]->local);
	}
	free(ranges);
}

/* Returns whether an error concerns one file or its directory. For such an error the error text of the call may be
 * about another file. */
static bool concerns_one_file(int rc)
{
	return rc == -EISDIR || rc == -ENOENT || rc == -ENOTDIR || rc == -EROFS || rc == -EILSEQ ||
	       rc == -ENAMETOOLONG || rc == -EINVAL;
}

static void batch_put(struct transfer *x, const struct transfer_job *job, struct batch *b)
{
	struct terrane_error error = {0};
	struct terrane_options o = fs_options(x->fs, &error);
	batch_read(x, job, b, &o);
	if (b->n == 0 || transfer_ended(x))
		return;
	int rc = terrane_pack(x->fs->t, "/", b->small, b->n,
			      x->fs->flags.replace ? TERRANE_REPLACE : 0, &o);
	for (size_t i = 0; i < b->n; i++) {
		int own = b->small[i].result;
		/* A file that was not tried has -ECANCELED: report the error that ended the call. */
		if (own < 0)
			transfer_fail_file(x, concerns_one_file(own) ? NULL : &error,
					   own == -ECANCELED && rc < 0 ? rc : own, "cannot put",
					   b->file[i]->local);
	}
	if (x->fs->flags.verify)
		batch_verify(x, b, &o);
	for (size_t i = 0; i < b->n; i++) {
		if (b->small[i].result < 0)
			continue;
		transfer_done(x, b->small[i].len);
		progress_add(&x->progress, b->small[i].len, 1);
	}
}

static void put_small(struct transfer *x, const struct transfer_job *job)
{
	struct batch b = {.small = calloc(job->count, sizeof(*b.small)),
			  .file = calloc(job->count, sizeof(*b.file)),
			  .crc = calloc(job->count, sizeof(*b.crc)),
			  .bytes = malloc(job->bytes + 1)};
	if (b.small != NULL && b.file != NULL && b.crc != NULL && b.bytes != NULL)
		batch_put(x, job, &b);
	else
		transfer_fail(x, NULL, -ENOMEM, "cannot put", job->files->local);
	free(b.small);
	free(b.file);
	free(b.crc);
	free(b.bytes);
}

static void put_job(void *ctx, void *item)
{
	struct transfer *x = ctx;
	struct transfer_job *job = item;
	if (transfer_ended(x))
		; /* the transfer stops, so the job is dropped */
	else if (job->large)
		put_large(x, job->files);
	else
		put_small(x, job);
	transfer_job_free(job);
}

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
	int rc = before == SIZE_MAX ? -ENAMETOOLONG
				    : transfer_add(x, local->text, remote->text, 0, size);
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
		n = transfer_mkdirs(x, remote, subdirs->text + at, subdirs->len - at, made);
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
	int rc = terrane_mkdir(x->fs->t, remote->text, TERRANE_PARENTS, &x->fs->o);
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
	int rc = terrane_stat(fs->t, to.path, &st, &fs->o);
	if (rc < 0 && rc != -ENOENT)
		return fs_fail(&fs->error, rc, "cannot put to", to.path);
	to.there = rc == 0;
	to.dir = fs_means_dir(to.path) || (rc == 0 && st.kind == TERRANE_DIRECTORY);
	if (to.several && !to.dir)
		return cli_fail("cannot put several sources to %s: it is not a directory%s",
				to.path, to.there ? "" : "; end it with \"/\" to make one");
	int status = put_distinct(n - 1, operands);
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
	 "TARGET.\n"
	 "A file becomes visible when it is complete and durable. After an interruption run put\n"
	 "again with --resume: complete files are skipped, incomplete files start again. A file\n"
	 "that changed since it was stored is an error unless --replace is given.\n"
	 "Links to files are followed. Links to directories count as failed. Special files are\n"
	 "skipped. put stops when the cluster is full, when a quota is used up, or when too few\n"
	 "disks accept data.",
	 "eMbgFuvqJ", 2, 100000, run_put},
};
const size_t fs_write_count = ARRAY_LEN(fs_write_commands);
