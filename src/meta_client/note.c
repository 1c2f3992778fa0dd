// SPDX-License-Identifier: Apache-2.0
/* Client stubs of the requests for notes. */
#include "meta_api/note.h"
#include "meta_client/impl.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int meta_client_note_put(struct meta_call *c, struct meta_note *note)
{
	Terrane__Meta__NotePutRequest q = TERRANE__META__NOTE_PUT_REQUEST__INIT;
	Terrane__Meta__Note n = TERRANE__META__NOTE__INIT;
	assert(memchr(note->name, 0, sizeof(note->name)) != NULL);
	if (strlen(note->text) > META_NOTE_TEXT_MAX)
		return mc_fail(c, -EFBIG);
	n.name = note->name;
	n.turn = note->turn;
	n.text = (char *)note->text;
	q.note = &n;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_note_put, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__NotePutResponse *p = reply.message;
	note->turn = p->turn;
	return p->stale ? mc_fail(c, -ESTALE) : 0;
}

int meta_client_note_drop(struct meta_call *c, const char *name)
{
	Terrane__Meta__NotePutRequest q = TERRANE__META__NOTE_PUT_REQUEST__INIT;
	Terrane__Meta__Note n = TERRANE__META__NOTE__INIT;
	n.name = (char *)name;
	q.note = &n;
	q.drop = true;
	return mc_call_status(c, &meta_type_note_put, &q.base);
}

/* Reads a note from a response. Refuses a name that does not have the prefix or does not sort after `after`,
 * because a caller that lists page by page would never reach the end. */
static int note_from_wire(const Terrane__Meta__Note *m, const char *prefix, const char *after,
			  struct arena *a, struct meta_note *out)
{
	size_t len = strlen(m->text);
	if (strncmp(m->name, prefix, strlen(prefix)) != 0 || strcmp(m->name, after) <= 0)
		return -EINVAL;
	char *text = arena_alloc(a, len + 1);
	if (strlen(m->name) > META_NOTE_NAME_MAX || len > META_NOTE_TEXT_MAX)
		return -EINVAL;
	if (text == NULL)
		return -ENOMEM;
	memcpy(text, m->text, len + 1);
	*out = (struct meta_note){.turn = m->turn, .text = text};
	memcpy(out->name, m->name, strlen(m->name) + 1);
	return 0;
}

int64_t meta_client_note_list(struct meta_call *c, const char *prefix, const char *after,
			      struct arena *a, struct meta_note *out, size_t max, bool *end)
{
	assert(max > 0 && prefix != NULL && after != NULL);
	Terrane__Meta__NoteListRequest q = TERRANE__META__NOTE_LIST_REQUEST__INIT;
	q.prefix = (char *)prefix;
	q.after = (char *)after;
	q.max = (uint32_t)min_u64(max, META_NOTES_MAX);
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_note_list, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__NoteListResponse *p = reply.message;
	if (p->n_notes > max || (p->n_notes == 0 && !p->end))
		return mc_response_error(c, -EINVAL);
	for (size_t i = 0; rc == 0 && i < p->n_notes; i++)
		rc = note_from_wire(p->notes[i], prefix, i == 0 ? after : out[i - 1].name, a,
				    &out[i]);
	*end = p->end;
	return rc < 0 ? mc_response_error(c, rc) : (int64_t)p->n_notes;
}

int meta_client_note_get(struct meta_call *c, const char *name, struct arena *a,
			 struct meta_note *out)
{
	bool end;
	/* A listing with this name as the prefix returns the note of this name first. */
	int64_t n = meta_client_note_list(c, name, "", a, out, 1, &end);
	if (n < 0)
		return (int)n;
	if (n == 0 || strcmp(out->name, name) != 0) {
		*out = (struct meta_note){.text = ""};
		if (strlen(name) > META_NOTE_NAME_MAX)
			return mc_fail(c, -EINVAL);
		memcpy(out->name, name, strlen(name) + 1);
	}
	return out->text[0] == 0 ? mc_fail(c, -ENOENT) : 0;
}

int meta_client_groups(struct meta_call *c, struct meta_groups *out)
{
	char after[META_NOTE_NAME_MAX + 1] = "";
	bool end = false;
	memset(out, 0, sizeof(*out));
	AUTO_FREE struct meta_note *page = calloc(META_NOTES_MAX, sizeof(*page));
	if (page == NULL)
		return mc_fail(c, -ENOMEM);
	while (!end) {
		AUTO_ARENA struct arena a;
		arena_init(&a, 2 * MIB);
		int64_t n = meta_client_note_list(c, META_GROUPS_PREFIX, after, &a, page,
						  META_NOTES_MAX, &end);
		for (int64_t i = 0; i < n; i++)
			if (meta_groups_add(out, &page[i]) < 0)
				return mc_fail(c, -EBADMSG);
		if (n < 0)
			return (int)n;
		if (n > 0)
			memcpy(after, page[n - 1].name, sizeof(after));
	}
	return 0;
}

/* --- traffic groups ----------------------------------------------------------------------------- */

static int traffic_name(struct meta_traffic *out, const char *group)
{
	if (strlen(group) >= META_TRAFFIC_GROUP_MAX)
		return -EINVAL;
	*out = (struct meta_traffic){0};
	memcpy(out->group, group, strlen(group) + 1);
	return 0;
}

int64_t meta_client_traffic(struct meta_call *c, struct meta_traffic out[META_TRAFFIC_MAX])
{
	Terrane__Meta__TrafficRequest q = TERRANE__META__TRAFFIC_REQUEST__INIT;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_traffic, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__TrafficResponse *p = reply.message;
	if (p->n_groups > META_TRAFFIC_MAX || p->n_clients > META_TRAFFIC_MAX - p->n_groups)
		return mc_response_error(c, -EINVAL);
	int64_t n = 0;
	for (size_t i = 0; rc == 0 && i < p->n_groups; i++) {
		struct meta_traffic *t = &out[n++];
		rc = traffic_name(t, p->groups[i]->group);
		t->requests = p->groups[i]->requests;
		t->refused = p->groups[i]->refused;
		t->time_ns = p->groups[i]->time_ns;
		t->waiting = p->groups[i]->waiting;
	}
	for (size_t i = 0; rc == 0 && i < p->n_clients; i++) {
		struct meta_traffic *t = &out[n++];
		rc = traffic_name(t, p->clients[i]->group);
		t->clients_waiting = p->clients[i]->waiting;
		t->clients_throttled = p->clients[i]->throttled;
	}
	return rc < 0 ? mc_response_error(c, rc) : n;
}
