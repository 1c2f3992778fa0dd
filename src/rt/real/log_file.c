// SPDX-License-Identifier: Apache-2.0
/*
 * Reopening the file to which standard error writes: a rotation of logs renames the file, and from then on the process
 * shall write to a new file of the old name.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "rt/real/real.h"

void log_file_note(struct log_file *f)
{
	char link[32];
	struct stat st;
	f->path[0] = '\0';
	snprintf(link, sizeof(link), "/proc/self/fd/%d", STDERR_FILENO);
	ssize_t n = readlink(link, f->path, sizeof(f->path) - 1);
	bool regular = fstat(STDERR_FILENO, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 0;
	f->path[n > 0 && regular && n < (ssize_t)sizeof(f->path) - 1 ? n : 0] = '\0';
}

static bool same_file(int a, int b)
{
	struct stat x, y;
	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

void log_file_reopen(const struct log_file *f)
{
	if (f->path[0] == '\0')
		return;
	int fd = open(f->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	bool out_too = same_file(STDOUT_FILENO, STDERR_FILENO);
	int rc = fd < 0 || dup2(fd, STDERR_FILENO) < 0 || (out_too && dup2(fd, STDOUT_FILENO) < 0)
			 ? -errno
			 : 0;
	if (fd >= 0)
		close(fd);
	if (rc < 0)
		log_error("log_not_reopened", "file=%s err=%s", LOG_QUOTE(f->path), err_name(rc));
	else
		log_info("log_reopened", "file=%s", LOG_QUOTE(f->path));
}
