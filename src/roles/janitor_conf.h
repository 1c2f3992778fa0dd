// SPDX-License-Identifier: Apache-2.0
/* The settings of `terrane janitor`. */
#ifndef ROLES_JANITOR_CONF_H
#define ROLES_JANITOR_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/conf.h"

struct janitor_conf {
	char *metadata;
	char *metrics;
	char *rack;
	uint64_t memory_bytes;
	char *threads; /* number of loops, or "auto" */
	uint64_t lease_ns;
	uint64_t round_ns;
	uint64_t grace_ns;
	uint64_t orphan_ns;
	int64_t deletes_per_s;
	uint64_t delay_ns;
	uint64_t look_ns;
	uint64_t disk_bytes_per_s;
	uint64_t rack_bytes_per_s;
	int64_t percent;
	int64_t parallel;
	int method; /* enum janitor_method */
	uint64_t scrub_ns;
	uint64_t survey_ns;
	int64_t spread_percent;
	int64_t dead_percent;
	char *credentials;
	char *certificates;
	int tls; /* enum tls_mode */
	char *metrics_token;
	int log_level;
};

extern const struct conf_key janitor_conf_schema[];
extern const size_t janitor_conf_count;

#endif
