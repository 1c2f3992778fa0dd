// SPDX-License-Identifier: Apache-2.0
/* The requests of a cache node, shared by client and service: numbers and limits. */
#ifndef SHIFT_WIRE_H
#define SHIFT_WIRE_H

#include "rpc/type.h"
#include "shift/shift.pb-c.h"

/* Longest range of a get. */
#define SHIFT_GET_MAX ((uint32_t)(4 * MIB))
#define SHIFT_TOKEN_BYTES 80
/* Longest time that a get may wait at the node. */
#define SHIFT_WAIT_MAX_MS 10000u
#define SHIFT_BUCKETS_MAX 1000u /* of one status */
#define SHIFT_JOBS_MAX 1000u

extern const struct rpc_type shift_type_get, shift_type_status, shift_type_tune;

#endif
