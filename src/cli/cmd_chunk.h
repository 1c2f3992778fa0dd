// SPDX-License-Identifier: Apache-2.0
/* Commands that call one storage node: the code that `terrane chunk` and `terrane disk --node` share. */
#ifndef CLI_CMD_CHUNK_H
#define CLI_CMD_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/admin.h"
#include "node/node_client.h"
#include "rt/pool.h"

#define NODE_ADDR_DEFAULT "127.0.0.1:7100"

struct node_session {
	const char *addr;
	uint64_t disk; /* id of --disk; 0: not given */
	uint64_t epoch;
	uint64_t offset;
	uint64_t length; /* bytes of --length; UINT64_MAX: not given */
	uint64_t capacity;
	uint64_t timeout_ns;
	bool open;
	bool json;
	bool wait;
	char **operands;
	int operand_count;
	struct chunk_id id; /* chunk that the first operand names; only if names_chunk */
	uint8_t *data;      /* input of a command with takes_data */
	size_t data_len;
	struct node_call call;
	struct admin admin; /* file, self and pool; client only in find_node */
	const struct node_command *command;
	int rc;
};

struct node_command {
	const char *name;
	int operands_min;
	int operands_max;
	bool names_disk;
	bool names_chunk;
	/* reads data from the file of the second operand; without operand or with "-" from standard input */
	bool takes_data;
	/* Runs the command, in a fiber. Returns 0, or -errno with the text in s->call.error. */
	int (*call)(struct node_session *s);
};

/* Parses the command line and runs the command whose name is the first operand. Returns the exit status. */
int node_command_run(int argc, char **argv, const struct node_command *commands, size_t count,
		     const char *usage);

#endif
