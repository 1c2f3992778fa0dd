// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_CMD_CODE_H
#define CLI_CMD_CODE_H

/* `terrane code ...`: argv[0] is "code". Returns the exit status: 0, 1 (failed), 2 (usage). */
int cmd_code(int argc, char **argv);

#endif
