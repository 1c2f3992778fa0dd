// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "sched/sched.h"

/* The disk has one arm. So while Gold is active, one request of another class is at the disk at a
 * time, and none while a Gold request is there. */
const struct sched_config sched_hdd = {
	.depth = 8,
	.other_depth = 1,
	.other_ahead_ns = 100 * NS_PER_MS,
	.gold_linger_ns = 10 * NS_PER_S,
	.gold_patience_ns = 0,
	.slice_bytes = 1 * MIB,
	.run_bytes = 8 * MIB,
	.quota_ns = 400 * NS_PER_MS,
	.groups_max = 64,
	.queue_max = 256,
	.reservations_max = 1024,
	.reserve_ahead_ns = 4 * NS_PER_S,
	.reserve_ttl_ns = 30 * NS_PER_S,
	.position_ns = 12 * NS_PER_MS,
	.read_bytes_per_s = 200000000,
	.write_bytes_per_s = 200000000,
	.lanes = 1,
};

/* Two slices keep the link to the host busy while the disk reads the next one from its cells. */
const struct sched_config sched_sata = {
	.depth = 32,
	.other_depth = 2,
	.other_ahead_ns = 20 * NS_PER_MS,
	.gold_linger_ns = 10 * NS_PER_S,
	.gold_patience_ns = 2 * NS_PER_MS,
	.slice_bytes = 64 * KIB,
	.run_bytes = 2 * MIB,
	.quota_ns = 80 * NS_PER_MS,
	.groups_max = 64,
	.queue_max = 1024,
	.reservations_max = 1024,
	.reserve_ahead_ns = 2 * NS_PER_S,
	.reserve_ttl_ns = 30 * NS_PER_S,
	.position_ns = 80 * NS_PER_US,
	.read_bytes_per_s = 550000000,
	.write_bytes_per_s = 520000000,
	.lanes = 8,
};

const struct sched_config sched_nvme = {
	.depth = 128,
	.other_depth = 3,
	.other_ahead_ns = 3 * NS_PER_MS,
	.gold_linger_ns = 10 * NS_PER_S,
	.gold_patience_ns = 1 * NS_PER_MS,
	.slice_bytes = 128 * KIB,
	.run_bytes = 2 * MIB,
	.quota_ns = 40 * NS_PER_MS,
	.groups_max = 64,
	.queue_max = 1024,
	.reservations_max = 1024,
	.reserve_ahead_ns = 2 * NS_PER_S,
	.reserve_ttl_ns = 30 * NS_PER_S,
	.position_ns = 70 * NS_PER_US,
	.read_bytes_per_s = 3500000000,
	.write_bytes_per_s = 3000000000,
	.lanes = 32,
};

/* The store serves many requests together, so that they share group commits. While Gold is active fewer of the others
 * are in the store: they share its threads. */
const struct sched_config sched_metadata = {
	.depth = 256,
	.other_depth = 64,
	.other_ahead_ns = UINT64_MAX,
	.gold_linger_ns = NS_PER_S,
	.gold_patience_ns = 20 * NS_PER_MS,
	.slice_bytes = 1 * MIB,
	.run_bytes = 1 * MIB,
	.quota_ns = 10 * NS_PER_MS,
	.groups_max = 64,
	.queue_max = 4096,
	.reservations_max = 1,
	.reserve_ahead_ns = NS_PER_S,
	.reserve_ttl_ns = NS_PER_S,
	.position_ns = 50 * NS_PER_US,
	.read_bytes_per_s = 200000000,
	.write_bytes_per_s = 200000000,
	.lanes = 16,
};

struct sched_config sched_for_cores(unsigned cores)
{
	return (struct sched_config){
		.depth = cores,
		.other_depth = cores > 1 ? cores - 1 : 1,
		.other_ahead_ns = UINT64_MAX,
		.gold_linger_ns = NS_PER_S,
		.gold_patience_ns = 20 * NS_PER_MS,
		.slice_bytes = 1 * MIB,
		.run_bytes = 64 * MIB,
		.quota_ns = 10 * NS_PER_MS,
		.groups_max = 64,
		.queue_max = 32 * cores,
		.reservations_max = 1,
		.reserve_ahead_ns = NS_PER_S,
		.reserve_ttl_ns = NS_PER_S,
		.position_ns = 1 * NS_PER_MS,
		.read_bytes_per_s = 100000000,
		.write_bytes_per_s = 100000000,
		.lanes = cores,
	};
}

const struct sched_config *sched_preset(const char *name)
{
	if (strcmp(name, "hdd") == 0)
		return &sched_hdd;
	if (strcmp(name, "sata") == 0)
		return &sched_sata;
	return strcmp(name, "nvme") == 0 ? &sched_nvme : NULL;
}

#define POOL_REQUEST_BYTES \
	(2 * MIB) /* size of the requests for which other_ahead_ns must have room */

struct sched_config sched_for_pool(const struct sched_config *disk, uint32_t members, uint32_t k,
				   uint32_t p)
{
	struct sched_config c = *disk;
	uint32_t width = k + p, sets = members > width && k > 0 ? members / width : 1;

	if (k == 0)
		return c;
	c.read_bytes_per_s *= k;
	c.write_bytes_per_s *= k;
	c.lanes *= sets;
	c.other_depth *= sets;
	c.reserve_ahead_ns *= sets;
	if (members <= width)
		return c;
	uint32_t wanted = 3 * members;
	uint64_t one_ns = c.position_ns + POOL_REQUEST_BYTES * NS_PER_S / c.write_bytes_per_s;
	c.depth = c.depth * sets > wanted ? c.depth * sets : wanted;
	c.other_ahead_ns = max_u64(c.other_ahead_ns, wanted * one_ns);
	return c;
}
