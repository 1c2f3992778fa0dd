// SPDX-License-Identifier: Apache-2.0
/*
 * A model of a storage device: how long requests take and in which order they are served. It moves no
 * bytes. It runs on the rt clock, so also in simulated time, and is deterministic: the same requests at
 * the same times take the same time.
 *
 * Model. A device works on up to `channels` requests at once and knows `queue_depth` requests; further
 * requests wait in a backlog. A request takes
 *
 *   position   seek by distance d:  seek_min + (seek_max - seek_min) * sqrt(d / size), then the rotation
 *              until the first byte is under the head. A request that starts where the last one ended
 *              takes no positioning time.
 *   latency    of the electronics, or of reading flash cells
 *   transfer   bytes / bandwidth; transfers share one bus to the host, positions and latencies of
 *              different channels overlap
 *
 * A device with an arm (seek_max > 0) serves the request that it can reach first, unless the oldest one has
 * waited longer than DRIVE_PATIENCE_NS; other devices serve in order.
 *
 * Worked example, drive_hdd: a random read of 4 KiB. The average seek is 0.8 + 14.4 * 8/15 = 8.48 ms (the
 * mean of sqrt(|x - y|) for two random positions is 8/15), half a rotation 4.17 ms, transfer 0.02 ms: 12.67
 * ms, 79 requests per second. Sequential reads: 200 MB/s.
 */
#ifndef STORE_DRIVE_H
#define STORE_DRIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "base/list.h"

#define DRIVE_PATIENCE_NS (500 * NS_PER_MS)
#define DRIVE_CHANNELS_MAX 256

struct drive_spec {
	const char *name;
	uint64_t size_bytes;
	uint64_t read_bytes_per_s;
	uint64_t write_bytes_per_s;
	uint64_t seek_min_ns;
	uint64_t seek_max_ns; /* longest seek in ns; 0: the device has no arm */
	uint64_t turn_ns;     /* duration of one revolution in ns; 0: the medium does not rotate */
	uint64_t read_latency_ns;
	uint64_t write_latency_ns;
	uint32_t channels;
	/* number of requests that the device knows at once; at least `channels` */
	uint32_t queue_depth;
};

/* A 7,200 rpm disk drive of 20 TB, a SATA and an NVMe flash device. */
extern const struct drive_spec drive_hdd, drive_sata, drive_nvme;

/* Returns the preset "hdd", "sata" or "nvme"; NULL for any other name. */
const struct drive_spec *drive_preset(const char *name);

struct drive_stats {
	uint64_t requests;
	uint64_t bytes;
	uint64_t busy_ns; /* sum of the busy times of all channels */
	uint32_t queued_max;
};

struct drive {
	struct drive_spec spec;
	/* struct request: requests known to the device and not yet served, oldest first */
	struct list queue;
	struct list backlog; /* struct request: requests beyond queue_depth, oldest first */
	uint32_t queued;     /* number of requests in `queue` or being served */
	struct {
		bool working;
		uint64_t free_ns; /* time when the channel becomes, or became, free */
	} channels[DRIVE_CHANNELS_MAX];
	uint64_t head;        /* position in bytes where the last request ended */
	uint64_t bus_free_ns; /* time when the last transfer on the bus ends */
	struct drive_stats stats;
};

/* Initializes d as an idle device of this model. -EINVAL for an impossible device. */
int drive_init(struct drive *d, const struct drive_spec *spec);

/*
 * Waits as long as the device takes to read or write `bytes` bytes at position `at`, for a request
 * that reached the device at start_ns. -ETIME or -ECANCELED while the request is queued; once the
 * device serves the request, the wait runs to its end.
 */
int drive_request(struct drive *d, uint64_t start_ns, uint64_t at, uint64_t bytes, bool write);

#endif
