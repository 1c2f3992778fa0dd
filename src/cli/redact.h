// SPDX-License-Identifier: Apache-2.0
/* Removes what looks like a key from texts that leave the machine. */
#ifndef CLI_REDACT_H
#define CLI_REDACT_H

#include <stddef.h>

/*
 * Overwrites, in a line of len bytes, each word of REDACT_WORD_MIN or more characters of base64 or hexadecimal that has
 * digits and letters, and all of a line that begins or ends a block of PEM. Keys have 32 bytes: 43 characters of base64, 64
 * of hexadecimal; ids of clusters have 32 characters and stay.
 */
#define REDACT_WORD_MIN 40
void redact_line(char *line, size_t len);

#endif
