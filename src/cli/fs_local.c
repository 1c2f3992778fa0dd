// SPDX-License-Identifier: Apache-2.0
#include "cli/fs_local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

#define PREFIX "user."
#define PREFIX_LEN (sizeof(PREFIX) - 1)
#define NAMES_MAX \
	(64 * KIB) /* bytes of the names of all extended attributes of a file: XATTR_LIST_MAX */

/* --- reading ---------------------------------------------------------------------------------- */

void local_attrs_of(const struct stat *st, struct terrane_attributes *out)
{
	*out = (struct terrane_attributes){
		.set = TERRANE_HAS_MODE | TERRANE_HAS_UID | TERRANE_HAS_GID,
		.mode = (uint32_t)st->st_mode & 07777,
		.uid = (uint32_t)st->st_uid,
		.gid = (uint32_t)st->st_gid,
	};
	if (st->st_mtim.tv_sec < 0 || (uint64_t)st->st_mtim.tv_sec >= INT64_MAX / NS_PER_S)
		return; /* a time that the cluster cannot keep */
	out->set |= TERRANE_HAS_MTIME;
	out->mtime_ns = (uint64_t)st->st_mtim.tv_sec * NS_PER_S + (uint64_t)st->st_mtim.tv_nsec;
}

/* Adds an extended attribute of a local file. -EFBIG: there is no room for it; -ENODATA: it was removed meanwhile. */
static int add_user(struct local_attrs *out, size_t *used, const char *path, const char *name)
{
	size_t len = strlen(name) - PREFIX_LEN, left = sizeof(out->bytes) - *used;
	if (out->all.user_count == TERRANE_ATTRIBUTES_MAX || len > TERRANE_ATTRIBUTE_NAME_MAX ||
	    len + 1 > left)
		return -EFBIG;
	char *to = out->bytes + *used;
	memcpy(to, name + PREFIX_LEN, len + 1);
	/* With no room left a size of 0 would ask for the length alone. */
	ssize_t n = left == len + 1 ? -1 : getxattr(path, name, to + len + 1, left - len - 1);
	if (n < 0)
		return left == len + 1 || errno == ERANGE ? -EFBIG : -errno;
	out->user[out->all.user_count++] =
		(struct terrane_attribute){.name = to, .value = to + len + 1, .len = (size_t)n};
	*used += len + 1 + (size_t)n;
	return *used - out->all.user_count > TERRANE_ATTRIBUTE_BYTES_MAX ? -EFBIG : 0;
}

static int read_user(const char *path, struct local_attrs *out)
{
	char *names = malloc(NAMES_MAX);
	if (names == NULL)
		return -ENOMEM;
	ssize_t len = listxattr(path, names, NAMES_MAX);
	size_t used = 0;
	int rc = len < 0 && errno != ENOTSUP ? -errno : 0;
	for (ssize_t at = 0; rc == 0 && at < len; at += (ssize_t)strlen(names + at) + 1) {
		if (strncmp(names + at, PREFIX, PREFIX_LEN) == 0 && names[at + PREFIX_LEN] != 0)
			rc = add_user(out, &used, path, names + at);
		rc = rc == -ENODATA ? 0 : rc;
	}
	free(names);
	return rc;
}

void local_attrs_read(const char *path, const struct stat *st, struct local_attrs *out)
{
	char shown[FS_PATH_MAX];
	local_attrs_of(st, &out->all);
	/* Most files have no extended attribute, and this call says so without memory. */
	if (listxattr(path, NULL, 0) <= 0)
		return;
	int rc = read_user(path, out);
	if (rc < 0) {
		out->all.user_count = 0;
		cli_fail("%s is stored without its extended attributes: %s", fs_show(shown, path),
			 rc == -EFBIG ? "they are more than 64, or larger than 4096 bytes together"
				      : terrane_error_text(rc));
	}
	out->all.user = out->all.user_count > 0 ? out->user : NULL;
}

/* --- giving ----------------------------------------------------------------------------------- */

int local_attrs_give(int fd, const struct local_wish *w)
{
	uid_t uid = (w->has & TERRANE_HAS_UID) != 0 ? (uid_t)w->uid : (uid_t)-1;
	gid_t gid = (w->has & TERRANE_HAS_GID) != 0 ? (gid_t)w->gid : (gid_t)-1;
	/* Some filesystems have no owners. The file is complete without. */
	if (geteuid() == 0 && fchown(fd, uid, gid) < 0 && errno != EPERM && errno != EINVAL)
		return -errno;
	if ((w->has & TERRANE_HAS_MODE) != 0 && fchmod(fd, w->mode & LOCAL_MODE_MASK) < 0)
		return -errno;
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
					  {.tv_sec = (time_t)(w->mtime_ns / NS_PER_S),
					   .tv_nsec = (long)(w->mtime_ns % NS_PER_S)}};
	return futimens(fd, times) < 0 ? -errno : 0;
}

int local_user_give(struct fs *fs, const char *remote, int fd, const struct terrane_options *o)
{
	uint64_t buf[TERRANE_ATTRIBUTES_BYTES / sizeof(uint64_t)];
	struct terrane_attributes all;
	int rc = terrane_attributes_get(fs->t, remote, &all, buf, sizeof(buf), o);
	for (size_t i = 0; rc == 0 && i < all.user_count; i++) {
		char name[PREFIX_LEN + TERRANE_ATTRIBUTE_NAME_MAX + 1];
		snprintf(name, sizeof(name), PREFIX "%s", all.user[i].name);
		if (fsetxattr(fd, name, all.user[i].value, all.user[i].len, 0) < 0)
			rc = -errno;
	}
	return rc;
}
