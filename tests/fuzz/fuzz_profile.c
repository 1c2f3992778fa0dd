// SPDX-License-Identifier: Apache-2.0
/*
 * The readers of profiles with arbitrary bytes. What is accepted has costs at each of its batches and between them; a
 * refusal gives the reason in one line.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "emu/profile.h"
#include "fuzz.h"

static void check_model(const struct emu_model *m, struct strbuf *err)
{
	assert(m->count > 0 && m->count <= EMU_POINTS_MAX);
	for (size_t i = 0; i < m->count; i++) {
		const struct emu_point *q = &m->points[i];
		struct emu_cost c;
		assert(i == 0 || m->points[i - 1].cost.batch < q->cost.batch);
		int rc = emu_cost_at(m, q->cost.batch, true, &c, err);
		assert(rc == 0 || rc == -ERANGE || rc == -ENOMEM);
		assert(q->status != EMU_OK || (rc == 0 && c.step_ns == q->cost.step_ns));
		if (i > 0 && q->status == EMU_OK)
			(void)emu_cost_at(m, q->cost.batch - 1, false, &c, err);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct emu_profile p = {0};
	struct strbuf err;
	strbuf_init(&err, 1000);
	int rc = emu_profile_add(&p, "f", (const char *)data, size, &err);
	assert(rc == 0 || rc == -EINVAL);
	assert((rc == 0) == (err.len == 0));
	assert(strchr(strbuf_text(&err), '\n') == NULL);
	for (size_t i = 0; i < p.model_count; i++)
		if (p.models[i].count > 0)
			check_model(&p.models[i], &err);
	uint64_t device_ns, host_ns;
	for (int i = 0; i < 4; i++)
		(void)emu_copy_at(&p, NULL, i & 1, i & 2, 100000, &device_ns, &host_ns);
	emu_profile_fini(&p);
	strbuf_fini(&err);
	return 0;
}
