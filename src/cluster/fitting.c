// SPDX-License-Identifier: Apache-2.0
/* Encodings that a cluster can bear, for texts that refuse another one. */
#include <assert.h>
#include <stdio.h>

#include "base/base.h"
#include "cluster/choose.h"

void cluster_fitting(char out[CLUSTER_FITTING_TEXT],
		     bool (*accepts)(void *ctx, const struct encoding *e), void *ctx)
{
	static const char *const tried[] = {"rs:6+3", "rs:4+2", "rs:3+2", "rs:2+1", "r3", "r2"};
	unsigned count = 0;
	size_t len = 0;
	out[0] = 0;
	for (size_t i = 0; i < ARRAY_LEN(tried) && count < CLUSTER_FITTING; i++) {
		struct encoding e;
		int rc = encoding_parse(tried[i], &e, NULL, 0);
		assert(rc == 0);
		if (rc != 0 || !accepts(ctx, &e))
			continue;
		int n = snprintf(out + len, CLUSTER_FITTING_TEXT - len, "%s%s",
				 count > 0 ? " or " : "", tried[i]);
		assert(n > 0 && len + (size_t)n < CLUSTER_FITTING_TEXT);
		len += (size_t)n;
		count++;
	}
}

struct fitting_now {
	struct cluster *c;
	enum cluster_media media;
};

static bool accepts_now(void *ctx, const struct encoding *e)
{
	const struct fitting_now *f = ctx;
	struct cluster_want want = {.encoding = *e, .media = f->media};
	struct cluster_spread s;
	return cluster_spread(f->c, &want, &s) == 0 && s.rack_most > 0 &&
	       cluster_spread_accepted(&s);
}

void cluster_fitting_now(char out[CLUSTER_FITTING_TEXT], struct cluster *c,
			 enum cluster_media media)
{
	struct fitting_now f = {c, media};
	cluster_fitting(out, accepts_now, &f);
}
