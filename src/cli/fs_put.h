// SPDX-License-Identifier: Apache-2.0
/* Private to put: fs_put.c walks the operands and local trees; fs_put_file.c stores the files. */
#ifndef CLI_FS_PUT_H
#define CLI_FS_PUT_H

#include "cli/fs_transfer.h"

/* Streams one file, which shares its blocks with no other file. Prints and counts a failure. */
void put_large(struct transfer *x, const struct transfer_file *file);
/* The job of a transfer: stores a large file, or a batch of small ones. ctx is the struct transfer. */
void put_job(void *ctx, void *item);

#endif
