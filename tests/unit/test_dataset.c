// SPDX-License-Identifier: Apache-2.0
/* Tests of data sets on a real cluster: building, resuming, appending, reading, verifying, removing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/units.h"
#include "dataset/build.h"
#include "dataset/dataset.h"
#include "dataset/verify.h"
#include "real_fixture.h"

#define LABELS 3
#define FILES 700 /* of each label: more than one page of the index in all */
#define SAMPLES ((uint64_t)LABELS * FILES)

static struct real_fixture fx;
static char source[128];
static struct terrane *t;
static struct terrane_error why;

/* The bytes of a file follow from its label and number. */
static size_t file_bytes(int label, int i, uint8_t *out)
{
	struct rng r;
	rng_init(&r, (uint64_t)label * 100000 + (uint64_t)i);
	size_t len = rng_below(&r, 3000);
	rng_fill(&r, out, len);
	return len;
}

static void write_file(const char *path, const void *bytes, size_t len)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static void make_source(void)
{
	char path[256];
	uint8_t bytes[3000];
	snprintf(source, sizeof(source), "%s/source", fx.dir);
	assert_int_equal(mkdir(source, 0700), 0);
	for (int label = 0; label < LABELS; label++) {
		snprintf(path, sizeof(path), "%s/%c", source, 'a' + label);
		assert_int_equal(mkdir(path, 0700), 0);
		for (int i = 0; i < FILES; i++) {
			snprintf(path, sizeof(path), "%s/%c/%d.bin", source, 'a' + label, i);
			write_file(path, bytes, file_bytes(label, i, bytes));
		}
	}
}

static int setup(void **state)
{
	(void)state;
	real_fixture_start(&fx, 6);
	make_source();
	struct terrane_open_options o = {.threads = 2, .error = &why};
	assert_int_equal(terrane_open(&t, fx.cluster_file, &o), 0);
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	(void)state;
	terrane_close(t);
	assert_int_equal(nftw(source, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
	real_fixture_stop(&fx);
	return 0;
}

static struct build_options options(const char *path)
{
	return (struct build_options){
		.path = path,
		.seed = 4,
		.shard_bytes = 256 * KIB,
		.o = {.encoding = "rs:4+2", .block_bytes = 64 * KIB, .error = &why}};
}

static int build(const struct build_options *b, struct build_result *out)
{
	struct catalog c;
	assert_int_equal(catalog_init(&c, fx.dir), 0);
	assert_int_equal(catalog_folder(&c, source), 0);
	int rc = dataset_build(t, &c, b, out);
	catalog_fini(&c);
	return rc;
}

static void expect_built(const struct build_options *b, struct build_result *out)
{
	int rc = build(b, out);
	if (rc < 0)
		fprintf(stderr, "build: %s\n", why.text);
	assert_int_equal(rc, 0);
}

static struct dataset *open_set(const char *path, uint64_t version)
{
	struct dataset *d;
	struct terrane_options o = {.error = &why};
	int rc = dataset_open_version(&d, t, path, version, &o);
	if (rc < 0)
		fprintf(stderr, "open: %s\n", why.text);
	assert_int_equal(rc, 0);
	return d;
}

/* Reads samples by number, and compares them with the files that they were made of. Counts them by file. */
static void read_samples(struct dataset *d, const uint64_t *samples, size_t n,
			 uint8_t (*seen)[FILES])
{
	struct terrane_options o = {.error = &why};
	AUTO_FREE struct dataset_entry *e = calloc(n, sizeof(*e));
	AUTO_FREE struct terrane_range *ranges = calloc(n, sizeof(*ranges));
	AUTO_FREE uint8_t *buf = malloc(n * 3000);
	uint8_t want[3000];
	assert_int_equal(dataset_ready(d, samples, n, &o), 0);
	dataset_lookup(d, samples, n, e);
	dataset_ranges(d, e, n, buf, ranges);
	assert_int_equal(terrane_read_batch(t, ranges, n, &o), 0);
	assert_int_equal(dataset_check(d, e, ranges, n, &why), 0);
	for (size_t i = 0; i < n; i++) {
		struct index_tail tail;
		char key[64];
		int64_t number;
		dataset_tail(d, samples[i], &tail);
		snprintf(key, sizeof(key), "%.*s", (int)tail.key_len, tail.key);
		int label = key[0] - 'a';
		assert_in_range(label, 0, LABELS - 1);
		assert_int_equal(units_parse_int(key + 2, &number), 0);
		assert_in_range(number, 0, FILES - 1);
		assert_int_equal(e[i].label, label);
		assert_int_equal(e[i].size, file_bytes(label, (int)number, want));
		assert_memory_equal(ranges[i].buf, want, e[i].size);
		seen[label][number]++;
	}
}

static void a_data_set_has_every_file_once_in_shuffled_order(void **state)
{
	(void)state;
	struct build_options b = options("/one");
	struct build_result r;
	uint64_t samples[SAMPLES];
	static uint8_t seen[LABELS][FILES];
	expect_built(&b, &r);
	assert_int_equal(r.samples, SAMPLES);
	assert_true(r.shards > 5);
	struct dataset *d = open_set("/one", 0);
	assert_int_equal(dataset_manifest(d)->labels.count, LABELS);
	for (uint64_t i = 0; i < ARRAY_LEN(samples); i++)
		samples[i] = ARRAY_LEN(samples) - 1 - i;
	read_samples(d, samples, ARRAY_LEN(samples), seen);
	for (int label = 0; label < LABELS; label++)
		for (int i = 0; i < FILES; i++)
			assert_int_equal(seen[label][i], 1);
	struct dataset_entry e[300];
	int counts[LABELS] = {0};
	dataset_lookup(d, samples, ARRAY_LEN(e), e);
	for (size_t i = 0; i < ARRAY_LEN(e); i++)
		counts[e[i].label]++;
	for (int label = 0; label < LABELS; label++)
		assert_in_range(counts[label], 60, 140); /* a run of samples is a fair sample */
	dataset_close(d);
}

static void pages_beyond_the_limit_are_loaded_again(void **state)
{
	(void)state;
	struct terrane_options o = {.error = &why};
	AUTO_FREE uint8_t *text = NULL;
	struct dataset *d;
	static uint8_t seen[LABELS][FILES];
	struct rng r;
	int64_t len = versions_read_file(t, "/one/v1.json", MIB, &text, &o);
	assert_true(len > 0);
	assert_int_equal(dataset_open(&d, t, "/one", (char *)text, (size_t)len, 1, &why), 0);
	rng_init(&r, 2);
	for (int i = 0; i < 200; i++) {
		uint64_t sample = rng_below(&r, SAMPLES);
		read_samples(d, &sample, 1, seen);
		assert_true(dataset_cached_bytes(d) < 200 * KIB); /* one page */
	}
	uint64_t none = SAMPLES;
	assert_int_equal(dataset_ready(d, &none, 1, &o), -ERANGE);
	dataset_close(d);
}

/* Two callers that need the same files and pages get them both, and nothing is leaked. */
static void needs_of_two_callers_may_overlap(void **state)
{
	(void)state;
	struct dataset *d = open_set("/one", 0);
	struct terrane_options o = {.error = &why};
	AUTO_FREE struct dataset_need *need = calloc(2, sizeof(*need));
	uint64_t sample = SAMPLES - 1, bytes;
	int rounds = 0;
	assert_non_null(need);
	while (dataset_need(d, &sample, 1, &need[0]) > 0) {
		struct terrane_op op[2] = {0};
		assert_int_equal(dataset_need(d, &sample, 1, &need[1]), 1);
		for (int i = 0; i < 2; i++)
			assert_int_equal(dataset_need_start(d, &need[i], &op[i]), 0);
		for (int i = 0; i < 2; i++)
			assert_int_equal(dataset_need_end(d, &need[i], terrane_wait(t, &op[i])), 0);
		rounds++;
	}
	assert_int_equal(rounds, 4); /* two files, a header, a page */
	static uint8_t seen[LABELS][FILES];
	read_samples(d, &sample, 1, seen);
	/* Entries that were not looked up are not used. */
	struct dataset_entry e;
	dataset_lookup(d, &sample, 1, &e);
	assert_true(dataset_entries_ok(d, &e, 1, &bytes) && bytes == e.size);
	struct dataset_entry bad[] = {e, e, e, e};
	bad[0].sample = SAMPLES;
	bad[1].shard = UINT32_MAX;
	bad[2].offset = UINT64_MAX;
	bad[3].shard = 0; /* its files are not open */
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(dataset_entries_ok(d, &bad[i], 1, &bytes));
	assert_int_equal(dataset_ready(d, &sample, 1, &o), 0);
	dataset_close(d);
}

struct stopper {
	uint64_t samples, after;
};

static bool stop_after(void *ctx, uint64_t bytes, uint64_t samples)
{
	struct stopper *s = ctx;
	(void)bytes;
	s->samples += samples;
	return s->samples >= s->after;
}

static void an_interrupted_build_leaves_no_version_and_goes_on(void **state)
{
	(void)state;
	struct terrane_options o = {.error = &why};
	struct build_result r;
	struct dataset *d;
	uint32_t reused = 0;
	for (uint64_t after = 300; after < 2100; after += 600) {
		struct build_options b = options("/two");
		struct stopper s = {.after = after};
		b.sha256 = true;
		b.stop = stop_after;
		b.stop_ctx = &s;
		assert_int_equal(build(&b, &r), -ECANCELED);
		assert_true(r.reused >= reused); /* it goes on where the last one ended */
		reused = r.reused;
		assert_int_equal(dataset_open_version(&d, t, "/two", 0, &o), -ENOENT);
	}
	assert_true(reused > 0);
	struct build_options b = options("/two");
	b.sha256 = true;
	expect_built(&b, &r);
	assert_true(r.reused > reused && r.reused < r.shards);
	d = open_set("/two", 1);
	struct verify v = {.d = d, .t = t, .o = {.error = &why}};
	assert_int_equal(dataset_verify(&v), 0);
	assert_int_equal(v.samples, SAMPLES);
	assert_int_equal(v.bad_samples, 0);
	dataset_close(d);
	/* Other options give another plan: nothing of it is used. */
	assert_int_equal(versions_remove(t, "/two", 1, &o), 0);
	b.seed++;
	expect_built(&b, &r);
	assert_int_equal(r.reused, 0);
	assert_int_equal(versions_remove(t, "/two", 0, &o), 0);
	assert_int_equal(terrane_stat(t, "/two", &(struct terrane_stat){0}, &o), -ENOENT);
}

static void append_shares_the_shards_of_its_parent(void **state)
{
	(void)state;
	struct terrane_options o = {.error = &why};
	struct build_options b = options("/three");
	struct build_result first, second;
	b.append = true;
	assert_int_equal(build(&b, &second), -ENOENT);
	b.append = false;
	expect_built(&b, &first);
	assert_int_equal(build(&b, &second), -EEXIST);
	b.append = true;
	expect_built(&b, &second);
	assert_int_equal(second.version, 2);
	assert_int_equal(second.total_samples, 2 * SAMPLES);
	struct dataset *d = open_set("/three", 2), *old = open_set("/three", 1);
	assert_int_equal(dataset_manifest(d)->labels.count, LABELS);
	for (uint32_t i = 0; i < first.shards; i++)
		assert_string_equal(dataset_manifest(d)->shards[i].name,
				    dataset_manifest(old)->shards[i].name);
	dataset_close(old);
	/* The shards of version 1 belong to version 2, too. */
	assert_int_equal(versions_remove(t, "/three", 1, &o), 0);
	struct verify v = {.d = d, .t = t, .o = {.error = &why}};
	assert_int_equal(dataset_verify(&v), 0);
	assert_int_equal(v.samples, 2 * SAMPLES);
	assert_int_equal(v.bad_samples, 0);
	dataset_close(d);
	assert_int_equal(versions_remove(t, "/three", 1, &o), -ENOENT);
	assert_int_equal(versions_remove(t, "/three", 0, &o), 0);
}

static void shard_file(const char *set, uint32_t shard, const char *suffix,
		       char out[DATASET_FILE_MAX])
{
	struct dataset *d = open_set(set, 0);
	assert_true(manifest_shard_path(out, DATASET_FILE_MAX, set,
					dataset_manifest(d)->shards[shard].name, suffix));
	dataset_close(d);
}

static void first_bad(void *ctx, uint64_t sample, const char *text)
{
	uint64_t *first = ctx;
	assert_non_null(strstr(text, "does not match the index"));
	if (*first == UINT64_MAX)
		*first = sample;
}

static void an_index_that_does_not_match_its_blocks_is_found(void **state)
{
	(void)state;
	struct terrane_options o = {.error = &why, .block_bytes = 64 * KIB};
	struct build_options b = options("/four");
	struct build_result r;
	char path[DATASET_FILE_MAX], other[DATASET_FILE_MAX];
	AUTO_FREE uint8_t *bytes = NULL;
	expect_built(&b, &r);
	shard_file("/four", 1, "samples", path);
	int64_t len = versions_read_file(t, path, GIB, &bytes, &o);
	assert_true(len > 1000);
	bytes[0] ^= 1;
	assert_int_equal(versions_write_file(t, path, bytes, (size_t)len, TERRANE_REPLACE, &o), 0);
	struct dataset *d = open_set("/four", 0);
	uint64_t first = UINT64_MAX;
	struct verify v = {.d = d, .t = t, .o = {.error = &why}, .bad = first_bad, .ctx = &first};
	assert_int_equal(dataset_verify(&v), 0);
	assert_int_equal(v.bad_samples, 1);
	assert_int_equal(manifest_find(dataset_manifest(d), first), 1);
	dataset_close(d);
	/* The index of another shard, and none. */
	AUTO_FREE uint8_t *index = NULL;
	shard_file("/four", 2, "index", other);
	len = versions_read_file(t, other, GIB, &index, &o);
	shard_file("/four", 1, "index", path);
	assert_int_equal(versions_write_file(t, path, index, (size_t)len, TERRANE_REPLACE, &o), 0);
	d = open_set("/four", 0);
	uint64_t sample = dataset_manifest(d)->shards[1].first;
	assert_int_equal(dataset_ready(d, &sample, 1, &o), -EBADMSG);
	assert_non_null(strstr(why.text, "does not belong to its samples"));
	dataset_close(d);
	assert_int_equal(terrane_remove(t, path, &o), 0);
	d = open_set("/four", 0);
	assert_int_equal(dataset_ready(d, &sample, 1, &o), -ENOENT);
	assert_non_null(strstr(why.text, "is missing"));
	dataset_close(d);
	assert_int_equal(versions_write_file(t, "/four/v2.json", "{}", 2, 0, &o), 0);
	assert_int_equal(dataset_open_version(&d, t, "/four", 0, &o), -EBADMSG);
	assert_int_equal(versions_remove(t, "/four", 0, &o), 0);
}

static void a_source_that_changes_or_cannot_be_a_data_set_is_refused(void **state)
{
	(void)state;
	struct catalog c;
	struct build_options b = options("/five");
	struct build_result r;
	char folder[128], path[256];
	snprintf(folder, sizeof(folder), "%s/changing", fx.dir);
	snprintf(path, sizeof(path), "%s/x.bin", folder);
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(catalog_init(&c, fx.dir), 0);
	assert_int_equal(catalog_folder(&c, folder), -ENODATA);
	catalog_fini(&c);
	assert_int_equal(catalog_init(&c, fx.dir), 0);
	assert_int_equal(catalog_folder(&c, "/nowhere/at/all"), -ENOENT);
	assert_non_null(strstr(c.why, "/nowhere/at/all"));
	catalog_fini(&c);
	for (int longer = 0; longer < 3; longer++) {
		write_file(path, "12345", 5);
		assert_int_equal(catalog_init(&c, fx.dir), 0);
		assert_int_equal(catalog_folder(&c, folder), 0);
		if (longer == 2)
			unlink(path);
		else
			write_file(path, "1234567", longer ? 7 : 3);
		assert_int_equal(dataset_build(t, &c, &b, &r), -ESTALE);
		assert_non_null(strstr(why.text, "changed while the data set was built"));
		catalog_fini(&c);
	}
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(catalog_init(&c, "/nowhere"), -ENOENT);
	catalog_fini(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_data_set_has_every_file_once_in_shuffled_order),
		cmocka_unit_test(pages_beyond_the_limit_are_loaded_again),
		cmocka_unit_test(needs_of_two_callers_may_overlap),
		cmocka_unit_test(an_interrupted_build_leaves_no_version_and_goes_on),
		cmocka_unit_test(append_shares_the_shards_of_its_parent),
		cmocka_unit_test(an_index_that_does_not_match_its_blocks_is_found),
		cmocka_unit_test(a_source_that_changes_or_cannot_be_a_data_set_is_refused),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
