// SPDX-License-Identifier: Apache-2.0
#include "training/job.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "emu/profile.h"
#include "emu/share.h"
#include "emu/step.h"

static const char *const froms[] = {"cluster", "folder", "memory", NULL};
static const char *const caches[] = {"lru", "minio", "small", NULL};
static const char *const orders[] = {"strict", "window", "stored", NULL};
static const char *const copies[] = {"pinned", "pageable", "none", NULL};
static const char *const sharings[] = {"fifo", "iteration", "weighted", NULL};

#define J struct train_job

const struct conf_key train_job_schema[] = {
	CONF_CHOICE(
		"data", "from", J, from, "cluster", froms,
		"where samples are read: a directory of the cluster, a local folder, or nowhere "
		"(memory)"),
	CONF_STRING("data", "path", J, path, "", 0, 190,
		    "the directory or folder; all files below it are read"),
	CONF_SIZE("data", "sample", J, sample_bytes, "0", 0, TRAIN_SAMPLE_MAX,
		  "bytes of a sample; larger files hold several; 0: each file is a sample"),
	CONF_INT("data", "samples", J, samples, "0", 0, TRAIN_SAMPLES_MAX,
		 "number of samples to use; 0: all (memory needs a number)"),
	CONF_SIZE("data", "cache", J, cache_bytes, "0", 0, 1024 * GIB,
		  "modelled memory of the training host that caches samples, which are then not "
		  "read; 0: none"),
	CONF_CHOICE("data", "cache_policy", J, cache_policy, "lru", caches,
		    "what it keeps: the least recently read go (lru, as a page cache), what was "
		    "cached stays (minio), the smallest samples (small)"),
	CONF_STRING("model", "name", J, model, "", 0, EMU_NAME_MAX - 1,
		    "model of a profile (terrane emu models); empty: step says the time"),
	CONF_STRING("model", "device", J, model_device, "", 0, EMU_NAME_MAX - 1,
		    "device of the profile; empty: the only one of the model"),
	CONF_STRING("model", "precision", J, precision, "", 0, EMU_NAME_MAX - 1,
		    "fp32 or bf16; empty: the only one of the model"),
	CONF_DURATION("model", "step", J, step_ns, "0s", 0, 3600 * NS_PER_S,
		      "time of a step, in place of a profile"),
	CONF_INT("model", "batch", J, batch, "32", 1, EMU_BATCH_MAX,
		 "samples of a step on a device"),
	CONF_SIZE("model", "input", J, input_bytes, "0", 0, TRAIN_SAMPLE_MAX,
		  "bytes of a sample on their way to the device; 0: the profile's, or those read"),
	CONF_INT("device", "count", J, devices, "1", 1, EMU_DEVICES_MAX,
		 "devices, each with a batch of its own (data parallel)"),
	CONF_INT("device", "ring", J, ring, "0", 0, 65536,
		 "devices that reduce gradients together, those of other processes too; 0: count"),
	CONF_SIZE("device", "memory", J, memory_bytes, "0", 0, 1024 * GIB,
		  "memory of a device; 0: the profile's"),
	CONF_SIZE("device", "link", J, link_bytes_s, "100GiB", 1, 10240 * GIB,
		  "bytes per second of the slowest link of the ring, one direction"),
	CONF_DURATION("device", "link_latency", J, link_latency_ns, "5us", 0, NS_PER_S,
		      "latency of one hop of the ring"),
	CONF_SIZE("device", "bucket", J, bucket_bytes, "25MiB", 4096, 16 * GIB,
		  "bytes of gradients that are reduced at a time"),
	CONF_STRING("device", "shared", J, shared, "", 0, 60,
		    "jobs with the same name here share their devices; empty: own devices"),
	CONF_CHOICE("device", "sharing", J, sharing, "fifo", sharings,
		    "turns on a shared device: none (fifo), by iteration, or by weight"),
	CONF_INT("device", "weight", J, weight, "1", 1, 1000000, "weight of the job for weighted"),
	CONF_CHOICE("device", "copies", J, copies, "pinned", copies,
		    "host memory of the batches: pinned or pageable; none: copies cost nothing"),
	CONF_INT("device", "copy_cost", J, copy_percent, "100", 1, 10000,
		 "time of a copy in percent of the profile's"),
	CONF_BOOL("device", "ahead", J, ahead, "true",
		  "copy the next batch while the device computes"),
	CONF_BOOL("device", "vary", J, vary, "true", "steps vary as the profile's quantiles do"),
	CONF_BOOL(
		"device", "spin", J, spin, "true",
		"wait for the exact end of a step by spinning; false: sleep, with less precision"),
	CONF_BOOL("device", "burn", J, burn, "false",
		  "the host's part of a step (launching kernels, calling the decoder) computes on "
		  "the loop's thread in place of sleeping; needs spin"),
	CONF_STRING(
		"device", "decoder", J, decoder, "", 0, EMU_NAME_MAX - 1,
		"decoder of the profile (nvjpeg) by which the device decodes the samples, which "
		"are then not copied; empty: they arrive decoded"),
	CONF_INT("device", "decode_pixels", J, decode_pixels, "0", 0, (int64_t)1 << 32,
		 "pixels of an image for the decoder; 0: they follow from the bytes of its file"),
	CONF_DURATION("device", "vanish", J, vanish_ns, "0s", 0, 86400 * NS_PER_S,
		      "time after which the devices are gone, as after a fault of the bus, and "
		      "their jobs fail; 0s: never"),
	CONF_BOOL("device", "lock", J, lock, "false",
		  "lock the pinned buffers in memory (needs a sufficient ulimit -l)"),
	CONF_INT("loader", "workers", J, workers, "4", 1, TRAIN_WORKERS_MAX,
		 "batches that are read and prepared at the same time"),
	CONF_INT("loader", "buffers", J, buffers, "0", 0, 4096,
		 "batches in host memory, in all states; 0: two for each worker"),
	CONF_INT("loader", "cores", J, cores, "0", 0, TRAIN_WORKERS_MAX,
		 "processors for prep; 0: one for each worker"),
	CONF_DURATION("loader", "prep", J, prep_ns, "0s", 0, 3600 * NS_PER_S,
		      "processor time that preparing a sample takes (modelled, not burnt)"),
	CONF_INT("loader", "at_once", J, at_once, "0", 0, EMU_BATCH_MAX,
		 "samples of a batch that a worker reads at the same time; 0: all"),
	CONF_SIZE("loader", "memory", J, host_bytes, "4GiB", 4096, 1024 * GIB,
		  "most memory of all buffers; more is refused"),
	CONF_DURATION("loader", "timeout", J, read_timeout_ns, "60s", NS_PER_MS, 3600 * NS_PER_S,
		      "time that reading a batch may take"),
	CONF_DURATION("train", "delay", J, delay_ns, "0s", 0, 86400 * NS_PER_S,
		      "time until the job begins"),
	CONF_INT("train", "epochs", J, epochs, "1", 1, 1000000, "passes over the samples"),
	CONF_INT("train", "steps", J, steps, "0", 0, 1000000000,
		 "most steps of an epoch; 0: no limit"),
	CONF_INT("train", "seed", J, seed, "1", 0, CONF_MAX,
		 "seed of the order and of the variation"),
	CONF_CHOICE("train", "order", J, order, "strict", orders,
		    "strict: any order by the seed; window: inside of windows; stored: as stored"),
	CONF_INT("train", "window", J, window, "16384", 1, TRAIN_SAMPLES_MAX,
		 "samples of a window"),
	CONF_BOOL("train", "skip_first", J, skip_first, "false",
		  "do not count the first step of an epoch"),
	CONF_INT("train", "threshold", J, threshold, "0", 0, 100,
		 "percent of utilization that the job must reach; less is a failure"),
	CONF_INT("train", "checkpoint", J, checkpoint_steps, "0", 0, 1000000000,
		 "steps between checkpoints; 0: none"),
	CONF_SIZE("train", "checkpoint_size", J, checkpoint_bytes, "0", 0, 1024 * GIB,
		  "bytes of a checkpoint; 0: three times the parameters"),
	CONF_INT("train", "checkpoint_parts", J, checkpoint_parts, "1", 1, TRAIN_PARTS_MAX,
		 "files of a checkpoint, which are written at the same time, as ranks do"),
	CONF_BOOL(
		"train", "restore", J, restore, "false",
		"read the last checkpoint back after the training, compare it, and copy it to the "
		"devices"),
	CONF_STRING("train", "checkpoint_path", J, checkpoint_path, "", 0, 190,
		    "directory for the checkpoints, which must exist"),
};
const size_t train_job_keys = ARRAY_LEN(train_job_schema);

static int refuse(struct strbuf *err, const char *fmt, ...) PRINTF(2, 3);
static int refuse(struct strbuf *err, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	strbuf_clear(err);
	(void)strbuf_vprintf(err, fmt, args);
	va_end(args);
	return -EINVAL;
}

int train_job_check(const struct train_job *j, const char *name, struct strbuf *err)
{
	assert(j->batch > 0 && j->workers > 0 && j->devices > 0);
	if (j->model[0] == 0 && j->step_ns == 0)
		return refuse(err, "%s: [model] names no model and no step; say one of them", name);
	if (j->model[0] != 0 && j->step_ns != 0)
		return refuse(err, "%s: [model] has both name and step; say one of them", name);
	if (j->from == TRAIN_MEMORY && j->samples == 0)
		return refuse(err, "%s: from = memory needs [data] samples", name);
	if (j->from != TRAIN_MEMORY && j->path[0] == 0)
		return refuse(err, "%s: [data] path is missing", name);
	if (j->ring != 0 && j->ring < j->devices)
		return refuse(err, "%s: [device] ring = %lld is less than count = %lld", name,
			      (long long)j->ring, (long long)j->devices);
	int64_t needed = j->ahead ? 2 * j->devices : j->devices;
	if (j->buffers != 0 && j->buffers < needed)
		return refuse(err,
			      "%s: [loader] buffers = %lld: %lld devices need at least %lld "
			      "(two for each with ahead)",
			      name, (long long)j->buffers, (long long)j->devices,
			      (long long)needed);
	if (j->checkpoint_steps != 0 && j->checkpoint_path[0] == 0)
		return refuse(err, "%s: [train] checkpoint needs checkpoint_path", name);
	if (j->restore && j->checkpoint_steps == 0)
		return refuse(err, "%s: [train] restore needs checkpoint", name);
	if (j->burn && !j->spin)
		return refuse(err, "%s: [device] burn needs spin = true", name);
	if (j->decode_pixels != 0 && j->decoder[0] == 0)
		return refuse(err, "%s: [device] decode_pixels needs decoder", name);
	if (j->lock && j->copies != TRAIN_PINNED)
		return refuse(err, "%s: [device] lock needs copies = pinned", name);
	return 0;
}

int train_job_parse(struct train_job *j, const char *name, const char *text, size_t len,
		    struct strbuf *err)
{
	int rc = conf_parse(text, len, name, train_job_schema, train_job_keys, j, err);
	if (rc == 0)
		rc = train_job_check(j, name, err);
	if (rc < 0)
		train_job_free(j);
	return rc;
}

void train_job_free(struct train_job *j)
{
	conf_free(train_job_schema, train_job_keys, j);
}

/* --- MLPerf Storage --------------------------------------------------------------------------- */

const struct train_rule train_rules[] = {
	{"resnet50", "a100", 400, 435 * NS_PER_MS, 114660, 8, 90},
	{"resnet50", "h100", 400, 224 * NS_PER_MS, 114660, 8, 90},
	{"unet3d", "a100", 7, 636 * NS_PER_MS, 146600628, 4, 90},
	{"unet3d", "h100", 7, 323 * NS_PER_MS, 146600628, 4, 90},
	{"cosmoflow", "a100", 1, 5510 * NS_PER_US, 2828486, 4, 70},
	{"cosmoflow", "h100", 1, 3500 * NS_PER_US, 2828486, 4, 70},
};
const size_t train_rule_count = ARRAY_LEN(train_rules);

const struct train_rule *train_rule_find(const char *text)
{
	const char *colon = strchr(text, ':');
	for (size_t i = 0; colon != NULL && i < train_rule_count; i++) {
		const struct train_rule *r = &train_rules[i];
		if (strlen(r->workload) == (size_t)(colon - text) &&
		    strncmp(text, r->workload, (size_t)(colon - text)) == 0 &&
		    strcmp(colon + 1, r->accelerator) == 0)
			return r;
	}
	return NULL;
}

int train_rule_apply(struct train_job *j, const struct train_rule *r)
{
	char *empty = strdup("");
	if (empty == NULL)
		return -ENOMEM;
	free(j->model);
	j->model = empty;
	j->step_ns = r->step_ns;
	j->batch = r->batch;
	j->workers = r->workers;
	j->sample_bytes = r->record_bytes;
	j->threshold = r->threshold;
	j->order = TRAIN_STRICT;
	j->skip_first = true;
	/* The rules give the time of a step as one number that includes everything on the device. */
	j->copies = TRAIN_NO_COPIES;
	j->lock = false;
	j->vary = false;
	return 0;
}
