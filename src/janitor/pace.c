// SPDX-License-Identifier: Apache-2.0
/*
 * The bandwidth of repair. Repair may use a part (20%) of the bandwidth of a disk and of the uplink of a
 * rack, and the live janitors divide that evenly: each limits itself, as none knows what the others do at
 * the moment. Bandwidth that a janitor does not use is not given to another.
 *
 *     disk   bytes read from or written to it
 *     pool   the same over its members: a byte of a column is on one of k, so a pool has the bandwidth of k disks
 *     rack   bytes that leave or enter it. For a janitor inside a rack, bytes that it reads from other racks
 *            enter its own, and bytes to and from disks of its own rack cross nothing. For a janitor outside
 *            of all racks all bytes cross.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "janitor/impl.h"
#include "rt/rt.h"

int pacer_wait(struct pacer *p, uint64_t bytes, uint64_t bytes_per_s)
{
	assert(bytes_per_s > 0);
	uint64_t now_ns = rt_now_ns();
	uint64_t start_ns = max_u64(now_ns, p->free_ns);
	p->free_ns = start_ns + (uint64_t)((double)bytes / (double)bytes_per_s * 1e9);
	return start_ns > now_ns ? rt_sleep_ns(start_ns - now_ns) : 0;
}

static int pace(struct janitor *j, uint64_t key, uint64_t bytes, uint64_t can_bytes_per_s)
{
	assert(can_bytes_per_s > 0 && j->opts.percent > 0);
	struct pacer *p = map_get(&j->pacers, key);
	if (p == NULL) {
		p = calloc(1, sizeof(*p));
		if (p == NULL)
			return 0;
		if (map_put(&j->pacers, key, p) < 0) {
			free(p);
			return 0;
		}
	}
	double part = (double)j->opts.percent / 100 / (1 + j->others);
	return pacer_wait(p, bytes, (uint64_t)((double)can_bytes_per_s * part) + 1);
}

static uint32_t rack_of(const struct janitor *j, uint64_t disk)
{
	const struct cluster_node *n = cluster_node_of(j->fabric.map, disk);
	return n == NULL ? 0 : n->rack;
}

/* Returns the janitor's own rack; 0: none. */
static uint32_t own_rack(const struct janitor *j)
{
	if (j->rack[0] == 0)
		return 0;
	map_for_each(&j->fabric.map->racks, it) {
		const struct cluster_rack *r = it.value;
		if (strcmp(r->name, j->rack) == 0)
			return r->id;
	}
	return 0;
}

bool rack_crosses(const struct janitor *j, uint64_t disk)
{
	uint32_t mine = own_rack(j);
	return mine == 0 || mine != rack_of(j, disk);
}

static uint64_t rack_key(uint32_t rack)
{
	return mix_u64(rack ^ 0x7261636b0000ULL);
}

static uint64_t disk_key(uint64_t disk)
{
	return mix_u64(disk ^ 0x6469736b);
}

static int pace_rack(struct janitor *j, uint64_t disk, uint64_t bytes)
{
	if (!rack_crosses(j, disk))
		return 0;
	uint32_t mine = own_rack(j);
	int rc = pace(j, rack_key(rack_of(j, disk)), bytes, j->opts.rack_bytes_per_s);
	if (rc == 0 && mine != 0)
		rc = pace(j, rack_key(mine), bytes, j->opts.rack_bytes_per_s);
	return rc;
}

int pace_local(struct janitor *j, uint64_t disk, uint64_t bytes)
{
	const struct cluster_disk *d = cluster_disk(j->fabric.map, disk);
	uint64_t disks = d != NULL && d->pool ? (uint64_t)max_u64((uint64_t)d->local.k, 1) : 1;
	return pace(j, disk_key(disk), bytes, j->opts.disk_bytes_per_s * disks);
}

int pace_disk(struct janitor *j, uint64_t disk, uint64_t bytes)
{
	int rc = pace_local(j, disk, bytes);
	return rc == 0 ? pace_rack(j, disk, bytes) : rc;
}

int pace_pool(struct janitor *j, uint64_t disk, uint64_t bytes, uint64_t member_bytes)
{
	const struct cluster_disk *d = cluster_disk(j->fabric.map, disk);
	uint64_t disks = d != NULL && d->pool ? (uint64_t)max_u64((uint64_t)d->local.k, 1) : 1;
	int rc = pace(j, disk_key(disk), member_bytes * disks, j->opts.disk_bytes_per_s * disks);
	return rc == 0 ? pace_rack(j, disk, bytes) : rc;
}

void moved_note(struct janitor *j, struct janitor_repair *r, uint64_t disk, uint64_t bytes,
		bool write)
{
	struct janitor_repair unused = {0};
	if (r == NULL)
		r = &unused;
	assert(r == &unused ||
	       (r->disk != 0 && r->cross_bytes <= r->read_bytes + r->written_bytes));
	bool crosses = rack_crosses(j, disk);
	if (write) {
		j->stats.repair_written_bytes += bytes;
		r->written_bytes += bytes;
	} else {
		j->stats.repair_read_bytes += bytes;
		r->read_bytes += bytes;
	}
	if (crosses) {
		j->stats.repair_cross_bytes += bytes;
		r->cross_bytes += bytes;
	}
}
