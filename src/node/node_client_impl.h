// SPDX-License-Identifier: Apache-2.0
/* Inside the client: how every stub calls. */
#ifndef NODE_NODE_CLIENT_IMPL_H
#define NODE_NODE_CLIENT_IMPL_H

#include "node/node_client.h"

struct node_ask {
	const struct rpc_type *type;
	const ProtobufCMessage *request;
	struct slice payload;
	struct buf *into;
	bool repeatable;
};

/* As rpc_call, and remembers in c what it says of the outcome. */
int node_ask(struct node_call *c, const struct node_ask *a, struct rpc_reply *reply);

/* The answer was whole but makes no sense. */
int node_nonsense(struct node_call *c);

#endif
