// SPDX-License-Identifier: Apache-2.0
/* Credentials from and to files. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/credentials.h"
#include "auth/secret.h"
#include "base/err.h"
#include "base/name_sync.h"

static int refuse(struct strbuf *err, const char *path, int rc, const char *what)
{
	(void)strbuf_printf(err, "%s: %s", path, what);
	return rc;
}

static int refuse_errno(struct strbuf *err, const char *path, const char *what)
{
	int rc = -errno;
	(void)strbuf_printf(err, "%s: %s: %s", path, what, err_text(rc));
	return rc;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int check_owner(int fd, const char *path, struct strbuf *err)
{
	struct stat st;
	if (fstat(fd, &st) != 0)
		return refuse_errno(err, path, "cannot examine");
	if (!S_ISREG(st.st_mode))
		return refuse(err, path, -EINVAL, "not a regular file");
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return refuse(err, path, -EACCES, "belongs to another user; refused");
	if ((st.st_mode & 077) != 0)
		return refuse(err, path, -EACCES,
			      "other users have access to these credentials; run chmod 600, and "
			      "rotate them if they may have been read");
	if (st.st_size > (off_t)CREDENTIALS_BYTES_MAX)
		return refuse(err, path, -EFBIG, "too large for credentials");
	return 0;
}

/* Reads at most CREDENTIALS_BYTES_MAX + 1 bytes. */
static int64_t read_all(int fd, char *text)
{
	size_t len = 0;
	while (len <= CREDENTIALS_BYTES_MAX) {
		ssize_t n = read(fd, text + len, CREDENTIALS_BYTES_MAX + 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	return (int64_t)len;
}

static int64_t read_open(int fd, const char *path, char *text, struct strbuf *err)
{
	int rc = check_owner(fd, path, err);
	if (rc < 0)
		return rc;
	int64_t len = read_all(fd, text);
	if (len < 0) {
		errno = (int)-len;
		return refuse_errno(err, path, "cannot read");
	}
	if (len > (int64_t)CREDENTIALS_BYTES_MAX)
		return refuse(err, path, -EFBIG, "too large for credentials");
	return len;
}

int64_t credentials_read(const char *path, char text[CREDENTIALS_BYTES_MAX + 1], struct strbuf *err)
{
	/* O_NONBLOCK: a FIFO at this place does not hang the program */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return refuse_errno(err, path, "cannot open the credentials");
	int64_t len = read_open(fd, path, text, err);
	close(fd);
	return len;
}

int credentials_load(struct credentials **out, const char *path, struct strbuf *err)
{
	*out = NULL;
	char *text = secret_alloc(CREDENTIALS_BYTES_MAX + 1);
	if (text == NULL)
		return refuse(err, path, -ENOMEM, "out of memory");
	int64_t len = credentials_read(path, text, err);
	int rc = len < 0 ? (int)len : credentials_parse(out, text, (size_t)len, path, err);
	secret_free(text, CREDENTIALS_BYTES_MAX + 1);
	return rc;
}

/* --- writing ---------------------------------------------------------------------------------- */

static size_t format(const struct credentials *c, char *out, size_t room)
{
	int n = snprintf(out, room,
			 "terrane-credentials 1\ncluster = %016llx%016llx\nidentity = %s\n"
			 "version = %u\nsecret = ",
			 (unsigned long long)c->cluster_high, (unsigned long long)c->cluster_low,
			 c->identity, c->version);
	assert(n > 0 && (size_t)n + (size_t)2 * MAC_KEY_BYTES + 2 + c->pem_len < room);
	size_t len = (size_t)n;
	for (size_t i = 0; i < MAC_KEY_BYTES; i++)
		len += (size_t)snprintf(out + len, room - len, "%02x", c->secret[i]);
	out[len++] = '\n';
	out[len++] = '\n';
	memcpy(out + len, c->pem, c->pem_len);
	return len + c->pem_len;
}

static int write_all(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, text, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		len -= (size_t)n;
	}
	return fsync(fd) == 0 ? 0 : -errno;
}

int credentials_store(const struct credentials *c, const char *path, struct strbuf *err)
{
	assert(c->version != 0 && identity_name_check(c->identity) == 0);
	assert(c->pem_len <= CREDENTIALS_PEM_MAX);
	char *text = secret_alloc(CREDENTIALS_BYTES_MAX);
	if (text == NULL)
		return refuse(err, path, -ENOMEM, "out of memory");
	size_t len = format(c, text, CREDENTIALS_BYTES_MAX);
	int rc = 0;
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		rc = refuse_errno(err, path, "cannot create the credentials");
	} else {
		rc = write_all(fd, text, len);
		if (rc == 0)
			rc = name_sync(path);
		if (rc < 0) {
			errno = -rc;
			rc = refuse_errno(err, path, "cannot write the credentials");
			unlink(path);
		}
		close(fd);
	}
	secret_free(text, CREDENTIALS_BYTES_MAX);
	return rc;
}
