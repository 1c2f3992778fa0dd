// SPDX-License-Identifier: Apache-2.0
/* Requests about chunks. A response is compared with its request before it is used. */
#include "node/node_client.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/crc.h"
#include "base/err.h"
#include "node/node_client_impl.h"

int node_ask(struct node_call *c, const struct node_ask *a, struct rpc_reply *reply)
{
	struct rpc_call call = {
		.type = a->type,
		.request = a->request,
		.payload = a->payload,
		.into = a->into,
		.timeout_ns = c->timeout_ns,
		.retry = c->retry && a->repeatable,
	};
	assert(c->channel != NULL && a->type != NULL && a->request != NULL);
	int rc = rpc_call(c->channel, &call, reply);
	assert(rc <= 0);
	c->maybe_executed = rc == 0 || reply->maybe_executed;
	c->retry_ms = reply->retry_ms;
	snprintf(c->error, sizeof(c->error), "%s", rc < 0 ? reply->error : "");
	return rc;
}

static ProtobufCBinaryData token_data(const uint8_t *token)
{
	return (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)token,
				     .len = token != NULL ? NODE_TOKEN_BYTES : 0};
}

int node_bad_response(struct node_call *c)
{
	snprintf(c->error, sizeof(c->error), "the response of the node does not fit the request");
	return -EPROTO;
}

/* --- changes ---------------------------------------------------------------------------------- */

int node_put(struct node_call *c, uint64_t disk, struct chunk_id id, const struct node_put *p)
{
	Terrane__Node__PutRequest q = TERRANE__NODE__PUT_REQUEST__INIT;
	Terrane__Node__ChunkName name;
	node_chunk_to(&name, id);
	q.disk = disk;
	q.token = token_data(c->token);
	q.chunk = &name;
	q.epoch = p->epoch;
	q.capacity = p->capacity;
	q.open = p->open;
	q.reservation = p->reservation;
	q.replace = p->replace;
	q.label.data = (uint8_t *)p->label;
	q.label.len = sizeof(p->label);
	AUTO_REPLY struct rpc_reply reply;
	return node_ask(
		c,
		&(struct node_ask){.type = &node_type_put, .request = &q.base, .payload = p->data},
		&reply);
}

int node_append(struct node_call *c, uint64_t disk, struct chunk_id id, uint64_t epoch,
		uint64_t off, struct slice data)
{
	Terrane__Node__AppendRequest q = TERRANE__NODE__APPEND_REQUEST__INIT;
	Terrane__Node__ChunkName name;
	node_chunk_to(&name, id);
	q.disk = disk;
	q.token = token_data(c->token);
	q.chunk = &name;
	q.epoch = epoch;
	q.offset = off;
	AUTO_REPLY struct rpc_reply reply;
	return node_ask(
		c,
		&(struct node_ask){.type = &node_type_append, .request = &q.base, .payload = data},
		&reply);
}

static int take_stat(struct node_call *c, int rc, const Terrane__Node__ChunkStat *m,
		     struct chunk_stat *after)
{
	struct chunk_stat st;
	if (rc < 0)
		return rc;
	if (node_stat_from(&st, m) < 0)
		return node_bad_response(c);
	if (after != NULL)
		*after = st;
	return 0;
}

int node_seal(struct node_call *c, uint64_t disk, struct chunk_id id, uint64_t epoch, uint64_t len,
	      struct chunk_stat *after)
{
	Terrane__Node__SealRequest q = TERRANE__NODE__SEAL_REQUEST__INIT;
	Terrane__Node__ChunkName name;
	node_chunk_to(&name, id);
	q.disk = disk;
	q.token = token_data(c->token);
	q.chunk = &name;
	q.epoch = epoch;
	q.len = len;
	AUTO_REPLY struct rpc_reply reply;
	int rc = node_ask(
		c,
		&(struct node_ask){.type = &node_type_seal, .request = &q.base, .repeatable = true},
		&reply);
	const Terrane__Node__SealResponse *m = reply.message;
	return take_stat(c, rc, m != NULL ? m->stat : NULL, after);
}

int node_fence(struct node_call *c, uint64_t disk, struct chunk_id id, uint64_t epoch,
	       struct chunk_stat *after)
{
	Terrane__Node__FenceRequest q = TERRANE__NODE__FENCE_REQUEST__INIT;
	Terrane__Node__ChunkName name;
	node_chunk_to(&name, id);
	q.disk = disk;
	q.token = token_data(c->token);
	q.chunk = &name;
	q.epoch = epoch;
	AUTO_REPLY struct rpc_reply reply;
	int rc = node_ask(c,
			  &(struct node_ask){
				  .type = &node_type_fence, .request = &q.base, .repeatable = true},
			  &reply);
	const Terrane__Node__FenceResponse *m = reply.message;
	return take_stat(c, rc, m != NULL ? m->stat : NULL, after);
}

/* --- lists of chunks -------------------------------------------------------------------------- */

/* Messages that name chunks, and the array of pointers that protobuf-c needs. */
struct names {
	Terrane__Node__ChunkName *names;
	Terrane__Node__ChunkName **list;
};

static void names_fini(struct names *n)
{
	free(n->names);
	free(n->list);
}

static int names_init(struct names *n, const struct chunk_id *ids, size_t count)
{
	*n = (struct names){0};
	if (count == 0 || count > NODE_NAMES_MAX)
		return -EINVAL;
	n->names = calloc(count, sizeof(n->names[0]));
	n->list = calloc(count, sizeof(n->list[0]));
	if (n->names == NULL || n->list == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		node_chunk_to(&n->names[i], ids[i]);
		n->list[i] = &n->names[i];
	}
	return 0;
}

int node_delete(struct node_call *c, uint64_t disk, const struct chunk_id *ids,
		const uint8_t *const *labels, size_t n, int *rcs)
{
	__attribute__((cleanup(names_fini))) struct names names;
	AUTO_FREE ProtobufCBinaryData *as = labels != NULL ? calloc(n, sizeof(*as)) : NULL;
	int rc = names_init(&names, ids, n);
	if (rc == 0 && labels != NULL && as == NULL)
		rc = -ENOMEM;
	if (rc < 0)
		return rc;
	for (size_t i = 0; labels != NULL && i < n; i++)
		if (labels[i] != NULL)
			as[i] = (ProtobufCBinaryData){.len = STORE_LABEL_BYTES,
						      .data = (uint8_t *)(uintptr_t)labels[i]};
	Terrane__Node__DeleteRequest q = TERRANE__NODE__DELETE_REQUEST__INIT;
	q.disk = disk;
	q.chunks = names.list;
	q.n_chunks = n;
	q.labels = as;
	q.n_labels = labels != NULL ? n : 0;
	AUTO_REPLY struct rpc_reply reply;
	rc = node_ask(c, &(struct node_ask){.type = &node_type_delete, .request = &q.base}, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Node__DeleteResponse *m = reply.message;
	if (m->n_status != n)
		return node_bad_response(c);
	for (size_t i = 0; i < n; i++)
		rcs[i] = err_from_wire(m->status[i]);
	return 0;
}

int node_stat(struct node_call *c, uint64_t disk, const struct chunk_id *ids, size_t n,
	      struct chunk_stat *out, int *rcs)
{
	__attribute__((cleanup(names_fini))) struct names names;
	int rc = names_init(&names, ids, n);
	if (rc < 0)
		return rc;
	Terrane__Node__StatRequest q = TERRANE__NODE__STAT_REQUEST__INIT;
	q.disk = disk;
	q.token = token_data(c->token);
	q.chunks = names.list;
	q.n_chunks = n;
	AUTO_REPLY struct rpc_reply reply;
	rc = node_ask(
		c,
		&(struct node_ask){.type = &node_type_stat, .request = &q.base, .repeatable = true},
		&reply);
	if (rc < 0)
		return rc;
	const Terrane__Node__StatResponse *m = reply.message;
	if (m->n_chunks != n)
		return node_bad_response(c);
	for (size_t i = 0; i < n; i++) {
		rcs[i] = err_from_wire(m->chunks[i]->status);
		if (node_stat_from(&out[i], m->chunks[i]) < 0)
			return node_bad_response(c);
	}
	return 0;
}

static int take_one(struct node_call *c, int rc, int its)
{
	if (rc == 0 && its < 0)
		snprintf(c->error, sizeof(c->error), "%s", err_text(its));
	return rc < 0 ? rc : its;
}

int node_delete_one(struct node_call *c, uint64_t disk, struct chunk_id id)
{
	int its = 0;
	int rc = node_delete(c, disk, &id, NULL, 1, &its);
	return take_one(c, rc, its);
}

int node_delete_as(struct node_call *c, uint64_t disk, struct chunk_id id, const uint8_t *label)
{
	int its = 0;
	int rc = node_delete(c, disk, &id, &label, 1, &its);
	return take_one(c, rc, its);
}

int node_stat_one(struct node_call *c, uint64_t disk, struct chunk_id id, struct chunk_stat *out)
{
	int its = 0;
	int rc = node_stat(c, disk, &id, 1, out, &its);
	return take_one(c, rc, its);
}

/* --- reading ---------------------------------------------------------------------------------- */

struct ranges {
	struct names names;
	Terrane__Node__ReadRange *ranges;
	Terrane__Node__ReadRange **list;
	ProtobufCBinaryData *tokens;
	size_t token_count;
	uint64_t bytes;
};

static void ranges_fini(struct ranges *r)
{
	names_fini(&r->names);
	free(r->ranges);
	free(r->list);
	free(r->tokens);
}

/* Returns the index of a token in the request, from 1. Ranges of one chunk follow each other. */
static uint32_t ranges_token(struct ranges *r, const uint8_t *token)
{
	if (token == NULL)
		return 0;
	const ProtobufCBinaryData *last =
		r->token_count > 0 ? &r->tokens[r->token_count - 1] : NULL;
	if (last == NULL || memcmp(last->data, token, NODE_TOKEN_BYTES) != 0)
		r->tokens[r->token_count++] = token_data(token);
	return (uint32_t)r->token_count;
}

static int ranges_init(struct ranges *r, const struct node_range *ranges, size_t n)
{
	*r = (struct ranges){0};
	if (n == 0 || n > NODE_RANGES_MAX)
		return -EINVAL;
	r->names.names = calloc(n, sizeof(r->names.names[0]));
	r->ranges = calloc(n, sizeof(r->ranges[0]));
	r->list = calloc(n, sizeof(r->list[0]));
	r->tokens = calloc(n, sizeof(r->tokens[0]));
	if (r->names.names == NULL || r->ranges == NULL || r->list == NULL || r->tokens == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (ranges[i].len > NODE_BYTES_MAX - r->bytes)
			return -EMSGSIZE;
		r->bytes += ranges[i].len;
		Terrane__Node__ReadRange *m = &r->ranges[i];
		node_chunk_to(&r->names.names[i], ranges[i].id);
		terrane__node__read_range__init(m);
		m->chunk = &r->names.names[i];
		m->offset = ranges[i].off;
		m->len = ranges[i].len;
		m->token = ranges_token(r, ranges[i].token);
		r->list[i] = m;
	}
	return 0;
}

/* Copies the results of the ranges. The CRCs of the ranges must combine to the CRC of the payload,
 * which rpc verified; then the CRC of each range is verified too. */
static int take_ranges(struct node_call *c, const Terrane__Node__GetResponse *m,
		       struct node_range *ranges, size_t n, uint64_t bytes,
		       const struct slice *payload)
{
	if (m->n_ranges != n)
		return node_bad_response(c);
	bool any = false;
	uint32_t crc = 0;
	for (size_t i = 0; i < n; i++) {
		ranges[i].rc = err_from_wire(m->ranges[i]->status);
		ranges[i].crc = m->ranges[i]->crc;
		any = any || ranges[i].rc == 0;
		crc = crc32c_combine(crc, ranges[i].crc, ranges[i].len);
	}
	if (payload->len != (any ? bytes : 0))
		return node_bad_response(c);
	if (any && crc != payload->crc) {
		snprintf(c->error, sizeof(c->error),
			 "the checksums of the ranges do not combine to that of the payload");
		return -EBADMSG;
	}
	return 0;
}

int node_get(struct node_call *c, uint64_t disk, struct node_range *ranges, size_t n,
	     const struct rpc_places *into, struct slice *out)
{
	*out = (struct slice){0};
	__attribute__((cleanup(ranges_fini))) struct ranges r;
	int rc = ranges_init(&r, ranges, n);
	if (rc < 0)
		return rc;
	Terrane__Node__GetRequest q = TERRANE__NODE__GET_REQUEST__INIT;
	q.disk = disk;
	q.ranges = r.list;
	q.n_ranges = n;
	q.tokens = r.tokens;
	q.n_tokens = r.token_count;
	AUTO_REPLY struct rpc_reply reply;
	rc = node_ask(c,
		      &(struct node_ask){.type = &node_type_get,
					 .request = &q.base,
					 .into = into,
					 .repeatable = true},
		      &reply);
	if (rc == 0)
		rc = take_ranges(c, reply.message, ranges, n, r.bytes, &reply.payload);
	if (rc == 0) {
		*out = reply.payload;
		reply.payload.buf = NULL;
	}
	return rc;
}

int node_get_one(struct node_call *c, uint64_t disk, struct chunk_id id, uint64_t off, uint64_t len,
		 uint8_t *into, struct slice *out)
{
	struct node_range range = {.id = id, .off = off, .len = len, .token = c->token};
	struct rpc_place place = {.at = into, .len = len};
	struct rpc_places places = {.list = &place, .count = 1};
	int rc = node_get(c, disk, &range, 1, into != NULL ? &places : NULL, out);
	return take_one(c, rc, range.rc);
}

/* Compares the result of an operation with what was asked for. */
static bool is_result(const struct prep_result *got, const struct node_range *range,
		      const struct prep_op *op, const struct slice *payload)
{
	if (got->len != payload->len || got->crc != payload->crc)
		return false;
	if (got->form == PREP_RAW)
		return got->reason != PREP_DONE && got->len == range->len;
	return got->form == op->form && got->reason == PREP_DONE && got->len < range->len;
}

int node_transform(struct node_call *c, uint64_t disk, const struct node_range *range,
		   const struct prep_op *op, struct node_transformed *out)
{
	Terrane__Node__TransformRequest q = TERRANE__NODE__TRANSFORM_REQUEST__INIT;
	Terrane__Node__ReadRange m = TERRANE__NODE__READ_RANGE__INIT;
	Terrane__Node__ChunkName name;
	uint8_t text[PREP_OP_BYTES];
	*out = (struct node_transformed){0};
	node_chunk_to(&name, range->id);
	prep_op_put(op, text);
	m.chunk = &name;
	m.offset = range->off;
	m.len = range->len;
	q.disk = disk;
	q.range = &m;
	q.token = token_data(range->token);
	q.op = (ProtobufCBinaryData){.len = sizeof(text), .data = text};
	AUTO_REPLY struct rpc_reply reply;
	int rc = node_ask(c,
			  &(struct node_ask){.type = &node_type_transform,
					     .request = &q.base,
					     .repeatable = true},
			  &reply);
	if (rc < 0)
		return rc;
	const Terrane__Node__TransformResponse *a = reply.message;
	if (prep_result_get(&out->result, (struct prep_bytes){.data = a->result.data,
							      .len = a->result.len}) < 0 ||
	    !is_result(&out->result, range, op, &reply.payload))
		return node_bad_response(c);
	out->data = reply.payload;
	out->cpu_ns = a->cpu_ns;
	reply.payload.buf = NULL;
	return 0;
}

int64_t node_list(struct node_call *c, uint64_t disk, struct store_cursor *at, struct chunk_id *out,
		  size_t max)
{
	Terrane__Node__ListRequest q = TERRANE__NODE__LIST_REQUEST__INIT;
	Terrane__Node__Cursor cursor;
	Terrane__Node__ChunkName last;
	node_cursor_to(&cursor, &last, at);
	q.disk = disk;
	q.at = &cursor;
	q.max = (uint32_t)min_u64(max, NODE_LIST_MAX);
	AUTO_REPLY struct rpc_reply reply;
	int rc = node_ask(
		c,
		&(struct node_ask){.type = &node_type_list, .request = &q.base, .repeatable = true},
		&reply);
	if (rc < 0)
		return rc;
	const Terrane__Node__ListResponse *m = reply.message;
	if (m->n_chunks > max || node_cursor_from(at, m->next) < 0)
		return node_bad_response(c);
	for (size_t i = 0; i < m->n_chunks; i++)
		if (node_chunk_from(&out[i], m->chunks[i]) < 0)
			return node_bad_response(c);
	return (int64_t)m->n_chunks;
}

int64_t node_scan(struct node_call *c, uint64_t disk, struct chunk_id id, struct store_range *bad,
		  size_t max)
{
	Terrane__Node__ScanRequest q = TERRANE__NODE__SCAN_REQUEST__INIT;
	Terrane__Node__ChunkName name;
	node_chunk_to(&name, id);
	q.disk = disk;
	q.token = token_data(c->token);
	q.chunk = &name;
	AUTO_REPLY struct rpc_reply reply;
	int rc = node_ask(
		c,
		&(struct node_ask){.type = &node_type_scan, .request = &q.base, .repeatable = true},
		&reply);
	if (rc < 0)
		return rc;
	const Terrane__Node__ScanResponse *m = reply.message;
	size_t n = (size_t)min_u64(m->n_bad, max);
	for (size_t i = 0; i < n; i++)
		bad[i] = (struct store_range){.off = m->bad[i]->offset, .len = m->bad[i]->len};
	return (int64_t)n;
}

/* --- reservations ----------------------------------------------------------------------------- */

int node_reserve(struct node_call *c, uint64_t disk, uint64_t bytes, uint64_t ttl_ns,
		 uint64_t *reservation)
{
	Terrane__Node__ReserveRequest q = TERRANE__NODE__RESERVE_REQUEST__INIT;
	q.disk = disk;
	q.token = token_data(c->token);
	q.bytes = bytes;
	q.ttl_ms = (uint32_t)min_u64((ttl_ns + NS_PER_MS - 1) / NS_PER_MS, UINT32_MAX);
	AUTO_REPLY struct rpc_reply reply;
	int rc = node_ask(c, &(struct node_ask){.type = &node_type_reserve, .request = &q.base},
			  &reply);
	if (rc < 0)
		return rc;
	const Terrane__Node__ReserveResponse *p = reply.message;
	*reservation = p->reservation;
	c->eta_ns = min_u64(p->eta_us, UINT64_MAX / NS_PER_US) * NS_PER_US;
	return *reservation != 0 ? 0 : node_bad_response(c);
}

int node_release(struct node_call *c, uint64_t disk, uint64_t reservation)
{
	Terrane__Node__ReleaseRequest q = TERRANE__NODE__RELEASE_REQUEST__INIT;
	q.disk = disk;
	q.token = token_data(c->token);
	q.reservation = reservation;
	AUTO_REPLY struct rpc_reply reply;
	return node_ask(c, &(struct node_ask){.type = &node_type_release, .request = &q.base},
			&reply);
}
