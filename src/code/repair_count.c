// SPDX-License-Identifier: Apache-2.0
#include "code/repair_count.h"

#include <errno.h>

void repair_counts_init(const struct layout *l, double *count)
{
	for (uint32_t j = 1; j <= l->rows; j++)
		count[j] = 0;
	count[0] = (double)l->local.stripes;
}

void repair_counts_fail(const struct layout *l, uint32_t alive, double *count)
{
	for (uint32_t j = l->rows; j-- > 0;) {
		double hit = count[j] * (l->rows - j) / alive;
		if (hit > count[j]) /* more members than disks: they are all hit */
			hit = count[j];
		count[j] -= hit;
		count[j + 1] += hit;
	}
}

int repair_counts_expected(const struct layout *l, uint32_t failed, double *count)
{
	if (l->spec.lrc)
		return -EOPNOTSUPP;
	if (failed > l->pool_disks)
		return -ERANGE;
	repair_counts_init(l, count);
	for (uint32_t i = 0; i < failed; i++)
		repair_counts_fail(l, l->pool_disks - i, count);
	return 0;
}

/* Chunks of a local stripe with j failed ones that go over the network. */
static uint32_t over_network(const struct layout *l, const struct repair_policy *policy, uint32_t j)
{
	uint32_t p = (uint32_t)l->spec.local.p;
	switch (policy->method) {
	case REPAIR_ALL:
		return policy->parity_inside ? l->rows - p : l->rows;
	case REPAIR_FCO:
		return j;
	case REPAIR_HYB:
		return j > p ? j : 0;
	case REPAIR_MIN:
		return j > p ? j - p : 0;
	}
	return 0;
}

void repair_counts_cost(const struct layout *l, const struct repair_policy *policy,
			const double *count, struct repair_estimate *out)
{
	uint32_t p = (uint32_t)l->spec.local.p;
	double net_k = l->spec.net.k;
	*out = (struct repair_estimate){0};
	for (uint32_t j = p + 1; j <= l->rows; j++)
		out->lost_local += count[j];
	bool catastrophic = out->lost_local > 0;
	if (l->spec.net.p == 0) {
		out->lost_stripes = out->lost_local;
		catastrophic = false;
	}
	bool whole = catastrophic && policy->method == REPAIR_ALL;
	for (uint32_t j = whole ? 0 : 1; j <= l->rows; j++) {
		if (j > p && out->lost_stripes > 0)
			break;
		uint32_t net = catastrophic ? over_network(l, policy, j) : 0;
		uint32_t inside = (whole ? l->rows : j) - net;
		out->net_writes += count[j] * net;
		out->local_writes += count[j] * inside;
		if (inside > 0)
			out->local_reads += count[j] * l->spec.local.k;
	}
	out->net_reads = out->net_writes * net_k;
	out->cross_reads = out->net_reads;
	out->cross_writes = policy->site == REPAIR_AT_SERVER ? out->net_writes : 0;
}
