// SPDX-License-Identifier: Apache-2.0
#include "dataset/verify.h"

#include <assert.h>
#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/base.h"
#include "base/crc.h"

#define GROUP_SAMPLES 4096u
#define GROUP_BYTES (32 * MIB)

/* Samples that are read together; a sample of more than GROUP_BYTES is read in pieces of that length. */
struct group {
	uint64_t samples[GROUP_SAMPLES];
	struct dataset_entry entries[GROUP_SAMPLES];
	struct terrane_range ranges[GROUP_SAMPLES];
	uint8_t buf[GROUP_BYTES];
};

static void found_bad(struct verify *v, uint64_t sample, const char *why)
{
	v->bad_samples++;
	if (v->bad != NULL)
		v->bad(v->ctx, sample, why);
}

/* Compares a sample that was read with its SHA-256, if the index has it. */
static bool sha_is_right(struct verify *v, uint64_t sample, const uint8_t *bytes, uint64_t len)
{
	struct index_tail tail;
	uint8_t sum[SHA256_BYTES];
	dataset_tail(v->d, sample, &tail);
	return tail.sha256 == NULL || (EVP_Digest(bytes, len, sum, NULL, EVP_sha256(), NULL) == 1 &&
				       memcmp(sum, tail.sha256, sizeof(sum)) == 0);
}

/* Whether an error of a sample says that its bytes are not right, rather than that they cannot be had at the moment. */
static bool is_damage(int rc)
{
	return rc == -EBADMSG || rc == -EIO || rc == -ENODATA;
}

static int group_check(struct verify *v, struct group *g, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct terrane_error why = {0};
		int rc = dataset_check(v->d, &g->entries[i], &g->ranges[i], 1, &why);
		if (rc < 0 && !is_damage(rc)) {
			*v->o.error = why;
			return rc;
		}
		if (rc < 0)
			found_bad(v, g->entries[i].sample, why.text);
		else if (!sha_is_right(v, g->entries[i].sample, g->ranges[i].buf, g->ranges[i].len))
			found_bad(v, g->entries[i].sample, "its SHA-256 does not match the index");
	}
	return 0;
}

/* Checks a sample that is longer than the buffer; its SHA-256 is not computed again. */
static int large_check(struct verify *v, struct group *g)
{
	const struct dataset_entry *e = &g->entries[0];
	uint32_t crc = 0;
	for (uint64_t done = 0; done < e->size; done += GROUP_BYTES) {
		struct dataset_entry piece = *e;
		piece.offset += done;
		piece.size = min_u64(GROUP_BYTES, e->size - done);
		piece.digested = 0; /* its digest is not known */
		dataset_ranges(v->d, &piece, 1, g->buf, g->ranges);
		int rc = terrane_read_batch(v->t, g->ranges, 1, &v->o);
		if (rc < 0 && !is_damage(rc))
			return rc;
		if (g->ranges[0].result != (int64_t)piece.size) {
			found_bad(v, e->sample,
				  rc < 0 ? terrane_error_text(rc) : "its file is too short");
			return 0;
		}
		crc = crc32c(crc, g->buf, piece.size);
		if (v->stop != NULL && v->stop(v->ctx, piece.size, 0))
			return -ECANCELED;
	}
	if (crc != e->crc)
		found_bad(v, e->sample, "its CRC does not match the index");
	return 0;
}

/* The number of the next samples that fit into the buffer: at least one. */
static size_t group_count(const struct group *g, size_t n)
{
	uint64_t bytes = g->entries[0].size;
	size_t count = 1;
	while (count < n && g->entries[count].size <= GROUP_BYTES &&
	       bytes + g->entries[count].size <= GROUP_BYTES)
		bytes += g->entries[count++].size;
	return count;
}

static int group_read(struct verify *v, struct group *g, size_t n)
{
	uint64_t bytes = dataset_ranges(v->d, g->entries, n, g->buf, g->ranges);
	assert(bytes <= GROUP_BYTES);
	int rc = terrane_read_batch(v->t, g->ranges, n, &v->o);
	if (rc < 0 && !is_damage(rc))
		return rc;
	rc = group_check(v, g, n);
	if (rc == 0 && v->stop != NULL && v->stop(v->ctx, bytes, n))
		rc = -ECANCELED;
	return rc;
}

/* Checks samples from `first` on; returns how many, or an error. */
static int64_t group_verify(struct verify *v, struct group *g, uint64_t first, uint64_t end)
{
	size_t n = min_u64(GROUP_SAMPLES, end - first);
	assert(n > 0);
	for (size_t i = 0; i < n; i++)
		g->samples[i] = first + i;
	int rc = dataset_ready(v->d, g->samples, n, &v->o);
	if (rc < 0)
		return rc;
	dataset_lookup(v->d, g->samples, n, g->entries);
	n = group_count(g, n);
	rc = g->entries[0].size > GROUP_BYTES ? large_check(v, g) : group_read(v, g, n);
	for (size_t i = 0; i < n; i++)
		v->bytes += g->entries[i].size;
	v->samples += n;
	return rc < 0 ? rc : (int64_t)n;
}

int dataset_verify(struct verify *v)
{
	uint64_t end = dataset_manifest(v->d)->samples;
	AUTO_FREE struct group *g = calloc(1, sizeof(*g));
	assert(v->o.error != NULL);
	if (g == NULL)
		return -ENOMEM;
	v->samples = v->bytes = v->bad_samples = 0;
	while (v->samples < end) {
		int64_t rc = group_verify(v, g, v->samples, end);
		if (rc < 0)
			return (int)rc;
	}
	return 0;
}
