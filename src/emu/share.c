// SPDX-License-Identifier: Apache-2.0
#include "emu/share.h"

#include <assert.h>

void emu_turns_init(struct emu_turns *t, enum emu_sharing sharing)
{
	*t = (struct emu_turns){.sharing = sharing};
	list_init(&t->jobs);
}

void emu_turns_join(struct emu_turns *t, struct emu_sharer *s, double weight)
{
	assert(weight > 0);
	*s = (struct emu_sharer){.weight = weight};
	rt_cond_init(&s->turn);
	bool first = true;
	struct emu_sharer *other;
	list_for_each_entry(other, &t->jobs, link) {
		if (first || other->served < s->served)
			s->served = other->served;
		first = false;
	}
	list_push_back(&t->jobs, &s->link);
}

void emu_turns_leave(struct emu_turns *t, struct emu_sharer *s)
{
	assert(t->holder != s && !s->waits);
	list_remove(&s->link);
}

/* Returns the waiting job whose turn is next; NULL: none waits. */
static struct emu_sharer *next_of(const struct emu_turns *t)
{
	struct emu_sharer *best = NULL, *s;
	list_for_each_entry(s, &t->jobs, link) {
		if (!s->waits)
			continue;
		bool earlier = best == NULL || s->arrival < best->arrival;
		if (t->sharing == EMU_WEIGHTED && best != NULL && s->served != best->served)
			earlier = s->served < best->served;
		best = earlier ? s : best;
	}
	return best;
}

/*
 * Wakes the job whose turn is next. It takes the device only when it runs, so that a job that gives the device back and
 * asks again without a wait competes for the turn, as its weight may demand.
 */
static void pass(struct emu_turns *t)
{
	assert(t->holder == NULL);
	struct emu_sharer *next = next_of(t);
	if (next != NULL)
		rt_cond_signal(&next->turn);
}

int emu_turns_take(struct emu_turns *t, struct emu_sharer *s)
{
	assert(t->holder != s && !s->waits);
	if (t->sharing == EMU_FIFO)
		return 0;
	s->arrival = t->arrivals++;
	s->waits = true;
	while (t->holder != NULL || next_of(t) != s) {
		if (t->holder == NULL)
			pass(t);
		int rc = rt_cond_wait(&s->turn);
		if (rc == 0)
			continue;
		s->waits = false;
		if (t->holder == NULL)
			pass(t);
		return rc;
	}
	s->waits = false;
	t->holder = s;
	return 0;
}

void emu_turns_give(struct emu_turns *t, struct emu_sharer *s, uint64_t device_ns)
{
	s->served += (double)device_ns / s->weight;
	if (t->sharing == EMU_FIFO)
		return;
	assert(t->holder == s);
	t->holder = NULL;
	pass(t);
}
