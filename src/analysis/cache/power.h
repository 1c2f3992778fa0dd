// SPDX-License-Identifier: Apache-2.0
/*
 * The power of a storage tier of hard disks with a flash cache in front, after section 3.1 of the Tectonic-Shift paper.
 *
 * A demand has bytes to store and bytes per second to read. Servers of each kind have watts, bytes and bytes per second.
 * With disks alone the tier needs max(storage, reads), in watts of disk servers. In the ideal composite, disks store
 * everything and serve what they can, and flash servers have the bandwidth for the rest:
 *
 *   composite = storage + flash for reads * (1 - storage / reads)
 *
 * With the paper's servers storage is 1, reads are 9.92 and flash for reads is 1.88: 1 + 1.88 * (1 - 1 / 9.92) = 2.69.
 *
 * The flash tier costs its power whatever it absorbs. With a share a of the reads absorbed the disks must serve the rest:
 *
 *   power(a) = max(storage, reads * (1 - a)) + flash tier
 *
 * Power-neutral is the share at which that equals disks alone.
 */
#ifndef ANALYSIS_CACHE_POWER_H
#define ANALYSIS_CACHE_POWER_H

#include <stddef.h>

#define POWER_WHY_MAX 160

struct power_server {
	double watts, bytes, bytes_s;
};

struct power_demand {
	double bytes, bytes_s;
	struct power_server hdd, flash;
	double flash_watts; /* of the flash tier; 0: that of the ideal composite */
};

/* Watts. */
struct power {
	double hdd_storage, hdd_reads, hdd;       /* hdd: disks alone, for both */
	double flash_storage, flash_reads, flash; /* flash alone */
	double flash_tier, composite;
	double neutral_share; /* of the reads; above 1: never */
};

/* Reads a demand from JSON text: {"storage_bytes": N, "read_bytes_s": N, "hdd": {"watts": N, "bytes": N, "bytes_s": N},
 * "flash": {...}, "flash_watts": N}. -EINVAL with the reason in why. */
int power_parse(struct power_demand *d, const char *text, size_t len, char *why, size_t why_size);

struct power power_of(const struct power_demand *d);
/* Returns the share of the power of disks alone that is saved when this share of the reads is absorbed; negative: it costs
 * more. */
double power_saved(const struct power *p, double absorbed_share);

#endif
