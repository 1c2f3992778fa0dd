// SPDX-License-Identifier: Apache-2.0
/* The model of an accelerator against timelines that were computed by hand. Times are small whole numbers of ns. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "emu/device.h"
#include "emu/hist.h"
#include "emu/pinned.h"
#include "emu/step.h"

static struct emu_device device_of(uint64_t memory)
{
	struct emu_device d;
	emu_device_init(&d, 0, memory);
	return d;
}

/* --- streams ---------------------------------------------------------------------------------- */

static void an_operation_ends_its_cost_after_the_last_thing_that_it_waits_for(void **state)
{
	(void)state;
	struct emu_device d = device_of(GIB);
	assert_int_equal(emu_submit(&d, EMU_TO_DEVICE, 10, 0, 100), 110); /* submission */
	assert_int_equal(emu_submit(&d, EMU_TO_DEVICE, 20, 0, 100), 210); /* its stream */
	assert_int_equal(emu_submit(&d, EMU_COMPUTE, 20, 110, 300), 410); /* the first copy */
	assert_int_equal(emu_submit(&d, EMU_COMPUTE, 30, 210, 300),
			 710); /* its stream, not the copy */
	assert_int_equal(emu_device_end(&d, 30), 710);
	assert_int_equal(emu_device_end(&d, 900), 900);
}

static void utilization_is_modelled_busy_time_over_elapsed_time(void **state)
{
	(void)state;
	struct emu_device d = device_of(GIB);
	emu_submit(&d, EMU_COMPUTE, 0, 0, 300);
	assert_int_equal(emu_busy_ns(&d, EMU_COMPUTE, 100), 100); /* the rest is still to come */
	emu_submit(&d, EMU_COMPUTE, 700, 0, 200);
	assert_int_equal(emu_busy_ns(&d, EMU_COMPUTE, 1000), 500);
	assert_true(emu_utilization(&d, 1000) == 0.5);
	emu_device_restart(&d, 1000);
	emu_submit(&d, EMU_COMPUTE, 1000, 0, 1000);
	assert_true(emu_utilization(&d, 2000) == 1.0);
}

static void a_caller_that_is_late_once_does_not_delay_later_steps(void **state)
{
	(void)state;
	/* A copy of 40 ahead of each step of 100: the caller that submits the fourth copy 60 late loses nothing. */
	struct emu_device d = device_of(GIB);
	uint64_t end = 0, copied = emu_submit(&d, EMU_TO_DEVICE, 0, 0, 40);
	for (int i = 0; i < 10; i++) {
		uint64_t now = i == 0 ? 0 : 40 + 100 * (uint64_t)(i - 1) + (i == 4 ? 60 : 0);
		end = emu_submit(&d, EMU_COMPUTE, now, copied, 100);
		copied = emu_submit(&d, EMU_TO_DEVICE, now, 0, 40);
	}
	assert_int_equal(end, 40 + 10 * 100);
}

/* --- steps ------------------------------------------------------------------------------------ */

static struct emu_cost cost_of(uint64_t step, uint64_t busy)
{
	struct emu_cost c;
	emu_cost_constant(&c, 8, step);
	c.forward_ns = step * 3 / 10;
	c.backward_ns = step * 6 / 10;
	c.optimizer_ns = step / 10;
	c.busy_ns = busy;
	return c;
}

static void a_step_on_an_idle_device_takes_the_profiled_time(void **state)
{
	(void)state;
	struct emu_device d = device_of(GIB);
	struct emu_cost c = cost_of(1000, 400);
	c.launch_ns = 900;
	c.wall_ns = 1050;
	struct emu_job j;
	struct emu_marks m;
	emu_job_init(&j, &c, 1);
	j.devices[j.device_count++] = &d;
	emu_job_step(&j, 500, NULL, &m);
	assert_int_equal(m.begin_ns, 500);
	assert_int_equal(m.forward_ns, 800);
	assert_int_equal(m.backward_ns, 1400);
	assert_int_equal(m.end_ns, 1500);
	assert_int_equal(m.launched_ns, 1400);
	assert_int_equal(m.seen_ns, 1550);
}

static void a_step_that_waits_for_its_input_hides_the_launch(void **state)
{
	(void)state;
	/* Launching takes the step to 1000 while the device needs 400: an input that comes at 300 costs nothing, one that
	 * comes at 900 ends the step at 1300. */
	struct emu_cost c = cost_of(1000, 400);
	struct emu_job j;
	struct emu_marks m;
	for (int i = 0; i < 2; i++) {
		struct emu_device d = device_of(GIB);
		uint64_t after = i == 0 ? 300 : 900;
		emu_job_init(&j, &c, 1);
		j.devices[j.device_count++] = &d;
		emu_job_step(&j, 0, &after, &m);
		assert_int_equal(m.begin_ns, after);
		assert_int_equal(m.end_ns, i == 0 ? 1000 : 1300);
	}
}

static void parts_of_a_step_add_up_to_the_step(void **state)
{
	(void)state;
	struct emu_device d = device_of(GIB);
	struct emu_cost c = cost_of(1000, 400);
	c.launch_ns = 900;
	struct emu_job j;
	struct emu_part_marks m;
	emu_job_init(&j, &c, 1);
	j.devices[j.device_count++] = &d;
	emu_job_part(&j, EMU_FORWARD, 500, 0, &m);
	assert_int_equal(m.end_ns, 800);
	assert_int_equal(m.launched_ns, 770);
	emu_job_part(&j, EMU_BACKWARD, 770, 0, &m); /* launched while forward runs */
	assert_int_equal(m.begin_ns, 800);
	assert_int_equal(m.end_ns, 1370); /* 770 + 600 */
	assert_int_equal(m.reduced_ns, m.end_ns);
	emu_job_part(&j, EMU_OPTIMIZER, 1370, 2000,
		     &m); /* waits for the gradients of others: only busy time is left */
	assert_int_equal(m.end_ns, 2040);
	assert_int_equal(emu_busy_ns(&d, EMU_COMPUTE, 2040), 300 + 570 + 40);
}

static void gradients_of_a_backward_by_itself_are_reduced(void **state)
{
	(void)state;
	/* As in buckets_start_when_their_gradients_are_ready, after a forward of 3000. */
	struct emu_device d = device_of(GIB);
	struct emu_cost c = cost_of(10000, 10000);
	c.parameter_bytes = 2000;
	struct emu_job j;
	struct emu_part_marks m;
	emu_job_init(&j, &c, 1);
	j.devices[j.device_count++] = &d;
	j.ring = (struct emu_ring){
		.devices = 2, .bandwidth_bytes_s = 1000000000, .bucket_bytes = 1000};
	emu_job_part(&j, EMU_FORWARD, 0, 0, &m);
	assert_int_equal(m.reduced_ns, 3000);
	emu_job_part(&j, EMU_BACKWARD, 3000, 0, &m);
	assert_int_equal(m.end_ns, 9000);
	assert_int_equal(m.reduced_ns, 10000); /* the last bucket begins when backward ends */
	assert_int_equal(emu_busy_ns(&d, EMU_COMM, 10000), 2000);
}

static void steps_that_queue_run_at_the_pace_of_the_device(void **state)
{
	(void)state;
	struct emu_device d = device_of(GIB);
	struct emu_cost c = cost_of(1000, 900);
	struct emu_job j;
	struct emu_marks m;
	emu_job_init(&j, &c, 1);
	j.devices[j.device_count++] = &d;
	for (int i = 0; i < 5; i++)
		emu_job_step(&j, 10 * (uint64_t)i, NULL, &m);
	assert_int_equal(m.end_ns, 1000 + 4 * 900);
}

static void variation_comes_from_the_seed_and_stays_within_the_quantiles(void **state)
{
	(void)state;
	float spread[EMU_QUANTILES];
	struct rng a, b;
	double sum = 0;
	for (int i = 0; i < EMU_QUANTILES; i++)
		spread[i] = 0.9f + 0.01f * (float)i;
	rng_init(&a, 3);
	rng_init(&b, 3);
	for (int i = 0; i < 20000; i++) {
		double x = emu_draw(spread, &a);
		assert_true(x == emu_draw(spread, &b));
		assert_true(x >= spread[0] && x <= spread[EMU_QUANTILES - 1]);
		sum += x;
	}
	/* The mean of the line from 0.9 to 1.09. */
	assert_true(sum / 20000 > 0.993 && sum / 20000 < 0.997);
}

/* --- all-reduce ------------------------------------------------------------------------------- */

static void a_ring_costs_its_bytes_and_its_hops(void **state)
{
	(void)state;
	struct emu_ring r = {.devices = 4, .bandwidth_bytes_s = 1000000000, .latency_ns = 7};
	/* 2 * 3/4 * 4000 bytes at one byte per ns, and 6 hops */
	assert_int_equal(emu_ring_ns(&r, 4000), 6000 + 42);
}

static void buckets_start_when_their_gradients_are_ready(void **state)
{
	(void)state;
	/* Two devices: a bucket of 1000 bytes takes 1000. Gradients become ready evenly over a backward of 4000: buckets at
	 * 1000, 2000, 3000 and 4000 of it, so that all but the last overlap. */
	struct emu_device d = device_of(GIB);
	struct emu_ring r = {.devices = 2, .bandwidth_bytes_s = 1000000000, .bucket_bytes = 1000};
	struct emu_cost c = cost_of(1000, 1000);
	c.parameter_bytes = 4000;
	assert_in_range(emu_reduce(&d, &r, &c, 500, 4500), 5499, 5501);
	assert_int_equal(d.stream[EMU_COMM].busy_ns, 4000);
	/* A slow ring: the first bucket starts at 1000 and the four follow each other. */
	struct emu_device slow = device_of(GIB);
	r.bandwidth_bytes_s = 500000000;
	assert_in_range(emu_reduce(&slow, &r, &c, 0, 4000), 8999,
			9001); /* the curve is in floats */
	/* All gradients late: nothing overlaps. */
	struct emu_device late = device_of(GIB);
	memset(c.ready, 0, sizeof(c.ready));
	c.ready[EMU_READY - 1] = 1;
	r.bandwidth_bytes_s = 1000000000;
	assert_true(emu_reduce(&late, &r, &c, 0, 4000) >= 4000 * 9 / 10 + 4000);
}

static void all_devices_start_the_optimizer_when_the_slowest_has_reduced(void **state)
{
	(void)state;
	struct emu_device d[2] = {device_of(GIB), device_of(GIB)};
	struct emu_cost c = cost_of(1000, 1000);
	struct emu_job j;
	struct emu_marks m;
	uint64_t after[2] = {0, 250};
	emu_job_init(&j, &c, 1);
	j.devices[j.device_count++] = &d[0];
	j.devices[j.device_count++] = &d[1];
	j.ring = (struct emu_ring){.devices = 2, .bandwidth_bytes_s = 1};
	emu_job_step(&j, 0, after, &m);
	assert_int_equal(m.end_ns, 1250);
	assert_int_equal(d[0].stream[EMU_COMPUTE].end_ns, 1250);
	assert_int_equal(d[0].stream[EMU_COMPUTE].busy_ns, 1000); /* it idled for 250 */
}

/* --- memory ----------------------------------------------------------------------------------- */

static void memory_that_a_device_has_not_is_refused_to_the_job_that_asks(void **state)
{
	(void)state;
	struct emu_ledger l;
	struct strbuf err;
	strbuf_init(&err, 500);
	emu_ledger_init(&l, 100 * MIB);
	int a = emu_ledger_take(&l, 30 * MIB, 40 * MIB, &err);
	assert_true(a >= 0);
	assert_int_equal(emu_ledger_take(&l, 10 * MIB, 30 * MIB, &err), -ENOMEM);
	assert_non_null(strstr(strbuf_text(&err), "70 of 100 MiB in use"));
	assert_int_equal(emu_ledger_take(&l, UINT64_MAX, UINT64_MAX, &err), -ENOMEM);
	assert_int_equal(emu_ledger_used(&l), 70 * MIB);
	/* Jobs that take turns share the room for activations. */
	l.turns = true;
	int b = emu_ledger_take(&l, 10 * MIB, 30 * MIB, &err);
	assert_true(b >= 0);
	assert_int_equal(emu_ledger_used(&l), 80 * MIB);
	assert_int_equal(emu_ledger_grow(&l, b, 31 * MIB, &err), -ENOMEM);
	assert_int_equal(emu_ledger_grow(&l, b, 30 * MIB, &err), 0);
	assert_int_equal(emu_ledger_grow(&l, b, 5 * MIB, &err), 0); /* never shrinks */
	assert_int_equal(emu_ledger_used(&l), 100 * MIB);
	emu_ledger_give(&l, a);
	assert_int_equal(emu_ledger_used(&l), 60 * MIB);
	assert_int_equal(l.peak_bytes, 100 * MIB);
	strbuf_fini(&err);
}

static void a_device_has_a_bounded_number_of_jobs(void **state)
{
	(void)state;
	struct emu_ledger l;
	struct strbuf err;
	strbuf_init(&err, 500);
	emu_ledger_init(&l, GIB);
	for (int i = 0; i < EMU_CLAIMS_MAX; i++)
		assert_int_equal(emu_ledger_take(&l, 1, 1, &err), i);
	assert_int_equal(emu_ledger_take(&l, 1, 1, &err), -EAGAIN);
	emu_ledger_give(&l, 5);
	assert_int_equal(emu_ledger_take(&l, 1, 1, &err), 5);
	strbuf_fini(&err);
}

static unsigned locked, unlocked;

static int lock_counted(void **out, size_t bytes)
{
	if (bytes > MIB)
		return -ENOMEM;
	locked++;
	*out = malloc(bytes);
	return *out != NULL ? 0 : -ENOMEM;
}

static void unlock_counted(void *memory, size_t bytes)
{
	(void)bytes;
	unlocked++;
	free(memory);
}

static void pinned_memory_is_reused_and_kept(void **state)
{
	(void)state;
	struct emu_pinned p;
	struct strbuf err;
	void *a, *b, *c;
	strbuf_init(&err, 500);
	locked = unlocked = 0;
	emu_pinned_init(&p, 256 * KIB, lock_counted, unlock_counted);
	assert_int_equal(emu_pinned_take(&p, 100 * KIB, &a, &err), 0);
	emu_pinned_give(&p, a, 100 * KIB);
	assert_int_equal(emu_pinned_take(&p, 120 * KIB, &b, &err), 0); /* the same class */
	assert_ptr_equal(a, b);
	assert_int_equal(emu_pinned_take(&p, 70 * KIB, &c, &err), 0);
	assert_int_equal(locked, 2);
	assert_int_equal(p.held_bytes, 256 * KIB);
	assert_int_equal(emu_pinned_take(&p, 4 * KIB, &a, &err), -ENOMEM);
	assert_non_null(strstr(strbuf_text(&err), "the limit of the job is 256 KiB"));
	emu_pinned_give(&p, b, 120 * KIB);
	emu_pinned_give(&p, c, 70 * KIB);
	assert_int_equal(unlocked, 0);
	emu_pinned_fini(&p);
	assert_int_equal(unlocked, 2);
	emu_pinned_init(&p, GIB, lock_counted, unlock_counted);
	assert_int_equal(emu_pinned_take(&p, 2 * MIB, &a, &err), -ENOMEM);
	assert_non_null(strstr(strbuf_text(&err), "ulimit -l"));
	assert_int_equal(emu_pinned_take(&p, SIZE_MAX, &a, &err), -ENOMEM);
	emu_pinned_fini(&p);
	strbuf_fini(&err);
}

static void a_quantile_of_steps_is_off_by_little(void **state)
{
	(void)state;
	struct emu_hist *h = calloc(1, sizeof(*h)), *other = calloc(1, sizeof(*other));
	assert_true(h != NULL && other != NULL);
	for (uint64_t ns = 1; ns <= 1000000; ns += 7)
		emu_hist_add(ns % 2 == 0 ? h : other, ns);
	emu_hist_merge(h, other);
	for (int q = 1; q < 100; q++) {
		double want = q * 10000.0, is = (double)emu_hist_quantile_ns(h, q / 100.0);
		assert_true(is > want * 0.98 && is < want * 1.02);
	}
	assert_int_equal(emu_hist_quantile_ns(h, 1), h->max_ns);
	emu_hist_add(h, UINT64_MAX);
	assert_int_equal(h->max_ns, UINT64_MAX);
	free(h);
	free(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_operation_ends_its_cost_after_the_last_thing_that_it_waits_for),
		cmocka_unit_test(utilization_is_modelled_busy_time_over_elapsed_time),
		cmocka_unit_test(a_caller_that_is_late_once_does_not_delay_later_steps),
		cmocka_unit_test(a_step_on_an_idle_device_takes_the_profiled_time),
		cmocka_unit_test(a_step_that_waits_for_its_input_hides_the_launch),
		cmocka_unit_test(parts_of_a_step_add_up_to_the_step),
		cmocka_unit_test(gradients_of_a_backward_by_itself_are_reduced),
		cmocka_unit_test(steps_that_queue_run_at_the_pace_of_the_device),
		cmocka_unit_test(variation_comes_from_the_seed_and_stays_within_the_quantiles),
		cmocka_unit_test(a_ring_costs_its_bytes_and_its_hops),
		cmocka_unit_test(buckets_start_when_their_gradients_are_ready),
		cmocka_unit_test(all_devices_start_the_optimizer_when_the_slowest_has_reduced),
		cmocka_unit_test(memory_that_a_device_has_not_is_refused_to_the_job_that_asks),
		cmocka_unit_test(a_device_has_a_bounded_number_of_jobs),
		cmocka_unit_test(pinned_memory_is_reused_and_kept),
		cmocka_unit_test(a_quantile_of_steps_is_off_by_little),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
