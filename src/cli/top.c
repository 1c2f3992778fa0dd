// SPDX-License-Identifier: Apache-2.0
#include "cli/top.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/json.h"

#define NS ((double)NS_PER_S)

/* --- rates -------------------------------------------------------------------------------------- */

static const struct top_use *find_use(const struct top_answer *a, const char *group)
{
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->uses[i].group, group) == 0)
			return &a->uses[i];
	return NULL;
}

static struct top_rate *rate_of(struct top_rates *r, const char *group)
{
	for (size_t i = 0; i < r->count; i++)
		if (strcmp(r->list[i].group, group) == 0)
			return &r->list[i];
	struct top_rate *new = &r->list[r->count++];
	*new = (struct top_rate){0};
	memcpy(new->group, group, strlen(group) + 1);
	return new;
}

/* Returns how much a sum grew. A sum that became smaller began again at 0. */
static uint64_t growth(const struct top_use *before, const struct top_use *after, enum top_sum s)
{
	uint64_t old = before != NULL ? before->sums[s] : 0;
	return after->sums[s] >= old ? after->sums[s] - old : after->sums[s];
}

static void add_server(struct top_rates *r, const struct top_server *s)
{
	double seconds = (double)(s->after.ns - s->before.ns) / NS;
	assert(seconds > 0);
	for (size_t i = 0; i < s->after.count; i++) {
		const struct top_use *u = &s->after.uses[i];
		struct top_rate *to = rate_of(r, u->group);
		const struct top_use *before = find_use(&s->before, u->group);
		for (int k = 0; k < TOP_SUMS; k++)
			to->per_s[k] += (double)growth(before, u, (enum top_sum)k) / seconds;
		to->waiting += u->waiting;
		to->throttled += u->throttled + (double)growth(before, u, TOP_REFUSED) / seconds;
	}
}

static int by_use(const void *a, const void *b)
{
	const struct top_rate *x = a, *y = b;
	static const enum top_sum order[] = {TOP_DISK_NS, TOP_META_NS, TOP_QUERIES};
	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		if (x->per_s[order[i]] != y->per_s[order[i]])
			return x->per_s[order[i]] < y->per_s[order[i]] ? 1 : -1;
	return strcmp(x->group, y->group);
}

static bool is_silent(const struct top_server *s)
{
	return s->before.ns == 0 || s->before.rc < 0 || s->after.rc < 0 ||
	       s->after.ns <= s->before.ns;
}

static bool is_idle(const struct top_rate *r)
{
	for (int k = 0; k < TOP_SUMS; k++)
		if (r->per_s[k] > 0)
			return false;
	return r->waiting == 0 && r->throttled == 0;
}

int top_rates(const struct top_server *servers, size_t n, struct top_rates *out)
{
	size_t room = 1;
	for (size_t i = 0; i < n; i++)
		room += servers[i].after.count;
	*out = (struct top_rates){.servers = n, .list = calloc(room, sizeof(*out->list))};
	if (out->list == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (is_silent(&servers[i]))
			out->silent++;
		else
			add_server(out, &servers[i]);
	}
	size_t busy = 0;
	for (size_t i = 0; i < out->count; i++)
		if (!is_idle(&out->list[i]))
			out->list[busy++] = out->list[i];
	out->count = busy;
	qsort(out->list, out->count, sizeof(*out->list), by_use);
	return 0;
}

void top_rates_free(struct top_rates *r)
{
	free(r->list);
	*r = (struct top_rates){0};
}

/* --- output ------------------------------------------------------------------------------------- */

int top_tell(const struct top_rates *r)
{
	printf("%-32s %9s %9s %7s %9s %7s %8s %11s\n", "group", "I/Os/s", "MiB/s", "disks",
	       "queries/s", "servers", "waiting", "throttled/s");
	for (size_t i = 0; i < r->count; i++) {
		const struct top_rate *g = &r->list[i];
		printf("%-32s %9.0f %9.1f %7.2f %9.0f %7.2f %8.0f %11.0f\n", g->group,
		       g->per_s[TOP_IOS], g->per_s[TOP_BYTES] / (double)MIB,
		       g->per_s[TOP_DISK_NS] / NS, g->per_s[TOP_QUERIES],
		       g->per_s[TOP_META_NS] / NS, g->waiting, g->throttled);
	}
	if (r->silent > 0)
		printf("%zu of %zu servers did not answer\n", r->silent, r->servers);
	return ferror(stdout) ? -EIO : 0;
}

int top_tell_json(const struct top_rates *r)
{
	json_t *list = json_array();
	for (size_t i = 0; i < r->count; i++) {
		const struct top_rate *g = &r->list[i];
		json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
						      "group", g->group, "iops", g->per_s[TOP_IOS],
						      "bytes_per_s", g->per_s[TOP_BYTES], "disks",
						      g->per_s[TOP_DISK_NS] / NS, "queries_per_s",
						      g->per_s[TOP_QUERIES], "servers",
						      g->per_s[TOP_META_NS] / NS, "waiting",
						      g->waiting, "throttled_per_s", g->throttled));
	}
	AUTO_JSON json_t *all =
		json_pack("{s:o, s:I, s:I}", "groups", list, "servers", (json_int_t)r->servers,
			  "silent_servers", (json_int_t)r->silent);
	return json_emit(stdout, all) < 0 ? -EIO : 0;
}
