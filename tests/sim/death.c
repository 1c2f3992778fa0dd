// SPDX-License-Identifier: Apache-2.0
#include "death.h"

#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/base.h"

#define TELL_SECONDS_MAX 10

/* Static, because a signal handler gets no argument. */
static struct {
	void (*tell)(const void *ctx, FILE *out);
	const void *ctx;
	FILE *out;
	char text[64 * KIB]; /* buffered, so that the text of several processes does not mix */
	char stack[64 * KIB];
} dying;

/* Defined if the program is built with a sanitizer, which then handles the signals of bad addresses. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void tell_once(void)
{
	void (*tell)(const void *ctx, FILE *out) = dying.tell;
	if (tell == NULL || dying.out == NULL)
		return;
	dying.tell = NULL;
	alarm(TELL_SECONDS_MAX);
	tell(dying.ctx, dying.out);
	fflush(dying.out);
	alarm(0);
}

static void on_signal(int signal)
{
	tell_once();
	raise(signal); /* SA_RESETHAND restored the default action; the signal is blocked until this returns */
}

void death_watch(void)
{
	static const int ours[] = {SIGABRT, SIGPROF}, faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
	bool sanitized = __sanitizer_set_death_callback != NULL;
	stack_t stack = {.ss_sp = dying.stack, .ss_size = sizeof(dying.stack)};
	struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};
	dying.out = fdopen(dup(STDERR_FILENO), "w");
	if (dying.out != NULL)
		setvbuf(dying.out, dying.text, _IOFBF, sizeof(dying.text));
	if (sanitized)
		__sanitizer_set_death_callback(tell_once);
	else if (sigaltstack(&stack, NULL) == 0) /* the stack of the fiber may have overflowed */
		a.sa_flags |= SA_ONSTACK;
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		sigaction(ours[i], &a, NULL);
	for (size_t i = 0; i < ARRAY_LEN(faults) && !sanitized; i++)
		sigaction(faults[i], &a, NULL);
}

void death_expect(void (*tell)(const void *ctx, FILE *out), const void *ctx)
{
	dying.tell = tell;
	dying.ctx = ctx;
}
