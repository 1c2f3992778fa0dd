// SPDX-License-Identifier: Apache-2.0
/* The engine on RocksDB with files that are damaged, torn or missing. */
#include "rocks_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

/* Finds the largest file whose name ends with suffix; returns its size. */
static off_t largest(const char *dir, const char *suffix, char path[512])
{
	DIR *d = opendir(dir);
	assert_non_null(d);
	off_t size = -1;
	struct dirent *e;
	while ((e = readdir(d)) != NULL) {
		size_t len = strlen(e->d_name);
		char here[512];
		struct stat st;
		if (len < strlen(suffix) || strcmp(e->d_name + len - strlen(suffix), suffix) != 0)
			continue;
		snprintf(here, sizeof(here), "%s/%s", dir, e->d_name);
		if (stat(here, &st) == 0 && st.st_size > size) {
			size = st.st_size;
			memcpy(path, here, sizeof(here));
		}
	}
	closedir(d);
	return size;
}

static void flip(const char *path, off_t at)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t byte;
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 0x40;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

/* Opens the store and reads every key; sets rc to the first error. */
static void look_at_all(void *arg)
{
	struct fixture *p = arg;
	struct kv *kv;
	p->rc = open_there(p, &kv);
	if (p->rc != 0)
		return;
	p->rc = kv_rocksdb_verify(kv, &p->numbers[0]);
	kv_close(kv);
}

static void flush_body(void *arg)
{
	struct kv *kv;
	uint64_t keys;
	CHECK_EQ(open_there(arg, &kv), 0);
	fill_some(kv, 0, MANY);
	CHECK_EQ(kv_rocksdb_verify(kv, &keys), 0);
	kv_close(kv);
}

static void a_damaged_table_is_found_and_never_read_as_good(void **state)
{
	(void)state;
	log_set_level(LOG_OFF);
	for (unsigned tenth = 0; tenth <= 10; tenth += 2) {
		struct fixture p;
		char path[512];
		fixture_make(&p);
		in_fiber(&p, flush_body);
		off_t size = largest(p.dir, ".sst", path);
		assert_true(size > 1000);
		flip(path, tenth == 10 ? size - 5 : size * tenth / 10);
		in_fiber(&p, look_at_all);
		if (p.rc == 0)
			assert_int_equal(p.numbers[0], MANY); /* a byte that no read uses */
		else
			assert_int_equal(p.rc, -EBADMSG);
		if (tenth <= 8)
			assert_int_equal(p.rc, -EBADMSG);
		fixture_remove(&p);
	}
	log_set_level(LOG_INFO);
}

static void missing_and_damaged_files_refuse_to_open(void **state)
{
	(void)state;
	log_set_level(LOG_OFF);
	static const struct {
		const char *suffix;
		bool cut;
	} cases[] = {{".sst", true}, {"CURRENT", true}, {"CURRENT", false}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fixture p;
		char path[512];
		fixture_make(&p);
		in_fiber(&p, flush_body);
		off_t size = largest(p.dir, cases[i].suffix, path);
		assert_true(size > 0);
		if (cases[i].cut)
			assert_int_equal(truncate(path, size / 2), 0);
		else
			flip(path, 2);
		in_fiber(&p, look_at_all);
		assert_true(p.rc == -EBADMSG || p.rc == -EIO || p.rc == -ENOENT);
		fixture_remove(&p);
	}
	log_set_level(LOG_INFO);
}

/* Copies the folder while the store is open, so that the copy's log ends as after a crash. */
static void copy_open_store(struct fixture *p)
{
	char command[256];
	snprintf(command, sizeof(command), "%s.copy", p->dir);
	pid_t pid = fork();
	if (pid == 0) {
		execl("/bin/cp", "cp", "-r", p->dir, command, (char *)NULL);
		_exit(127);
	}
	int status;
	waitpid(pid, &status, 0);
	CHECK_EQ(status, 0);
}

static void log_only_body(void *arg)
{
	struct fixture *p = arg;
	struct kv *kv;
	CHECK_EQ(kv_rocksdb_open(&kv, &(struct kv_rocksdb_options){.dir = p->dir}), 0);
	fill_some(kv, 0, 2000);
	copy_open_store(p);
	kv_close(kv);
}

static void crashed_copy(struct fixture *p, char log[512], off_t *size)
{
	fixture_make(p);
	in_fiber(p, log_only_body);
	strncat(p->dir, ".copy", sizeof(p->dir) - strlen(p->dir) - 1);
	*size = largest(p->dir, ".log", log);
	assert_true(*size > 50000);
}

static void a_torn_end_of_the_log_loses_only_that_write(void **state)
{
	(void)state;
	for (off_t cut = 1; cut < 6000; cut += 1500) {
		struct fixture p;
		char log[512];
		off_t size;
		crashed_copy(&p, log, &size);
		assert_int_equal(truncate(log, size - cut), 0);
		in_fiber(&p, look_at_all);
		assert_int_equal(p.rc, 0);
		assert_int_equal(p.numbers[0], 2000 - EACH);
		fixture_remove(&p);
	}
}

static void damage_inside_the_log_is_refused_unless_salvaged(void **state)
{
	(void)state;
	log_set_level(LOG_OFF);
	struct fixture p;
	char log[512];
	off_t size;
	crashed_copy(&p, log, &size);
	flip(log, size / 2);
	in_fiber(&p, look_at_all);
	assert_int_equal(p.rc, -EBADMSG);
	p.salvage = true;
	in_fiber(&p, look_at_all);
	assert_int_equal(p.rc, 0);
	assert_true(p.numbers[0] > 500 && p.numbers[0] < 1500);
	fixture_remove(&p);
	log_set_level(LOG_INFO);
}

static void opening_a_path_that_is_no_folder_fails(void **state)
{
	(void)state;
	log_set_level(LOG_OFF);
	struct fixture p;
	fixture_make(&p);
	snprintf(p.dir, sizeof(p.dir), "%s/no/such/place", p.root);
	in_fiber(&p, look_at_all);
	assert_int_equal(p.rc, -ENOENT);
	snprintf(p.dir, sizeof(p.dir), "%s/file", p.root);
	int fd = open(p.dir, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	in_fiber(&p, look_at_all);
	assert_true(p.rc < 0);
	fixture_remove(&p);
	log_set_level(LOG_INFO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_damaged_table_is_found_and_never_read_as_good),
		cmocka_unit_test(missing_and_damaged_files_refuse_to_open),
		cmocka_unit_test(a_torn_end_of_the_log_loses_only_that_write),
		cmocka_unit_test(damage_inside_the_log_is_refused_unless_salvaged),
		cmocka_unit_test(opening_a_path_that_is_no_folder_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
