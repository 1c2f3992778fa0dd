// SPDX-License-Identifier: Apache-2.0
/* Tests of the public library against a real cluster: threads, asynchronous calls, fork, errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <terrane/terrane.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "check.h"
#include "real_fixture.h"

#define LOOPS 3 /* loops of the library, on any machine */

static struct real_fixture fx;
static const char *example; /* the example program to run; NULL: none was built */

static struct terrane *open_cluster(void)
{
	struct terrane *t;
	struct terrane_error why = {0};
	struct terrane_open_options o = {.threads = LOOPS, .error = &why};
	int rc = terrane_open(&t, fx.cluster_file, &o);
	if (rc < 0)
		fprintf(stderr, "open: %s\n", why.text);
	assert_int_equal(rc, 0);
	return t;
}

static void fill(uint8_t *bytes, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)((i * 31 + seed) ^ (i >> 8));
}

static int put(struct terrane *t, const char *path, const uint8_t *bytes, size_t len)
{
	struct terrane_file *f;
	struct terrane_options o = {.block_bytes = 256 * KIB};
	int rc = terrane_create(t, path, TERRANE_REPLACE, &f, &o);
	if (rc < 0)
		return rc;
	rc = terrane_append(f, bytes, len, &o);
	if (rc < 0) {
		terrane_file_discard(f);
		return rc;
	}
	return terrane_file_close(f, &o);
}

static uint64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* --- threads ---------------------------------------------------------------------------------- */

#define THREADS 4
#define FILES 6
#define LEN (600 * 1024 + 7)

struct worker {
	struct terrane *t;
	unsigned number;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	uint8_t *out = malloc(LEN);
	uint8_t *in = malloc(LEN);
	CHECK(out != NULL && in != NULL);
	for (unsigned i = 0; i < FILES; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/t%u-%u", w->number, i);
		fill(out, LEN, w->number * 100 + i);
		CHECK_EQ(put(w->t, path, out, LEN), 0);
		struct terrane_file *f;
		uint32_t crc = 0;
		struct terrane_options o = {.crc32c = &crc};
		CHECK_EQ(terrane_file_open(w->t, path, &f, NULL), 0);
		memset(in, 0, LEN);
		CHECK_EQ(terrane_pread(f, in, LEN, 0, &o), LEN);
		CHECK(memcmp(in, out, LEN) == 0);
		CHECK_EQ(crc, terrane_crc32c(0, out, LEN));
		CHECK_EQ(terrane_file_close(f, NULL), 0);
	}
	free(out);
	free(in);
	return NULL;
}

static void many_threads_share_a_cluster(void **state)
{
	(void)state;
	struct terrane *t = open_cluster();
	pthread_t threads[THREADS];
	struct worker workers[THREADS];
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){t, i};
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	struct terrane_stats st;
	terrane_stats(t, &st);
	assert_int_equal(st.written_bytes, (uint64_t)THREADS * FILES * LEN);
	assert_int_equal(st.read_bytes, (uint64_t)THREADS * FILES * LEN);
	assert_int_equal(st.bad_chunks, 0);
	terrane_close(t);
}

/* --- calls that do not block ------------------------------------------------------------------ */

static void on_done(struct terrane_op *op)
{
	/* A blocking call in a callback fails with -EDEADLK. */
	struct terrane *t = *(struct terrane **)op->user;
	struct terrane_stat st;
	CHECK_EQ(terrane_stat(t, "/", &st, NULL), -EDEADLK);
	__atomic_store_n((struct terrane **)op->user, NULL, __ATOMIC_RELEASE);
}

struct ending {
	struct terrane_file *closed, *discarded;
	bool over;
};

static void end_files(struct terrane_op *op)
{
	struct ending *e = op->user;
	CHECK_EQ(terrane_file_close(e->closed, NULL), -EDEADLK);
	terrane_file_discard(e->discarded);
	__atomic_store_n(&e->over, true, __ATOMIC_RELEASE);
}

/* A callback cannot wait for these closes; the leak checker proves that the files are freed. */
static void a_refused_close_frees_its_file_and_shows_nothing(void **state)
{
	(void)state;
	struct terrane *t = open_cluster();
	struct ending e = {0};
	struct terrane_stat st;
	assert_int_equal(terrane_create(t, "/vain", 0, &e.closed, NULL), 0);
	assert_int_equal(terrane_append(e.closed, "bytes", 5, NULL), 0);
	assert_int_equal(terrane_create(t, "/vainer", 0, &e.discarded, NULL), 0);
	struct terrane_op op = {.done = end_files, .user = &e};
	assert_int_equal(terrane_stat_start(t, "/", &st, NULL, &op), 0);
	uint64_t until = now_ms() + 120000;
	while (!__atomic_load_n(&e.over, __ATOMIC_ACQUIRE) && now_ms() < until)
		poll(NULL, 0, 1);
	assert_true(e.over);
	assert_int_equal(terrane_stat(t, "/vain", &st, NULL), -ENOENT);
	terrane_close(t);
}

static void ops_complete_by_callback_queue_and_wait(void **state)
{
	(void)state;
	struct terrane *t = open_cluster();
	uint8_t bytes[5000], back[8][700];
	fill(bytes, sizeof(bytes), 1);
	assert_int_equal(put(t, "/ops", bytes, sizeof(bytes)), 0);
	struct terrane_file *f;
	assert_int_equal(terrane_file_open(t, "/ops", &f, NULL), 0);

	struct terrane_op op = {0};
	assert_int_equal(terrane_pread_start(f, back[0], 700, 100, NULL, &op), 0);
	assert_int_equal(terrane_wait(t, &op), 700);
	assert_memory_equal(back[0], bytes + 100, 700);

	struct terrane *flag = t;
	struct terrane_op called = {.done = on_done, .user = &flag};
	struct terrane_stat st;
	assert_int_equal(terrane_stat_start(t, "/ops", &st, NULL, &called), 0);
	uint64_t until = now_ms() + 120000;
	while (__atomic_load_n(&flag, __ATOMIC_ACQUIRE) != NULL && now_ms() < until)
		poll(NULL, 0, 1);
	assert_null(flag);
	assert_int_equal(called.result, 0);
	assert_int_equal(st.size, 5000);

	struct terrane_queue *q;
	assert_int_equal(terrane_queue_open(t, &q), 0);
	struct terrane_op *got[8], ops[8] = {0};
	assert_int_equal(terrane_queue_take(q, got, 8, 0), 0);
	for (size_t i = 0; i < 8; i++) {
		ops[i] = (struct terrane_op){.queue = q, .user = back[i]};
		assert_int_equal(terrane_pread_start(f, back[i], 700, i * 600, NULL, &ops[i]), 0);
	}
	struct pollfd p = {.fd = terrane_queue_fd(q), .events = POLLIN};
	assert_int_equal(poll(&p, 1, 120000), 1);
	for (int left = 8; left > 0;) {
		int n = terrane_queue_take(q, got, 8, 10000);
		assert_in_range(n, 1, left);
		left -= n;
	}
	assert_int_equal(poll(&p, 1, 0), 0);
	for (size_t i = 0; i < 8; i++) {
		assert_int_equal(ops[i].result, 700);
		assert_memory_equal(back[i], bytes + i * 600, 700);
	}
	terrane_queue_close(q);
	struct terrane_op both = {.done = on_done, .queue = q};
	assert_int_equal(terrane_stat_start(t, "/", &st, NULL, &both), -EINVAL);
	assert_int_equal(terrane_file_close(f, NULL), 0);
	terrane_close(t);
}

static void batches_answer_in_order_or_as_they_come(void **state)
{
	(void)state;
	struct terrane *t = open_cluster();
	struct terrane_small files[30] = {0};
	char names[30][8];
	static uint8_t bytes[30][2000], back[30][2000];
	for (unsigned i = 0; i < 30; i++) {
		snprintf(names[i], sizeof(names[i]), "b%02u", i);
		fill(bytes[i], sizeof(bytes[i]), i);
		files[i] = (struct terrane_small){
			.name = names[i], .data = bytes[i], .len = sizeof(bytes[i])};
	}
	assert_int_equal(terrane_mkdir(t, "/batch", TERRANE_PARENTS, NULL), 0);
	assert_int_equal(terrane_pack(t, "/batch", files, 30, TERRANE_REPLACE, NULL), 0);
	for (int in_order = 0; in_order < 2; in_order++) {
		struct terrane_range ranges[30] = {0};
		memset(back, 0, sizeof(back));
		for (unsigned i = 0; i < 30; i++)
			ranges[i] = (struct terrane_range){.id = files[i].id,
							   .len = sizeof(back[i]),
							   .buf = back[i],
							   .user = &files[i]};
		struct terrane_batch *b;
		assert_int_equal(terrane_batch_open(t, ranges, 30, in_order, &b, NULL), 0);
		struct terrane_range *r;
		unsigned seen = 0;
		while (terrane_batch_next(b, &r) == 1) {
			if (in_order)
				assert_ptr_equal(r, &ranges[seen]);
			assert_int_equal(r->result, 2000);
			assert_memory_equal(r->buf, ((struct terrane_small *)r->user)->data, 2000);
			assert_int_equal(r->crc32c, terrane_crc32c(0, r->buf, 2000));
			seen++;
		}
		assert_int_equal(seen, 30);
		terrane_batch_close(b);
		/* The batch is closed before all its ranges have ended. */
		assert_int_equal(terrane_batch_open(t, ranges, 30, in_order, &b, NULL), 0);
		assert_int_equal(terrane_batch_next(b, &r), 1);
		terrane_batch_close(b);
	}
	struct terrane_range ranges[2] = {{.path = "/batch/b03", .len = 10, .buf = back[0]},
					  {.path = "/batch/none", .len = 10, .buf = back[1]}};
	assert_int_equal(terrane_read_batch(t, ranges, 2, NULL), -ENOENT);
	assert_int_equal(ranges[0].result, 10);
	assert_int_equal(ranges[1].result, -ENOENT);
	terrane_close(t);
}

static void what_is_under_way_ends_with_cancel_and_close(void **state)
{
	(void)state;
	struct terrane *t = open_cluster();
	static uint8_t bytes[600000], back[600000];
	fill(bytes, sizeof(bytes), 5);
	assert_int_equal(put(t, "/cancel", bytes, sizeof(bytes)), 0);
	struct terrane_file *f;
	assert_int_equal(terrane_file_open(t, "/cancel", &f, NULL), 0);
	for (int i = 0; i < 20; i++) {
		struct terrane_op op = {0};
		assert_int_equal(terrane_pread_start(f, back, sizeof(back), 0, NULL, &op), 0);
		if (i % 2 == 0)
			terrane_cancel(t, &op);
		int64_t got = terrane_wait(t, &op);
		assert_true(got == sizeof(back) || (i % 2 == 0 && got == -ECANCELED));
		terrane_cancel(t, &op); /* the op has completed: no effect */
	}
	assert_int_equal(terrane_file_close(f, NULL), 0);
	struct terrane_stat st[50];
	struct terrane_op ops[50] = {0};
	struct terrane_queue *q;
	assert_int_equal(terrane_queue_open(t, &q), 0);
	for (int i = 0; i < 50; i++) {
		ops[i].queue = q;
		assert_int_equal(terrane_stat_start(t, "/cancel", &st[i], NULL, &ops[i]), 0);
	}
	terrane_close(t);
	struct terrane_op *got[50];
	for (int left = 50; left > 0;) {
		int n = terrane_queue_take(q, got, 50, 0);
		assert_in_range(n, 1, left);
		for (int i = 0; i < n; i++)
			assert_true(got[i]->result == 0 || got[i]->result == -ECANCELED ||
				    got[i]->result == -ESHUTDOWN);
		left -= n;
	}
	terrane_queue_close(q);
}

/* --- fork ------------------------------------------------------------------------------------- */

static int child(struct terrane *t, struct terrane_file *reading, struct terrane_file *writing,
		 const uint8_t *bytes)
{
	uint8_t back[3000];
	if (terrane_pread(reading, back, sizeof(back), 1000, NULL) != sizeof(back) ||
	    memcmp(back, bytes + 1000, sizeof(back)) != 0)
		return 10;
	if (terrane_append(writing, bytes, 10, NULL) != -ESTALE)
		return 11;
	if (terrane_file_close(writing, NULL) != -ESTALE)
		return 12;
	if (put(t, "/of-the-child", bytes, 5000) != 0)
		return 13;
	if (terrane_file_close(reading, NULL) != 0)
		return 14;
	terrane_close(t);
	return 0;
}

static void a_child_uses_its_parents_handles(void **state)
{
	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* the sanitizer supports no threads in the child of a process with threads */
#endif
	struct terrane *t = open_cluster();
	static uint8_t bytes[5000], back[5000];
	fill(bytes, sizeof(bytes), 3);
	assert_int_equal(put(t, "/fork", bytes, sizeof(bytes)), 0);
	struct terrane_file *reading, *writing;
	assert_int_equal(terrane_file_open(t, "/fork", &reading, NULL), 0);
	assert_int_equal(terrane_create(t, "/of-the-parent", TERRANE_REPLACE, &writing, NULL), 0);
	assert_int_equal(terrane_append(writing, bytes, 2500, NULL), 0);
	pid_t pids[3];
	for (int i = 0; i < 3; i++) {
		fflush(NULL);
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(child(t, reading, writing, bytes));
	}
	for (int i = 0; i < 3; i++) {
		int status;
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
	/* The parent continues to work. */
	assert_int_equal(terrane_append(writing, bytes + 2500, 2500, NULL), 0);
	assert_int_equal(terrane_file_close(writing, NULL), 0);
	assert_int_equal(terrane_pread(reading, back, 5000, 0, NULL), 5000);
	assert_memory_equal(back, bytes, 5000);
	assert_int_equal(terrane_file_close(reading, NULL), 0);
	static const char *const paths[] = {"/of-the-child", "/of-the-parent"};
	for (int i = 0; i < 2; i++) {
		assert_int_equal(terrane_file_open(t, paths[i], &reading, NULL), 0);
		assert_int_equal(terrane_pread(reading, back, 5000, 0, NULL), 5000);
		assert_memory_equal(back, bytes, 5000);
		assert_int_equal(terrane_file_close(reading, NULL), 0);
	}
	terrane_close(t);
}

/* --- errors ----------------------------------------------------------------------------------- */

static int open_text(const char *text, struct terrane_error *why)
{
	char path[128];
	struct terrane *t;
	struct terrane_open_options o = {.error = why};
	snprintf(path, sizeof(path), "%s/bad.ini", fx.dir);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	int rc = terrane_open(&t, path, &o);
	unlink(path);
	if (rc == 0)
		terrane_close(t);
	return rc;
}

/* In a child process, because the handle of such a log is never freed. */
static void logs_that_were_left_open_do_not_hold_up_the_end(void **state)
{
	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* as above: no fork under the thread sanitizer */
#endif
	pid_t child = fork();
	if (child == 0) {
		struct terrane *t = open_cluster();
		struct terrane_options o = {.encoding = "r3"};
		struct terrane_file *idle, *begun;
		alarm(120);
		int rc = terrane_create(t, "/idle.log", TERRANE_LOG, &idle, &o);
		if (rc == 0)
			rc = terrane_create(t, "/begun.log", TERRANE_LOG, &begun, &o);
		if (rc == 0)
			rc = terrane_append(begun, "x", 1, NULL);
		terrane_close(t);
		_exit(rc == 0 ? 0 : 1);
	}
	int status = -1;
	assert_true(child > 0 && waitpid(child, &status, 0) == child);
	assert_int_equal(status, 0);
}

static void what_is_wrong_is_said(void **state)
{
	(void)state;
	struct terrane_error why = {0};
	struct terrane *t;
	struct terrane_open_options oo = {.error = &why};
	assert_int_equal(terrane_open(&t, "/no/such/file", &oo), -ENOENT);
	assert_non_null(strstr(why.text, "/no/such/file"));
	assert_int_equal(open_text("[cluster]\nmetadat = x\n", &why), -EINVAL);
	assert_non_null(strstr(why.text, "metadat"));
	assert_int_equal(open_text("[cluster]\nmetadata = ,\n", &why), -EINVAL);
	assert_int_equal(open_text("[cluster]\nmetadata = 127.0.0.1:1\nid = xyz\n", &why), -EINVAL);
	/* No server listens at this address. */
	assert_true(open_text("[cluster]\nmetadata = 127.0.0.1:1\n", &why) < 0);
	assert_non_null(strstr(why.text, "127.0.0.1:1"));
	/* The file names the id of another cluster. */
	FILE *f = fopen(fx.cluster_file, "r");
	assert_non_null(f);
	char text[512];
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	memcpy(strstr(text, "abc"), "abd", 3);
	assert_int_equal(open_text(text, &why), -ESTALE);

	t = open_cluster();
	struct terrane_options o = {.error = &why};
	struct terrane_file *h;
	struct terrane_stat st;
	assert_int_equal(terrane_file_open(t, "/not/here", &h, &o), -ENOENT);
	assert_int_equal(why.code, -ENOENT);
	assert_non_null(strstr(why.text, "/not/here"));
	assert_int_equal(terrane_stat(t, NULL, &st, &o), 0); /* the root directory */
	assert_int_equal(terrane_mkdir(t, "/a", 64, &o), -EINVAL);
	o.encoding = "rs:40+20";
	assert_int_equal(terrane_create(t, "/x", 0, &h, &o), -ENOSPC);
	assert_non_null(strstr(why.text, "needs 60 disks"));
	o.encoding = NULL;
	o.timeout_ms = 1;
	terrane_close(t);
}

/* --- the example ------------------------------------------------------------------------------ */

static void the_example_runs(void **state)
{
	(void)state;
	if (example == NULL)
		skip();
	char command[512], line[64] = "";
	snprintf(command, sizeof(command), "TERRANE_CLUSTER=%s %s 'a b c'", fx.cluster_file,
		 example);
	FILE *p = popen(command, "r"); // NOLINT(cert-env33-c): a path of the build
	assert_non_null(p);
	assert_non_null(fgets(line, sizeof(line), p));
	assert_int_equal(pclose(p), 0);
	assert_string_equal(line, "a b c\n");
}

static int setup(void **state)
{
	(void)state;
	real_fixture_start(&fx, 7);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	real_fixture_stop(&fx);
	return 0;
}

int main(int argc, char **argv)
{
	example = argc > 1 ? argv[1] : NULL;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_threads_share_a_cluster),
		cmocka_unit_test(ops_complete_by_callback_queue_and_wait),
		cmocka_unit_test(a_refused_close_frees_its_file_and_shows_nothing),
		cmocka_unit_test(what_is_under_way_ends_with_cancel_and_close),
		cmocka_unit_test(batches_answer_in_order_or_as_they_come),
		cmocka_unit_test(a_child_uses_its_parents_handles),
		cmocka_unit_test(logs_that_were_left_open_do_not_hold_up_the_end),
		cmocka_unit_test(what_is_wrong_is_said),
		cmocka_unit_test(the_example_runs),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
