// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "tally/store.h"

#define NAMES_MAX 1000000 /* the store's size in bytes is the limit that is met first */
/* More than any limit: a log is read whatever session_max is now. */
#define SESSIONS_MAX 10000000

void state_init(struct tally *t)
{
	map_init(&t->names, NAMES_MAX);
	map_init(&t->sessions, SESSIONS_MAX);
	list_init(&t->entries);
	list_init(&t->sessions_lru);
	t->name_seed = rt_random_u64();
}

void state_fini(struct tally *t)
{
	struct list *node;
	while ((node = list_pop_front(&t->entries)) != NULL)
		free(list_entry(node, struct entry, link));
	while ((node = list_pop_front(&t->sessions_lru)) != NULL)
		free(list_entry(node, struct session, link));
	map_fini(&t->names);
	map_fini(&t->sessions);
}

void state_reset(struct tally *t)
{
	state_fini(t);
	state_init(t);
	t->live_bytes = 0;
	t->stat = (struct tally_stat){0};
}

/* --- names ----------------------------------------------------------------------------------- */

struct entry *state_entry(const struct tally *t, const char *name, size_t len)
{
	struct entry *e = map_get(&t->names, hash64(name, len, t->name_seed));
	while (e != NULL && (e->name_len != len || memcmp(e->name, name, len) != 0))
		e = e->next;
	return e;
}

int state_entry_add(struct tally *t, const char *name, size_t len, struct entry **out)
{
	*out = state_entry(t, name, len);
	if (*out != NULL)
		return 0;
	struct entry *e = calloc(1, sizeof(*e) + len);
	if (e == NULL)
		return -ENOMEM;
	e->name_len = (uint8_t)len;
	memcpy(e->name, name, len);
	uint64_t hash = hash64(name, len, t->name_seed);
	struct entry *first = map_get(&t->names, hash);
	if (first != NULL) {
		e->next = first->next;
		first->next = e;
	} else {
		int rc = map_put(&t->names, hash, e);
		if (rc < 0) {
			free(e);
			return rc;
		}
	}
	list_push_back(&t->entries, &e->link);
	t->live_bytes += LOG_RECORD_BYTES + len;
	*out = e;
	return 0;
}

void state_entry_settle(struct tally *t, struct entry *e)
{
	if (e->is_counter || e->is_blob || e->pending > 0)
		return;
	uint64_t hash = hash64(e->name, e->name_len, t->name_seed);
	struct entry *first = map_remove(&t->names, hash);
	struct entry **at = &first;
	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	/* What was removed makes room for what is put. */
	if (first != NULL)
		(void)map_put(&t->names, hash, first);
	list_remove(&e->link);
	t->live_bytes -= LOG_RECORD_BYTES + (uint64_t)e->name_len;
	free(e);
}

void state_set_counter(struct tally *t, struct entry *e, int64_t value)
{
	t->stat.counters += !e->is_counter;
	e->is_counter = true;
	e->value = value;
}

void state_set_blob(struct tally *t, struct entry *e, uint64_t offset, uint32_t len, uint32_t crc)
{
	t->stat.blobs += !e->is_blob;
	t->live_bytes += (uint64_t)len - (e->is_blob ? e->blob_len : 0);
	e->is_blob = true;
	e->blob_offset = offset;
	e->blob_len = len;
	e->blob_crc = crc;
}

/* --- sessions -------------------------------------------------------------------------------- */

struct session *state_session(const struct tally *t, uint64_t client_id)
{
	return map_get(&t->sessions, client_id);
}

void state_session_drop(struct tally *t, struct session *s)
{
	map_remove(&t->sessions, s->client_id);
	list_remove(&s->link);
	free(s);
}

int state_session_add(struct tally *t, uint64_t client_id, struct session **out)
{
	int rc = 0;
	*out = state_session(t, client_id);
	if (*out != NULL)
		return 0;
	struct session *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	s->client_id = client_id;
	s->used_ns = rt_now_ns();
	rc = map_put(&t->sessions, client_id, s);
	if (rc < 0) {
		free(s);
		return rc;
	}
	list_push_back(&t->sessions_lru, &s->link);
	*out = s;
	return 0;
}

/* --- changes --------------------------------------------------------------------------------- */

/* False when the change is not the session's next: a record that came too late to count. */
static bool session_advance(struct session *s, struct tally *t, uint64_t seq)
{
	if (seq <= s->seq)
		return false;
	s->seq = seq;
	s->rc = 0;
	s->value = 0;
	s->used_ns = rt_now_ns();
	list_remove(&s->link);
	list_push_back(&t->sessions_lru, &s->link);
	return true;
}

void state_apply_add(struct tally *t, struct session *s, uint64_t seq, struct entry *e,
		     int64_t delta)
{
	int64_t value = 0;
	if (!session_advance(s, t, seq))
		return;
	if (__builtin_add_overflow(e->value, delta, &value)) {
		s->rc = -ERANGE;
		return;
	}
	state_set_counter(t, e, value);
	s->value = value;
}

void state_apply_put(struct tally *t, struct session *s, uint64_t seq, struct entry *e,
		     uint64_t offset, uint32_t len, uint32_t crc)
{
	if (session_advance(s, t, seq))
		state_set_blob(t, e, offset, len, crc);
}
