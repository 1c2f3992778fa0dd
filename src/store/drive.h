// SPDX-License-Identifier: Apache-2.0
/*
 * A model of a storage device: how long requests take, and which of them goes first. It moves no
 * bytes. It runs on the rt clock, so in simulated time too, and has no chance in it: the same
 * requests at the same times take the same time.
 *
 * Model. A device works on up to `channels` requests at once and sees `queue_depth` of them, the rest
 * wait in line. A request takes
 *
 *   position   seek by distance d:  seek_min + (seek_max - seek_min) * sqrt(d / size), and then until
 *              the first byte comes by under the head. A request that starts where the last one
 *              ended takes none of it: the drive reads on, or writes behind.
 *   latency    of the electronics, or of reading flash cells
 *   transfer   bytes / bandwidth; transfers share the one way to the host, positions and latencies
 *              of different channels do not
 *
 * A device with an arm (seek_max > 0) serves the request that it can reach first, unless one has been
 * passed over for DRIVE_PATIENCE_NS; others serve in order.
 *
 * Worked example, drive_hdd: a random read of 4 KiB. Seek on average 0.8 + 14.4 * 8/15 = 8.48 ms (the
 * mean of sqrt(|x - y|) for two random places is 8/15), half a turn 4.17 ms, transfer 0.02 ms: 12.67
 * ms, 79 a second. Reading on: 200 MB/s.
 */
#ifndef STORE_DRIVE_H
#define STORE_DRIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "base/list.h"
#include "rt/sync.h"

#define DRIVE_PATIENCE_NS (500 * NS_PER_MS)
#define DRIVE_CHANNELS_MAX 256

struct drive_spec {
	const char *name;
	uint64_t size_bytes;
	uint64_t read_bytes_per_s;
	uint64_t write_bytes_per_s;
	uint64_t seek_min_ns;
	uint64_t seek_max_ns; /* 0: no arm */
	uint64_t turn_ns;     /* one revolution; 0: nothing turns */
	uint64_t read_latency_ns;
	uint64_t write_latency_ns;
	uint32_t channels;
	uint32_t queue_depth; /* at least channels */
};

/* A 7,200 rpm drive of 20 TB, a SATA and an NVMe flash device. */
extern const struct drive_spec drive_hdd, drive_sata, drive_nvme;

/* "hdd", "sata", "nvme"; NULL for any other name. */
const struct drive_spec *drive_preset(const char *name);

struct drive_stats {
	uint64_t requests;
	uint64_t bytes;
	uint64_t busy_ns; /* the sum over channels of the time they worked */
	uint32_t queued_max;
};

struct drive {
	struct drive_spec spec;
	struct list queue; /* drive_request that the device sees, oldest first */
	struct list line;  /* those behind them */
	uint32_t queued;   /* in the queue, or being worked on */
	struct {
		bool working;
		uint64_t free_ns; /* since when, or from when on */
	} channels[DRIVE_CHANNELS_MAX];
	uint64_t head;        /* where the last request ended */
	uint64_t bus_free_ns; /* when the last transfer ends */
	struct drive_stats stats;
};

/* -EINVAL for a device that cannot be. */
int drive_init(struct drive *d, const struct drive_spec *spec);

/*
 * Waits as long as the device takes for a request that reached it at start_ns, at byte `at` of its
 * medium. Ends early with -ETIME or -ECANCELED while it is in the queue; runs to its end after.
 */
int drive_request(struct drive *d, uint64_t start_ns, uint64_t at, uint64_t bytes, bool write);

/* How long positioning from one place to another takes when it starts at now_ns. */
uint64_t drive_position_ns(const struct drive_spec *spec, uint64_t from, uint64_t to,
			   uint64_t now_ns);

#endif
