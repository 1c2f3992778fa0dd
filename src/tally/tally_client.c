// SPDX-License-Identifier: Apache-2.0
#include "tally/tally_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "rt/rt.h"
#include "rt/sync.h"
#include "tally/wire.h"

#define END_TIMEOUT_NS NS_PER_S

struct tally_client {
	struct rpc_channel *channel;
	uint64_t client_id;
	uint64_t seq; /* of the last change */
	uint64_t timeout_ns;
	struct rt_mutex changing;
	bool in_doubt;
	bool impatient;
	bool failed; /* a change did, or was sent twice: a copy of it may be on its way */
	char error[160];
};

int tally_client_open(struct tally_client **out, const char *addr,
		      const struct tally_client_options *o)
{
	*out = NULL;
	struct tally_client *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	c->client_id = o->client_id != 0 ? o->client_id : rt_random_u64() | 1;
	c->timeout_ns = o->timeout_ns != 0 ? o->timeout_ns : 10 * NS_PER_S;
	c->impatient = o->impatient;
	rt_mutex_init(&c->changing);
	int rc = rpc_channel_open(&c->channel, addr, &o->channel);
	if (rc < 0) {
		free(c);
		return rc;
	}
	*out = c;
	return 0;
}

/* Only when no copy of a change can arrive later, because nobody would know it for one. That it may
 * fail does no harm: the session ends by idleness then. */
static void client_end(struct tally_client *c)
{
	if (c->seq == 0 || c->failed || rpc_channel_counters(c->channel)->retries > 0)
		return;
	Terrane__Tally__EndRequest q = TERRANE__TALLY__END_REQUEST__INIT;
	q.client_id = c->client_id;
	struct rpc_call call = {
		.type = &tally_type_end,
		.request = &q.base,
		.timeout_ns = min_u64(c->timeout_ns, END_TIMEOUT_NS),
	};
	AUTO_REPLY struct rpc_reply reply;
	(void)rpc_call(c->channel, &call, &reply);
}

void tally_client_close(struct tally_client *c)
{
	if (c == NULL)
		return;
	client_end(c);
	rpc_channel_close(c->channel);
	free(c);
}

static int client_call(struct tally_client *c, const struct rpc_type *type,
		       const ProtobufCMessage *request, struct slice payload,
		       struct rpc_reply *reply)
{
	const struct rpc_counters *counters = rpc_channel_counters(c->channel);
	struct rpc_call call = {
		.type = type,
		.request = request,
		.payload = payload,
		.retry = !c->impatient || counters->connections > 0,
	};
	uint64_t before = rt_deadline_narrow(rt_now_ns() + c->timeout_ns);
	int rc = rpc_call(c->channel, &call, reply);
	if (rc == -ECONNRESET && !call.retry) {
		/* There is a server, or was a moment ago: worth waiting for. */
		bool maybe_executed = reply->maybe_executed;
		c->failed = true;
		call.retry = true;
		rpc_reply_fini(reply);
		rc = rpc_call(c->channel, &call, reply);
		reply->maybe_executed = reply->maybe_executed || maybe_executed;
	}
	rt_deadline_set(before);
	snprintf(c->error, sizeof(c->error), "%s", reply->error);
	return rc;
}

/* With c->changing held. */
static int client_change(struct tally_client *c, const struct rpc_type *type,
			 const ProtobufCMessage *request, struct slice payload,
			 struct rpc_reply *reply)
{
	int rc = client_call(c, type, request, payload, reply);
	c->in_doubt = rc < 0 && reply->maybe_executed;
	c->failed = c->failed || (rc < 0 && rc != -ERANGE);
	return rc;
}

int tally_client_add(struct tally_client *c, const char *name, int64_t delta, int64_t *value)
{
	int rc = rt_mutex_lock(&c->changing);
	if (rc < 0) {
		c->in_doubt = false;
		return rc;
	}
	Terrane__Tally__AddRequest q = TERRANE__TALLY__ADD_REQUEST__INIT;
	q.client_id = c->client_id;
	q.seq = ++c->seq;
	q.name = (char *)name;
	q.delta = delta;
	AUTO_REPLY struct rpc_reply reply;
	rc = client_change(c, &tally_type_add, &q.base, (struct slice){0}, &reply);
	if (rc == 0)
		*value = ((const Terrane__Tally__AddResponse *)reply.message)->value;
	rt_mutex_unlock(&c->changing);
	return rc;
}

int tally_client_put(struct tally_client *c, const char *name, struct buf *b, size_t len,
		     uint32_t crc)
{
	int rc = rt_mutex_lock(&c->changing);
	if (rc < 0) {
		c->in_doubt = false;
		return rc;
	}
	Terrane__Tally__PutBlobRequest q = TERRANE__TALLY__PUT_BLOB_REQUEST__INIT;
	q.client_id = c->client_id;
	q.seq = ++c->seq;
	q.name = (char *)name;
	struct slice payload = {.buf = b, .len = len, .crc = crc};
	AUTO_REPLY struct rpc_reply reply;
	rc = client_change(c, &tally_type_put_blob, &q.base, payload, &reply);
	rt_mutex_unlock(&c->changing);
	return rc;
}

int tally_client_get(struct tally_client *c, const char *name, int64_t *value)
{
	Terrane__Tally__GetRequest q = TERRANE__TALLY__GET_REQUEST__INIT;
	q.name = (char *)name;
	AUTO_REPLY struct rpc_reply reply;
	int rc = client_call(c, &tally_type_get, &q.base, (struct slice){0}, &reply);
	if (rc == 0)
		*value = ((const Terrane__Tally__GetResponse *)reply.message)->value;
	return rc;
}

int tally_client_get_blob(struct tally_client *c, const char *name, struct buf **out)
{
	Terrane__Tally__GetBlobRequest q = TERRANE__TALLY__GET_BLOB_REQUEST__INIT;
	q.name = (char *)name;
	*out = NULL;
	AUTO_REPLY struct rpc_reply reply;
	int rc = client_call(c, &tally_type_get_blob, &q.base, (struct slice){0}, &reply);
	if (rc == 0 && reply.payload.buf != NULL)
		*out = buf_ref(reply.payload.buf);
	return rc;
}

int tally_client_stat(struct tally_client *c, struct tally_stat *out)
{
	Terrane__Tally__StatRequest q = TERRANE__TALLY__STAT_REQUEST__INIT;
	AUTO_REPLY struct rpc_reply reply;
	int rc = client_call(c, &tally_type_stat, &q.base, (struct slice){0}, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Tally__StatResponse *s = reply.message;
	*out = (struct tally_stat){
		.counters = s->counters,
		.blobs = s->blobs,
		.live_bytes = s->live_bytes,
		.log_bytes = s->log_bytes,
		.sessions = s->sessions,
		.changes = s->changes,
		.commits = s->commits,
		.compactions = s->compactions,
		.failed = s->failed,
	};
	return 0;
}

bool tally_client_in_doubt(const struct tally_client *c)
{
	return c->in_doubt;
}

const char *tally_client_error(const struct tally_client *c)
{
	return c->error;
}

const struct rpc_counters *tally_client_counters(const struct tally_client *c)
{
	return rpc_channel_counters(c->channel);
}
