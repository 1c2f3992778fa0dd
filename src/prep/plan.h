// SPDX-License-Identifier: Apache-2.0
/*
 * Which samples of a data set are worked on at the storage nodes, by several policies, and what an epoch costs then.
 *
 * Terms. A sample can be sent as the file (raw), as a cut file (cut), as the resized crop (pixels) or as numbers
 * (tensor). Each form has bytes on the network, CPU time at the node and CPU time at the client. An epoch takes as long as
 * its slowest part: accelerator (T_G), CPUs of the client (T_CC), network (T_Net), disks (T_disk), CPUs of the busiest
 * node (T_CS). A sample is bound to the node that stores it.
 *
 * Example. 40,000 files of 312 KB over 500 Mbit/s take 200 s; as pixels of 224×224 they take 96 s and, at 3 ms each,
 * 120 s of node CPU: with two cores the epoch takes 96 s, with one core 120 s if all are sent as pixels, and 107 s if
 * as many are as makes both parts equal.
 */
#ifndef PREP_PLAN_H
#define PREP_PLAN_H

#include <stddef.h>
#include <stdint.h>

enum prep_policy {
	PREP_NO_OFF,     /* every sample raw */
	PREP_ALL_OFF,    /* every sample as a tensor */
	PREP_RESIZE_OFF, /* every sample as pixels */
	PREP_FASTFLOW, /* one form for a share of the samples, chosen by means over the data set, as FastFlow does */
	PREP_SOPHON, /* raw or pixels per sample, by bytes saved per CPU second, while the network is the slowest part */
	PREP_TERRANE, /* raw, cut or pixels per sample, likewise, with the CPUs of each node counted by themselves */
};
#define PREP_POLICIES 6

enum { PREP_FORM_RAW, PREP_FORM_CUT, PREP_FORM_PIXELS, PREP_FORM_TENSOR, PREP_FORMS };

/* What one form of a sample costs. */
struct prep_cost {
	double bytes, node_s, client_s;
};

struct prep_sample {
	struct prep_cost form[PREP_FORMS];
	uint32_t node; /* that stores it */
};

struct prep_setup {
	double bandwidth_bytes_s; /* of the client's network */
	double disk_bytes_s;      /* of all disks together; 0: never the slowest part */
	double accelerator_s;     /* per sample */
	double client_cores;
	double node_cores; /* of each node, for this job */
	uint32_t nodes;
};

struct prep_plan {
	double bytes; /* on the network in an epoch */
	double epoch_s;
	double node_cpu_s; /* of all nodes together */
	size_t offloaded;  /* samples that are not sent raw */
};

/* Decides for each sample. form[i] becomes the form of sample i; the plan sums them up. -ENOMEM. */
int prep_plan_make(enum prep_policy policy, const struct prep_setup *setup,
		   const struct prep_sample *samples, size_t count, uint8_t *form,
		   struct prep_plan *out);

/* Returns the name of a policy, such as "no-off". */
const char *prep_policy_name(enum prep_policy policy);

#endif
