// SPDX-License-Identifier: Apache-2.0
/*
 * The part of all socket calls that both worlds share: it checks the deadline and repeats short
 * transfers until they are complete.
 */
#include "rt/net.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "rt/core.h"

#define SEND_IOV_MAX 64 /* most elements of one transfer; longer lists take several transfers */

int rt_listen(struct rt_listener **out, const char *addr)
{
	int rc = fiber_check();
	struct rt_loop *l = rt_loop_self();
	return rc != 0 ? rc : l->world->net->listen(l, out, addr);
}

const char *rt_listener_addr(const struct rt_listener *l)
{
	return l->addr;
}

int rt_accept(struct rt_listener *l, struct rt_sock **out)
{
	int rc = fiber_check();
	return rc != 0 ? rc : l->ops->accept(l, out);
}

void rt_listener_close(struct rt_listener *l)
{
	if (l != NULL)
		l->ops->listener_close(l);
}

int rt_connect(struct rt_sock **out, const char *addr)
{
	int rc = fiber_check();
	struct rt_loop *l = rt_loop_self();
	return rc != 0 ? rc : l->world->net->connect(l, out, addr);
}

int64_t rt_sock_recv(struct rt_sock *s, void *buf, size_t len, size_t min)
{
	size_t done = 0;
	assert(min <= len);
	do {
		int rc = fiber_check();
		if (rc != 0)
			return rc;
		int64_t n = s->ops->recv(s, (char *)buf + done, len - done, min - done);
		if (n < 0)
			return n;
		if (n == 0)
			break;
		assert((size_t)n <= len - done);
		done += (size_t)n;
	} while (done < min);
	return (int64_t)done;
}

int rt_sock_sendv(struct rt_sock *s, const struct iovec *iov, int n)
{
	struct iovec part[SEND_IOV_MAX];
	size_t skip = 0; /* number of bytes of iov[0] that were already sent */
	while (n > 0) {
		if (iov->iov_len == skip) {
			iov++;
			n--;
			skip = 0;
			continue;
		}
		int m = n < SEND_IOV_MAX ? n : SEND_IOV_MAX;
		memcpy(part, iov, (size_t)m * sizeof(part[0]));
		part[0].iov_base = (char *)part[0].iov_base + skip;
		part[0].iov_len -= skip;
		int rc = fiber_check();
		if (rc != 0)
			return rc;
		int64_t sent = s->ops->sendv(s, part, m);
		if (sent < 0)
			return (int)sent;
		skip += (size_t)sent;
		while (n > 0 && skip >= iov->iov_len) {
			skip -= iov->iov_len;
			iov++;
			n--;
		}
	}
	assert(skip == 0);
	return 0;
}

void rt_sock_shutdown(struct rt_sock *s)
{
	s->ops->shutdown(s);
}

void rt_sock_close(struct rt_sock *s)
{
	if (s != NULL)
		s->ops->sock_close(s);
}

const char *rt_sock_peer(const struct rt_sock *s)
{
	return s->peer;
}
