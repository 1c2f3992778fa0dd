// SPDX-License-Identifier: Apache-2.0
#include "auth/policy.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "auth/policy_impl.h"

#define IDENTITIES_MAX 100000
#define GRANTS_MAX 1000000

int policy_open(struct policy **out, const struct policy_limits *limits, uint64_t seed)
{
	struct policy *p = calloc(1, sizeof(*p));
	*out = p;
	if (p == NULL)
		return -ENOMEM;
	if (limits != NULL)
		p->limits = *limits;
	if (p->limits.identities_max == 0)
		p->limits.identities_max = IDENTITIES_MAX;
	if (p->limits.grants_max == 0)
		p->limits.grants_max = GRANTS_MAX;
	p->seed = seed;
	map_init(&p->by_id, p->limits.identities_max);
	map_init(&p->by_name, p->limits.identities_max);
	return 0;
}

static void row_free(struct identity_row *r)
{
	for (size_t i = 0; i < r->identity.grant_count; i++)
		free(r->grants[i]);
	free(r->grants);
	free(r->slots);
	free(r);
}

void policy_close(struct policy *p)
{
	if (p == NULL)
		return;
	map_for_each(&p->by_id, it)
		row_free(it.value);
	map_fini(&p->by_id);
	map_fini(&p->by_name);
	free(p);
}

/* --- identities ------------------------------------------------------------------------------- */

int identity_name_check(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	size_t len = strnlen(name, IDENTITY_NAME_MAX + 1);
	bool valid = len > 0 && len <= IDENTITY_NAME_MAX && strspn(name, letters) > 0 &&
		     strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == len;
	return valid ? 0 : -EINVAL;
}

static uint64_t name_hash(const struct policy *p, const char *name)
{
	return hash64(name, strlen(name), p->seed);
}

static struct identity_row *find_name(const struct policy *p, const char *name, uint64_t hash)
{
	struct identity_row *r = map_get(&p->by_name, hash);
	while (r != NULL && strcmp(r->identity.name, name) != 0)
		r = r->next;
	return r;
}

/* Puts a row at the front of its chain of names. -ENOMEM. */
static int name_link(struct policy *p, struct identity_row *r)
{
	r->next = map_remove(&p->by_name, r->name_hash);
	int rc = map_put(&p->by_name, r->name_hash, r);
	/* a removed entry leaves room for its successor */
	assert(rc == 0 || r->next == NULL);
	return rc;
}

static void name_unlink(struct policy *p, struct identity_row *r)
{
	struct identity_row *first = map_remove(&p->by_name, r->name_hash);
	struct identity_row **at = &first;
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	if (first != NULL) {
		int rc = map_put(&p->by_name, r->name_hash, first);
		assert(rc == 0);
		(void)rc;
	}
}

int policy_add(struct policy *p, uint64_t id, const char *name, uint32_t key_version)
{
	if (id == 0 || key_version == 0 || identity_name_check(name) < 0)
		return -EINVAL;
	uint64_t hash = name_hash(p, name);
	if (map_get(&p->by_id, id) != NULL || find_name(p, name, hash) != NULL)
		return -EEXIST;
	struct identity_row *r = calloc(1, sizeof(*r));
	if (r == NULL)
		return -ENOMEM;
	r->identity.id = id;
	r->identity.key_version = key_version;
	r->name_hash = hash;
	memcpy(r->identity.name, name, strlen(name) + 1);
	int rc = map_put(&p->by_id, id, r);
	if (rc == 0) {
		rc = name_link(p, r);
		if (rc < 0)
			map_remove(&p->by_id, id);
	}
	if (rc < 0)
		row_free(r);
	return rc;
}

int policy_remove(struct policy *p, uint64_t id)
{
	struct identity_row *r = map_remove(&p->by_id, id);
	if (r == NULL)
		return -ENOENT;
	name_unlink(p, r);
	assert(p->grants >= r->identity.grant_count);
	p->grants -= r->identity.grant_count;
	row_free(r);
	return 0;
}

int policy_set(struct policy *p, uint64_t id, uint32_t key_version, bool disabled)
{
	struct identity_row *r = map_get(&p->by_id, id);
	if (r == NULL)
		return -ENOENT;
	if (key_version < r->identity.key_version)
		return -EINVAL;
	r->identity.key_version = key_version;
	r->identity.disabled = disabled;
	return 0;
}

const struct identity *policy_by_name(const struct policy *p, const char *name)
{
	struct identity_row *r = find_name(p, name, name_hash(p, name));
	return r == NULL ? NULL : &r->identity;
}

const struct identity *policy_by_id(const struct policy *p, uint64_t id)
{
	struct identity_row *r = map_get(&p->by_id, id);
	return r == NULL ? NULL : &r->identity;
}

size_t policy_identities(const struct policy *p)
{
	return map_count(&p->by_id);
}

size_t policy_grants(const struct policy *p)
{
	return p->grants;
}

/* --- grants ----------------------------------------------------------------------------------- */

const struct grant *policy_grant_at(const struct identity *who, size_t n)
{
	assert(n < who->grant_count);
	return &row_of(who)->grants[n]->grant;
}

/* Finds the slot of a prefix: the one that has it, or the free one where it belongs. */
static struct grant_slot *slot_for(const struct identity_row *r, uint64_t hash,
				   const struct grant *g)
{
	assert(r->slots_used < r->slot_count);
	for (size_t i = hash & (r->slot_count - 1);; i = (i + 1) & (r->slot_count - 1)) {
		struct grant_slot *s = &r->slots[i];
		if (s->first == NULL)
			return s;
		const struct grant *at = &s->first->grant;
		if (s->hash == hash && at->tenant == g->tenant && at->prefix_len == g->prefix_len &&
		    memcmp(at->prefix, g->prefix, g->prefix_len) == 0)
			return s;
	}
}

static void slot_add(struct identity_row *r, uint64_t hash, struct grant_row *row)
{
	struct grant_slot *s = slot_for(r, hash, &row->grant);
	r->slots_used += s->first == NULL;
	s->hash = hash;
	row->next = s->first;
	s->first = row;
}

/* Builds the table anew from the list of grants, with room for at least `count`. -ENOMEM. */
static int slots_build(struct policy *p, struct identity_row *r, size_t count)
{
	size_t size = 4;
	while (size < 2 * count)
		size *= 2;
	struct grant_slot *slots = calloc(size, sizeof(*slots));
	if (slots == NULL)
		return -ENOMEM;
	free(r->slots);
	r->slots = slots;
	r->slot_count = size;
	r->slots_used = 0;
	for (size_t i = 0; i < r->identity.grant_count; i++) {
		const struct grant *g = &r->grants[i]->grant;
		slot_add(r, prefix_hash(p->seed, g->tenant, g->prefix, g->prefix_len),
			 r->grants[i]);
	}
	return 0;
}

/* Makes room for one more grant in the list and the table. -ENOMEM. */
static int grants_grow(struct policy *p, struct identity_row *r)
{
	size_t count = r->identity.grant_count;
	if (count == r->grants_room) {
		size_t room = count == 0 ? 4 : 2 * count;
		struct grant_row **more = reallocarray(r->grants, room, sizeof(struct grant_row *));
		if (more == NULL)
			return -ENOMEM;
		r->grants = more;
		r->grants_room = room;
	}
	return 2 * (r->slots_used + 1) > r->slot_count ? slots_build(p, r, count + 1) : 0;
}

static int grant_check(const struct grant *g)
{
	if (g->id == 0 || g->role < ROLE_OPERATOR || g->role >= ROLE_END)
		return -EINVAL;
	if (!role_of_tenant(g->role))
		return g->tenant == 0 && g->prefix_len == 0 ? 0 : -EINVAL;
	return g->tenant == 0 ? -EINVAL : path_prefix_check(g->prefix, g->prefix_len);
}

static bool grant_exists(const struct policy *p, const struct identity_row *r,
			 const struct grant *g)
{
	for (size_t i = 0; i < r->identity.grant_count; i++)
		if (r->grants[i]->grant.id == g->id)
			return true;
	uint64_t hash = prefix_hash(p->seed, g->tenant, g->prefix, g->prefix_len);
	struct grant_row *at = grants_at(r, hash, g->tenant, g->prefix, g->prefix_len);
	while (at != NULL && at->grant.role != g->role)
		at = at->next;
	return at != NULL;
}

int policy_grant(struct policy *p, uint64_t identity, const struct grant *given)
{
	struct identity_row *r = map_get(&p->by_id, identity);
	struct grant g = *given;
	if (r == NULL)
		return -ENOENT;
	if (g.prefix == NULL || g.prefix_len == 0) {
		g.prefix = "";
		g.prefix_len = 0;
	}
	int rc = grant_check(&g);
	if (rc < 0)
		return rc;
	if (grant_exists(p, r, &g))
		return -EEXIST;
	if (p->grants >= p->limits.grants_max || r->identity.grant_count >= GRANTS_PER_IDENTITY_MAX)
		return -ENOSPC;
	struct grant_row *row = malloc(sizeof(*row) + g.prefix_len + 1);
	if (row == NULL || grants_grow(p, r) < 0) {
		free(row);
		return -ENOMEM;
	}
	memcpy(row->text, g.prefix, g.prefix_len);
	row->text[g.prefix_len] = 0;
	row->grant = g;
	row->grant.prefix = row->text;
	r->grants[r->identity.grant_count++] = row;
	slot_add(r, prefix_hash(p->seed, g.tenant, g.prefix, g.prefix_len), row);
	p->grants++;
	return 0;
}

int policy_revoke(struct policy *p, uint64_t identity, uint64_t grant)
{
	struct identity_row *r = map_get(&p->by_id, identity);
	size_t n = 0;
	if (r == NULL)
		return -ENOENT;
	while (n < r->identity.grant_count && r->grants[n]->grant.id != grant)
		n++;
	if (n == r->identity.grant_count)
		return -ENOENT;
	struct grant_row *row = r->grants[n];
	r->grants[n] = r->grants[--r->identity.grant_count];
	/* A table with open addressing has no cheap removal; grants are taken back seldom. If there
	 * is no memory for a new table, the old one is cleared and filled again. */
	if (slots_build(p, r, r->identity.grant_count) < 0) {
		memset(r->slots, 0, r->slot_count * sizeof(*r->slots));
		r->slots_used = 0;
		for (size_t i = 0; i < r->identity.grant_count; i++) {
			const struct grant *g = &r->grants[i]->grant;
			slot_add(r, prefix_hash(p->seed, g->tenant, g->prefix, g->prefix_len),
				 r->grants[i]);
		}
	}
	free(row);
	assert(p->grants > 0);
	p->grants--;
	return 0;
}
