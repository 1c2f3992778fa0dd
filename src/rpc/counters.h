// SPDX-License-Identifier: Apache-2.0
/* Counters of a server or a channel, for people and for Prometheus. */
#ifndef RPC_COUNTERS_H
#define RPC_COUNTERS_H

#include <stdint.h>

struct strbuf;

/* the counters: name in the metrics, help text */
#define RPC_COUNTERS(X)                                                               \
	X(connections, "connections made or accepted")                                \
	X(refused_connections, "connections refused because there were too many")     \
	X(refused_handshakes, "connections whose handshake failed")                   \
	X(evicted_handshakes, "handshakes cut off because there were too many")       \
	X(requests, "requests started")                                               \
	X(failures, "requests that ended with an error")                              \
	X(cancels, "requests that the client cancelled")                              \
	X(late, "responses that came after their call had ended")                     \
	X(placed_bytes, "bytes of payloads received into the memory of callers")      \
	X(retries, "requests sent again after the connection was lost")               \
	X(bad_magic, "headers with a wrong magic")                                    \
	X(bad_version, "headers of another version")                                  \
	X(bad_header_crc, "headers that do not match their checksum")                 \
	X(bad_field, "headers with inconsistent fields")                              \
	X(too_large, "frames, bodies or payloads beyond their limit")                 \
	X(bad_body_crc, "contexts and bodies that do not match their checksum")       \
	X(bad_payload_crc, "payloads that do not match their checksum")               \
	X(bad_body, "contexts and bodies that do not parse")                          \
	X(unknown_type, "requests of an unknown type")                                \
	X(unexpected_frame, "frames of a kind that is not allowed there")             \
	X(cut_frames, "connections that ended inside a frame")                        \
	X(stalled_frames, "connections closed for silence inside a frame")            \
	X(evicted, "connections closed as too slow while requests waited for memory") \
	X(stalled_writes, "connections closed because the peer did not read")         \
	X(idle_closed, "connections closed because no frame came for idle_ns")        \
	X(silent_peers, "connections closed because the peer did not answer")         \
	X(overloads, "requests refused because no fiber or memory was available")

struct rpc_counters {
#define X(name, help) uint64_t name;
	RPC_COUNTERS(X)
#undef X
};

/* Adds the counters c to sum. */
void rpc_counters_add(struct rpc_counters *sum, const struct rpc_counters *c);

/* Prints Prometheus text: terrane_rpc_NAME_total{role="ROLE"}. -EMSGSIZE, -ENOMEM. */
int rpc_counters_print(const struct rpc_counters *c, const char *role, struct strbuf *out);

#endif
