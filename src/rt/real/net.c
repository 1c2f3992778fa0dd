// SPDX-License-Identifier: Apache-2.0
/* Stream sockets of the machine, through the ring. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "rt/real/real.h"

#define BACKLOG 1024

struct endpoint {
	struct sockaddr_storage addr;
	socklen_t len;
};

/* The addresses to which a name resolves, in the order in which to try them. */
#define ENDPOINTS_MAX 8
struct endpoints {
	struct endpoint e[ENDPOINTS_MAX];
	int count;
};

struct real_listener {
	struct rt_listener base;
	int fd;
	/*
	 * device and inode of a Unix socket's file, so that close does not remove the file of
	 * another process
	 */
	struct stat file;
};

struct real_sock {
	struct rt_sock base;
	int fd;
};

static struct real_loop *self(void)
{
	return real_loop(rt_loop_self());
}

static int sock_fd(struct rt_sock *s)
{
	assert(s->ops == &real_net_ops);
	return container_of(s, struct real_sock, base)->fd;
}

/* --- addresses ------------------------------------------------------------------------------- */

struct resolve_call {
	const char *host;
	const char *port;
	struct endpoints *out;
	int flags;
	int rc;
};

static void resolve(void *arg)
{
	struct resolve_call *c = arg;
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = c->flags | AI_NUMERICSERV};
	struct addrinfo *found;
	int rc = getaddrinfo(c->host, c->port, &hints, &found);
	if (rc != 0) {
		c->rc = rc == EAI_NONAME ? -EINVAL : -EHOSTUNREACH;
		return;
	}
	for (struct addrinfo *a = found; a != NULL && c->out->count < ENDPOINTS_MAX;
	     a = a->ai_next) {
		struct endpoint *e = &c->out->e[c->out->count++];
		assert(a->ai_addrlen <= sizeof(e->addr));
		memcpy(&e->addr, a->ai_addr, a->ai_addrlen);
		e->len = a->ai_addrlen;
	}
	c->rc = 0;
	freeaddrinfo(found);
}

static int endpoint_unix(const char *path, struct endpoints *out)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&out->e[0].addr;
	size_t len = strlen(path);
	if (len == 0 || len >= sizeof(un->sun_path))
		return -EINVAL;
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, path, len + 1);
	out->e[0].len = sizeof(*un);
	out->count = 1;
	return 0;
}

/*
 * Returns whether the text is a port from 0 to 65535; needed because getaddrinfo takes any number
 * modulo 65536.
 */
static bool port_is_valid(const char *text)
{
	unsigned long port = 0;
	for (const char *p = text; *p != '\0'; p++) {
		if (*p < '0' || *p > '9' || p - text >= 5)
			return false;
		port = port * 10 + (unsigned long)(*p - '0');
	}
	return text[0] != '\0' && port <= 65535;
}

/*
 * Parses "HOST:PORT", "[IPV6]:PORT" or "unix:PATH". Resolves names on the offload pool, because
 * name resolution may block.
 */
static int endpoints_parse(struct rt_loop *l, const char *text, struct endpoints *out)
{
	char host[RT_ADDR_MAX];
	*out = (struct endpoints){0};
	if (strncmp(text, "unix:", 5) == 0)
		return endpoint_unix(text + 5, out);
	const char *colon = strrchr(text, ':');
	if (colon == NULL || colon == text || !port_is_valid(colon + 1))
		return -EINVAL;
	size_t len = (size_t)(colon - text);
	if (text[0] == '[') {
		if (len < 3 || text[len - 1] != ']')
			return -EINVAL;
		text++;
		len -= 2;
	}
	if (len >= sizeof(host))
		return -EINVAL;
	memcpy(host, text, len);
	host[len] = '\0';
	struct resolve_call c = {
		.host = host, .port = colon + 1, .out = out, .flags = AI_NUMERICHOST};
	resolve(&c);
	if (c.rc != -EINVAL)
		return c.rc;
	c.flags = 0;
	int rc = offload_run(l, resolve, &c);
	return rc != 0 ? rc : c.rc;
}

static void endpoint_print(const struct endpoint *e, char *out)
{
	char host[INET6_ADDRSTRLEN] = "?";
	if (e->addr.ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)&e->addr;
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(out, RT_ADDR_MAX, "%s:%u", host, ntohs(in->sin_port));
	} else if (e->addr.ss_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&e->addr;
		inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof(host));
		snprintf(out, RT_ADDR_MAX, "[%s]:%u", host, ntohs(in->sin6_port));
	} else {
		const struct sockaddr_un *un = (const struct sockaddr_un *)&e->addr;
		snprintf(out, RT_ADDR_MAX, "unix:%s", un->sun_path);
	}
}

/* --- sockets --------------------------------------------------------------------------------- */

static int sock_new(int fd, const struct endpoint *peer, struct rt_sock **out)
{
	struct real_sock *s = calloc(1, sizeof(*s));
	if (s == NULL) {
		close(fd);
		return -ENOMEM;
	}
	s->base.ops = &real_net_ops;
	s->fd = fd;
	int one = 1;
	if (peer->addr.ss_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	endpoint_print(peer, s->base.peer);
	*out = &s->base;
	return 0;
}

static int64_t real_recv(struct rt_sock *s, void *buf, size_t len, size_t min)
{
	struct io_uring_sqe *sqe = ring_sqe(self());
	io_uring_prep_recv(sqe, sock_fd(s), buf, len, min == len ? MSG_WAITALL : 0);
	return ring_wait(self(), sqe, PARK_INTERRUPTIBLE);
}

static int64_t real_recvv(struct rt_sock *s, const struct iovec *iov, int n)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n};
	struct io_uring_sqe *sqe = ring_sqe(self());
	io_uring_prep_recvmsg(sqe, sock_fd(s), &msg, MSG_WAITALL);
	return ring_wait(self(), sqe, PARK_INTERRUPTIBLE);
}

static int64_t real_sendv(struct rt_sock *s, const struct iovec *iov, int n)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n};
	struct io_uring_sqe *sqe = ring_sqe(self());
	io_uring_prep_sendmsg(sqe, sock_fd(s), &msg, MSG_NOSIGNAL | MSG_WAITALL);
	return ring_wait(self(), sqe, PARK_INTERRUPTIBLE);
}

static void real_shutdown(struct rt_sock *s)
{
	shutdown(sock_fd(s), SHUT_RDWR);
}

static void real_sock_close(struct rt_sock *s)
{
	close(sock_fd(s));
	free(container_of(s, struct real_sock, base));
}

static int connect_one(struct real_loop *l, struct rt_sock **out, const struct endpoint *e)
{
	int fd = socket(e->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	struct io_uring_sqe *sqe = ring_sqe(l);
	io_uring_prep_connect(sqe, fd, (const struct sockaddr *)&e->addr, e->len);
	int rc = (int)ring_wait(l, sqe, PARK_INTERRUPTIBLE);
	if (rc == -ENOENT) /* the file of a Unix socket does not exist */
		rc = -ECONNREFUSED;
	if (rc != 0) {
		close(fd);
		return rc;
	}
	return sock_new(fd, e, out);
}

static int real_connect(struct rt_loop *l, struct rt_sock **out, const char *addr)
{
	struct endpoints to;
	int rc = endpoints_parse(l, addr, &to);
	if (rc != 0)
		return rc;
	assert(to.count > 0 && to.count <= ENDPOINTS_MAX);
	for (int i = 0; i < to.count; i++) {
		rc = connect_one(real_loop(l), out, &to.e[i]);
		if (rc == 0 || rc == -ECANCELED || rc == -ETIME)
			break;
	}
	return rc;
}

/* --- listening ------------------------------------------------------------------------------- */

/* Returns whether the file of a Unix socket was left by a process that has ended: no process accepts on it. */
static bool unix_is_stale(const struct endpoint *e)
{
	struct stat st;
	const char *path = ((const struct sockaddr_un *)&e->addr)->sun_path;
	if (lstat(path, &st) != 0 || !S_ISSOCK(st.st_mode))
		return false;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	bool stale = connect(fd, (const struct sockaddr *)&e->addr, e->len) != 0 &&
		     errno == ECONNREFUSED;
	close(fd);
	return stale;
}

static int bind_listen(int fd, const struct endpoint *e)
{
	int one = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	const struct sockaddr *sa = (const struct sockaddr *)&e->addr;
	int rc = bind(fd, sa, e->len) == 0 ? 0 : -errno;
	if (rc == -EADDRINUSE && sa->sa_family == AF_UNIX && unix_is_stale(e)) {
		unlink(((const struct sockaddr_un *)&e->addr)->sun_path);
		rc = bind(fd, sa, e->len) == 0 ? 0 : -errno;
	}
	if (rc == 0 && listen(fd, BACKLOG) != 0)
		rc = -errno;
	return rc;
}

/* Listens; waits for a killed process to release the address. */
static int bind_listen_wait(int fd, const struct endpoint *e)
{
	uint64_t until = rt_now_ns() + RELEASE_WAIT_NS;
	int rc = bind_listen(fd, e);
	while (rc == -EADDRINUSE && release_wait(until))
		rc = bind_listen(fd, e);
	return rc;
}

static int real_listen(struct rt_loop *l, struct rt_listener **out, const char *addr)
{
	struct endpoints on;
	int rc = endpoints_parse(l, addr, &on);
	if (rc != 0)
		return rc;
	struct endpoint e = on.e[0];
	int fd = socket(e.addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	rc = bind_listen_wait(fd, &e);
	struct real_listener *li = rc == 0 ? calloc(1, sizeof(*li)) : NULL;
	if (li == NULL) {
		close(fd);
		return rc != 0 ? rc : -ENOMEM;
	}
	e.len = sizeof(e.addr);
	getsockname(fd, (struct sockaddr *)&e.addr, &e.len);
	endpoint_print(&e, li->base.addr);
	li->base.ops = &real_net_ops;
	li->fd = fd;
	if (e.addr.ss_family == AF_UNIX)
		lstat(((struct sockaddr_un *)&e.addr)->sun_path, &li->file);
	*out = &li->base;
	return 0;
}

static int real_accept(struct rt_listener *base, struct rt_sock **out)
{
	struct real_listener *li = container_of(base, struct real_listener, base);
	struct endpoint peer = {.len = sizeof(peer.addr)};
	struct io_uring_sqe *sqe = ring_sqe(self());
	io_uring_prep_accept(sqe, li->fd, (struct sockaddr *)&peer.addr, &peer.len, SOCK_CLOEXEC);
	int fd = (int)ring_wait(self(), sqe, PARK_INTERRUPTIBLE);
	return fd < 0 ? fd : sock_new(fd, &peer, out);
}

static void real_listener_close(struct rt_listener *base)
{
	struct real_listener *li = container_of(base, struct real_listener, base);
	close(li->fd);
	struct stat now;
	if (strncmp(base->addr, "unix:", 5) == 0 && lstat(base->addr + 5, &now) == 0 &&
	    now.st_ino == li->file.st_ino && now.st_dev == li->file.st_dev)
		unlink(base->addr + 5);
	free(li);
}

const struct rt_net_ops real_net_ops = {
	.listen = real_listen,
	.accept = real_accept,
	.listener_close = real_listener_close,
	.connect = real_connect,
	.recv = real_recv,
	.recvv = real_recvv,
	.sendv = real_sendv,
	.shutdown = real_shutdown,
	.sock_close = real_sock_close,
};
