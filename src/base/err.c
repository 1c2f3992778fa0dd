// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>

#include "base/base.h"

struct err_entry {
	int code;
	const char *name;
	const char *text;
};

#define ERR(code, text)           \
	{                         \
		code, #code, text \
	}

static const struct err_entry err_table[] = {
	ERR(EPERM, "not permitted"),
	ERR(ENOENT, "does not exist"),
	ERR(EIO, "the device failed to read or write"),
	ERR(EAGAIN, "temporarily out of resources: try again later"),
	ERR(ENOMEM, "out of memory"),
	ERR(EACCES, "permission denied"),
	ERR(EBUSY, "busy: in use by another request or process"),
	ERR(EEXIST, "exists already"),
	ERR(ENODEV, "the device or disk is not available"),
	ERR(ENOTDIR, "not a directory"),
	ERR(EISDIR, "is a directory"),
	ERR(EINVAL, "invalid argument"),
	ERR(EMFILE, "too many open files"),
	ERR(EFBIG, "too large"),
	ERR(ENOSPC, "no space left"),
	ERR(EROFS, "read-only"),
	ERR(EPIPE, "the peer closed the connection"),
	ERR(ERANGE, "out of range"),
	ERR(ENAMETOOLONG, "name too long"),
	ERR(ENOSYS, "not supported by this server"),
	ERR(ENOTEMPTY, "directory is not empty"),
	ERR(ELOOP, "too many levels of directories"),
	ERR(ENODATA, "too few chunks are left to rebuild the data"),
	ERR(ETIME, "the deadline passed"),
	ERR(EPROTO, "the peer violated the protocol"),
	ERR(EPROTONOSUPPORT,
	    "one end of the connection uses TLS and the other does not: compare the "
	    "setting tls and the certificates in the credentials of both"),
	ERR(EBADMSG, "checksum or format mismatch: the bytes are not those that were written"),
	ERR(EOVERFLOW, "a size or count overflows"),
	ERR(EILSEQ, "malformed text"),
	ERR(EMSGSIZE, "message larger than allowed"),
	ERR(EOPNOTSUPP, "not supported"),
	ERR(EADDRINUSE, "address in use"),
	ERR(EADDRNOTAVAIL, "address not available on this machine"),
	ERR(ENETUNREACH, "network unreachable"),
	ERR(ECONNABORTED, "connection aborted"),
	ERR(ECONNRESET, "connection lost"),
	ERR(ENOBUFS, "buffer memory is exhausted"),
	ERR(ENOTCONN, "not connected"),
	ERR(ETIMEDOUT, "the peer did not answer"),
	ERR(ECONNREFUSED, "connection refused: no process listens at this address"),
	ERR(EHOSTUNREACH, "host unreachable"),
	ERR(EALREADY, "already in progress"),
	ERR(ESTALE, "stale map, token or epoch: refresh and try again"),
	ERR(EDQUOT, "quota exceeded"),
	ERR(EKEYEXPIRED, "the token has expired: get a new one and try again"),
	ERR(ECANCELED, "cancelled"),
	ERR(ESHUTDOWN, "shutting down"),
};

static const struct err_entry *err_find(int err)
{
	assert(err > INT_MIN);
	int code = err < 0 ? -err : err;
	for (size_t i = 0; i < ARRAY_LEN(err_table); i++)
		if (err_table[i].code == code)
			return &err_table[i];
	return NULL;
}

const char *err_name(int err)
{
	if (err == 0)
		return "OK";
	const struct err_entry *e = err_find(err);
	return e != NULL ? e->name : "EUNKNOWN";
}

const char *err_text(int err)
{
	if (err == 0)
		return "ok";
	const struct err_entry *e = err_find(err);
	return e != NULL ? e->text : "unexpected error";
}

int err_from_wire(uint32_t code)
{
	if (code == 0)
		return 0;
	if (code > 4096 || err_find((int)code) == NULL)
		return -EPROTO;
	return code == ECANCELED ? -ESHUTDOWN : -(int)code;
}
