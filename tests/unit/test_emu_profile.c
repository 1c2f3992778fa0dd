// SPDX-License-Identifier: Apache-2.0
/* Profiles: what is read, what is refused and how, and costs between measured batches. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "emu/profile.h"

#define HEAD                                                                                      \
	"device,driver,torch,model,input,precision,layout,batch,held_out,status,steps,forward_s," \
	"backward_s,"                                                                             \
	"optimizer_s,step_s,wall_s,launch_s,busy_s,peak_bytes,persistent_bytes,reserved_bytes,"   \
	"parameter_bytes,"                                                                        \
	"input_bytes,q0_s,q1_s,q2_s,q3_s,q4_s,q5_s,q6_s,q7_s,q8_s,q9_s,q10_s,q11_s,q12_s,q13_s,"  \
	"q14_s,q15_s,"                                                                            \
	"q16_s,q17_s,q18_s,q19_s,ready1,ready2,ready3,ready4,ready5,ready6,ready7,ready8,ready9," \
	"ready10\n"
#define LATER ",0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.2"
#define READY ",0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1\n"
#define ROW(batch, held, forward, backward, step, peak)                                       \
	"H200,580,2.11,net,3x224x224,bf16,nhwc," batch "," held ",ok,9," forward "," backward \
	",0.01," step ",0.12,0.05,0.09," peak ",1000,9000000,500,600" LATER READY
#define BLANK ",,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,\n"

static struct emu_profile p;
static struct strbuf err;

static int setup(void **state)
{
	(void)state;
	p = (struct emu_profile){0};
	strbuf_init(&err, 1000);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	emu_profile_fini(&p);
	strbuf_fini(&err);
	return 0;
}

static int add(const char *text)
{
	return emu_profile_add(&p, "x.csv", text, strlen(text), &err);
}

static void refused(const char *text, const char *why)
{
	strbuf_clear(&err);
	assert_int_equal(add(text), -EINVAL);
	if (strstr(strbuf_text(&err), why) == NULL)
		fail_msg("\"%s\" is not in \"%s\"", why, strbuf_text(&err));
	assert_null(strchr(strbuf_text(&err), '\n'));
	emu_profile_fini(&p);
}

static const struct emu_model *net(void)
{
	const struct emu_model *m;
	assert_int_equal(emu_profile_find(&p, NULL, "net", NULL, &m, &err), 0);
	return m;
}

#define GOOD                                                 \
	HEAD ROW("8", "0", "0.03", "0.06", "0.1", "2000000") \
		ROW("16", "0", "0.05", "0.10", "0.16", "4000000")

static void a_cost_between_batches_lies_on_the_line_between_them(void **state)
{
	(void)state;
	struct emu_cost c;
	assert_int_equal(add("# measured by us\n" GOOD), 0);
	assert_int_equal(emu_cost_at(net(), 8, false, &c, &err), 0);
	assert_int_equal(c.forward_ns, 30000000);
	assert_int_equal(c.step_ns, 100000000);
	assert_int_equal(c.peak_bytes, 2000000);
	assert_true(c.spread[0] == 1.0f && c.spread[19] == 2.0f);
	assert_int_equal(emu_cost_at(net(), 12, false, &c, &err), 0);
	assert_int_equal(c.forward_ns, 40000000);
	assert_int_equal(c.backward_ns, 80000000);
	assert_int_equal(c.step_ns, 130000000);
	assert_int_equal(c.peak_bytes, 3000000);
	assert_int_equal(emu_cost_at(net(), 16, false, &c, &err), 0);
	assert_int_equal(c.step_ns, 160000000);
}

static void there_is_no_cost_outside_of_what_was_measured(void **state)
{
	(void)state;
	struct emu_cost c;
	assert_int_equal(add(GOOD), 0);
	assert_int_equal(emu_cost_at(net(), 7, false, &c, &err), -ERANGE);
	assert_int_equal(emu_cost_at(net(), 17, false, &c, &err), -ERANGE);
	assert_non_null(strstr(strbuf_text(&err), "batch 17 was not measured (measured: 8 to 16)"));
	assert_int_equal(add(HEAD "H200,580,2.11,net,3x224x224,bf16,nhwc,32,0,oom" BLANK), 0);
	assert_int_equal(emu_cost_at(net(), 17, false, &c, &err), -ENOMEM);
	assert_non_null(strstr(strbuf_text(&err), "does not fit into the memory of H200 (16 fit)"));
	assert_int_equal(emu_cost_at(net(), 7, false, &c, &err), -ERANGE);
}

static void held_out_points_only_judge_the_interpolation(void **state)
{
	(void)state;
	struct emu_cost c;
	assert_int_equal(add(GOOD), 0);
	assert_int_equal(add(HEAD ROW("12", "1", "0.03", "0.07", "0.11", "2500000")), 0);
	assert_int_equal(emu_cost_at(net(), 12, false, &c, &err), 0);
	assert_int_equal(c.step_ns, 130000000);
	assert_int_equal(emu_cost_at(net(), 12, true, &c, &err), 0);
	assert_int_equal(c.step_ns, 110000000);
}

static void a_model_is_found_by_what_tells_it_from_others(void **state)
{
	(void)state;
	const struct emu_model *m;
	assert_int_equal(add(GOOD), 0);
	assert_int_equal(emu_profile_find(&p, "H200", "net", "bf16", &m, &err), 0);
	assert_int_equal(emu_profile_find(&p, "H200", "nets", "bf16", &m, &err), -ENOENT);
	assert_non_null(
		strstr(strbuf_text(&err),
		       "no profile of model \"nets\" on H200 in bf16; there is net (H200, bf16)"));
	assert_int_equal(emu_profile_find(&p, "", "net", "fp32", &m, &err), -ENOENT);
	struct emu_model other = *net();
	snprintf(other.precision, sizeof(other.precision), "fp32");
	struct emu_point q = {.cost = {.batch = 1, .step_ns = 1}};
	assert_int_equal(emu_profile_add_point(&p, &other, &q), 0);
	assert_int_equal(emu_profile_find(&p, "H200", "net", NULL, &m, &err), -EINVAL);
	assert_non_null(strstr(strbuf_text(&err), "several profiles"));
	assert_int_equal(emu_profile_find(&p, "H200", "net", "fp32", &m, &err), 0);
	assert_int_equal(m->count, 1);
}

static void hostile_steps_are_refused_with_the_place(void **state)
{
	(void)state;
	refused("", "x.csv:0: the file has no header");
	refused("a,b\n1,2\n", "the header is none of a profile");
	refused("device,forward_s\n", "column \"batch\" is missing");
	refused(HEAD "H200,580\n", "x.csv:2: the row has 2 values and the header 53");
	refused(HEAD ROW("0", "0", "0.03", "0.06", "0.1", "2000000"), "batch = 0 is out of range");
	refused(HEAD ROW("1.5", "0", "0.03", "0.06", "0.1", "2000000"),
		"batch is not a whole number");
	refused(HEAD ROW("8", "0", "-0.03", "0.06", "0.1", "2000000"),
		"forward_s = -0.03 is out of range");
	refused(HEAD ROW("8", "0", "nan", "0.06", "0.1", "2000000"),
		"forward_s = \"nan\" is not a number");
	refused(HEAD ROW("8", "0", "0x1p3", "0.06", "0.1", "2000000"), "is not a number");
	refused(HEAD ROW("8", "0", "1e999", "0.06", "0.1", "2000000"), "is not a number");
	refused(HEAD ROW("8", "0", "5000", "0.06", "0.1", "2000000"),
		"out of range; allowed: 0 to 3600");
	refused(HEAD ROW("8", "0", "3", "0.06", "0.1", "2000000"), "step_s is not about the sum");
	refused(HEAD ROW("8", "0", "0.03", "0.06", "0.1", "20"), "must grow in this order");
	refused(GOOD ROW("8", "0", "0.03", "0.06", "0.1", "2000000"),
		"x.csv:4: the model has a row of this batch");
	refused(HEAD "H200,580,2.11,net,3x224x224,bf16,nhwc,32,0,fine" BLANK,
		"status \"fine\" is not");
	refused(HEAD ",580,2.11,net,3x224x224,bf16,nhwc,32,0,oom" BLANK,
		"device must have 1 to 63 characters");
	refused(HEAD "\"H200\",580,2.11,net,3x224x224,bf16,nhwc,32,0,oom" BLANK,
		"byte 1 is a quote");
	refused("device,device\n", "two columns are called \"device\"");
}

static void lines_and_tables_have_limits(void **state)
{
	(void)state;
	char *text = calloc(1, 200000);
	assert_non_null(text);
	memset(text, 'x', 5000);
	refused(text, "the line is longer than 4096 bytes");
	memset(text, ',', 100);
	text[100] = 0;
	refused(text, "more than 96 columns");
	size_t at = (size_t)sprintf(text, HEAD);
	for (int i = 1; i <= EMU_POINTS_MAX + 1; i++)
		at += (size_t)sprintf(text + at, "H,5,2,net,3,bf16,nhwc,%d,0,oom" BLANK, i);
	refused(text, "too many rows");
	free(text);
}

static void copies_are_interpolated_by_size(void **state)
{
	(void)state;
	uint64_t device_ns, host_ns;
	assert_int_equal(add("device,direction,pinned,bytes,host_s,device_s\n"
			     "H200,h2d,1,1000,0.000001,0.00001\n"
			     "H200,h2d,1,3000,0.000001,0.00003\n"
			     "H200,h2d,0,1000,0.00002,0.00002\n"),
			 0);
	assert_int_equal(emu_copy_at(&p, "H200", true, true, 2000, &device_ns, &host_ns), 0);
	assert_int_equal(device_ns, 20000);
	assert_int_equal(host_ns, 1000);
	assert_int_equal(emu_copy_at(&p, "", true, true, 10, &device_ns, &host_ns), 0);
	assert_int_equal(device_ns, 10000);
	assert_int_equal(emu_copy_at(&p, "", true, true, 30000, &device_ns, &host_ns), 0);
	assert_int_equal(device_ns, 300000);
	assert_int_equal(emu_copy_at(&p, "", true, false, 2000, &device_ns, &host_ns), 0);
	assert_int_equal(host_ns, 40000);
	assert_int_equal(emu_copy_at(&p, "", false, false, 2000, &device_ns, &host_ns), -ENOENT);
	refused("device,direction,pinned,bytes,host_s,device_s\nH200,up,1,1000,0,0\n",
		"is not h2d or d2h");
}

static void decodes_and_facts_are_read(void **state)
{
	(void)state;
	assert_int_equal(
		add("device,decoder,width,height,file_bytes,batch,wall_s,host_cpu_s,held_bytes\n"
		    "H200,nvjpeg,1024,768,150000,64,0.005,0.001,1000000\n"),
		0);
	assert_int_equal(p.decodes[0].wall_ns, 5000000);
	assert_int_equal(p.decodes[0].width, 1024);
	assert_int_equal(add("what,value\ndevice,H200\nmemory_bytes,1000\ncontext_bytes,10\n"), 0);
	assert_int_equal(p.memory_bytes, 1000);
	assert_int_equal(p.context_bytes, 10);
	refused("what,value\nmemory_bytes,-5\n", "value = -5 is out of range");
}

static void the_numbers_of_gpemu_are_read_without_the_fitted_ones(void **state)
{
	(void)state;
	struct emu_cost c;
	assert_int_equal(add("gpu,model,batch,forward_s,backward_and_step_s,h2d_pageable_s,peak_"
			     "mib,persistent_mib,"
			     "time_extrapolated,memory_fitted\n"
			     "V100,net,1,0.001,0.004,0.0003,100,50,0,0\n"
			     "V100,net,2,0.001,0.004,0.0004,100,50,1,0\n"
			     "V100,net,3,0.003,0.006,0.0005,102,51,0,0\n"),
			 0);
	assert_int_equal(net()->count, 2);
	assert_int_equal(emu_cost_at(net(), 2, false, &c, &err), 0);
	assert_int_equal(c.step_ns, 7000000);
	assert_int_equal(c.persistent_bytes, 50 * MIB + MIB / 2);
	uint64_t device_ns, host_ns;
	assert_int_equal(emu_copy_at(&p, "V100", true, false, 602112, &device_ns, &host_ns), 0);
	assert_int_equal(device_ns, 300000);
	refused("gpu,model,batch,forward_s,backward_and_step_s,h2d_pageable_s,peak_mib,persistent_"
		"mib,"
		"time_extrapolated,memory_fitted\nV100,net,1,0,0,0.0003,100,50,0,0\n",
		"a step takes no time");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_cost_between_batches_lies_on_the_line_between_them),
		TEST(there_is_no_cost_outside_of_what_was_measured),
		TEST(held_out_points_only_judge_the_interpolation),
		TEST(a_model_is_found_by_what_tells_it_from_others),
		TEST(hostile_steps_are_refused_with_the_place),
		TEST(lines_and_tables_have_limits),
		TEST(copies_are_interpolated_by_size),
		TEST(decodes_and_facts_are_read),
		TEST(the_numbers_of_gpemu_are_read_without_the_fitted_ones),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
