// SPDX-License-Identifier: Apache-2.0
#include "base/name_sync.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

int name_sync(const char *path)
{
	assert(path != NULL && path[0] != 0);
	AUTO_FREE char *dir = strdup(path);
	if (dir == NULL)
		return -ENOMEM;
	char *slash = strrchr(dir, '/');
	if (slash != NULL)
		slash[slash == dir ? 1 : 0] = 0;
	int fd = open(slash != NULL ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int rc = fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP ? 0 : -errno;
	close(fd);
	return rc;
}
