// SPDX-License-Identifier: Apache-2.0
/*
 * What the files that call libjpeg share. libjpeg reports errors by a long jump: a call runs its body inside
 * jpeg_call_run, which turns the jump into a return value. Everything that a body allocates belongs to libjpeg's
 * objects or to a struct of the caller, so that a jump loses nothing.
 */
#ifndef PREP_JPEG_IMPL_H
#define PREP_JPEG_IMPL_H

#include <setjmp.h>
#include <stdio.h> // jpeglib.h needs it

#include <jpeglib.h>

#include "prep/jpeg.h"

struct jpeg_call {
	struct jpeg_error_mgr errors;
	struct jpeg_progress_mgr progress;
	struct jpeg_decompress_struct source;
	struct prep_bytes file;
	const struct prep_limits *limits;
	struct prep_jpeg_info info;
	jmp_buf back;
	int rc; /* what a jump returns */
};

/* Runs a body: 0 or a negative error, its own or that of libjpeg. Releases the source afterwards. */
int jpeg_call_run(struct jpeg_call *call, int (*body)(struct jpeg_call *call));

/* Opens the source of a call and reads its headers; for bodies. Errors are those of prep_jpeg_inspect. */
int jpeg_call_open(struct jpeg_call *call);

/* Ends the body of a call with an error. */
_Noreturn void jpeg_call_fail(struct jpeg_call *call, int rc);

#endif
