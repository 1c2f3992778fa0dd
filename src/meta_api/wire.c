// SPDX-License-Identifier: Apache-2.0
#include "meta_api/wire.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "meta_api/attr.h"

#define META_TYPE_DEFINE(number, lower, in, out)                            \
	const struct rpc_type meta_type_##lower = {                         \
		.type = number,                                             \
		.name = "meta-" #lower,                                     \
		.request = &terrane__meta__##lower##_request__descriptor,   \
		.response = &terrane__meta__##lower##_response__descriptor, \
		.request_max = in,                                          \
		.response_max = out,                                        \
	};
META_TYPES(META_TYPE_DEFINE)

uint64_t meta_wire_queries(const struct rpc_type *t, const ProtobufCMessage *request)
{
	uint64_t objects = 0;
	assert(request->descriptor == t->request);
	if (t == &meta_type_list)
		return 1 + ((const Terrane__Meta__ListRequest *)request)->max / 64;
	for (unsigned i = 0; i < t->request->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &t->request->fields[i];
		size_t n = 0;
		if (f->label == PROTOBUF_C_LABEL_REPEATED)
			memcpy(&n, (const char *)request + f->quantifier_offset, sizeof(n));
		objects += n;
	}
	return 1 + objects / 16;
}

/* --- to messages ------------------------------------------------------------------------------ */

char *meta_wire_name(struct arena *a, struct meta_name name)
{
	if (name.len > 0 && memchr(name.text, 0, name.len) != NULL)
		return NULL;
	assert(name.len == 0 || name.text != NULL);
	char *text = arena_alloc(a, name.len + 1);
	if (text == NULL)
		return NULL;
	if (name.len > 0)
		memcpy(text, name.text, name.len);
	text[name.len] = 0;
	return text;
}

int meta_wire_entry_set(struct arena *a, meta_msg_entry *m, const struct meta_entry *e)
{
	assert(e->kind == META_FILE || e->kind == META_DIR);
	terrane__meta__entry__init(m);
	m->kind = e->kind;
	m->id = e->id;
	m->size = e->size;
	m->mtime_ns = e->mtime_ns;
	m->sealed = e->sealed;
	int rc = meta_wire_attrs_set(a, &e->attrs, &m->attrs);
	if (rc < 0 || e->name.len == 0)
		return rc;
	m->name = meta_wire_name(a, e->name);
	return m->name == NULL ? -ENOMEM : 0;
}

void meta_wire_extent_set(meta_msg_extent *m, const struct meta_extent *e)
{
	terrane__meta__extent__init(m);
	m->block = e->block;
	m->offset = e->offset;
	m->length = e->length;
	m->open = e->open;
}

void meta_wire_file_set(meta_msg_file *m, const struct meta_file *f)
{
	terrane__meta__file__init(m);
	m->id = f->id;
	m->dir = f->dir;
	m->size = f->size;
	m->mtime_ns = f->mtime_ns;
	m->extent_count = f->extent_count;
	m->sealed = f->sealed;
	m->linked = f->linked;
	m->removed = f->removed;
}

static int chunks_set(struct arena *a, meta_msg_block *m, const struct meta_block *b)
{
	assert(b->chunk_count <= META_CHUNKS_MAX && b->chunks != NULL);
	Terrane__Meta__Chunk *chunks = arena_alloc(a, b->chunk_count * sizeof(*chunks));
	Terrane__Meta__Chunk **list =
		arena_alloc(a, b->chunk_count * sizeof(Terrane__Meta__Chunk *));
	if (chunks == NULL || list == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < b->chunk_count; i++) {
		terrane__meta__chunk__init(&chunks[i]);
		chunks[i].disk = b->chunks[i].disk;
		chunks[i].crc = b->chunks[i].crc;
		chunks[i].damaged = b->chunks[i].damaged;
		list[i] = &chunks[i];
	}
	m->n_chunks = b->chunk_count;
	m->chunks = list;
	return 0;
}

int meta_wire_block_set(struct arena *a, meta_msg_block *m, const struct meta_block *b)
{
	assert(memchr(b->encoding, 0, sizeof(b->encoding)) != NULL);
	terrane__meta__block__init(m);
	m->id = b->id;
	m->state = b->state;
	m->epoch = b->epoch;
	m->chunk_block = b->chunk_block;
	m->layout = b->layout;
	m->release_count = b->release_count;
	m->alloc_id = b->alloc_id;
	m->length = b->length;
	m->capacity = b->capacity;
	m->chunk_length = b->chunk_length;
	m->crc = b->crc;
	m->media = b->media;
	m->placement = b->placement;
	m->born_s = b->born_s;
	m->encoding = meta_wire_name(a, meta_name(b->encoding));
	if (m->encoding == NULL)
		return -ENOMEM;
	return b->chunk_count == 0 ? 0 : chunks_set(a, m, b);
}

int meta_wire_cursor_set(struct arena *a, meta_msg_cursor *m, const struct meta_cursor *c)
{
	assert(c->name_len <= META_NAME_MAX);
	terrane__meta__cursor__init(m);
	m->slice = c->slice;
	m->end = c->end;
	m->name = meta_wire_name(a, (struct meta_name){.text = c->name, .len = c->name_len});
	return m->name == NULL ? -ENOMEM : 0;
}

meta_msg_extent **meta_wire_extents(struct arena *a, const struct meta_extent *e, size_t n)
{
	assert(n <= META_PAGE_MAX);
	meta_msg_extent *all = arena_alloc(a, (n + 1) * sizeof(*all));
	meta_msg_extent **list = arena_alloc(a, (n + 1) * sizeof(meta_msg_extent *));
	if (all == NULL || list == NULL)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		meta_wire_extent_set(&all[i], &e[i]);
		list[i] = &all[i];
	}
	return list;
}

meta_msg_owner **meta_wire_owners(struct arena *a, const struct meta_owner *o, size_t n)
{
	assert(n <= META_OWNERS_MAX);
	meta_msg_owner *all = arena_alloc(a, (n + 1) * sizeof(*all));
	meta_msg_owner **list = arena_alloc(a, (n + 1) * sizeof(meta_msg_owner *));
	if (all == NULL || list == NULL)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		terrane__meta__owner__init(&all[i]);
		all[i].file = o[i].file;
		all[i].bytes = o[i].bytes;
		list[i] = &all[i];
	}
	return list;
}

/* --- from messages ---------------------------------------------------------------------------- */

int meta_wire_entry_get(const meta_msg_entry *m, struct meta_entry *e)
{
	if (m == NULL || (m->kind != META_FILE && m->kind != META_DIR))
		return -EINVAL;
	*e = (struct meta_entry){
		.name = meta_name(m->name),
		.kind = (enum meta_kind)m->kind,
		.id = m->id,
		.size = m->size,
		.mtime_ns = m->mtime_ns,
		.sealed = m->sealed,
	};
	if (m->attrs != NULL)
		e->attrs = (struct meta_attrs){.set = m->attrs->set,
					       .mode = m->attrs->mode,
					       .uid = m->attrs->uid,
					       .gid = m->attrs->gid,
					       .user_count = m->attrs->user_count};
	return 0;
}

int meta_wire_extent_get(const meta_msg_extent *m, struct meta_extent *e)
{
	if (m == NULL)
		return -EINVAL;
	*e = (struct meta_extent){
		.block = m->block, .offset = m->offset, .length = m->length, .open = m->open};
	return 0;
}

int meta_wire_file_get(const meta_msg_file *m, struct meta_file *f)
{
	if (m == NULL)
		return -EINVAL;
	*f = (struct meta_file){
		.id = m->id,
		.dir = m->dir,
		.size = m->size,
		.mtime_ns = m->mtime_ns,
		.extent_count = m->extent_count,
		.sealed = m->sealed,
		.linked = m->linked,
		.removed = m->removed,
	};
	return 0;
}

static int cache_token_get(struct arena *a, const ProtobufCBinaryData *t, struct meta_block *b)
{
	if (t->len == 0)
		return 0;
	if (t->len != META_TOKEN_BYTES)
		return -EINVAL;
	b->cache_token = arena_alloc(a, META_TOKEN_BYTES);
	if (b->cache_token == NULL)
		return -ENOMEM;
	memcpy(b->cache_token, t->data, META_TOKEN_BYTES);
	return 0;
}

static int tokens_get(struct arena *a, const meta_msg_block *m, struct meta_block *b)
{
	b->tokens = arena_alloc(a, m->n_chunks * sizeof(*b->tokens));
	if (b->tokens == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_chunks; i++) {
		const ProtobufCBinaryData *t = &m->chunks[i]->token;
		if (t->len != 0 && t->len != META_TOKEN_BYTES)
			return -EINVAL;
		memset(b->tokens[i], 0, META_TOKEN_BYTES);
		if (t->len != 0)
			memcpy(b->tokens[i], t->data, META_TOKEN_BYTES);
	}
	return 0;
}

int meta_wire_block_get(struct arena *a, const meta_msg_block *m, struct meta_block *b)
{
	if (m == NULL || m->state > META_BLOCK_SEALED || m->n_chunks > META_CHUNKS_MAX ||
	    !cluster_media_valid(m->media) || m->placement > META_PLACEMENT_MAX ||
	    strlen(m->encoding) >= META_ENCODING_MAX)
		return -EINVAL;
	*b = (struct meta_block){
		.id = m->id,
		.state = (enum meta_block_state)m->state,
		.epoch = m->epoch,
		.chunk_block = m->chunk_block,
		.layout = m->layout,
		.release_count = m->release_count,
		.alloc_id = m->alloc_id,
		.length = m->length,
		.capacity = m->capacity,
		.chunk_length = m->chunk_length,
		.crc = m->crc,
		.media = (enum cluster_media)m->media,
		.placement = m->placement,
		.born_s = m->born_s,
		.open_first = m->open_first,
		.open_count = m->open_count,
		.chunk_count = m->n_chunks,
	};
	memcpy(b->encoding, m->encoding, strlen(m->encoding) + 1);
	if (m->n_chunks == 0)
		return 0;
	b->chunks = arena_alloc(a, m->n_chunks * sizeof(*b->chunks));
	if (b->chunks == NULL)
		return -ENOMEM;
	bool tokens = false;
	for (size_t i = 0; i < m->n_chunks; i++) {
		b->chunks[i] = (struct meta_chunk){.disk = m->chunks[i]->disk,
						   .crc = m->chunks[i]->crc,
						   .damaged = m->chunks[i]->damaged};
		tokens = tokens || m->chunks[i]->token.len != 0;
	}
	int rc = tokens ? tokens_get(a, m, b) : 0;
	return rc == 0 ? cache_token_get(a, &m->cache_token, b) : rc;
}

int meta_wire_cursor_get(const meta_msg_cursor *m, struct meta_cursor *c)
{
	memset(c, 0, sizeof(*c));
	if (m == NULL)
		return 0;
	size_t len = strlen(m->name);
	if (len > sizeof(c->name))
		return -EINVAL;
	c->slice = m->slice;
	c->end = m->end;
	c->name_len = (uint16_t)len;
	memcpy(c->name, m->name, len);
	return 0;
}

int meta_wire_extents_get(struct arena *a, meta_msg_extent *const *m, size_t n,
			  struct meta_extent **out)
{
	*out = arena_alloc(a, (n + 1) * sizeof(**out));
	if (*out == NULL)
		return -ENOMEM;
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = meta_wire_extent_get(m[i], &(*out)[i]);
	return rc;
}

int meta_wire_owners_get(struct arena *a, meta_msg_owner *const *m, size_t n,
			 struct meta_owner **out)
{
	*out = arena_alloc(a, (n + 1) * sizeof(**out));
	if (*out == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		(*out)[i] = (struct meta_owner){.file = m[i]->file, .bytes = m[i]->bytes};
	return 0;
}
