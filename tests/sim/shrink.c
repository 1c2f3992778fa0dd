// SPDX-License-Identifier: Apache-2.0
/*
 * Looks for a shorter run that violates the same invariant. It takes away one thing at a time: kinds of faults,
 * rounds, clients, time, operations. If the run still fails, the change is kept, else it is undone. Each change
 * changes all draws after it, so the result is a small run, not the smallest. Each try is a process of its own,
 * because it may die.
 */
#include "shrink.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"

#define TRIES_MAX 400

struct shrink {
	struct options best;
	uint64_t seed;
	char *violation; /* result of the last try, in memory shared with its process */
	char first[VIOLATION_TEXT];
	void (*run)(const struct options *o, uint64_t seed, char violation[VIOLATION_TEXT]);
	unsigned tries;
};

static bool try_run(struct shrink *s, const struct options *o)
{
	int status = 0;
	s->violation[0] = '\0';
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		s->run(o, s->seed, s->violation);
		_exit(0);
	}
	s->tries++;
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return false;
	if (WIFSIGNALED(status))
		snprintf(s->violation, VIOLATION_TEXT, "the process died of %s",
			 strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) != 0)
		snprintf(s->violation, VIOLATION_TEXT, "the process exited with %d",
			 WEXITSTATUS(status));
	return s->violation[0] != '\0';
}

/* Returns whether a try fails with the same invariant (the text up to the colon); then keeps its options. */
static bool still_fails(struct shrink *s, const struct options *o)
{
	if (s->tries >= TRIES_MAX || !try_run(s, o))
		return false;
	size_t n = strcspn(s->first, ":") + 1;
	if (strncmp(s->first, s->violation, n) != 0)
		return false;
	s->best = *o;
	return true;
}

static void without_faults(struct shrink *s)
{
	for (int f = 0; f < SIM_FAULT_COUNT; f++) {
		struct sim_config config;
		struct scenario_input input;
		options_config(&s->best, s->seed, &config, &input);
		if (sim_fault_table[f].unit == SIM_PER_CRASH || config.rate[f] <= 0)
			continue;
		struct options o = s->best;
		o.rate_set[f] = true;
		o.rate[f] = 0;
		(void)still_fails(s, &o);
	}
}

static void without_operations(struct shrink *s)
{
	for (unsigned i = 0; i < SCENARIO_OPS_MAX; i++) {
		struct options o = s->best;
		o.limits.ops_off |= 1U << i;
		(void)still_fails(s, &o);
	}
}

/* Halves a limit, from half of `most` on, as long as the run still fails. */
static void halve(struct shrink *s, unsigned *limit, unsigned most)
{
	for (unsigned v = most / 2; v > 0; v /= 2) {
		unsigned before = *limit;
		struct options o = s->best;
		*(unsigned *)((char *)&o + ((char *)limit - (char *)&s->best)) = v;
		if (!still_fails(s, &o)) {
			*limit = before;
			return;
		}
	}
}

static void print_result(const struct shrink *s)
{
	const struct scenario_input *l = &s->best.limits;
	printf("after %u tries: %s\n  replay: ./dev sim --seeds %" PRIu64 "%s", s->tries, s->first,
	       s->seed, s->best.replay);
	for (int f = 0; f < SIM_FAULT_COUNT; f++)
		if (s->best.rate_set[f] && s->best.rate[f] == 0 &&
		    sim_fault_table[f].unit != SIM_PER_CRASH)
			printf(" --rate %s=0", sim_fault_table[f].name);
	if (l->rounds > 0)
		printf(" --rounds %u", l->rounds);
	if (l->clients > 0)
		printf(" --clients %u", l->clients);
	if (l->seconds > 0)
		printf(" --seconds %u", l->seconds);
	if (l->ops > 0)
		printf(" --ops %u", l->ops);
	if (l->ops_off > 0)
		printf(" --without %u", l->ops_off);
	printf("\n");
}

int shrink(const struct options *options, uint64_t seed,
	   void (*run)(const struct options *o, uint64_t seed, char violation[VIOLATION_TEXT]))
{
	struct shrink s = {.best = *options, .seed = seed, .run = run};
	int flags = MAP_SHARED | MAP_ANONYMOUS;
	// cppcheck-suppress invalidFunctionArg ; memory without a file
	s.violation = mmap(NULL, VIOLATION_TEXT, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (s.violation == MAP_FAILED)
		return 1;
	if (!try_run(&s, options)) {
		printf("seed %" PRIu64 " does not fail\n", seed);
		return 1;
	}
	memcpy(s.first, s.violation, VIOLATION_TEXT);
	struct options o = s.best;
	o.limits.rounds = 1;
	(void)still_fails(&s, &o);
	o = s.best;
	o.limits.clients = 1;
	(void)still_fails(&s, &o);
	without_faults(&s);
	without_operations(&s);
	halve(&s, &s.best.limits.seconds, 32);
	halve(&s, &s.best.limits.ops, 64);
	print_result(&s);
	munmap(s.violation, VIOLATION_TEXT);
	return 0;
}
