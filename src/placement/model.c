// SPDX-License-Identifier: Apache-2.0
#include "placement/model.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/base.h"

void model_fini(struct model *m)
{
	trees_fini(&m->trees);
	past_fini(&m->history);
	*m = (struct model){0};
}

uint32_t model_decide(const struct model *m, const float *outputs)
{
	if (m->kind == MODEL_ORDINAL)
		return category_of(&m->cuts, outputs[0], outputs[0]);
	uint32_t best = 0;
	for (uint32_t i = 1; i < m->cuts.categories; i++)
		if (outputs[i] > outputs[best])
			best = i;
	return best;
}

uint32_t model_category(const struct model *m, const struct features_job *job)
{
	float values[FEATURES_MAX], outputs[TREES_GROUPS_MAX];
	assert(features_count(&m->features) == m->trees.features_n);
	features_fill(&m->features, &m->history, job, values);
	trees_run(&m->trees, values, outputs);
	return model_decide(m, outputs);
}

void model_ended(struct model *m, const struct features_job *job, const struct job_io *io)
{
	features_ended(&m->features, &m->history, job, io, &m->rates);
}
