// SPDX-License-Identifier: Apache-2.0
#include "meta_api/group.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "limits/limiter.h"

static const char *const quota_keys[META_RESOURCES] = {"iops", "queries"};
static const char *const class_names[] = {"none", "gold", "silver", "bronze"};

uint32_t meta_group_id(const char *tenant, const char *name)
{
	char text[CONTEXT_TENANT_MAX + 1 + CONTEXT_GROUP_MAX + 1];
	int n = snprintf(text, sizeof(text), "%s/%s", tenant,
			 name[0] != 0 ? name : META_GROUP_DEFAULT);
	assert(n > 0);
	size_t len = min_u64((uint64_t)n, sizeof(text) - 1);
	uint32_t id = (uint32_t)(hash64(text, len, 0) >> 32);
	return id > META_GROUP_OTHER ? id : id + META_GROUP_OTHER + 1;
}

static uint64_t quota_sum(const struct meta_groups *g, enum meta_resource r)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < g->count; i++) {
		assert(g->list[i].quota[r] <= META_QUOTA_MAX);
		sum += g->list[i].quota[r];
	}
	return sum;
}

bool meta_groups_limit(const struct meta_groups *g, enum meta_resource r)
{
	return quota_sum(g, r) > 0;
}

uint64_t meta_groups_other(const struct meta_groups *g, enum meta_resource r)
{
	uint64_t sum = quota_sum(g, r);
	return g->capacity[r] > sum ? g->capacity[r] - sum : 0;
}

uint32_t meta_groups_weight(const struct meta_groups *g, size_t i, enum meta_resource r)
{
	assert(i < g->count);
	uint64_t sum = quota_sum(g, r);
	if (sum == 0)
		return (uint32_t)max_u64(META_WEIGHT_ALL / g->count, 1);
	return (uint32_t)max_u64(g->list[i].quota[r] * META_WEIGHT_ALL / sum, 1);
}

/* --- notes ------------------------------------------------------------------------------------ */

void meta_group_note(char out[META_NOTE_NAME_MAX + 1], uint32_t id)
{
	snprintf(out, META_NOTE_NAME_MAX + 1, META_GROUPS_PREFIX "%08" PRIx32, id);
}

static char *json_take(json_t *o)
{
	char *text = o != NULL ? json_dumps(o, JSON_COMPACT) : NULL;
	json_decref(o);
	return text;
}

char *meta_group_text(const struct meta_group *g)
{
	assert(g->traffic_class >= TRAFFIC_GOLD && g->traffic_class <= TRAFFIC_BRONZE);
	return json_take(json_pack("{s:I, s:s, s:s, s:s, s:I, s:I}", "id", (json_int_t)g->tenant,
				   "tenant", g->tenant_name, "group", g->name, "class",
				   class_names[g->traffic_class], quota_keys[META_DISK],
				   (json_int_t)g->quota[META_DISK], quota_keys[META_QUERIES],
				   (json_int_t)g->quota[META_QUERIES]));
}

char *meta_capacity_text(const uint64_t capacity[META_RESOURCES])
{
	return json_take(json_pack("{s:I, s:I}", quota_keys[META_DISK],
				   (json_int_t)capacity[META_DISK], quota_keys[META_QUERIES],
				   (json_int_t)capacity[META_QUERIES]));
}

/* Reads a number from 0 to max. */
static int get_number(const json_t *o, const char *key, uint64_t max, uint64_t *out)
{
	const json_t *v = json_object_get(o, key);
	if (!json_is_integer(v) || json_integer_value(v) < 0 ||
	    (uint64_t)json_integer_value(v) > max)
		return -EINVAL;
	*out = (uint64_t)json_integer_value(v);
	return 0;
}

static int get_text(const json_t *o, const char *key, char *out, size_t size)
{
	const char *text = json_string_value(json_object_get(o, key));
	if (text == NULL || text[0] == 0 || strlen(text) >= size)
		return -EINVAL;
	memcpy(out, text, strlen(text) + 1);
	return 0;
}

static int get_class(const json_t *o, enum traffic_class *out)
{
	const char *text = json_string_value(json_object_get(o, "class"));
	for (int c = TRAFFIC_GOLD; text != NULL && c <= TRAFFIC_BRONZE; c++)
		if (strcmp(text, class_names[c]) == 0) {
			*out = (enum traffic_class)c;
			return 0;
		}
	return -EINVAL;
}

static int get_quotas(const json_t *o, uint64_t max, uint64_t out[META_RESOURCES])
{
	int rc = 0;
	for (int r = 0; r < META_RESOURCES && rc == 0; r++)
		rc = get_number(o, quota_keys[r], max, &out[r]);
	return rc;
}

static int get_group(const json_t *o, const char *note, struct meta_group *g)
{
	uint64_t tenant = 0;
	char expected[META_NOTE_NAME_MAX + 1];
	int rc = get_number(o, "id", UINT32_MAX, &tenant);
	if (rc == 0)
		rc = get_text(o, "tenant", g->tenant_name, sizeof(g->tenant_name));
	if (rc == 0)
		rc = get_text(o, "group", g->name, sizeof(g->name));
	if (rc == 0)
		rc = get_class(o, &g->traffic_class);
	if (rc == 0)
		rc = get_quotas(o, META_QUOTA_MAX, g->quota);
	if (rc < 0 || tenant == 0)
		return -EINVAL;
	g->tenant = (uint32_t)tenant;
	g->id = meta_group_id(g->tenant_name, g->name);
	meta_group_note(expected, g->id);
	return strcmp(expected, note) == 0 ? 0 : -EINVAL;
}

int meta_groups_add(struct meta_groups *g, const struct meta_note *note)
{
	if (note->text[0] == 0)
		return 0;
	AUTO_JSON json_t *o = json_loads(note->text, 0, NULL);
	uint64_t version = hash64(note->text, strlen(note->text), g->version + note->turn);
	int rc;
	if (!json_is_object(o))
		return -EINVAL;
	if (strcmp(note->name, META_GROUPS_CAPACITY) == 0) {
		uint64_t capacity[META_RESOURCES];
		rc = get_quotas(o, META_QUOTA_MAX * META_GROUPS_MAX, capacity);
		if (rc == 0)
			memcpy(g->capacity, capacity, sizeof(capacity));
	} else if (g->count == META_GROUPS_MAX) {
		rc = -ENOSPC;
	} else {
		struct meta_group one;
		rc = get_group(o, note->name, &one);
		if (rc == 0)
			g->list[g->count++] = one;
	}
	if (rc == 0)
		g->version = version != 0 ? version : 1;
	return rc;
}

/* --- costs ------------------------------------------------------------------------------------ */

uint64_t meta_disk_cost(uint64_t accesses, uint64_t bytes)
{
	const uint64_t unit_bytes = META_IO_BYTES / META_DISK_UNITS;
	const uint64_t most = LIMITS_COST_MAX / 2 / META_DISK_UNITS;
	uint64_t cost = min_u64(accesses, most) * META_DISK_UNITS +
			min_u64(bytes / unit_bytes, LIMITS_COST_MAX / 2);
	return max_u64(cost, 1);
}

uint64_t meta_quota_units(enum meta_resource r, uint64_t quota)
{
	return r == META_DISK ? quota * META_DISK_UNITS : quota;
}
