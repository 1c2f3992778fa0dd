// SPDX-License-Identifier: Apache-2.0
#include "cli/fs_transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/fs_quota.h"

/* Returns the size up to which files share a job: at most a block. */
static uint64_t transfer_small(const struct transfer *x)
{
	uint64_t block = x->fs->flags.block_bytes;
	return block != 0 ? min_u64(block, TRANSFER_SMALL_BYTES) : TRANSFER_SMALL_BYTES;
}

int transfer_start(struct transfer *x, struct fs *fs, const char *verb,
		   void (*run)(void *ctx, void *job))
{
	*x = (struct transfer){.fs = fs, .verb = verb};
	if (fs->flags.jobs > WORK_THREADS_MAX)
		return cli_usage("%s: --jobs %ld: must be 1 to %d", verb, fs->flags.jobs,
				 WORK_THREADS_MAX);
	progress_begin(&x->progress, verb, fs->flags.quiet);
	fs_catch_signals();
	int rc = work_start(&x->work, (size_t)fs->flags.jobs, run, x);
	return rc < 0 ? fs_fail(NULL, rc, "cannot start", verb) : CLI_OK;
}

static void tell(struct transfer *x, double seconds)
{
	unsigned long long files = atomic_load(&x->done), bytes = atomic_load(&x->done_bytes);
	unsigned long long alone = atomic_load(&x->left_alone), skipped = atomic_load(&x->skipped);
	unsigned long long failed = atomic_load(&x->failed);
	if (x->fs->flags.json) {
		AUTO_JSON json_t *root =
			json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:f, s:b}", "files",
				  (json_int_t)files, "bytes", (json_int_t)bytes, "left_alone",
				  (json_int_t)alone, "skipped", (json_int_t)skipped, "failed",
				  (json_int_t)failed, "ended_early", (int)transfer_ended(x),
				  "seconds", seconds, "verified", (int)x->fs->flags.verify);
		unsigned long long removed = atomic_load(&x->removed);
		if (removed > 0)
			json_object_set_new(root, "removed", json_integer((json_int_t)removed));
		json_emit(stdout, root);
		return;
	}
	char size[FS_SIZE_TEXT], rate[FS_SIZE_TEXT];
	printf("%s: %llu files, %s in %.1f s (%s/s)", x->verb, files, fs_size(size, (double)bytes),
	       seconds, fs_size(rate, seconds > 0 ? (double)bytes / seconds : 0));
	if (alone > 0)
		printf(", %llu skipped as complete", alone);
	if (skipped > 0)
		printf(", %llu special files skipped", skipped);
	if (atomic_load(&x->removed) > 0)
		printf(", %llu removed", (unsigned long long)atomic_load(&x->removed));
	if (failed > 0)
		printf(", %llu failed", failed);
	putchar('\n');
}

/* --- directories and attributes that get sets at the end ---------------------------------------- */

int transfer_add_dir(struct transfer *x, const struct transfer_dir *dir)
{
	struct transfer_dir *d = calloc(1, sizeof(*d));
	if (d == NULL)
		return -ENOMEM;
	*d = *dir;
	d->local = strdup(dir->local);
	d->remote = strdup(dir->remote);
	d->next = x->dirs;
	x->dirs = d;
	return d->local == NULL || d->remote == NULL ? -ENOMEM : 0;
}

int transfer_give(struct transfer *x, int fd, const struct local_wish *wish, const char *remote,
		  const struct terrane_options *o)
{
	if (x->fs->flags.bare)
		return 0;
	int rc = remote != NULL ? local_user_give(x->fs, remote, fd, o) : 0;
	/* Where the local filesystem has no such attributes the file is got without. */
	if (rc == -ENOTSUP || rc == -ENOSPC || rc == -EPERM) {
		atomic_fetch_add(&x->bare, 1);
		rc = 0;
	}
	/* the time comes last: the changes above set it */
	return rc < 0 ? rc : local_attrs_give(fd, wish);
}

/* Sets the attributes of the directories that get made, the deepest first: a mode may forbid to write into one, and a new
 * file changes its time. */
static void dirs_finish(struct transfer *x)
{
	while (x->dirs != NULL) {
		struct transfer_dir *d = x->dirs;
		x->dirs = d->next;
		int fd = d->local == NULL ? -1 : open(d->local, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		int rc = fd < 0 ? -errno
				: transfer_give(x, fd, &d->wish, d->user ? d->remote : NULL,
						&x->fs->o);
		if (fd >= 0)
			close(fd);
		if (rc < 0 && d->local != NULL)
			transfer_fail(x, NULL, rc, "cannot set the attributes of", d->local);
		free(d->local);
		free(d->remote);
		free(d);
	}
}

/* Tells of files that were left because their target exists: of many in one line. */
static void tell_existing(struct transfer *x)
{
	char shown[FS_PATH_MAX];
	unsigned long long n = atomic_load(&x->existing);
	for (size_t i = 0; i < n && n <= TRANSFER_EXISTING; i++)
		cli_fail("cannot %s %s: it exists already; --replace replaces it, --resume skips "
			 "equal files",
			 x->verb, x->existed[i] != NULL ? fs_show(shown, x->existed[i]) : "a file");
	if (n > TRANSFER_EXISTING)
		cli_fail("cannot %s %llu files, which exist already, %s among them; --replace "
			 "replaces them, --resume skips equal files",
			 x->verb, n, x->existed[0] != NULL ? fs_show(shown, x->existed[0]) : "");
	for (size_t i = 0; i < TRANSFER_EXISTING; i++)
		free(x->existed[i]);
}

void transfer_tell_waiting(struct fs *fs, const char *verb)
{
	char size[FS_SIZE_TEXT];
	uint64_t bytes = 0;
	if (fs_waiting(fs, &bytes) == 0 && bytes > 0)
		cli_fail("%s: %s of deleted files still take space on the disks; terrane gc now "
			 "frees it sooner",
			 verb, fs_size(size, (double)bytes));
}

static void flush(struct transfer *x)
{
	if (x->gathering != NULL)
		work_push(&x->work, x->gathering);
	x->gathering = NULL;
}

int transfer_stop(struct transfer *x)
{
	flush(x);
	work_finish(&x->work);
	(void)progress_end(&x->progress);
	return CLI_OK;
}

int transfer_finish(struct transfer *x)
{
	flush(x);
	work_finish(&x->work);
	dirs_finish(x);
	double seconds = progress_end(&x->progress);
	tell_existing(x);
	tell(x, seconds);
	if (atomic_load(&x->bare) > 0)
		cli_fail("%s: %llu files and directories are without their user attributes, which "
			 "the local filesystem does not keep",
			 x->verb, (unsigned long long)atomic_load(&x->bare));
	if (fs_interrupted())
		return cli_fail(
			"%s: interrupted; incomplete files were discarded, run it again with "
			"--resume",
			x->verb);
	if (atomic_load(&x->full) > 0)
		transfer_tell_waiting(x->fs, x->verb);
	if (transfer_ended(x))
		return cli_fail("%s: stopped: no room for further files, see above; free space, "
				"add disks or "
				"raise the quota, then run it again with --resume",
				x->verb);
	return atomic_load(&x->failed) > 0 ? CLI_FAILED : CLI_OK;
}

void transfer_job_free(struct transfer_job *job)
{
	while (job->files != NULL) {
		struct transfer_file *f = job->files;
		job->files = f->next;
		free(f->local);
		free(f->remote);
		free(f);
	}
	free(job);
}

static struct transfer_job *job_for(struct transfer *x, bool large)
{
	if (!large && x->gathering != NULL)
		return x->gathering;
	struct transfer_job *job = calloc(1, sizeof(*job));
	if (job == NULL)
		return NULL;
	job->large = large;
	if (!large)
		x->gathering = job;
	return job;
}

int transfer_add(struct transfer *x, const struct transfer_file *file)
{
	uint64_t size = file->size;
	bool large = size > transfer_small(x);
	struct transfer_file *f = calloc(1, sizeof(*f));
	struct transfer_job *job = f != NULL ? job_for(x, large) : NULL;
	if (job == NULL) {
		free(f);
		return -ENOMEM;
	}
	*f = *file;
	f->next = job->files;
	f->local = strdup(file->local);
	f->remote = strdup(file->remote);
	job->files = f;
	job->count++;
	job->bytes += size;
	if (f->local == NULL || f->remote == NULL) {
		x->gathering = NULL;
		transfer_job_free(job);
		return -ENOMEM;
	}
	if (large)
		work_push(&x->work, job);
	else if (job->count >= TRANSFER_BATCH_FILES || job->bytes >= TRANSFER_BATCH_BYTES)
		flush(x);
	return 0;
}

bool transfer_ended(const struct transfer *x)
{
	return fs_interrupted() || atomic_load(&x->refused) >= TRANSFER_REFUSED_MAX;
}

void transfer_done(struct transfer *x, uint64_t bytes)
{
	atomic_fetch_add(&x->done, 1);
	atomic_fetch_add(&x->done_bytes, bytes);
}

void transfer_fail(struct transfer *x, const struct terrane_error *error, int64_t rc,
		   const char *what, const char *path)
{
	atomic_fetch_add(&x->failed, 1);
	if (rc == -ECANCELED && fs_interrupted())
		return;
	bool no_room = rc == -ENOSPC || rc == -EDQUOT;
	if (rc == -ENOSPC && error != NULL && error->code == rc)
		atomic_fetch_add(&x->full, 1);
	if (no_room && atomic_fetch_add(&x->refused, 1) >= TRANSFER_REFUSED_MAX)
		return;
	fs_fail(error, rc, what, path);
}

void transfer_fail_file(struct transfer *x, const struct terrane_error *error, int64_t rc,
			const char *what, const char *path)
{
	if (rc != -EEXIST) {
		transfer_fail(x, error, rc, what, path);
		return;
	}
	atomic_fetch_add(&x->failed, 1);
	unsigned long long before = atomic_fetch_add(&x->existing, 1);
	if (before < TRANSFER_EXISTING)
		x->existed[before] = strdup(path);
}

void transfer_refuse(struct transfer *x, const char *what, const char *path, const char *why)
{
	char shown[FS_PATH_MAX];
	atomic_fetch_add(&x->failed, 1);
	cli_fail("%s %s: %s", what, fs_show(shown, path), why);
}

struct named {
	char *base;
	const char *path;
};

static int by_base(const void *a, const void *b)
{
	return strcmp(((const struct named *)a)->base, ((const struct named *)b)->base);
}

static int tell_same(const char *verb, const struct named *a, const struct named *b)
{
	char one[FS_PATH_MAX], other[FS_PATH_MAX];
	return cli_fail("%s: %s and %s would get the same name; %s them to two directories", verb,
			fs_show(one, a->path), fs_show(other, b->path), verb);
}

int transfer_distinct(const char *verb, int n, char *const *sources, const bool *is_file)
{
	char last[FS_PATH_MAX];
	struct named *names = calloc((size_t)n, sizeof(*names));
	size_t count = 0;
	int status = CLI_OK;
	if (names == NULL)
		return fs_fail(NULL, -ENOMEM, "cannot", verb);
	for (int i = 0; i < n && status == CLI_OK; i++) {
		if (!is_file[i])
			continue;
		char *base = strdup(fs_base(last, sources[i]));
		if (base == NULL)
			status = fs_fail(NULL, -ENOMEM, "cannot", verb);
		else
			names[count++] = (struct named){.base = base, .path = sources[i]};
	}
	if (count > 0)
		qsort(names, count, sizeof(*names), by_base);
	for (size_t i = 1; i < count && status == CLI_OK; i++)
		if (strcmp(names[i - 1].base, names[i].base) == 0)
			status = tell_same(verb, &names[i - 1], &names[i]);
	for (size_t i = 0; i < count; i++)
		free(names[i].base);
	free(names);
	return status;
}

/* A mkdir in flight in the cluster. */
struct making {
	struct terrane_op op;
	struct terrane_error error;
	struct terrane_options o;
	struct local_attrs attrs;
	char path[FS_PATH_MAX];
	int rc; /* error of the mkdir; 0: it is in flight, or it succeeded */
};

static void make_begin(struct transfer *x, const struct fs_path *local,
		       const struct fs_path *remote, const char *name, struct making *m)
{
	struct stat st;
	m->o = fs_options(x->fs, &m->error);
	if (!x->fs->flags.bare && fs_join(m->path, local->text, name) && stat(m->path, &st) == 0) {
		local_attrs_read(m->path, &st, &m->attrs);
		m->o.attributes = &m->attrs.all;
	}
	m->rc = fs_join(m->path, remote->text, name)
			? terrane_mkdir_start(x->fs->t, m->path, TERRANE_PARENTS, &m->o, &m->op)
			: -ENAMETOOLONG;
}

static bool make_end(struct transfer *x, const char *name, struct making *m)
{
	if (m->rc == 0)
		m->rc = (int)terrane_wait(x->fs->t, &m->op);
	if (m->rc < 0)
		transfer_fail(x, &m->error, m->rc, "cannot make", m->path[0] != 0 ? m->path : name);
	return m->rc == 0;
}

size_t transfer_mkdirs(struct transfer *x, const struct fs_path *local,
		       const struct fs_path *remote, const char *names, size_t len, bool *made)
{
	struct making *all = calloc(TRANSFER_DIRS_AT_ONCE, sizeof(*all));
	const char *name[TRANSFER_DIRS_AT_ONCE];
	size_t n = 0;
	if (all == NULL) {
		transfer_fail(x, NULL, -ENOMEM, "cannot put to", remote->text);
		return 0;
	}
	for (size_t at = 0; at < len && n < TRANSFER_DIRS_AT_ONCE; n++) {
		name[n] = names + at;
		at += strlen(name[n]) + 1;
		make_begin(x, local, remote, name[n], &all[n]);
	}
	for (size_t i = 0; i < n; i++)
		made[i] = make_end(x, name[i], &all[i]);
	free(all);
	return n;
}

/* --- contents --------------------------------------------------------------------------------- */

int transfer_remote_crc(struct terrane_file *f, uint64_t *len, uint32_t *crc,
			const struct terrane_options *o)
{
	void *buf = malloc(TRANSFER_PIECE_BYTES);
	int64_t n = buf == NULL ? -ENOMEM : 1;
	*len = 0;
	*crc = 0;
	while (n > 0) {
		n = fs_interrupted() ? -ECANCELED
				     : terrane_pread(f, buf, TRANSFER_PIECE_BYTES, *len, o);
		if (n > 0)
			*crc = terrane_crc32c(*crc, buf, (size_t)n);
		*len += n > 0 ? (uint64_t)n : 0;
	}
	free(buf);
	return (int)n;
}

int transfer_local_crc(const char *path, uint64_t *len, uint32_t *crc)
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
