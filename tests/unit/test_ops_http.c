// SPDX-License-Identifier: Apache-2.0
/* The HTTP endpoint of a process: its address is that of a process that was killed a moment ago. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "check.h"
#include "ops/http.h"
#include "rt/real.h"
#include "rt/rt.h"

static int no_metrics(void *ctx, struct strbuf *out)
{
	(void)ctx;
	(void)out;
	return 0;
}

/* Listens on a port of its own, and sets addr to it. */
static int listen_somewhere(char *addr, size_t size)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 1) == 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	snprintf(addr, size, "127.0.0.1:%u", ntohs(at.sin_port));
	return fd;
}

static void release_main(void *arg)
{
	CHECK_EQ(rt_sleep_ns(100 * NS_PER_MS), 0);
	close(*(int *)arg);
}

static void open_while_in_use(void *arg)
{
	(void)arg;
	struct ops_http_options o = {.metrics = no_metrics};
	struct ops_http *http;
	struct rt_fiber *release;
	char addr[64];
	int fd = listen_somewhere(addr, sizeof(addr));
	CHECK_EQ(ops_http_open(&http, addr, &o), -EADDRINUSE);
	CHECK_EQ(rt_spawn(&release, "release", release_main, &fd), 0);
	CHECK_EQ(ops_http_open(&http, addr, &o), 0);
	rt_join(release);
	ops_http_close(http);
}

static void an_address_that_is_released_soon_is_waited_for(void **state)
{
	(void)state;
	CHECK_EQ(rt_real_run(NULL, open_while_in_use, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_that_is_released_soon_is_waited_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
