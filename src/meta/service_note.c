// SPDX-License-Identifier: Apache-2.0
/* Handlers for notes. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "meta/note.h"
#include "meta/service_impl.h"

int ms_handle_note_put(struct rpc_request *r)
{
	const Terrane__Meta__NotePutRequest *q = rpc_body(r);
	Terrane__Meta__NotePutResponse *p = rpc_reply_body(r);
	int rc = ms_system(r);
	if (rc < 0)
		return rc;
	if (q->note == NULL || strlen(q->note->name) > META_NOTE_NAME_MAX)
		return rpc_fail(r, -EINVAL,
				"the request needs a note with a name of up to %d bytes",
				META_NOTE_NAME_MAX);
	if (q->drop)
		return ms_end(r, meta_note_drop(ms_meta(r), q->note->name));
	struct meta_note note = {.turn = q->note->turn, .text = q->note->text};
	memcpy(note.name, q->note->name, strlen(q->note->name) + 1);
	rc = meta_note_put(ms_meta(r), &note);
	p->turn = note.turn;
	p->stale = rc == -ESTALE;
	return p->stale ? 0 : ms_end(r, rc);
}

int ms_handle_note_list(struct rpc_request *r)
{
	const Terrane__Meta__NoteListRequest *q = rpc_body(r);
	Terrane__Meta__NoteListResponse *p = rpc_reply_body(r);
	size_t max = q->max == 0 || q->max > META_NOTES_MAX ? META_NOTES_MAX : q->max;
	struct meta_note *notes = rpc_alloc(r, max * sizeof(*notes));
	Terrane__Meta__Note *all = rpc_alloc(r, max * sizeof(*all));
	p->notes = rpc_alloc(r, max * sizeof(Terrane__Meta__Note *));
	int rc = ms_system(r);
	if (rc < 0)
		return rc;
	if (notes == NULL || all == NULL || p->notes == NULL)
		return -ENOMEM;
	bool end = false;
	int64_t n = meta_note_list(ms_meta(r), q->prefix, q->after, &r->arena, notes, max, &end);
	if (n < 0)
		return ms_end(r, (int)n);
	assert((size_t)n <= max);
	for (int64_t i = 0; i < n; i++) {
		terrane__meta__note__init(&all[i]);
		all[i].name = notes[i].name;
		all[i].turn = notes[i].turn;
		all[i].text = (char *)notes[i].text;
		p->notes[i] = &all[i];
	}
	p->n_notes = (size_t)n;
	p->end = end;
	return 0;
}
