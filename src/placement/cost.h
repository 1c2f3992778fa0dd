// SPDX-License-Identifier: Apache-2.0
/*
 * The cost of a job on disk and on flash, after section 3 of the BYOM paper ("A bring-your-own-model
 * approach for ML-driven storage placement in warehouse-scale computers").
 *
 * Disk time (the paper's TCIO, times the duration): the seconds for which a disk is busy.
 *
 *   writes are grouped: written_bytes / group_bytes positionings, at most one for each write
 *   reads: a share of them is served by the DRAM beside the disks. Data stays there for dram_s seconds
 *          after it was written, so a job that lives for d seconds has dram_share * min(1, dram_s / d)
 *   disk seconds = positionings * position_s + bytes that reach the disk / disk_bytes_per_s
 *
 * Example: 1 GiB written, read once in 64 KiB requests, 1 hour: 1,024 + 16,384 positionings of 8 ms (less what DRAM
 * serves) and 2 GiB at 200 MB/s: about 144 disk seconds, 0.04 of a disk for an hour.
 *
 * Money (the paper's TCO), for a job of `size` bytes that lives `d` seconds and transfers `io` bytes:
 *
 *            on disk                              on flash
 *   bytes    disk_byte_usd * size * d             flash_byte_usd * size * d
 *   network  network_byte_usd * io                the same
 *   server   disk_server_usd * disk seconds       flash_server_usd * io
 *   device   disk_device_usd * disk seconds       flash_wear_usd * written_bytes
 *
 * A job's savings are its cost on disk minus its cost on flash; they are negative for data that is large, long-lived
 * or mostly written sequentially. All rates are inputs; the defaults are the list prices that cost.c explains.
 */
#ifndef PLACEMENT_COST_H
#define PLACEMENT_COST_H

#include <stddef.h>

#include "placement/job_io.h"

struct cost_rates {
	double position_s;       /* seek and rotation of one request */
	double disk_bytes_per_s; /* sequential rate of a disk */
	double group_bytes;      /* small writes reach the disk in pieces of this size */
	double dram_s;           /* time for which written data stays in DRAM */
	double dram_share;       /* share of the reads of such data that DRAM serves */
	double disk_byte_usd;    /* one byte for one second on disk */
	double flash_byte_usd;   /* one byte for one second on flash */
	double network_byte_usd; /* one byte transferred */
	double disk_server_usd;  /* one disk second: the server's share */
	double disk_device_usd;  /* one disk second: the disk's share */
	double flash_server_usd; /* one byte transferred to or from flash */
	double flash_wear_usd;   /* one byte written to flash */
};

struct cost {
	double disk_s;    /* disk time of the job if it is on disk, in disk seconds */
	double disk_usd;  /* cost on disk */
	double flash_usd; /* cost on flash */
};

extern const struct cost_rates cost_default;

/*
 * Sets a rate by name: the name of its field with '-' for '_' ("flash-byte-usd"). A text that begins with '*'
 * multiplies the present value ("*0.5"). Returns 0, -ENOENT for an unknown name, -EINVAL for a number that is not
 * finite or is below 0, or 0 where the model divides by it.
 */
int cost_set(struct cost_rates *rates, const char *name, const char *text);

/* Returns the name of rate i and its value, or NULL when there are no more. */
const char *cost_rate(const struct cost_rates *rates, size_t i, double *value);

struct cost cost_of(const struct cost_rates *rates, const struct job_io *job);

static inline double cost_savings(const struct cost *c)
{
	return c->disk_usd - c->flash_usd;
}

static inline double job_seconds(const struct job_io *job)
{
	return job->end_s - job->start_s;
}

/* Returns the flash that the job holds: bytes times seconds. */
static inline double job_byte_seconds(const struct job_io *job)
{
	return (double)job->size_bytes * job_seconds(job);
}

/* Returns the paper's I/O density: bytes transferred for each byte of the footprint. */
double cost_density(const struct job_io *job);

/*
 * Returns the savings of a job for each byte-second of flash that it holds, as a multiple of what flash costs
 * (flash_byte_usd): the ratio by which a solver with a price on flash would rank jobs.
 */
double cost_worth(const struct cost_rates *rates, const struct job_io *job, const struct cost *c);

#endif
