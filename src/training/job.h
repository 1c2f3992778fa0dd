// SPDX-License-Identifier: Apache-2.0
/*
 * A training job: what is read, by which loaders, and which devices compute on it. A job is a file of sections and keys
 * (`terrane train --keys` prints all with their documentation); a rule of MLPerf Storage sets several of them.
 */
#ifndef TRAINING_JOB_H
#define TRAINING_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/strbuf.h"

#define TRAIN_SAMPLES_MAX ((uint64_t)1 << 26)
#define TRAIN_WORKERS_MAX 1024
#define TRAIN_PARTS_MAX 64                   /* of a checkpoint */
#define TRAIN_SAMPLE_MAX ((uint64_t)1 << 30) /* bytes */

enum train_from { TRAIN_CLUSTER, TRAIN_FOLDER, TRAIN_MEMORY };
enum train_order { TRAIN_STRICT, TRAIN_WINDOW, TRAIN_STORED };
enum train_cache_policy { TRAIN_CACHE_LRU, TRAIN_CACHE_MINIO, TRAIN_CACHE_SMALL };
enum train_copies { TRAIN_PINNED, TRAIN_PAGEABLE, TRAIN_NO_COPIES };

struct train_job {
	/* data */
	int from; /* enum train_from */
	char *path;
	uint64_t sample_bytes;
	int64_t samples;
	uint64_t cache_bytes;
	int cache_policy; /* enum train_cache_policy */
	/* model */
	char *model, *model_device, *precision;
	uint64_t step_ns;
	int64_t batch;
	uint64_t input_bytes;
	/* device */
	int64_t devices, ring, weight, copy_percent;
	uint64_t memory_bytes, link_bytes_s, link_latency_ns, bucket_bytes;
	char *shared;
	int sharing; /* enum emu_sharing */
	int copies;  /* enum train_copies */
	bool ahead, vary, spin, burn, lock;
	char *decoder;
	int64_t decode_pixels;
	uint64_t vanish_ns;
	/* loader */
	int64_t workers, buffers, cores, at_once;
	uint64_t prep_ns, host_bytes, read_timeout_ns;
	/* train */
	uint64_t delay_ns;
	int64_t epochs, steps, seed, threshold, checkpoint_steps, window;
	int order; /* enum train_order */
	bool skip_first, restore;
	int64_t checkpoint_parts;
	uint64_t checkpoint_bytes;
	char *checkpoint_path;
};

extern const struct conf_key train_job_schema[];
extern const size_t train_job_keys;

/*
 * Fills a job from the text of a file. -EINVAL with a line in *err: the text is refused, or its values contradict each
 * other; -ENOMEM. After an error the job is empty.
 */
int train_job_parse(struct train_job *j, const char *name, const char *text, size_t len,
		    struct strbuf *err);
void train_job_free(struct train_job *j);

/* Checks what no single value shows. -EINVAL with a line in *err. */
int train_job_check(const struct train_job *j, const char *name, struct strbuf *err);

/* A workload of MLPerf Storage v2.0 on an accelerator. */
struct train_rule {
	const char *workload, *accelerator;
	uint32_t batch;
	uint64_t step_ns, record_bytes;
	uint32_t workers;
	uint32_t threshold; /* percent of utilization that a run must reach */
};

extern const struct train_rule train_rules[];
extern const size_t train_rule_count;

/* Returns the rule "WORKLOAD:ACCELERATOR", or NULL. */
const struct train_rule *train_rule_find(const char *text);
/*
 * Makes the job follow the rule: model, batch, readers, threshold, shuffling by a seed, first step of an epoch not
 * counted. What the rule leaves open (path, devices, epochs) stays. -ENOMEM.
 */
int train_rule_apply(struct train_job *j, const struct train_rule *r);

#endif
