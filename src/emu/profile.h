// SPDX-License-Identifier: Apache-2.0
/*
 * Profiles of accelerators: what was measured on a real device. scripts/emu_profile writes the files:
 *
 *   steps.csv    a row per model, precision, layout and batch: times of the parts of a training step, quantiles of the
 *                step, memory, and when gradients are ready during backward
 *   copies.csv   a row per direction, pinning and size
 *   decodes.csv  a row per decoder, image size and batch
 *   about.csv    the device's memory, versions
 *
 * emu_profile_add_gpemu reads the public numbers of GPEmu in the form of one table instead.
 *
 * A cost at a batch between two measured ones is interpolated on the straight line between them. There is no cost
 * outside of the measured batches. Rows with held_out = 1 are there to judge the interpolation and do not take part.
 */
#ifndef EMU_PROFILE_H
#define EMU_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

#define EMU_QUANTILES 20
#define EMU_READY 10
#define EMU_NAME_MAX 64 /* bytes of a name, with its NUL */
#define EMU_BATCH_MAX (1u << 24)
#define EMU_MODELS_MAX 4096
#define EMU_POINTS_MAX 64 /* of a model */
#define EMU_COPIES_MAX 1024
#define EMU_DECODES_MAX 4096

/* How a point ended: only EMU_OK points have times. */
enum emu_status {
	EMU_OK,
	EMU_OOM,    /* the batch does not fit into the device's memory */
	EMU_SLOW,   /* not measured: a step takes too long for a profile */
	EMU_FAILED, /* the model refuses the batch */
};

/* What one training step costs at a batch. */
struct emu_cost {
	uint32_t batch;
	/* times on an idle device, with what it waits for the host that launches kernels */
	uint64_t forward_ns, backward_ns, optimizer_ns;
	uint64_t step_ns;   /* the three together, as measured in one piece: the median */
	uint64_t wall_ns;   /* the step as the host sees it, with reading the loss */
	uint64_t launch_ns; /* time of the host to submit the step */
	uint64_t busy_ns;   /* the step when the host does not hold the device up */
	uint64_t peak_bytes, persistent_bytes, reserved_bytes;
	uint64_t parameter_bytes, input_bytes;
	float spread[EMU_QUANTILES]; /* quantiles of the step, as multiples of the median */
	float ready[EMU_READY]; /* share of gradient bytes ready after 10 %, 20 % ... of backward */
};

struct emu_point {
	enum emu_status status;
	bool held_out;
	struct emu_cost cost; /* only the batch is set unless status is EMU_OK */
};

struct emu_model {
	char device[EMU_NAME_MAX], name[EMU_NAME_MAX], precision[EMU_NAME_MAX],
		layout[EMU_NAME_MAX];
	char input[EMU_NAME_MAX];
	struct emu_point *points; /* sorted by batch */
	size_t count;
};

struct emu_copy {
	char device[EMU_NAME_MAX];
	bool to_device, pinned;
	uint64_t bytes;
	uint64_t host_ns;   /* time for which the call holds the host's thread */
	uint64_t device_ns; /* time on the stream */
};

struct emu_decode {
	char device[EMU_NAME_MAX], decoder[EMU_NAME_MAX];
	uint32_t width, height, batch;
	uint64_t file_bytes;
	uint64_t wall_ns; /* of the batch */
	uint64_t host_ns; /* processor time of the host for it */
	uint64_t
		held_bytes; /* device memory that the process held outside of the allocator afterwards */
};

struct emu_profile {
	struct emu_model *models;
	size_t model_count;
	struct emu_copy *copies;
	size_t copy_count;
	struct emu_decode *decodes;
	size_t decode_count;
	uint64_t memory_bytes;  /* of the device of the last about.csv; 0: not known */
	uint64_t context_bytes; /* held by a process before it allocates */
};

/*
 * Add the rows of a file to a profile, which starts as zeros. name: of the file, in messages. -EINVAL with one line in
 * *err: a column is missing, a number is absurd, a point occurs twice, there are too many rows; -ENOMEM. After an
 * error the profile may have some of the rows.
 */
int emu_profile_add_steps(struct emu_profile *p, const char *name, const char *text, size_t len,
			  struct strbuf *err);
int emu_profile_add_copies(struct emu_profile *p, const char *name, const char *text, size_t len,
			   struct strbuf *err);
int emu_profile_add_decodes(struct emu_profile *p, const char *name, const char *text, size_t len,
			    struct strbuf *err);
int emu_profile_add_about(struct emu_profile *p, const char *name, const char *text, size_t len,
			  struct strbuf *err);
/* Adds GPEmu's numbers, except rows that were not measured but lie on a fitted line. */
int emu_profile_add_gpemu(struct emu_profile *p, const char *name, const char *text, size_t len,
			  struct strbuf *err);
/* Adds a file of any of these kinds; its header tells which. */
int emu_profile_add(struct emu_profile *p, const char *name, const char *text, size_t len,
		    struct strbuf *err);

void emu_profile_fini(struct emu_profile *p);

/* Adds a point to the model of these names, for readers of other formats and for tests. The names and the point are
 * copied. -EEXIST: the model has a point of that batch; -E2BIG; -ENOMEM. */
int emu_profile_add_point(struct emu_profile *p, const struct emu_model *names,
			  const struct emu_point *point);

/*
 * Finds a model. device and precision may be NULL or "": any. -ENOENT, with the nearest names in *err; -EINVAL when
 * more than one model fits.
 */
int emu_profile_find(const struct emu_profile *p, const char *device, const char *name,
		     const char *precision, const struct emu_model **out, struct strbuf *err);

/*
 * Computes the cost of a step. With `all` held-out points take part too. -ENOMEM: the batch does not fit into the
 * memory of the device; -ERANGE: the batch is outside of the measured ones, or was not measured for another reason.
 * Each has a line in *err.
 */
int emu_cost_at(const struct emu_model *m, uint32_t batch, bool all, struct emu_cost *out,
		struct strbuf *err);

/* A cost that takes the same time at each step, for workloads that are given as one number. */
void emu_cost_constant(struct emu_cost *out, uint32_t batch, uint64_t step_ns);

/*
 * Time of a copy of so many bytes on a device ("": any): *device_ns on the stream, *host_ns on the caller's thread.
 * Interpolated between sizes; proportional above the largest. -ENOENT: the profile has no such copies.
 */
int emu_copy_at(const struct emu_profile *p, const char *device, bool to_device, bool pinned,
		uint64_t bytes, uint64_t *device_ns, uint64_t *host_ns);

#endif
