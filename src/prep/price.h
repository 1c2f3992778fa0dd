// SPDX-License-Identifier: Apache-2.0
/*
 * What each form of a sample costs: bytes on the network, and processor time at the node and at the client. Times that
 * were measured are used; others come from a linear model of this code on one core.
 *
 * Decoding a crop reads the coefficients of the rows down to its lower edge (all of them in a progressive file), and
 * makes pixels of the crop only. A cut reads all coefficients and writes those of the crop.
 */
#ifndef PREP_PRICE_H
#define PREP_PRICE_H

#include "prep/image.h"
#include "prep/plan.h"

/* Nanoseconds of one core. */
struct prep_model {
	double file_ns;    /* per file, whatever is done */
	double read_ns;    /* per byte of a file whose coefficients are decoded */
	double pixel_ns;   /* per pixel of the crop that is decoded */
	double resize_ns;  /* per pixel of the crop that is resized */
	double block_ns;   /* per pixel of a file whose coefficients are all kept in memory */
	double write_ns;   /* per byte of a cut file */
	double tensor_ns;  /* per number of a tensor */
	double crc_ns;     /* per byte that is sent, for checksums */
	double head_bytes; /* of a file, before its coefficients */
};

/* libjpeg-turbo with AVX2 on a server core; `terrane prep measure` prints what a machine needs. */
extern const struct prep_model prep_model_default;

/* What is known of a sample. Times in seconds of one core; below 0: not measured, the model tells. */
struct prep_facts {
	double raw_bytes;
	uint32_t width, height;
	struct prep_rect crop;
	uint32_t out_width, out_height;
	double decode_s;  /* decoding what the crop needs */
	double crop_s;    /* resizing the crop */
	double cut_s;     /* cutting the file */
	double cut_bytes; /* below 0: not measured */
};

/* Sets the costs of all forms of a sample. */
void prep_price(const struct prep_model *model, const struct prep_facts *facts,
		struct prep_cost form[PREP_FORMS]);

#endif
