// SPDX-License-Identifier: Apache-2.0
/* put - TARGET: stores standard input. touch: makes empty files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/fs_transfer.h"

/* Reads until the buffer is full or standard input ends. Returns the number of bytes. */
static int64_t read_full(char *buf, size_t room)
{
	size_t len = 0;
	while (len < room && !fs_interrupted()) {
		ssize_t n = read(STDIN_FILENO, buf + len, room - len);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			break;
		len += n > 0 ? (size_t)n : 0;
	}
	return fs_interrupted() ? -ECANCELED : (int64_t)len;
}

static int copy_in(struct fs *fs, struct terrane_file *f, char *buf)
{
	int64_t n;
	while ((n = read_full(buf, TRANSFER_PIECE_BYTES)) > 0) {
		int64_t rc = terrane_append(f, buf, (size_t)n, &fs->o);
		if (rc < 0)
			return (int)rc;
		if ((size_t)n < TRANSFER_PIECE_BYTES)
			break;
	}
	return n < 0 ? (int)n : 0;
}

int fs_put_pipe(struct fs *fs, const char *target)
{
	struct terrane_file *f = NULL;
	char *buf = malloc(TRANSFER_PIECE_BYTES);
	if (fs_means_dir(target) || fs_is_directory(fs, target)) {
		free(buf);
		return cli_fail("cannot put standard input to %s: it is a directory; name the file",
				target);
	}
	fs_catch_signals();
	int rc = buf == NULL ? -ENOMEM
			     : terrane_create(fs->t, target,
					      fs->flags.replace ? TERRANE_REPLACE : 0, &f, &fs->o);
	if (rc == 0)
		rc = copy_in(fs, f, buf);
	free(buf);
	/* The file becomes visible only if all was read. */
	if (rc == 0)
		rc = terrane_file_close(f, &fs->o);
	else if (f != NULL)
		terrane_file_discard(f);
	if (rc == -ECANCELED && fs_interrupted())
		return cli_fail("put: interrupted; nothing was stored");
	if (rc < 0)
		fs_fail(&fs->error, rc, "cannot put standard input to", target);
	if (rc == -ENOSPC)
		transfer_tell_waiting(fs, "put");
	return rc < 0 ? CLI_FAILED : CLI_OK;
}

static int touch_time(struct fs *fs, const char *path)
{
	const struct terrane_attributes now = {.set = TERRANE_HAS_MTIME, .mtime_ns = fs_wall_ns()};
	return terrane_attributes_set(fs->t, path, &now, &fs->o);
}

static int touch_one(struct fs *fs, const char *path)
{
	struct terrane_stat st;
	struct terrane_file *f = NULL;
	int rc = terrane_stat(fs->t, path, &st, &fs->o);
	if (rc == 0)
		rc = touch_time(fs, path);
	else if (rc == -ENOENT)
		rc = terrane_create(fs->t, path, 0, &f, &fs->o);
	if (rc == 0 && f != NULL)
		rc = terrane_file_close(f, &fs->o);
	/* Another command may have made it meanwhile. */
	return rc < 0 && rc != -EEXIST ? fs_fail(&fs->error, rc, "cannot touch", path) : CLI_OK;
}

static int run_touch(struct fs *fs, int n, char **paths)
{
	int status = CLI_OK;
	for (int i = 0; i < n; i++)
		if (touch_one(fs, paths[i]) != CLI_OK)
			status = CLI_FAILED;
	return status;
}

const struct fs_command fs_pipe_commands[] = {
	{"touch", "make empty files, or set times to now", "PATH...",
	 "Makes an empty, sealed file of each name that does not exist, and sets the time of the\n"
	 "last change of each file or directory that exists to now.",
	 "", 1, 1000, run_touch, FS_REMOTE_ALL},
};
const size_t fs_pipe_count = ARRAY_LEN(fs_pipe_commands);
