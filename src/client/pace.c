// SPDX-License-Identifier: Apache-2.0
#include "client/pace.h"

#include <assert.h>
#include <stdbool.h>

#include "base/base.h"

#define PACE_QUANTILE 0.95
#define PACE_STEP 0.05
#define PACE_SAMPLES_MIN 16
#define PACE_SLOW_MIN_NS ((double)(10 * NS_PER_MS))
#define PACE_SLOW_MAX_NS ((double)(5 * NS_PER_S))
#define PACE_SLOW_UNKNOWN_NS (500 * NS_PER_MS)

static void pace_follow(double *estimate, double sample)
{
	if (*estimate <= 0) {
		*estimate = sample;
		return;
	}
	double step = *estimate * PACE_STEP;
	*estimate += sample > *estimate ? step * PACE_QUANTILE : -step * (1 - PACE_QUANTILE);
}

void pace_add(struct pace *p, uint64_t len, uint64_t took_ns)
{
	assert(len > 0);
	if (len <= PACE_SMALL_BYTES) {
		pace_follow(&p->small_ns, (double)took_ns);
		p->small_count++;
	} else {
		pace_follow(&p->mib_ns, (double)took_ns * (double)MIB / (double)len);
		p->mib_count++;
	}
}

uint64_t pace_slow_ns(const struct pace *p, uint64_t len)
{
	bool small = len <= PACE_SMALL_BYTES;
	if ((small ? p->small_count : p->mib_count) < PACE_SAMPLES_MIN)
		return PACE_SLOW_UNKNOWN_NS;
	double ns = 3 * (small ? p->small_ns : p->mib_ns * (double)len / (double)MIB);
	if (ns < PACE_SLOW_MIN_NS)
		ns = PACE_SLOW_MIN_NS;
	return (uint64_t)(ns > PACE_SLOW_MAX_NS ? PACE_SLOW_MAX_NS : ns);
}
