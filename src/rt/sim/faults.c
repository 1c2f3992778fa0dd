// SPDX-License-Identifier: Apache-2.0
/* The table of faults, and the default configuration of a simulation. */
#include "base/base.h"
#include "rt/sim/sim.h"

const struct sim_fault_info sim_fault_table[SIM_FAULT_COUNT] = {
	[SIM_NET_DROP] = {"net-drop", SIM_PER_OPERATION, 0.005,
			  "a packet is lost and sent again later"},
	[SIM_NET_DELAY] = {"net-delay", SIM_PER_OPERATION, 0.005,
			   "a packet takes up to a second longer"},
	[SIM_NET_DUPLICATE] = {"net-duplicate", SIM_PER_OPERATION, 0.005, "a packet arrives twice"},
	[SIM_NET_REORDER] = {"net-reorder", SIM_PER_OPERATION, 0.01,
			     "a packet overtakes earlier ones"},
	[SIM_NET_CORRUPT] = {"net-corrupt", SIM_PER_OPERATION, 0.0005,
			     "a bit flips and the transport's checksum does not detect it"},
	[SIM_NET_RESET] = {"net-reset", SIM_PER_OPERATION, 0.001,
			   "a connection breaks in the middle of a stream"},
	[SIM_NET_PARTITION] = {"net-partition", SIM_PER_HOUR, 30,
			       "no packet passes between two nodes for a while"},
	[SIM_NET_ONE_WAY] =
		{"net-one-way", SIM_PER_HOUR, 30,
		 "no packet passes from one node to another for a while; the way back works"},
	[SIM_DISK_EIO] = {"disk-eio", SIM_PER_OPERATION, 0.0005,
			  "an operation fails, and may have had its effect in part"},
	[SIM_DISK_SYNC_FAIL] = {"disk-sync-fail", SIM_PER_OPERATION, 0.0005,
				"fdatasync fails and forgets what was dirty"},
	[SIM_DISK_MISDIRECT] = {"disk-misdirect", SIM_PER_OPERATION, 0.0001,
				"a read or write goes to another offset or file"},
	[SIM_DISK_STALE] = {"disk-stale", SIM_PER_OPERATION, 0.0001,
			    "a read returns bytes from before the last write"},
	[SIM_DISK_ROT] = {"disk-rot", SIM_PER_HOUR, 6, "a stored bit flips"},
	[SIM_DISK_FULL] = {"disk-full", SIM_PER_HOUR, 20, "no space for a while"},
	[SIM_DISK_SLOW] = {"disk-slow", SIM_PER_HOUR, 60,
			   "ten to a hundred times slower for a while"},
	[SIM_DISK_HANG] = {"disk-hang", SIM_PER_HOUR, 20, "nothing completes for a while"},
	[SIM_DISK_LOSS] = {"disk-loss", SIM_PER_HOUR, 1, "the disk is lost with its data"},
	[SIM_WRITE_LOST] = {"write-lost", SIM_PER_CRASH, 0.4,
			    "an unsynced write is lost at a power loss"},
	[SIM_WRITE_TORN] = {"write-torn", SIM_PER_CRASH, 0.3,
			    "an unsynced write survives a power loss in some sectors only"},
	[SIM_CRASH] = {"crash", SIM_PER_HOUR, 60, "a process is killed, and restarts"},
	[SIM_CRASH_AT_WAIT] = {"crash-at-wait", SIM_PER_OPERATION, 0.0001,
			       "a process is killed at one of its waits, and restarts"},
	[SIM_POWER_LOSS] = {"power-loss", SIM_PER_HOUR, 60, "a node loses power, and restarts"},
	[SIM_PAUSE] = {"pause", SIM_PER_HOUR, 60, "a process does not run for a while"},
	[SIM_CLOCK_JUMP] = {"clock-jump", SIM_PER_HOUR, 30,
			    "a wall clock is set wrong by up to an hour"},
	[SIM_CLOCK_DRIFT] = {"clock-drift", SIM_PER_NODE, 0.5,
			     "a node's clocks run up to 200 ppm fast or slow"},
	[SIM_NODE_LOSS] = {"node-loss", SIM_PER_HOUR, 0.5, "a node is lost with its disks"},
	[SIM_RACK_LOSS] = {"rack-loss", SIM_PER_HOUR, 0.2,
			   "all nodes of a rack are lost with their disks"},
};

void sim_config_init(struct sim_config *c, uint64_t seed, double scale)
{
	*c = (struct sim_config){
		.seed = seed,
		.restart_min_ns = 10 * NS_PER_MS,
		.restart_max_ns = 5 * NS_PER_S,
		.clock_jump_ns = 3600 * NS_PER_S,
		.net_latency_ns = 100 * NS_PER_US,
		.disk_latency_ns = 200 * NS_PER_US,
		.disk_ns_per_mib = 5 * NS_PER_MS,
	};
	for (int f = 0; f < SIM_FAULT_COUNT; f++)
		c->rate[f] = sim_fault_table[f].unit == SIM_PER_CRASH
				     ? sim_fault_table[f].rate
				     : sim_fault_table[f].rate * scale;
}
