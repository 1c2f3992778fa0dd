// SPDX-License-Identifier: Apache-2.0
/*
 * The cost of decoding images on a device. A profile measures a decoder at several sizes of image, each with several
 * batches. A cost in between is interpolated first over the batch at the two neighbouring sizes, then over the size:
 *
 *     1024x768, 32 images  2.8 ms      2048x1536, 32 images  10.0 ms       so 1500x1100, 32 images  4.9 ms
 *
 * The size of an image is its pixels, or the bytes of its file if nothing else is known.
 */
#ifndef EMU_DECODE_H
#define EMU_DECODE_H

#include "emu/profile.h"

struct emu_decode_cost {
	uint64_t device_ns;  /* on the decode stream; copies of the files are part of it */
	uint64_t host_ns;    /* processor time of the thread that calls the decoder */
	uint64_t held_bytes; /* device memory that the decoder holds from then on */
};

/* What is decoded: batch images, each of so many pixels, or of so many bytes if pixels is 0. */
struct emu_images {
	uint32_t batch;
	uint64_t pixels, bytes;
};

/*
 * Computes what decoding costs on a device ("": any). -ENOENT: the profile has no such decoder; -ERANGE: images or batch
 * are outside of what was measured; each with a line in *err.
 */
int emu_decode_at(const struct emu_profile *p, const char *device, const char *decoder,
		  const struct emu_images *images, struct emu_decode_cost *out, struct strbuf *err);

#endif
