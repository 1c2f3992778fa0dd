// SPDX-License-Identifier: Apache-2.0
/* What the two halves of `terrane tally` share. */
#ifndef CLI_CMD_TALLY_H
#define CLI_CMD_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#define TALLY_ADDR_DEFAULT "127.0.0.1:7400"

struct tally_arguments {
	const char *command;
	char **operands;
	int operand_count;
	const char *config;
	const char *listen;
	const char *dir;
	const char *connect;
	uint64_t timeout_ns;
	bool wait;
	bool json;
	bool help;
};

/* The exit status. */
int cmd_tally_serve(const struct tally_arguments *a);

#endif
