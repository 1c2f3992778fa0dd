// SPDX-License-Identifier: Apache-2.0
#include "node/wire.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define SMALL 512
#define NAMES (64 * KIB)
#define STATS (128 * KIB)
#define LONG (256 * KIB)
#define ALL (1 * MIB)

#define TYPE(number, text, lower, in_body, out_body, in, out)                                \
	{                                                                                    \
		.type = number, .name = text,                                                \
		.request = &terrane__node__##lower##_request__descriptor,                    \
		.response = &terrane__node__##lower##_response__descriptor,                  \
		.request_max = in_body, .response_max = out_body, .request_payload_max = in, \
		.response_payload_max = out,                                                 \
	}

const struct rpc_type node_type_put = TYPE(0x201, "node-put", put, SMALL, SMALL, NODE_BYTES_MAX, 0);
const struct rpc_type node_type_append =
	TYPE(0x202, "node-append", append, SMALL, SMALL, NODE_BYTES_MAX, 0);
const struct rpc_type node_type_get = TYPE(0x203, "node-get", get, LONG, NAMES, 0, NODE_BYTES_MAX);
const struct rpc_type node_type_seal = TYPE(0x204, "node-seal", seal, SMALL, SMALL, 0, 0);
const struct rpc_type node_type_fence = TYPE(0x205, "node-fence", fence, SMALL, SMALL, 0, 0);
const struct rpc_type node_type_delete = TYPE(0x206, "node-delete", delete, NAMES, NAMES, 0, 0);
const struct rpc_type node_type_stat = TYPE(0x207, "node-stat", stat, NAMES, STATS, 0, 0);
const struct rpc_type node_type_list = TYPE(0x208, "node-list", list, SMALL, LONG, 0, 0);
const struct rpc_type node_type_scan = TYPE(0x209, "node-scan", scan, SMALL, NAMES, 0, 0);
const struct rpc_type node_type_reserve = TYPE(0x20a, "node-reserve", reserve, SMALL, SMALL, 0, 0);
const struct rpc_type node_type_release = TYPE(0x20b, "node-release", release, SMALL, SMALL, 0, 0);
const struct rpc_type node_type_disks = TYPE(0x20c, "node-disks", disks, SMALL, ALL, 0, 0);
const struct rpc_type node_type_control = TYPE(0x20d, "node-control", control, SMALL, SMALL, 0, 0);
const struct rpc_type node_type_pool_losses =
	TYPE(0x20e, "node-pool-losses", pool_losses, SMALL, LONG, 0, 0);
const struct rpc_type node_type_pool_patch =
	TYPE(0x20f, "node-pool-patch", pool_patch, LONG, SMALL, NODE_BYTES_MAX, 0);
const struct rpc_type node_type_pool_fail =
	TYPE(0x210, "node-pool-fail", pool_fail, SMALL, SMALL, 0, 0);
const struct rpc_type node_type_pool_replace =
	TYPE(0x211, "node-pool-replace", pool_replace, SMALL, SMALL, 0, 0);
const struct rpc_type node_type_pool_rebuild =
	TYPE(0x212, "node-pool-rebuild", pool_rebuild, SMALL, SMALL, 0, 0);
const struct rpc_type node_type_transform =
	TYPE(0x213, "node-transform", transform, SMALL, SMALL, 0, NODE_BYTES_MAX);
const struct rpc_type node_type_usage = TYPE(0x214, "node-usage", usage, SMALL, ALL, 0, 0);

/* --- from messages ---------------------------------------------------------------------------- */

int node_chunk_from(struct chunk_id *out, const Terrane__Node__ChunkName *m)
{
	if (m == NULL)
		return -EINVAL;
	*out = (struct chunk_id){.block = m->block, .index = m->index};
	return 0;
}

int node_cursor_from(struct store_cursor *out, const Terrane__Node__Cursor *m)
{
	*out = (struct store_cursor){0};
	if (m == NULL)
		return 0;
	out->major = m->major;
	out->within = m->within != 0;
	return m->last != NULL ? node_chunk_from(&out->last, m->last) : 0;
}

int node_label_from(uint8_t out[STORE_LABEL_BYTES], const ProtobufCBinaryData *m)
{
	memset(out, 0, STORE_LABEL_BYTES);
	if (m->len > STORE_LABEL_BYTES)
		return -EINVAL;
	if (m->len > 0)
		memcpy(out, m->data, m->len);
	return 0;
}

int node_stat_from(struct chunk_stat *out, const Terrane__Node__ChunkStat *m)
{
	*out = (struct chunk_stat){0};
	if (m == NULL || m->len > STORE_CHUNK_MAX || m->capacity > STORE_CHUNK_MAX)
		return -EINVAL;
	out->len = m->len;
	out->capacity = m->capacity;
	out->epoch = m->epoch;
	out->crc = m->crc;
	out->unit_bytes = m->unit_bytes;
	out->sealed = m->sealed != 0;
	return node_label_from(out->label, &m->label);
}

int node_state_from(enum store_state *out, Terrane__Node__DiskState m)
{
	if ((int)m < STORE_ONLINE || (int)m > STORE_FAILED)
		return -EINVAL;
	*out = (enum store_state)m;
	return 0;
}

static bool loss_sane(const Terrane__Node__PoolLoss *m)
{
	if (m->open)
		return true;
	return m->chunk_len <= STORE_CHUNK_MAX && m->k > 0 && m->k < POOL_ROWS_MAX &&
	       m->piece_bytes > 0 && m->piece_bytes <= STORE_CHUNK_MAX && m->stripes > 0 &&
	       m->stripes <= STORE_CHUNK_MAX && m->first_stripe <= STORE_CHUNK_MAX &&
	       m->n_lost_rows > 0 && m->need <= m->n_lost_rows;
}

int node_loss_from(struct store_pool_loss *out, const Terrane__Node__PoolLoss *m)
{
	*out = (struct store_pool_loss){0};
	if (!loss_sane(m) || node_chunk_from(&out->id, m->chunk) < 0)
		return -EINVAL;
	out->open = m->open != 0;
	if (out->open)
		return 0;
	out->chunk_len = m->chunk_len;
	out->first_stripe = m->first_stripe;
	out->stripes = m->stripes;
	out->need = m->need;
	out->k = m->k;
	out->piece_bytes = m->piece_bytes;
	for (size_t i = 0; i < m->n_lost_rows; i++) {
		uint32_t row = m->lost_rows[i];
		if (row >= POOL_ROWS_MAX || (out->lost[row / 32] & (1u << row % 32)) != 0)
			return -EINVAL;
		out->lost[row / 32] |= 1u << row % 32;
		out->lost_rows++;
	}
	return 0;
}

/* --- to messages ------------------------------------------------------------------------------ */

void node_chunk_to(Terrane__Node__ChunkName *m, struct chunk_id id)
{
	assert(m != NULL);
	terrane__node__chunk_name__init(m);
	m->block = id.block;
	m->index = id.index;
}

void node_cursor_to(Terrane__Node__Cursor *m, Terrane__Node__ChunkName *last,
		    const struct store_cursor *at)
{
	assert(last != NULL && at != NULL);
	terrane__node__cursor__init(m);
	node_chunk_to(last, at->last);
	m->major = at->major;
	m->last = last;
	m->within = at->within;
}

void node_stat_to(Terrane__Node__ChunkStat *m, const struct chunk_stat *st)
{
	terrane__node__chunk_stat__init(m);
	m->len = st->len;
	m->capacity = st->capacity;
	m->epoch = st->epoch;
	m->crc = st->crc;
	m->unit_bytes = st->unit_bytes;
	m->sealed = st->sealed;
	m->label.data = (uint8_t *)st->label;
	m->label.len = sizeof(st->label);
}
