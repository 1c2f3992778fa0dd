// SPDX-License-Identifier: Apache-2.0
/*
 * Stream sockets. An address is text: "HOST:PORT" ("127.0.0.1:7000", "[::1]:7000", a name) for TCP,
 * "unix:PATH" for a Unix socket. In the simulator HOST is the name of a simulated node.
 *
 * One fiber may receive and one may send on a socket at a time. After any error the socket can only be closed,
 * because it is unknown how many bytes of a failed send were sent.
 */
#ifndef RT_NET_H
#define RT_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct rt_fiber;
struct rt_listener;
struct rt_sock;

#define RT_ADDR_MAX 128

/*
 * Listens on an address; waits if a name must be resolved. Port 0 takes any free port. Returns 0,
 * -EADDRINUSE, -EADDRNOTAVAIL or -EINVAL.
 */
int rt_listen(struct rt_listener **out, const char *addr);
/* Returns the address that clients connect to, with the actual port. */
const char *rt_listener_addr(const struct rt_listener *l);
/* Waits for a connection and returns its socket in *out. */
int rt_accept(struct rt_listener *l, struct rt_sock **out);
/* Stops listening. No fiber may be waiting in rt_accept: cancel it first. */
void rt_listener_close(struct rt_listener *l);

/*
 * Waits until the connection is established. Returns 0, -ECONNREFUSED, -EHOSTUNREACH, -ETIMEDOUT or
 * -EINVAL.
 */
int rt_connect(struct rt_sock **out, const char *addr);

/*
 * Waits for at least min bytes (min <= len). Returns the number of bytes received: fewer than min,
 * possibly 0, only if the peer has ended the stream.
 */
int64_t rt_sock_recv(struct rt_sock *s, void *buf, size_t len, size_t min);
/* Receives into the n pieces of iov in order, until all are full. Returns as rt_sock_recv does. */
int64_t rt_sock_recvv(struct rt_sock *s, const struct iovec *iov, int n);

/*
 * Interrupts the fiber's wait in rt_sock_recv or rt_sock_recvv, which then returns the bytes that were received
 * already. The socket stays usable. Does nothing if the fiber is in neither. The fiber is one of this loop.
 */
void rt_recv_interrupt(struct rt_fiber *f);
/* Returns whether the last receive of this fiber was interrupted. */
bool rt_recv_interrupted(void);

/*
 * Waits until the transport has taken all bytes. The list may have any number of elements and is
 * not changed.
 */
int rt_sock_sendv(struct rt_sock *s, const struct iovec *iov, int n);

/* Ends both directions at once: fibers that wait on the socket return. Idempotent. */
void rt_sock_shutdown(struct rt_sock *s);
/* Closes and frees the socket. No fiber may be waiting on the socket. */
void rt_sock_close(struct rt_sock *s);
const char *rt_sock_peer(const struct rt_sock *s);

#endif
