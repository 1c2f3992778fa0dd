// SPDX-License-Identifier: Apache-2.0
/* Private to the client: the call that all stubs use. */
#ifndef NODE_NODE_CLIENT_IMPL_H
#define NODE_NODE_CLIENT_IMPL_H

#include "node/node_client.h"

struct node_ask {
	const struct rpc_type *type;
	const ProtobufCMessage *request;
	struct slice payload;
	const struct rpc_places *into;
	bool repeatable;
};

/* Sends a request with rpc_call; also sets in c the fields that each call sets (node_client.h). */
int node_ask(struct node_call *c, const struct node_ask *a, struct rpc_reply *reply);

/* Sets the error for a response that does not fit its request; returns -EPROTO. */
int node_bad_response(struct node_call *c);

#endif
