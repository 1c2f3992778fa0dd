// SPDX-License-Identifier: Apache-2.0
#include "shift/shift_client.h"

#include <assert.h>
#include <errno.h>

#include "rt/rt.h"
#include "shift/content.h"

/* Rounds of one get, so that a node that always says "coming" does not hold a read for ever. */
#define ROUNDS_MAX 1000

static int get_once(struct rpc_channel *channel, const struct shift_get *g,
		    const Terrane__Shift__GetRequest *q, const struct rpc_places *into,
		    Terrane__Shift__GetResult *result)
{
	AUTO_REPLY struct rpc_reply reply;
	int rc = rpc_call(channel,
			  &(struct rpc_call){.type = &shift_type_get,
					     .request = &q->base,
					     .into = into,
					     .timeout_ns = g->timeout_ns},
			  &reply);
	if (rc < 0)
		return rc;
	*result = ((const Terrane__Shift__GetResponse *)reply.message)->result;
	bool data = *result == TERRANE__SHIFT__GET_RESULT__DATA;
	return data != (reply.payload.len == g->len) ? -EPROTO : 0;
}

int shift_get(struct rpc_channel *channel, const struct shift_get *g, const struct rpc_places *into)
{
	Terrane__Shift__GetRequest q = TERRANE__SHIFT__GET_REQUEST__INIT;
	assert(g->len > 0 && g->len <= SHIFT_GET_MAX && g->timeout_ns > 0);
	q.block = g->block;
	q.offset = g->off;
	q.length = g->len;
	q.tenant = g->tenant;
	q.wait_ms = (uint32_t)min_u64(g->timeout_ns / NS_PER_MS / 2, SHIFT_WAIT_MAX_MS);
	if (g->token != NULL)
		q.token = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)g->token,
						.len = SHIFT_TOKEN_BYTES};
	assert(g->digest == NULL || g->len <= CONTENT_BYTES_MAX);
	if (g->digest != NULL)
		q.digest = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)g->digest,
						 .len = CONTENT_DIGEST_BYTES};
	for (int i = 0; i < ROUNDS_MAX; i++) {
		Terrane__Shift__GetResult result = TERRANE__SHIFT__GET_RESULT__NOT_HERE;
		int rc = get_once(channel, g, &q, into, &result);
		if (rc < 0 || result == TERRANE__SHIFT__GET_RESULT__DATA)
			return rc;
		if (result != TERRANE__SHIFT__GET_RESULT__COMING)
			return -ENOENT;
		q.again = true;
	}
	return -ENOENT;
}

int shift_status(struct rpc_channel *channel, uint32_t buckets_max, uint64_t timeout_ns,
		 struct rpc_reply *reply)
{
	Terrane__Shift__StatusRequest q = TERRANE__SHIFT__STATUS_REQUEST__INIT;
	q.buckets_max = buckets_max;
	return rpc_call(channel,
			&(struct rpc_call){.type = &shift_type_status,
					   .request = &q.base,
					   .timeout_ns = timeout_ns,
					   .retry = true},
			reply);
}

int shift_tune(struct rpc_channel *channel, const char *name, double value, uint64_t timeout_ns,
	       struct rpc_reply *reply)
{
	Terrane__Shift__TuneRequest q = TERRANE__SHIFT__TUNE_REQUEST__INIT;
	q.name = (char *)(uintptr_t)name;
	q.value = value;
	return rpc_call(channel,
			&(struct rpc_call){.type = &shift_type_tune,
					   .request = &q.base,
					   .timeout_ns = timeout_ns,
					   .retry = true},
			reply);
}
