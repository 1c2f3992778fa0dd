// SPDX-License-Identifier: Apache-2.0
/*
 * A library that a test preloads into a program: appends a line to the file $TERRANE_SYNC_LOG for each file or directory
 * that the program syncs, and for each rename, after the call has succeeded:
 *
 *   sync PATH
 *   rename PATH
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void note(const char *what, const char *path)
{
	const char *log = getenv("TERRANE_SYNC_LOG");
	char line[PATH_MAX + 16];
	int before = errno;
	int fd = log != NULL ? open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
	if (fd < 0)
		return;
	int len = snprintf(line, sizeof(line), "%s %s\n", what, path);
	if (write(fd, line, (size_t)len) != len)
		abort(); /* the test would judge a part of the calls */
	close(fd);
	errno = before;
}

static int synced(int fd, int rc)
{
	char link[64], path[PATH_MAX];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = rc == 0 ? readlink(link, path, sizeof(path) - 1) : -1;
	if (len > 0) {
		path[len] = 0;
		note("sync", path);
	}
	return rc;
}

int fsync(int fd)
{
	return synced(fd, (int)syscall(SYS_fsync, fd));
}

int fdatasync(int fd)
{
	return synced(fd, (int)syscall(SYS_fdatasync, fd));
}

int rename(const char *from, const char *to)
{
	char path[PATH_MAX];
	int rc = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
	if (rc == 0 && realpath(to, path) != NULL)
		note("rename", path);
	return rc;
}
