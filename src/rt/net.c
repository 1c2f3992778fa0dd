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

#define IOV_PART_MAX 64 /* most elements of one transfer; longer lists take several transfers */

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

static void recv_begin(struct rt_fiber *f)
{
	assert(!f->receiving);
	f->receiving = true;
	f->interrupted = false;
}

/* Ends a receive with the bytes that it has, or its error; an interruption is none. */
static int64_t recv_end(struct rt_fiber *f, int64_t rc, size_t done)
{
	assert(f->receiving && rc <= 0);
	f->receiving = false;
	return rc < 0 && !(rc == -EINTR && f->interrupted) ? rc : (int64_t)done;
}

int64_t rt_sock_recv(struct rt_sock *s, void *buf, size_t len, size_t min)
{
	struct rt_fiber *f = rt_self();
	size_t done = 0;
	int64_t n = 0;
	assert(min <= len);
	recv_begin(f);
	do {
		n = fiber_check();
		if (n == 0)
			n = s->ops->recv(s, (char *)buf + done, len - done, min - done);
		if (n <= 0)
			break;
		assert((size_t)n <= len - done);
		done += (size_t)n;
	} while (done < min && !f->interrupted);
	return recv_end(f, n < 0 ? n : 0, done);
}

/* A list of pieces that a transfer works through. */
struct iov_walk {
	const struct iovec *iov;
	int n;
	size_t skip; /* bytes of iov[0] that are done */
};

/* Copies the next pieces to `part`. Returns their number; 0: all is done. */
static int walk_part(struct iov_walk *w, struct iovec *part)
{
	while (w->n > 0 && w->skip >= w->iov->iov_len) {
		w->skip -= w->iov->iov_len;
		w->iov++;
		w->n--;
	}
	int m = w->n < IOV_PART_MAX ? w->n : IOV_PART_MAX;
	if (m == 0)
		return 0;
	memcpy(part, w->iov, (size_t)m * sizeof(part[0]));
	part[0].iov_base = (char *)part[0].iov_base + w->skip;
	part[0].iov_len -= w->skip;
	return m;
}

int64_t rt_sock_recvv(struct rt_sock *s, const struct iovec *iov, int n)
{
	struct rt_fiber *f = rt_self();
	struct iovec part[IOV_PART_MAX];
	struct iov_walk w = {.iov = iov, .n = n};
	size_t done = 0;
	int64_t got = 0;
	int m;
	recv_begin(f);
	while ((m = walk_part(&w, part)) > 0 && !f->interrupted) {
		got = fiber_check();
		if (got == 0 && s->ops->recvv != NULL)
			got = s->ops->recvv(s, part, m);
		else if (got == 0)
			got = s->ops->recv(s, part[0].iov_base, part[0].iov_len, part[0].iov_len);
		if (got <= 0)
			break;
		w.skip += (size_t)got;
		done += (size_t)got;
	}
	return recv_end(f, got < 0 ? got : 0, done);
}

void rt_recv_interrupt(struct rt_fiber *f)
{
	assert(rt_on_loop(f->loop));
	if (!f->receiving)
		return;
	f->interrupted = true;
	fiber_abort(f, -EINTR);
}

bool rt_recv_interrupted(void)
{
	return rt_self()->interrupted;
}

int rt_sock_sendv(struct rt_sock *s, const struct iovec *iov, int n)
{
	struct iovec part[IOV_PART_MAX];
	struct iov_walk w = {.iov = iov, .n = n};
	int m;
	while ((m = walk_part(&w, part)) > 0) {
		int rc = fiber_check();
		if (rc != 0)
			return rc;
		int64_t sent = s->ops->sendv(s, part, m);
		if (sent < 0)
			return (int)sent;
		w.skip += (size_t)sent;
	}
	assert(w.n == 0 && w.skip == 0);
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
