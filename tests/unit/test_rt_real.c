// SPDX-License-Identifier: Apache-2.0
/* The real world: files, sockets, threads, signals, and a machine without io_uring. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/log.h"
#include "base/rng.h"
#include "check.h"
#include "rt/file.h"
#include "rt/net.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "rt/sync.h"

static char dir[64];

static int make_dir(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/terrane-test-XXXXXX");
	return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state)
{
	(void)state;
	return rmdir(dir);
}

static const char *in_dir(char *out, const char *name)
{
	snprintf(out, 128, "%s/%s", dir, name);
	return out;
}

static void real(void (*body)(void *))
{
	CHECK_EQ(rt_real_run(NULL, body, NULL), 0);
}

/* --- files ----------------------------------------------------------------------------------- */

static void use_file(void *arg)
{
	(void)arg;
	char a[128];
	char b[128];
	struct rt_file *f;
	CHECK_EQ(rt_file_open(&f, in_dir(a, "none"), RT_READ), -ENOENT);
	CHECK_EQ(rt_file_open(&f, in_dir(a, "a"), RT_READ | RT_EXCL), -EINVAL);
	unsigned flags = RT_READ | RT_WRITE | RT_CREATE | RT_EXCL;
	CHECK_EQ(rt_file_open(&f, in_dir(a, "a"), flags), 0);
	struct rt_file *twin;
	CHECK_EQ(rt_file_open(&twin, a, flags), -EEXIST);

	char x[5] = "hello";
	char y[6] = " world";
	struct iovec iov[2] = {{x, sizeof(x)}, {y, sizeof(y)}};
	CHECK_EQ(rt_file_writev(f, iov, 2, 3), 0);
	CHECK_EQ(rt_file_sync(f), 0);
	uint64_t size;
	CHECK_EQ(rt_file_size(f, &size), 0);
	CHECK_EQ(size, 14);

	char back[32] = {1, 1, 1};
	CHECK_EQ(rt_file_read(f, back, sizeof(back), 0), 14);
	CHECK(memcmp(back, "\0\0\0hello world", 14) == 0);
	CHECK_EQ(rt_file_read(f, back, sizeof(back), 14), 0);
	CHECK_EQ(rt_file_read(f, back, 4, UINT64_MAX), -EOVERFLOW);
	CHECK_EQ(rt_file_readv(f, iov, RT_IOV_MAX + 1, 0), -EINVAL);

	CHECK_EQ(rt_file_truncate(f, 4), 0);
	CHECK_EQ(rt_file_allocate(f, 0, 8192, true), 0);
	CHECK_EQ(rt_file_size(f, &size), 0);
	CHECK_EQ(size, 4);
	CHECK_EQ(rt_file_allocate(f, 0, 8192, false), 0);
	CHECK_EQ(rt_file_size(f, &size), 0);
	CHECK_EQ(size, 8192);
	CHECK_EQ(rt_file_allocate(f, 0, 0, false), -EINVAL);
	rt_file_close(f);

	CHECK_EQ(rt_rename(a, in_dir(b, "b")), 0);
	CHECK_EQ(rt_name_sync("/proc/none"), -EINVAL);
	CHECK_EQ(rt_dir_sync(dir), 0);
	CHECK_EQ(rt_unlink(a), -ENOENT);
	CHECK_EQ(rt_unlink(b), 0);
	struct rt_space space;
	CHECK_EQ(rt_space(dir, &space), 0);
	CHECK(space.total_bytes > 0 && space.free_bytes <= space.total_bytes);
}

/*
 * The kernel refuses to sync a device without a cache and a directory of /proc, so a call that is not handed to the
 * kernel would show as a success.
 */
static void sync_files(void *arg)
{
	(void)arg;
	struct rt_file *f;
	CHECK_EQ(rt_file_open(&f, "/dev/null", RT_WRITE), 0);
	CHECK_EQ(rt_file_sync(f), -EINVAL);
	rt_file_close(f);
	CHECK_EQ(rt_dir_sync("/proc"), -EINVAL);
	CHECK_EQ(rt_dir_sync(dir), 0);
}

static void syncs_reach_the_kernel(void **state)
{
	(void)state;
	real(sync_files);
}

static void file_calls_have_their_documented_effects(void **state)
{
	(void)state;
	real(use_file);
}

static void use_lock(void *arg)
{
	(void)arg;
	char a[128];
	struct rt_file *f;
	struct rt_file *g;
	unsigned flags = RT_WRITE | RT_CREATE | RT_LOCK;
	CHECK_EQ(rt_file_open(&f, in_dir(a, "lock"), flags), 0);
	CHECK_EQ(rt_file_write(f, "x", 1, 0), 0);
	CHECK_EQ(rt_file_open(&g, a, flags | RT_TRUNC), -EBUSY);
	uint64_t size;
	CHECK_EQ(rt_file_size(f, &size), 0);
	CHECK_EQ(size, 1);
	rt_file_close(f);
	CHECK_EQ(rt_file_open(&g, a, flags | RT_TRUNC), 0);
	CHECK_EQ(rt_file_size(g, &size), 0);
	CHECK_EQ(size, 0);
	rt_file_close(g);
	CHECK_EQ(rt_unlink(a), 0);
}

static void a_locked_file_is_refused_and_not_truncated(void **state)
{
	(void)state;
	real(use_lock);
}

static bool count_name(void *ctx, const char *name, bool is_dir)
{
	int *seen = ctx;
	if (strncmp(name, "entry-", 6) != 0 || is_dir)
		return true;
	char *end;
	long i = strtol(name + 6, &end, 10);
	if (*end == 0 && i >= 0 && i < 3000)
		seen[i]++;
	return true;
}

static bool stop_at_once(void *ctx, const char *name, bool is_dir)
{
	(void)name;
	(void)is_dir;
	++*(int *)ctx;
	return false;
}

static void use_listing(void *arg)
{
	(void)arg;
	char sub[128];
	char path[256];
	static int seen[3000];
	CHECK_EQ(rt_mkdir(in_dir(sub, "sub")), 0);
	CHECK_EQ(rt_mkdir(sub), -EEXIST);
	for (int i = 0; i < 3000; i++) {
		struct rt_file *f;
		snprintf(path, sizeof(path), "%s/entry-%04d", sub, i);
		CHECK_EQ(rt_file_open(&f, path, RT_WRITE | RT_CREATE), 0);
		rt_file_close(f);
	}
	memset(seen, 0, sizeof(seen));
	CHECK_EQ(rt_dir_list(sub, count_name, seen), 0);
	int calls = 0;
	CHECK_EQ(rt_dir_list(sub, stop_at_once, &calls), 0);
	CHECK_EQ(calls, 1);
	CHECK_EQ(rt_rmdir(sub), -ENOTEMPTY);
	for (int i = 0; i < 3000; i++) {
		CHECK_EQ(seen[i], 1);
		snprintf(path, sizeof(path), "%s/entry-%04d", sub, i);
		CHECK_EQ(rt_unlink(path), 0);
	}
	CHECK_EQ(rt_rmdir(sub), 0);
}

static void a_large_directory_lists_each_name_once(void **state)
{
	(void)state;
	real(use_listing);
}

/* --- sockets --------------------------------------------------------------------------------- */

#define STREAM_BYTES (3 * MIB)

struct stream {
	struct rt_listener *listener;
	const char *addr;
	uint8_t *data;
};

static void send_stream(void *arg)
{
	struct stream *st = arg;
	struct rt_sock *s;
	CHECK_EQ(rt_connect(&s, st->addr), 0);
	struct iovec iov[200];
	size_t piece = STREAM_BYTES / ARRAY_LEN(iov);
	for (size_t i = 0; i < ARRAY_LEN(iov); i++)
		iov[i] = (struct iovec){st->data + i * piece, piece};
	iov[199].iov_len = STREAM_BYTES - 199 * piece;
	CHECK_EQ(rt_sock_sendv(s, iov, ARRAY_LEN(iov)), 0);
	char end;
	CHECK_EQ(rt_sock_recv(s, &end, 1, 1), 1);
	rt_sock_close(s);
}

static void stream_through(const char *addr)
{
	struct stream st = {.data = malloc(STREAM_BYTES)};
	AUTO_FREE uint8_t *got = malloc(STREAM_BYTES);
	struct rng r;
	rng_init(&r, 5);
	rng_fill(&r, st.data, STREAM_BYTES);
	CHECK_EQ(rt_listen(&st.listener, addr), 0);
	st.addr = rt_listener_addr(st.listener);
	struct rt_fiber *f;
	CHECK_EQ(rt_spawn(&f, "send", send_stream, &st), 0);
	struct rt_sock *s;
	CHECK_EQ(rt_accept(st.listener, &s), 0);
	int64_t n = rt_sock_recv(s, got, 1000, 1);
	CHECK(n >= 1);
	size_t rest = STREAM_BYTES - (size_t)n;
	CHECK_EQ(rt_sock_recv(s, got + n, rest, rest), rest);
	CHECK(memcmp(got, st.data, STREAM_BYTES) == 0);
	char bye = 'e';
	struct iovec end = {&bye, 1};
	CHECK_EQ(rt_sock_sendv(s, &end, 1), 0);
	CHECK_EQ(rt_sock_recv(s, got, 1, 1), 0);
	rt_join(f);
	rt_sock_close(s);
	rt_listener_close(st.listener);
	free(st.data);
}

static void use_sockets(void *arg)
{
	(void)arg;
	char path[128];
	char addr[256];
	stream_through("127.0.0.1:0");
	stream_through("[::1]:0");
	stream_through("localhost:0");
	snprintf(addr, sizeof(addr), "unix:%s", in_dir(path, "sock"));
	stream_through(addr);
}

static void streams_carry_bytes_in_order(void **state)
{
	(void)state;
	real(use_sockets);
}

static void use_bad_addresses(void *arg)
{
	(void)arg;
	static const char *const bad[] = {
		"",    ":",       "x",     "127.0.0.1",       "127.0.0.1:",
		":80", "[::1:80", "unix:", "127.0.0.1:http!", "127.0.0.1:99999999999"};
	struct rt_sock *s;
	struct rt_listener *l;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		CHECK(rt_connect(&s, bad[i]) < 0);
		CHECK(rt_listen(&l, bad[i]) < 0);
	}
	char addr[256];
	char path[128];
	snprintf(addr, sizeof(addr), "unix:%s", in_dir(path, "nobody"));
	CHECK_EQ(rt_connect(&s, addr), -ECONNREFUSED);
	CHECK_EQ(rt_listen(&l, "127.0.0.1:0"), 0);
	struct rt_listener *second;
	CHECK_EQ(rt_listen(&second, rt_listener_addr(l)), -EADDRINUSE);
	snprintf(addr, sizeof(addr), "%s", rt_listener_addr(l));
	rt_listener_close(l);
	CHECK_EQ(rt_connect(&s, addr), -ECONNREFUSED);
}

static void invalid_addresses_are_refused(void **state)
{
	(void)state;
	real(use_bad_addresses);
}

static void left_by_the_dead(void *arg)
{
	(void)arg;
	char path[128];
	char addr[256];
	snprintf(addr, sizeof(addr), "unix:%s", in_dir(path, "dead"));
	pid_t pid = fork();
	if (pid == 0) {
		/* Bind, and exit without removing the socket's file. */
		struct rt_listener *l;
		_exit(rt_listen(&l, addr) != 0 ? 1 : 0);
	}
	int status;
	waitpid(pid, &status, 0);
	CHECK_EQ(access(path, F_OK), 0);
	struct rt_listener *l;
	CHECK_EQ(rt_listen(&l, addr), 0);
	struct rt_listener *second;
	CHECK_EQ(rt_listen(&second, addr), -EADDRINUSE);
	rt_listener_close(l);
	CHECK_EQ(access(path, F_OK), -1);
}

static void a_socket_file_of_a_dead_process_is_taken_over(void **state)
{
	(void)state;
	real(left_by_the_dead);
}

static void listen_on_a_file(void *arg)
{
	(void)arg;
	char path[128];
	char addr[256];
	struct rt_file *f;
	struct rt_listener *l;
	CHECK_EQ(rt_file_open(&f, in_dir(path, "precious"), RT_WRITE | RT_CREATE), 0);
	rt_file_close(f);
	snprintf(addr, sizeof(addr), "unix:%s", path);
	CHECK_EQ(rt_listen(&l, addr), -EADDRINUSE);
	CHECK_EQ(access(path, F_OK), 0);
	CHECK_EQ(rt_unlink(path), 0);

	/* The listener must not remove a file that has replaced its socket. */
	CHECK_EQ(rt_listen(&l, addr), 0);
	CHECK_EQ(rt_unlink(path), 0);
	CHECK_EQ(rt_file_open(&f, path, RT_WRITE | RT_CREATE), 0);
	rt_file_close(f);
	rt_listener_close(l);
	CHECK_EQ(access(path, F_OK), 0);
	CHECK_EQ(rt_unlink(path), 0);
}

static void listening_never_removes_a_file_that_is_no_socket_of_its_own(void **state)
{
	(void)state;
	real(listen_on_a_file);
}

static void offload_nothing(void *arg)
{
	(void)arg;
}

static atomic_bool sleeps_there;

static void offload_at_the_end(void *arg)
{
	(void)arg;
	atomic_store(&sleeps_there, true);
	CHECK_EQ(rt_sleep_ns(3600 * NS_PER_S), -ECANCELED);
	rt_shield_enter();
	CHECK_EQ(rt_offload(offload_nothing, NULL), 0);
	rt_shield_leave();
}

static void spawn_offloader(struct rt_msg *m)
{
	(void)m;
	CHECK_EQ(rt_spawn(NULL, "there", offload_at_the_end, NULL), 0);
}

static void close_loop_that_offloads(void *arg)
{
	(void)arg;
	struct rt_loop *l;
	struct rt_msg m = {.fn = spawn_offloader};
	CHECK_EQ(rt_loop_open(&l, "other"), 0);
	rt_post(l, &m);
	while (!atomic_load(&sleeps_there))
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	rt_loop_close(l);
}

static void closing_a_loop_leaves_the_pool_to_its_last_fibers(void **state)
{
	(void)state;
	struct rt_real_options o = {.offload_threads = 1};
	assert_int_equal(rt_real_run(&o, close_loop_that_offloads, NULL), 0);
}

static void wait_for_bytes(void *arg)
{
	struct rt_sock *s = arg;
	char c;
	CHECK_EQ(rt_sock_recv(s, &c, 1, 1), -ECANCELED);
}

static void use_interrupts(void *arg)
{
	(void)arg;
	struct rt_listener *l;
	struct rt_sock *a;
	struct rt_sock *b;
	CHECK_EQ(rt_listen(&l, "127.0.0.1:0"), 0);
	uint64_t before = rt_deadline_narrow(rt_now_ns() + 5 * NS_PER_MS);
	CHECK_EQ(rt_accept(l, &a), -ETIME);
	rt_deadline_set(before);
	CHECK_EQ(rt_connect(&a, rt_listener_addr(l)), 0);
	CHECK_EQ(rt_accept(l, &b), 0);

	struct rt_fiber *f;
	CHECK_EQ(rt_spawn(&f, "recv", wait_for_bytes, a), 0);
	CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	rt_cancel(f);
	rt_join(f);

	/* If the peer does not read, the sender waits until its deadline. */
	AUTO_FREE char *lots = calloc(1, 64 * MIB);
	struct iovec iov = {lots, 64 * MIB};
	rt_deadline_narrow(rt_now_ns() + 50 * NS_PER_MS);
	CHECK_EQ(rt_sock_sendv(a, &iov, 1), -ETIME);
	rt_deadline_set(before);
	rt_sock_close(a);
	rt_sock_close(b);
	rt_listener_close(l);
}

static void waits_on_sockets_can_be_ended(void **state)
{
	(void)state;
	real(use_interrupts);
}

/* --- the process ----------------------------------------------------------------------------- */

static void wait_for_signal(void *arg)
{
	int *pipe_fd = arg;
	if (write(pipe_fd[1], "r", 1) != 1)
		return;
	int rc = rt_shutdown_wait();
	if (write(pipe_fd[1], rc == 0 ? "d" : "x", 1) != 1)
		return;
}

static void sigterm_ends_rt_shutdown_wait(void **state)
{
	(void)state;
	int fd[2];
	assert_int_equal(pipe(fd), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct rt_real_options o = {.signals = true};
		_exit(rt_real_run(&o, wait_for_signal, fd) != 0 ? 1 : 0);
	}
	close(fd[1]);
	char c;
	assert_int_equal(read(fd[0], &c, 1), 1);
	kill(pid, SIGTERM);
	assert_int_equal(read(fd[0], &c, 1), 1);
	assert_int_equal(c, 'd');
	int status;
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	close(fd[0]);
}

static void nothing(void *arg)
{
	(void)arg;
}

static void keep_line(void *ctx, const char *line, size_t len)
{
	snprintf(ctx, 1024, "%.*s", (int)len, line);
}

/* In a child process, because a seccomp filter cannot be removed. */
static void without_io_uring_there_is_a_clear_error(void **state)
{
	(void)state;
	pid_t pid = fork();
	if (pid == 0) {
		struct sock_filter code[] = {
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		};
		struct sock_fprog prog = {.len = ARRAY_LEN(code), .filter = code};
		static char line[1024];
		struct log_config log = {.level = LOG_INFO, .write = keep_line, .ctx = line};
		log_setup(&log);
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) != 0)
			_exit(3);
		if (rt_real_run(NULL, nothing, NULL) != -ENOSYS)
			_exit(1);
		_exit(strstr(line, "io_uring_disabled") != NULL ? 0 : 2);
	}
	int status;
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_calls_have_their_documented_effects),
		cmocka_unit_test(syncs_reach_the_kernel),
		cmocka_unit_test(a_locked_file_is_refused_and_not_truncated),
		cmocka_unit_test(a_large_directory_lists_each_name_once),
		cmocka_unit_test(streams_carry_bytes_in_order),
		cmocka_unit_test(invalid_addresses_are_refused),
		cmocka_unit_test(a_socket_file_of_a_dead_process_is_taken_over),
		cmocka_unit_test(listening_never_removes_a_file_that_is_no_socket_of_its_own),
		cmocka_unit_test(closing_a_loop_leaves_the_pool_to_its_last_fibers),
		cmocka_unit_test(waits_on_sockets_can_be_ended),
		cmocka_unit_test(sigterm_ends_rt_shutdown_wait),
		cmocka_unit_test(without_io_uring_there_is_a_clear_error),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
