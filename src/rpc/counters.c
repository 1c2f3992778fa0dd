// SPDX-License-Identifier: Apache-2.0
#include "rpc/counters.h"

#include <stddef.h>

#include "base/base.h"
#include "base/strbuf.h"
#include "rpc/stream.h"

struct counter_entry {
	const char *name;
	const char *help;
	size_t offset;
};

static const struct counter_entry counter_table[] = {
#define X(name, help) {#name, help, offsetof(struct rpc_counters, name)},
	RPC_COUNTERS(X)
#undef X
};

void rpc_count_fault(struct rpc_counters *c, enum frame_fault fault)
{
	switch (fault) {
	case FRAME_OK:
		break;
	case FRAME_BAD_MAGIC:
		c->bad_magic++;
		break;
	case FRAME_BAD_VERSION:
		c->bad_version++;
		break;
	case FRAME_BAD_CRC:
		c->bad_header_crc++;
		break;
	case FRAME_BAD_FIELD:
		c->bad_field++;
		break;
	case FRAME_TOO_LARGE:
		c->too_large++;
		break;
	}
}

void rpc_counters_add(struct rpc_counters *sum, const struct rpc_counters *c)
{
#define X(name, help) sum->name += c->name;
	RPC_COUNTERS(X)
#undef X
}

int rpc_counters_print(const struct rpc_counters *c, const char *role, struct strbuf *out)
{
	for (size_t i = 0; i < ARRAY_LEN(counter_table); i++) {
		const struct counter_entry *e = &counter_table[i];
		uint64_t value = *(const uint64_t *)(const void *)((const char *)c + e->offset);
		int rc = strbuf_printf(out,
				       "# HELP terrane_rpc_%s_total %s\n"
				       "# TYPE terrane_rpc_%s_total counter\n"
				       "terrane_rpc_%s_total{role=\"%s\"} %llu\n",
				       e->name, e->help, e->name, e->name, role,
				       (unsigned long long)value);
		if (rc < 0)
			return rc;
	}
	return 0;
}
