// SPDX-License-Identifier: Apache-2.0
#include "tally/wire.h"

#include "tally/tally.h"

#define BODY_MAX 1024 /* two numbers, a delta and a name */

#define TYPE(number, text, lower, in, out)                                                    \
	{                                                                                     \
		.type = number, .name = text,                                                 \
		.request = &terrane__tally__##lower##_request__descriptor,                    \
		.response = &terrane__tally__##lower##_response__descriptor,                  \
		.request_max = BODY_MAX, .response_max = BODY_MAX, .request_payload_max = in, \
		.response_payload_max = out,                                                  \
	}

const struct rpc_type tally_type_add = TYPE(0x101, "tally-add", add, 0, 0);
const struct rpc_type tally_type_get = TYPE(0x102, "tally-get", get, 0, 0);
const struct rpc_type tally_type_put_blob = TYPE(0x103, "tally-put", put_blob, TALLY_BLOB_MAX, 0);
const struct rpc_type tally_type_get_blob = TYPE(0x104, "tally-cat", get_blob, 0, TALLY_BLOB_MAX);
const struct rpc_type tally_type_stat = TYPE(0x105, "tally-stat", stat, 0, 0);
const struct rpc_type tally_type_end = TYPE(0x106, "tally-end", end, 0, 0);
