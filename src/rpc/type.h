// SPDX-License-Identifier: Apache-2.0
/* Request types, which client and service share. */
#ifndef RPC_TYPE_H
#define RPC_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "base/base.h"

#define RPC_BODY_MAX ((uint32_t)(1 * MIB))
#define RPC_PAYLOAD_MAX ((uint32_t)(64 * MIB))

/* A request type. Its number and its meaning never change; its messages may gain fields. */
struct rpc_type {
	uint32_t type;
	const char *name;
	const ProtobufCMessageDescriptor *request;
	const ProtobufCMessageDescriptor *response;
	uint32_t request_max; /* largest body in bytes; at most RPC_BODY_MAX */
	uint32_t response_max;
	uint32_t request_payload_max; /* at most RPC_PAYLOAD_MAX; 0: no payload */
	uint32_t response_payload_max;
};

#endif
