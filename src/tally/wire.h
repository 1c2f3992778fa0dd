// SPDX-License-Identifier: Apache-2.0
/* The requests of the tally service, as client and service agree on them. */
#ifndef TALLY_WIRE_H
#define TALLY_WIRE_H

#include "rpc/type.h"
#include "tally/tally.pb-c.h"

extern const struct rpc_type tally_type_add;
extern const struct rpc_type tally_type_get;
extern const struct rpc_type tally_type_put_blob;
extern const struct rpc_type tally_type_get_blob;
extern const struct rpc_type tally_type_stat;
extern const struct rpc_type tally_type_end;

#endif
