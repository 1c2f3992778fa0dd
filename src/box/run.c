// SPDX-License-Identifier: Apache-2.0
/* The processes of a box: started as daemons, found by their pid files. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "box/box.h"

#define TAIL_BYTES 2000 /* bytes of the end of a log in an error message */
#define METADATA "meta" /* name of the metadata role */
#define STEP_MS 20      /* time between two checks of processes that must stop */
#define KILL_MS 5000    /* time in which processes must end after SIGKILL */

static ssize_t read_small(const char *path, char *out, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t n = read(fd, out, room - 1);
	if (n >= 0)
		out[n] = 0;
	close(fd);
	return n;
}

/* Returns whether a process without a command line is a terrane process that exits: it holds its files and ports until
 * its last thread ended. A zombie holds nothing. */
static bool is_ending(pid_t pid)
{
	char path[64], line[512];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (read_small(path, line, sizeof(line)) <= 0)
		return false;
	const char *name = strchr(line, '('), *end = strrchr(line, ')');
	if (name == NULL || end == NULL || strncmp(name, "(terrane", 8) != 0)
		return false;
	/* The fields after the name: the state is the 1st, the number of threads the 18th. */
	if (end[1] != ' ' || end[2] == '\0')
		return false;
	char state = end[2];
	const char *field = end + 1;
	for (int i = 1; i < 18 && field != NULL; i++)
		field = strchr(field + 1, ' ');
	long threads = field != NULL ? strtol(field, NULL, 10) : 0;
	return strchr("ZX", state) == NULL || threads > 1;
}

/* Returns whether a process belongs to the box: its command line names a file of the folder. The system may have given
 * the pid to another process. */
static bool is_ours(const struct box *b, pid_t pid)
{
	char path[64], line[2 * BOX_PATH_MAX], prefix[BOX_PATH_MAX];
	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	ssize_t n = read_small(path, line, sizeof(line));
	if (n == 0)
		return is_ending(pid);
	return n > 0 && box_path(b, prefix, "%s", "") == 0 &&
	       memmem(line, (size_t)n, prefix, strlen(prefix)) != NULL;
}

pid_t box_pid(const struct box *b, const char *name)
{
	char path[BOX_PATH_MAX], text[32];
	if (box_path(b, path, "run/%s.pid", name) < 0 || read_small(path, text, sizeof(text)) <= 0)
		return 0;
	long pid = strtol(text, NULL, 10);
	return pid > 1 && kill((pid_t)pid, 0) == 0 && is_ours(b, (pid_t)pid) ? (pid_t)pid : 0;
}

#define HOLD_FD 3

/* Executes terrane in the child. A daemon gets a session of its own, so that it gets no signals of the terminal. The
 * descriptor hold stays open until the execution; if the child is no daemon, until its end. */
static _Noreturn void become(const struct box *b, const char *log, bool daemon, int hold,
			     char *const argv[])
{
	if (daemon)
		setsid();
	int in = open("/dev/null", O_RDONLY);
	int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0 ||
	    chdir(b->dir) < 0)
		_exit(127);
	/* Close all other descriptors: an inherited pipe would keep its reader waiting. */
	if (hold >= 0 && ((hold != HOLD_FD && dup2(hold, HOLD_FD) < 0) ||
			  fcntl(HOLD_FD, F_SETFD, daemon ? FD_CLOEXEC : 0) < 0))
		_exit(127);
	closefrom(hold >= 0 ? HOLD_FD + 1 : HOLD_FD);
	execv("/proc/self/exe", argv);
	_exit(127);
}

static int write_pid(const struct box *b, const char *name, pid_t pid)
{
	assert(pid > 1);
	char path[BOX_PATH_MAX], part[BOX_PATH_MAX];
	int rc = box_path(b, path, "run/%s.pid", name);
	if (rc == 0)
		rc = box_path(b, part, "run/%s.pid.part", name);
	if (rc < 0)
		return rc;
	FILE *f = fopen(part, "we");
	if (f == NULL)
		return -errno;
	fprintf(f, "%d\n", (int)pid);
	if (fclose(f) != 0 || rename(part, path) < 0)
		return -errno;
	return 0;
}

pid_t box_spawn(const struct box *b, const char *name, char *const argv[])
{
	assert(name[0] != 0 && strchr(name, '/') == NULL);
	char log[BOX_PATH_MAX];
	int rc = box_path(b, log, "log/%s.log", name);
	if (rc < 0)
		return rc;
	int hold[2];
	if (pipe2(hold, O_CLOEXEC) < 0)
		return -errno;
	pid_t pid = fork();
	if (pid == 0)
		become(b, log, true, hold[1], argv);
	rc = pid < 0 ? -errno : 0;
	close(hold[1]);
	/* Wait until it has its own command line: before, is_ours does not find it, and another call would start
	 * it again. */
	char none;
	while (rc == 0 && read(hold[0], &none, 1) < 0 && errno == EINTR)
		;
	close(hold[0]);
	if (rc < 0)
		return rc;
	rc = write_pid(b, name, pid);
	if (rc < 0)
		kill(pid, SIGTERM);
	return rc < 0 ? rc : pid;
}

int box_call(const struct box *b, const char *name, char *const argv[])
{
	char log[BOX_PATH_MAX];
	int status = 0;
	int rc = box_path(b, log, "log/%s.log", name);
	if (rc < 0)
		return rc;
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		become(b, log, false, b->claim > 0 ? b->claim : -1, argv);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* Sends a signal (0: none) to each process of the box that runs, but to the role `except` (NULL: to all). Returns the number
 * of these processes. With tidy, removes the pid files of processes that do not run. */
static int each_process(const struct box *b, int signal, bool tidy, const char *except)
{
	char run[BOX_PATH_MAX];
	DIR *d = box_path(b, run, "run") == 0 ? opendir(run) : NULL;
	int alive = 0;
	struct dirent *e;
	// cppcheck-suppress readdirCalled ; a stream of our own
	while (d != NULL && (e = readdir(d)) != NULL) {
		char *end = strstr(e->d_name, ".pid");
		if (end == NULL || end[4] != 0)
			continue;
		char path[BOX_PATH_MAX];
		int rc = box_path(b, path, "run/%s", e->d_name);
		*end = 0;
		if (except != NULL && strcmp(e->d_name, except) == 0)
			continue;
		pid_t pid = box_pid(b, e->d_name);
		alive += pid != 0;
		if (pid != 0 && signal != 0)
			kill(pid, signal);
		if (pid == 0 && tidy && rc == 0)
			unlink(path);
	}
	if (d != NULL)
		closedir(d);
	return alive;
}

int box_alive(const struct box *b)
{
	return each_process(b, 0, false, NULL);
}

/*
 * Metadata is stopped when all other roles have ended, or after half of the time: a janitor that gives its leases back
 * needs it.
 */
int box_stop(const struct box *b, unsigned patience_s)
{
	assert(patience_s <= UINT_MAX / 1000);
	unsigned end_ms = patience_s * 1000;
	int found = box_alive(b);
	bool all = false;
	each_process(b, SIGTERM, false, METADATA);
	for (unsigned ms = 0; ms < end_ms; ms += STEP_MS) {
		if (!all && (ms >= end_ms / 2 || each_process(b, 0, true, METADATA) == 0)) {
			pid_t pid = box_pid(b, METADATA);
			if (pid != 0)
				kill(pid, SIGTERM);
			all = true;
		}
		if (each_process(b, 0, true, NULL) == 0)
			return found;
		nanosleep(&(struct timespec){.tv_nsec = STEP_MS * 1000000L}, NULL);
	}
	each_process(b, SIGKILL, false, NULL);
	for (unsigned ms = 0; ms < KILL_MS; ms += STEP_MS) {
		if (each_process(b, 0, true, NULL) == 0)
			return found;
		nanosleep(&(struct timespec){.tv_nsec = STEP_MS * 1000000L}, NULL);
	}
	return -EBUSY;
}

void box_log_tail(const struct box *b, const char *name, struct strbuf *out)
{
	char path[BOX_PATH_MAX], text[TAIL_BYTES + 1];
	int fd = box_path(b, path, "log/%s.log", name) == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	off_t size = lseek(fd, 0, SEEK_END);
	lseek(fd, size > TAIL_BYTES ? size - TAIL_BYTES : 0, SEEK_SET);
	ssize_t n = read(fd, text, TAIL_BYTES);
	close(fd);
	if (n > 0)
		strbuf_add(out, text, (size_t)n);
}
