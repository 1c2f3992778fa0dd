// SPDX-License-Identifier: Apache-2.0
/* What terrane chunk and terrane disk share: a command that asks one storage node. */
#ifndef CLI_CMD_CHUNK_H
#define CLI_CMD_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "node/node_client.h"
#include "rt/pool.h"

#define NODE_ADDR_DEFAULT "127.0.0.1:7100"

struct node_session {
	const char *addr;
	uint64_t disk; /* 0: not said */
	uint64_t epoch;
	uint64_t offset;
	uint64_t length; /* UINT64_MAX: not said */
	uint64_t capacity;
	uint64_t timeout_ns;
	bool open;
	bool json;
	bool wait;
	char **operands;
	int operand_count;
	struct chunk_id id; /* of the first operand, when the command wants one */
	uint8_t *data;      /* read before the runtime started */
	size_t data_len;
	struct node_call call;
	struct rt_pool pool;
	const struct node_command *command;
	int rc;
};

struct node_command {
	const char *name;
	int operands_min;
	int operands_max;
	bool names_disk;
	bool names_chunk;
	bool takes_data; /* the second operand is a file, - or none: standard input */
	/* In a fiber. */
	int (*call)(struct node_session *s);
};

/* Parses the line, runs the command that the first operand names, reports. */
int node_command_run(int argc, char **argv, const struct node_command *commands, size_t count,
		     const char *usage);

#endif
