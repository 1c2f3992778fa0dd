// SPDX-License-Identifier: Apache-2.0
#include "shift/wire.h"

#define TYPE(number, text, lower, in_body, out_body, out)                                      \
	{                                                                                      \
		.type = number, .name = text,                                                  \
		.request = &terrane__shift__##lower##_request__descriptor,                     \
		.response = &terrane__shift__##lower##_response__descriptor,                   \
		.request_max = in_body, .response_max = out_body, .response_payload_max = out, \
	}

const struct rpc_type shift_type_get = TYPE(0x401, "cache-get", get, 512, 512, SHIFT_GET_MAX);
const struct rpc_type shift_type_status = TYPE(0x402, "cache-status", status, 512, RPC_BODY_MAX, 0);
const struct rpc_type shift_type_tune = TYPE(0x403, "cache-tune", tune, 512, 512, 0);
