// SPDX-License-Identifier: Apache-2.0
/* The settings of `terrane tally serve`. */
#ifndef CLI_TALLY_CONF_H
#define CLI_TALLY_CONF_H

#include <stdint.h>

#include "base/conf.h"

struct tally_conf {
	char *listen;
	char *metrics;
	int64_t connections;
	uint64_t pool_bytes;
	uint64_t grace_ns;
	char *dir;
	uint64_t size_bytes;
	uint64_t compact_bytes;
	int64_t sessions;
	uint64_t session_idle_ns;
	int log_level;
};

extern const struct conf_key tally_conf_schema[];
extern const size_t tally_conf_count;

#endif
