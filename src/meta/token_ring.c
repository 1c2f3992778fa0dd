// SPDX-License-Identifier: Apache-2.0
#include "meta/token_ring.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/secret.h"
#include "base/le.h"
#include "meta/impl.h"
#include "meta/note.h"

#define TEXT_MAX 128

/* Reads "NAME=NUMBER" and sets *at behind it. -EBADMSG: other text, or the number is larger than max. */
static int number_of(const char **at, const char *name, uint64_t max, uint64_t *out)
{
	size_t len = strlen(name);
	char *end = NULL;
	if (strncmp(*at, name, len) != 0 || (*at)[len] < '0' || (*at)[len] > '9')
		return -EBADMSG;
	errno = 0;
	*out = strtoull(*at + len, &end, 10);
	*at = end;
	return errno == 0 && *out <= max ? 0 : -EBADMSG;
}

int token_ring_parse(const char *text, struct token_ring *out)
{
	uint64_t issuing = 0, other = 0, changed_ms = 0;
	int rc = number_of(&text, "issuing=", UINT32_MAX, &issuing);
	if (rc == 0)
		rc = number_of(&text, " other=", UINT32_MAX, &other);
	if (rc == 0)
		rc = number_of(&text, " changed_ms=", UINT64_MAX, &changed_ms);
	/* The two are neighbours, so a number is never used again. */
	uint64_t apart = issuing > other ? issuing - other : other - issuing;
	if (rc < 0 || *text != 0 || issuing == 0 || (other != 0 && apart != 1))
		return -EBADMSG;
	*out = (struct token_ring){
		.issuing = (uint32_t)issuing, .other = (uint32_t)other, .changed_ms = changed_ms};
	return 0;
}

int token_ring_read(struct meta *m, struct token_ring *out)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct meta_note note;
	bool end;
	*out = (struct token_ring){.issuing = 1};
	int64_t n = meta_note_list(m, TOKEN_RING_NOTE, "", &a, &note, 1, &end);
	if (n < 1 || strcmp(note.name, TOKEN_RING_NOTE) != 0)
		return n < 0 ? (int)n : 0;
	int rc = token_ring_parse(note.text, out);
	out->turn = note.turn;
	return rc;
}

static int root_of(const uint8_t root[MAC_KEY_BYTES], uint32_t generation,
		   uint8_t out[MAC_KEY_BYTES])
{
	uint8_t number[sizeof(generation)];
	put_u32(number, generation);
	return mac_derive(root, "terrane token root", number, sizeof(number), out);
}

int token_ring_keys(const struct token_ring *r, const uint8_t root[MAC_KEY_BYTES],
		    struct key_ring *out)
{
	uint8_t key[MAC_KEY_BYTES];
	assert(r->issuing != 0);
	int rc = root_of(root, r->issuing, key);
	if (rc == 0)
		rc = key_ring_init(out, r->issuing, key);
	if (rc == 0 && r->other != 0)
		rc = root_of(root, r->other, out->other.key);
	if (rc == 0)
		out->other.number = r->other;
	if (rc == 0)
		out->promoted_ms = r->changed_ms;
	secret_wipe(key, sizeof(key));
	return rc;
}

static int ring_write(struct meta *m, const struct token_ring *r)
{
	char text[TEXT_MAX];
	struct meta_note note = {.name = TOKEN_RING_NOTE, .text = text, .turn = r->turn};
	snprintf(text, sizeof(text), "issuing=%" PRIu32 " other=%" PRIu32 " changed_ms=%" PRIu64,
		 r->issuing, r->other, r->changed_ms);
	return meta_note_put(m, &note);
}

int token_ring_stage(struct meta *m, uint64_t now_ms)
{
	struct token_ring r;
	int rc = token_ring_read(m, &r);
	if (rc < 0)
		return rc;
	if (r.other != 0)
		return -EBUSY;
	if (r.issuing == UINT32_MAX)
		return -EOVERFLOW;
	r.other = r.issuing + 1;
	r.changed_ms = now_ms;
	return ring_write(m, &r);
}

int token_ring_step(struct meta *m, uint64_t now_ms, bool force)
{
	struct token_ring r;
	int rc = token_ring_read(m, &r);
	if (rc < 0 || r.other == 0)
		return rc;
	bool staged = r.other > r.issuing;
	uint64_t wait_ms = staged ? TOKEN_STAGE_MS : TOKEN_LIFE_MAX_MS + 2 * TOKEN_SKEW_MAX_MS;
	/* A clock that was set back only makes the step wait longer. */
	if (!force && now_ms < r.changed_ms + wait_ms)
		return 0;
	uint32_t old = r.issuing;
	if (staged)
		r.issuing = r.other;
	r.other = staged ? old : 0;
	r.changed_ms = now_ms;
	rc = ring_write(m, &r);
	return rc < 0 ? rc : 1;
}

int token_ring_replace(struct meta *m, uint64_t now_ms)
{
	struct token_ring r;
	int rc = token_ring_read(m, &r);
	/* An old generation goes first; a staged one is promoted. */
	if (rc == 0 && r.other != 0 && r.other < r.issuing)
		rc = token_ring_step(m, now_ms, true);
	if (rc >= 0 && r.other <= r.issuing)
		rc = token_ring_stage(m, now_ms);
	if (rc >= 0)
		rc = token_ring_step(m, now_ms, true);
	if (rc >= 0)
		rc = token_ring_step(m, now_ms, true);
	return rc < 0 ? rc : 0;
}

int token_ring_restored(struct meta *m, uint64_t now_ms)
{
	struct token_ring r;
	int rc = token_ring_read(m, &r);
	if (rc < 0)
		return rc;
	uint32_t last = r.other > r.issuing ? r.other : r.issuing;
	if (last > UINT32_MAX - TOKEN_RESTORE_JUMP)
		return -EOVERFLOW;
	r = (struct token_ring){
		.issuing = last + TOKEN_RESTORE_JUMP, .changed_ms = now_ms, .turn = r.turn};
	return ring_write(m, &r);
}
