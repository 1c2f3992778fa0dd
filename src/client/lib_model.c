// SPDX-License-Identifier: Apache-2.0
/* Placement models for programs: a handle that many threads may use, and whose file may be replaced meanwhile. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "placement/model.h"
#include <terrane/terrane.h>

#define COUNT_MAX (1ULL << 60)
#define TIME_MAX_S 1e12

struct terrane_model {
	pthread_rwlock_t lock; /* guards model and file; shared by calls that only read them */
	struct model model;
	struct stat file; /* what was read */
	char *path;
};

/* Reads the file completely; a file that changes meanwhile fails its checksum. */
static int read_bytes(int fd, uint8_t *bytes, size_t len)
{
	size_t at = 0;
	while (at < len) {
		ssize_t n = read(fd, bytes + at, len - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		at += (size_t)n;
	}
	return 0;
}

static int load(const char *path, struct model *m, struct stat *file)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	int rc = fstat(fd, file) != 0 ? -errno : 0;
	if (rc == 0 && (!S_ISREG(file->st_mode) || file->st_size > (off_t)MODEL_BYTES_MAX))
		rc = -EINVAL;
	size_t len = rc == 0 ? (size_t)file->st_size : 0;
	AUTO_FREE uint8_t *bytes = malloc(len + 1);
	if (rc == 0)
		rc = bytes == NULL ? -ENOMEM : read_bytes(fd, bytes, len);
	if (rc == 0)
		rc = model_parse(m, bytes, len);
	close(fd);
	return rc;
}

int terrane_model_open(struct terrane_model **out, const char *path)
{
	struct terrane_model *m = calloc(1, sizeof(*m));
	if (m == NULL)
		return -ENOMEM;
	m->path = strdup(path);
	int rc = m->path == NULL ? -ENOMEM : load(path, &m->model, &m->file);
	if (rc == 0)
		rc = -pthread_rwlock_init(&m->lock, NULL);
	if (rc != 0) {
		model_fini(&m->model);
		free(m->path);
		free(m);
		return rc;
	}
	*out = m;
	return 0;
}

void terrane_model_close(struct terrane_model *m)
{
	if (m == NULL)
		return;
	pthread_rwlock_destroy(&m->lock);
	model_fini(&m->model);
	free(m->path);
	free(m);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

int terrane_model_reload(struct terrane_model *m)
{
	struct model fresh;
	struct stat file;
	if (stat(m->path, &file) != 0)
		return -errno;
	pthread_rwlock_rdlock(&m->lock);
	bool same = same_file(&file, &m->file);
	pthread_rwlock_unlock(&m->lock);
	if (same)
		return 0;
	int rc = load(m->path, &fresh, &file);
	if (rc != 0)
		return rc;
	pthread_rwlock_wrlock(&m->lock);
	struct model old = m->model;
	m->model = fresh;
	m->file = file;
	pthread_rwlock_unlock(&m->lock);
	model_fini(&old);
	return 1;
}

/* The features of a call in the order of the model's columns. */
struct named {
	double numbers[FEATURES_COLUMNS_MAX];
	const char *texts[FEATURES_COLUMNS_MAX];
};

static struct features_job match(const struct features *f, const struct terrane_feature *given,
				 size_t n, struct named *out)
{
	for (uint32_t i = 0; i < f->numbers_n; i++)
		out->numbers[i] = NAN;
	for (uint32_t i = 0; i < f->texts_n; i++)
		out->texts[i] = NULL;
	for (size_t k = 0; k < n; k++) {
		const struct terrane_feature *g = &given[k];
		for (uint32_t i = 0; g->text == NULL && i < f->numbers_n; i++)
			if (strcmp(f->number_names[i], g->name) == 0)
				out->numbers[i] = g->number;
		for (uint32_t i = 0; g->text != NULL && i < f->texts_n; i++)
			if (strcmp(f->text_names[i], g->name) == 0)
				out->texts[i] = g->text;
	}
	return (struct features_job){0, out->numbers, out->texts};
}

static bool given_valid(const struct terrane_feature *given, size_t n)
{
	if (n > TERRANE_FEATURES_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		if (given[i].name == NULL)
			return false;
	return true;
}

int terrane_model_category(struct terrane_model *m, double start_s,
			   const struct terrane_feature *features, size_t n)
{
	struct named named;
	if (!given_valid(features, n))
		return -EINVAL;
	pthread_rwlock_rdlock(&m->lock);
	struct features_job job = match(&m->model.features, features, n, &named);
	job.start_s = start_s;
	int category = (int)model_category(&m->model, &job);
	pthread_rwlock_unlock(&m->lock);
	return category;
}

static bool outcome_valid(const struct terrane_outcome *o)
{
	return o->start_s >= 0 && o->end_s > o->start_s && o->end_s <= TIME_MAX_S &&
	       o->size_bytes > 0 && o->size_bytes <= COUNT_MAX && o->read_bytes <= COUNT_MAX &&
	       o->reads <= COUNT_MAX && o->written_bytes <= COUNT_MAX && o->writes <= COUNT_MAX;
}

int terrane_model_ended(struct terrane_model *m, const struct terrane_feature *features, size_t n,
			const struct terrane_outcome *o)
{
	struct named named;
	if (!given_valid(features, n) || !outcome_valid(o))
		return -EINVAL;
	struct job_io io = {
		.start_s = o->start_s,
		.end_s = o->end_s,
		.size_bytes = o->size_bytes,
		.read_bytes = o->read_bytes,
		.reads = o->reads,
		.written_bytes = o->written_bytes,
		.writes = o->writes,
	};
	pthread_rwlock_wrlock(&m->lock);
	struct features_job job = match(&m->model.features, features, n, &named);
	job.start_s = o->start_s;
	model_ended(&m->model, &job, &io);
	pthread_rwlock_unlock(&m->lock);
	return 0;
}
