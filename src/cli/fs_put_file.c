// SPDX-License-Identifier: Apache-2.0
/*
 * put, the jobs: compares local files with stored ones, streams large files, packs small ones, and verifies what was
 * stored. Jobs run on several threads.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/fs_put.h"

/* --- comparing with stored files ------------------------------------------------------------- */

/* Opens and reads a file of the cluster to compute its length and CRC. */
static int remote_sum(struct transfer *x, const char *path, uint64_t *len, uint32_t *crc,
		      const struct terrane_options *o)
{
	struct terrane_file *f = NULL;
	int rc = terrane_file_open(x->fs->t, path, &f, o);
	if (rc == 0)
		rc = transfer_remote_crc(f, len, crc, o);
	if (f != NULL)
		terrane_file_close(f, NULL);
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

/* A local file compared with the file of its name in the cluster. */
enum there { NOT_THERE, SAME, DIFFERS };

static int same_bytes(struct transfer *x, const char *local, const char *remote,
		      const struct terrane_options *o)
{
	uint64_t len = 0, have = 0;
	uint32_t crc = 0, have_crc = 0;
	int rc = transfer_local_crc(local, &len, &crc);
	if (rc == 0)
		rc = remote_sum(x, remote, &have, &have_crc, o);
	if (rc == -EBADMSG && x->fs->flags.replace)
		return DIFFERS; /* a damaged file counts as different, so that it is stored again */
	return rc < 0 ? rc : have == len && have_crc == crc ? SAME : DIFFERS;
}

/* Returns whether the local file has the time of the stored one: with the same size it counts as the same file. */
static bool same_time(const char *local, const struct terrane_stat *stored)
{
	struct stat st;
	struct terrane_attributes a = {0};
	if (stat(local, &st) == 0)
		local_attrs_of(&st, &a);
	return (a.set & TERRANE_HAS_MTIME) != 0 && a.mtime_ns == stored->mtime_ns;
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
	else if (!x->fs->flags.verify && same_time(local, &st))
		rc = SAME;
	else
		rc = same_bytes(x, local, remote, o);
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
				"differs from what is stored; --replace stores it again");
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
	struct local_attrs attrs;
	if (!x->fs->flags.bare) {
		local_attrs_read(file->local, &since, &attrs);
		o->attributes = &attrs.all;
	}
	*what = "cannot create";
	int rc = terrane_create(x->fs->t, file->remote, x->fs->flags.replace ? TERRANE_REPLACE : 0,
				&f, o);
	o->attributes = NULL;
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

void put_large(struct transfer *x, const struct transfer_file *file)
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
static int read_whole(const char *path, char *to, uint64_t size, struct stat *since)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	uint64_t at = 0;
	ssize_t n = fstat(fd, since);
	while (n >= 0 && at < size && (n = read(fd, to + at, size - at)) > 0)
		at += (uint64_t)n;
	int rc = n < 0 ? -errno : 0;
	if (rc == 0 && (at != size || (uint64_t)since->st_size != size || changed(fd, since)))
		rc = -ESTALE;
	close(fd);
	return rc;
}

struct batch {
	struct terrane_small *small;
	const struct transfer_file **file;
	struct local_attrs *attrs;
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
		struct stat st;
		rc = read_whole(f->local, at, f->size, &st);
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
		if (!x->fs->flags.bare)
			local_attrs_read(f->local, &st, &b->attrs[b->n]);
		b->small[b->n] = (struct terrane_small){.name = f->remote,
							.data = at,
							.len = f->size,
							.crc32c = &b->crc[b->n],
							.attributes = &b->attrs[b->n].all,
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
			  .attrs = calloc(job->count, sizeof(*b.attrs)),
			  .crc = calloc(job->count, sizeof(*b.crc)),
			  .bytes = malloc(job->bytes + 1)};
	if (b.small != NULL && b.file != NULL && b.attrs != NULL && b.crc != NULL &&
	    b.bytes != NULL)
		batch_put(x, job, &b);
	else
		transfer_fail(x, NULL, -ENOMEM, "cannot put", job->files->local);
	free(b.small);
	free(b.file);
	free(b.attrs);
	free(b.crc);
	free(b.bytes);
}

void put_job(void *ctx, void *item)
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
