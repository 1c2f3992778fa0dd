// SPDX-License-Identifier: Apache-2.0
/* Backups of the engine on RocksDB: what they contain, what they share, and what is refused. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "kv/mem.h"
#include "rocks_fixture.h"
#include "rt/sync.h"

#define OWNER "cluster 1"

struct folders {
	struct fixture f;
	char backups[80], to[80];
};

static void folders_make(struct folders *d)
{
	fixture_make(&d->f);
	snprintf(d->backups, sizeof(d->backups), "%s/backups", d->f.root);
	snprintf(d->to, sizeof(d->to), "%s/restored", d->f.root);
}

static void body_run(void (*body)(void *))
{
	struct folders d;
	log_set_level(LOG_OFF); /* refusals are part of the tests */
	folders_make(&d);
	in_fiber(&d.f, body);
	fixture_remove(&d.f);
}

static int make(struct folders *d, struct kv *kv, unsigned keep, struct kv_backup *out)
{
	return kv_backup(
		kv, &(struct kv_backup_request){.dir = d->backups, .owner = OWNER, .keep = keep},
		out);
}

static int64_t list(struct folders *d, struct kv_backup out[8])
{
	char owner[KV_BACKUP_OWNER_MAX + 1];
	int64_t n = kv_rocksdb_backups(d->backups, owner, out, 8);
	CHECK(n < 0 || strcmp(owner, OWNER) == 0);
	return n;
}

/* Opens what was restored, and returns its number of keys. */
static uint64_t restored_keys(struct folders *d, unsigned present, unsigned absent)
{
	struct kv *kv;
	uint64_t keys = 0;
	struct fixture f = d->f;
	snprintf(f.dir, sizeof(f.dir), "%s", d->to);
	CHECK_EQ(open_there(&f, &kv), 0);
	CHECK_EQ(kv_rocksdb_verify(kv, &keys), 0);
	for (unsigned n = 0; n < present; n += 97)
		CHECK(has(kv, n));
	CHECK(!has(kv, absent));
	kv_close(kv);
	CHECK_EQ(nftw(d->to, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
	return keys;
}

static void restores_body(void *arg)
{
	struct folders *d = arg;
	struct kv *kv;
	struct kv_backup first, second, all[8];
	CHECK_EQ(open_there(&d->f, &kv), 0);
	fill_some(kv, 0, MANY);
	CHECK_EQ(make(d, kv, 0, &first), 0);
	CHECK_EQ(first.number, 1);
	fill_some(kv, MANY, MANY + EACH);
	CHECK_EQ(make(d, kv, 0, &second), 0);
	CHECK_EQ(second.number, 2);
	CHECK(second.made_s >= first.made_s);
	fill_some(kv, MANY + EACH, MANY + 2 * EACH);
	kv_close(kv);
	CHECK_EQ(list(d, all), 2);
	CHECK_EQ(all[1].bytes, second.bytes);
	CHECK_EQ(kv_rocksdb_restore(d->backups, 1, d->to), 0);
	CHECK_EQ(restored_keys(d, MANY, MANY), MANY);
	CHECK_EQ(kv_rocksdb_restore(d->backups, 0, d->to), 0);
	CHECK_EQ(restored_keys(d, MANY + EACH, MANY + EACH), MANY + EACH);
	CHECK_EQ(kv_rocksdb_restore(d->backups, 3, d->to), -ENOENT);
}

static void each_backup_restores_the_state_of_its_time(void **state)
{
	(void)state;
	body_run(restores_body);
}

/* --- incremental ------------------------------------------------------------------------------- */

static uint64_t folder_bytes;

static int add_bytes(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)path;
	(void)ftw;
	folder_bytes += type == FTW_F ? (uint64_t)st->st_size : 0;
	return 0;
}

static uint64_t bytes_of(struct folders *d)
{
	folder_bytes = 0;
	CHECK_EQ(nftw(d->backups, add_bytes, 16, FTW_PHYS), 0);
	return folder_bytes;
}

static void shares_body(void *arg)
{
	struct folders *d = arg;
	struct kv *kv;
	struct kv_backup b, all[8];
	CHECK_EQ(open_there(&d->f, &kv), 0);
	fill_some(kv, 0, MANY);
	CHECK_EQ(make(d, kv, 0, &b), 0);
	uint64_t before = bytes_of(d);
	fill_some(kv, MANY, MANY + EACH);
	CHECK_EQ(make(d, kv, 0, &b), 0);
	uint64_t more = bytes_of(d) - before;
	CHECK(b.bytes > before / 2 && more < before / 2);
	fill_some(kv, MANY + EACH, MANY + 2 * EACH);
	CHECK_EQ(make(d, kv, 2, &b), 0);
	CHECK_EQ(list(d, all), 2);
	CHECK_EQ(all[0].number, 2);
	CHECK_EQ(all[1].number, 3);
	kv_close(kv);
	CHECK_EQ(kv_rocksdb_restore(d->backups, 2, d->to), 0);
	CHECK_EQ(restored_keys(d, MANY + EACH, MANY + EACH), MANY + EACH);
}

static void a_backup_copies_only_tables_that_the_folder_lacks(void **state)
{
	(void)state;
	body_run(shares_body);
}

/* --- while transactions run --------------------------------------------------------------------- */

struct writer {
	struct kv *kv;
	bool stop;
	unsigned acknowledged; /* number of groups of EACH rows */
};

static void writer_fiber(void *arg)
{
	struct writer *w = arg;
	while (!w->stop) {
		fill_some(w->kv, w->acknowledged * EACH, (w->acknowledged + 1) * EACH);
		w->acknowledged++;
	}
}

static void online_body(void *arg)
{
	struct folders *d = arg;
	struct kv_backup b;
	struct rt_group g;
	struct writer w = {0};
	CHECK_EQ(open_there(&d->f, &w.kv), 0);
	fill_some(w.kv, 0, 10 * EACH);
	w.acknowledged = 10;
	rt_group_init(&g);
	CHECK_EQ(rt_group_spawn(&g, "writer", writer_fiber, &w), 0);
	unsigned before = w.acknowledged;
	CHECK_EQ(make(d, w.kv, 0, &b), 0);
	w.stop = true;
	rt_group_join(&g);
	unsigned after = w.acknowledged;
	kv_close(w.kv);
	CHECK_EQ(kv_rocksdb_restore(d->backups, 0, d->to), 0);
	/* Groups were written one after the other, each to one partition: the backup has a prefix of them. */
	struct fixture f = d->f;
	unsigned groups = 0;
	snprintf(f.dir, sizeof(f.dir), "%s", d->to);
	CHECK_EQ(open_there(&f, &w.kv), 0);
	while (has(w.kv, groups * EACH))
		groups++;
	CHECK(groups >= before && groups <= after);
	for (unsigned n = 0; n < (after + 1) * EACH; n += 7)
		CHECK_EQ(has(w.kv, n), n < groups * EACH);
	kv_close(w.kv);
}

static void a_backup_of_a_store_in_use_shows_one_instant(void **state)
{
	(void)state;
	body_run(online_body);
}

/* --- damage and refusals ------------------------------------------------------------------------ */

static char table[512];

static int find_table(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	if (type == FTW_F && strstr(path, ".sst") != NULL)
		snprintf(table, sizeof(table), "%s", path);
	return 0;
}

static void flip_byte(const char *path)
{
	FILE *f = fopen(path, "r+");
	CHECK(f != NULL && fseek(f, 1000, SEEK_SET) == 0);
	int c = fgetc(f);
	CHECK(c != EOF && fseek(f, 1000, SEEK_SET) == 0 && fputc(c ^ 1, f) != EOF);
	CHECK_EQ(fclose(f), 0);
}

static void damage_body(void *arg)
{
	struct folders *d = arg;
	struct kv *kv;
	struct kv_backup b;
	CHECK_EQ(open_there(&d->f, &kv), 0);
	fill_some(kv, 0, MANY);
	CHECK_EQ(make(d, kv, 0, &b), 0);
	kv_close(kv);
	CHECK_EQ(nftw(d->backups, find_table, 16, FTW_PHYS), 0);
	flip_byte(table);
	CHECK_EQ(kv_rocksdb_restore(d->backups, 0, d->to), -EBADMSG);
	CHECK_EQ(nftw(d->to, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
	flip_byte(table);
	CHECK_EQ(kv_rocksdb_restore(d->backups, 0, d->to), 0);
	CHECK_EQ(restored_keys(d, MANY, MANY), MANY);
}

static void a_damaged_backup_is_not_restored(void **state)
{
	(void)state;
	body_run(damage_body);
}

static void refusals_body(void *arg)
{
	struct folders *d = arg;
	struct kv *kv, *memory;
	struct kv_backup b, all[8];
	struct kv_backup_request q = {.dir = d->backups, .owner = OWNER};
	char file[120];
	CHECK_EQ(open_there(&d->f, &kv), 0);
	CHECK_EQ(list(d, all), -ENOENT);
	CHECK_EQ(kv_rocksdb_restore(d->backups, 0, d->to), -ENOENT);
	/* a folder with files of others */
	CHECK_EQ(mkdir(d->backups, 0700), 0);
	snprintf(file, sizeof(file), "%s/thesis.txt", d->backups);
	FILE *f = fopen(file, "w");
	CHECK(f != NULL && fclose(f) == 0);
	CHECK_EQ(kv_backup(kv, &q, &b), -EEXIST);
	CHECK_EQ(unlink(file), 0);
	CHECK_EQ(rmdir(d->backups), 0); /* nothing was put there */
	CHECK_EQ(kv_backup(kv, &q, &b), 0);
	/* backups of another cluster, and wrong requests */
	q.owner = "cluster 2";
	CHECK_EQ(kv_backup(kv, &q, &b), -EXDEV);
	q.owner = "two\nlines";
	CHECK_EQ(kv_backup(kv, &q, &b), -EINVAL);
	q = (struct kv_backup_request){.dir = "relative", .owner = OWNER};
	CHECK_EQ(kv_backup(kv, &q, &b), -EINVAL);
	char orphan[160];
	snprintf(orphan, sizeof(orphan), "%s/absent/folder", d->f.dir);
	q.dir = orphan;
	CHECK_EQ(kv_backup(kv, &q, &b), -ENOENT);
	CHECK_EQ(list(d, all), 1);
	/* an existing folder is never overwritten */
	CHECK_EQ(kv_rocksdb_restore(d->backups, 0, d->f.dir), -EEXIST);
	kv_close(kv);
	struct kv_mem *m = kv_mem_new(&(struct kv_mem_options){.seed = 1});
	CHECK(m != NULL && kv_mem_open(&memory, m) == 0);
	q.dir = d->backups;
	CHECK_EQ(kv_backup(memory, &q, &b), -EOPNOTSUPP);
	kv_close(memory);
	kv_mem_free(m);
}

static void wrong_folders_are_refused_and_left_as_they_are(void **state)
{
	(void)state;
	body_run(refusals_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_backup_restores_the_state_of_its_time),
		cmocka_unit_test(a_backup_copies_only_tables_that_the_folder_lacks),
		cmocka_unit_test(a_backup_of_a_store_in_use_shows_one_instant),
		cmocka_unit_test(a_damaged_backup_is_not_restored),
		cmocka_unit_test(wrong_folders_are_refused_and_left_as_they_are),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
