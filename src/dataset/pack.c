// SPDX-License-Identifier: Apache-2.0
#include "dataset/pack.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc.h"
#include "dataset/image.h"

#define THREADS_MAX 64u

int pack_init(struct pack *p, const struct catalog *c, const struct build_options *b)
{
	*p = (struct pack){.c = c, .b = b};
	p->buf = malloc(PACK_BATCH_BYTES);
	p->found = calloc(PACK_BATCH_SAMPLES, sizeof(*p->found));
	return p->buf != NULL && p->found != NULL ? 0 : -ENOMEM;
}

void pack_fini(struct pack *p)
{
	assert(p->file == NULL);
	free(p->buf);
	free(p->found);
	p->buf = NULL;
	p->found = NULL;
}

static int source_fail(char why[CATALOG_WHY_MAX], int rc, const char *path)
{
	if (rc == -ESTALE)
		snprintf(why, CATALOG_WHY_MAX,
			 "%.400s changed while the data set was built: run the build "
			 "again",
			 path);
	else
		snprintf(why, CATALOG_WHY_MAX, "cannot read %.400s: %s", path, strerror(-rc));
	return rc;
}

/* --- local files -------------------------------------------------------------------------------- */

static int read_range(int fd, uint8_t *buf, size_t len, uint64_t offset)
{
	while (len > 0) {
		ssize_t n = pread(fd, buf, len, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ESTALE;
		buf += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

/* Opens the file of a part, and checks its size if the whole file is the part. */
static int part_open(const struct catalog *c, const struct catalog_sample *s, uint32_t i,
		     char path[CATALOG_PATH_MAX])
{
	struct stat st;
	if (!catalog_path(c, s, i, path))
		return -ENAMETOOLONG;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	int rc = fstat(fd, &st) < 0 ? -errno : 0;
	if (rc == 0 && s->part[i].file == CATALOG_BY_KEY && (uint64_t)st.st_size != s->part[i].size)
		rc = -ESTALE;
	if (rc < 0)
		close(fd);
	return rc < 0 ? rc : fd;
}

/* --- samples that are read together ------------------------------------------------------------- */

struct reading {
	struct pack *p;
	const uint64_t *samples, *offsets;
	uint64_t n, base; /* base: offset of the buffer in the file */
	atomic_uint_fast64_t next;
	pthread_mutex_t lock; /* guards rc and why, which the first failure sets */
	int rc;
	char why[CATALOG_WHY_MAX];
};

/* Reads all parts of a sample. */
static int sample_read(const struct catalog *c, const struct catalog_sample *s, uint8_t *to,
		       struct pack_found *found, char why[CATALOG_WHY_MAX])
{
	char path[CATALOG_PATH_MAX];
	for (uint32_t i = 0; i < s->parts; i++) {
		const struct catalog_part *part = &s->part[i];
		int fd = part_open(c, s, i, path);
		int rc = fd < 0 ? fd : read_range(fd, to, part->size, part->offset);
		if (fd >= 0)
			close(fd);
		if (rc < 0)
			return source_fail(why, rc, path);
		if (found->width == 0)
			image_size(to, part->size, &found->width, &found->height);
		to += part->size;
	}
	return 0;
}

static int sample_take(struct reading *r, uint64_t i, struct catalog_sample *s,
		       char why[CATALOG_WHY_MAX])
{
	struct pack_found *found = &r->p->found[i];
	uint8_t *to = r->p->buf + (r->offsets[i] - r->base);
	uint64_t size = 0;
	int rc = catalog_get(r->p->c, r->samples[i], s);
	if (rc < 0) {
		snprintf(why, CATALOG_WHY_MAX, "cannot read a temporary file: %s", strerror(-rc));
		return rc;
	}
	*found = (struct pack_found){0};
	rc = sample_read(r->p->c, s, to, found, why);
	if (rc < 0)
		return rc;
	for (uint32_t k = 0; k < s->parts; k++)
		size += s->part[k].size;
	found->crc = crc32c(0, to, size);
	if (r->p->b->sha256 && EVP_Digest(to, size, found->sha256, NULL, EVP_sha256(), NULL) != 1) {
		snprintf(why, CATALOG_WHY_MAX, "cannot compute a SHA-256");
		return -ENOMEM;
	}
	return 0;
}

static void *reader(void *arg)
{
	struct reading *r = arg;
	AUTO_FREE struct catalog_sample *s = malloc(sizeof(*s));
	char why[CATALOG_WHY_MAX] = "out of memory";
	uint64_t i;
	int rc = s != NULL ? 0 : -ENOMEM;
	while (rc == 0 && (i = atomic_fetch_add(&r->next, 1)) < r->n)
		rc = sample_take(r, i, s, why);
	if (rc < 0) {
		atomic_store(&r->next, r->n); /* the other threads end, too */
		pthread_mutex_lock(&r->lock);
		if (r->rc == 0) {
			r->rc = rc;
			memcpy(r->why, why, sizeof(why));
		}
		pthread_mutex_unlock(&r->lock);
	}
	return NULL;
}

/* Reads all samples into the buffer, with several threads. */
static int read_together(struct reading *r)
{
	pthread_t threads[THREADS_MAX];
	uint64_t want = r->p->b->threads != 0 ? r->p->b->threads : BUILD_THREADS_DEFAULT;
	uint64_t started = 0;
	want = min_u64(min_u64(want, THREADS_MAX), (r->n + 7) / 8);
	while (started + 1 < want && pthread_create(&threads[started], NULL, reader, r) == 0)
		started++;
	reader(r);
	for (uint64_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	if (r->rc < 0)
		memcpy(r->p->why, r->why, sizeof(r->why));
	return r->rc;
}

/* --- large samples ------------------------------------------------------------------------------ */

/* Appends a part piece by piece; adds it to the checksums. */
static int part_stream(struct pack *p, int fd, const struct catalog_part *part, EVP_MD_CTX *sha,
		       struct pack_found *found, bool *source)
{
	for (uint64_t done = 0; done < part->size;) {
		size_t len = min_u64(PACK_BATCH_BYTES, part->size - done);
		int rc = read_range(fd, p->buf, len, part->offset + done);
		*source = rc < 0;
		if (rc < 0)
			return rc;
		if (done == 0 && found->width == 0)
			image_size(p->buf, len, &found->width, &found->height);
		found->crc = crc32c(found->crc, p->buf, len);
		if (sha != NULL && EVP_DigestUpdate(sha, p->buf, len) != 1)
			return -ENOMEM;
		rc = terrane_append(p->file, p->buf, len, &p->b->o);
		if (rc < 0)
			return rc;
		p->at += len;
		done += len;
		if (p->b->stop != NULL && p->b->stop(p->b->stop_ctx, len, 0))
			return -ECANCELED;
	}
	return 0;
}

static int sample_stream(struct pack *p, uint64_t number)
{
	AUTO_FREE struct catalog_sample *s = malloc(sizeof(*s));
	char path[CATALOG_PATH_MAX];
	struct pack_found *found = &p->found[0];
	EVP_MD_CTX *sha = p->b->sha256 ? EVP_MD_CTX_new() : NULL;
	int rc = s == NULL || (p->b->sha256 && sha == NULL) ? -ENOMEM : 0;
	*found = (struct pack_found){0};
	if (rc == 0)
		rc = catalog_get(p->c, number, s);
	if (rc == 0 && sha != NULL && EVP_DigestInit_ex(sha, EVP_sha256(), NULL) != 1)
		rc = -ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < s->parts; i++) {
		int fd = part_open(p->c, s, i, path);
		bool source = fd < 0;
		rc = fd < 0 ? fd : part_stream(p, fd, &s->part[i], sha, found, &source);
		if (fd >= 0)
			close(fd);
		if (source)
			source_fail(p->why, rc, path);
	}
	if (rc == 0 && sha != NULL && EVP_DigestFinal_ex(sha, found->sha256, NULL) != 1)
		rc = -ENOMEM;
	EVP_MD_CTX_free(sha);
	return rc;
}

/* --- appending ---------------------------------------------------------------------------------- */

uint64_t pack_count(const uint64_t *sizes, const uint64_t *offsets, uint64_t n)
{
	uint64_t count = 1;
	assert(n > 0);
	while (count < n && count < PACK_BATCH_SAMPLES &&
	       offsets[count] + sizes[count] - offsets[0] <= PACK_BATCH_BYTES)
		count++;
	return count;
}

int pack_pad(struct pack *p, uint64_t to)
{
	int rc = 0;
	assert(to >= p->at);
	while (rc == 0 && p->at < to) {
		size_t len = min_u64(PACK_BATCH_BYTES, to - p->at);
		memset(p->buf, 0, len);
		rc = terrane_append(p->file, p->buf, len, &p->b->o);
		p->at += len;
	}
	return rc;
}

int pack_append(struct pack *p, const uint64_t *samples, const uint64_t *sizes,
		const uint64_t *offsets, uint64_t n)
{
	uint64_t base = offsets[0], end = offsets[n - 1] + sizes[n - 1];
	assert(n > 0 && n <= PACK_BATCH_SAMPLES && base >= p->at);
	int rc = pack_pad(p, base);
	if (rc < 0)
		return rc;
	if (end - base > PACK_BATCH_BYTES) {
		assert(n == 1);
		return sample_stream(p, samples[0]);
	}
	for (uint64_t i = 0; i + 1 < n; i++) /* the gaps; samples overwrite nothing else */
		memset(p->buf + (offsets[i] + sizes[i] - base), 0,
		       offsets[i + 1] - offsets[i] - sizes[i]);
	AUTO_FREE struct reading *r = calloc(1, sizeof(*r));
	if (r == NULL)
		return -ENOMEM;
	*r = (struct reading){.p = p, .samples = samples, .offsets = offsets, .n = n, .base = base};
	pthread_mutex_init(&r->lock, NULL);
	rc = read_together(r);
	pthread_mutex_destroy(&r->lock);
	if (rc == 0 && end > base)
		rc = terrane_append(p->file, p->buf, end - base, &p->b->o);
	p->at = end;
	if (rc == 0 && p->b->stop != NULL && p->b->stop(p->b->stop_ctx, end - base, n))
		rc = -ECANCELED;
	return rc;
}
