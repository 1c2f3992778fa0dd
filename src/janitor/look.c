// SPDX-License-Identifier: Apache-2.0
/*
 * What is on the disks: chunks that no record knows, and chunks that have rotted.
 *
 * Orphans. A chunk's label names its tenant and block (client/label.h). One that no record wants may belong
 * to a write or repair that has not told the metadata yet, so it is remembered with the epoch, and deleted when
 * it is still unwanted two epochs later: at least one whole grace lies between. A chunk without a label is
 * counted and left alone.
 *
 * Scrub. The node reads each chunk past its caches and says what is bad. When not even the label can be read,
 * the block is looked for under the name that the chunk has, in all tenants.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "client/label.h"
#include "janitor/impl.h"
#include "rt/rt.h"

#define PAGE 256
#define TENANTS_PAGE 64
#define NODE_TIMEOUT_NS (30 * NS_PER_S)
#define SCAN_TIMEOUT_NS (120 * NS_PER_S)

struct sighting {
	uint64_t epoch;
};

struct pass {
	uint64_t done_ns; /* when the last whole pass began; 0: none yet */
};

/* One page of what is on a disk. */
struct shelf {
	struct janitor *j;
	struct errand errand;
	uint64_t disk;
	char lease[48];
	struct store_cursor at;
	struct chunk_id ids[PAGE];
	struct chunk_stat stat[PAGE];
	int rcs[PAGE];
	struct meta_found_chunk found[PAGE];
	bool wanted[PAGE];
	size_t place[PAGE]; /* of found[i] in ids */
};

static int64_t shelf_list(struct shelf *s)
{
	struct disk_use u;
	int64_t n = disk_begin(&s->errand.call, s->disk, &u);
	if (n < 0)
		return n;
	u.node.timeout_ns = NODE_TIMEOUT_NS;
	n = node_list(&u.node, s->disk, &s->at, s->ids, PAGE);
	disk_end(&s->errand.call, &u, n < 0 ? (int)n : 0, 0);
	return n;
}

static int shelf_stat(struct shelf *s, size_t n)
{
	struct disk_use u;
	int rc = disk_begin(&s->errand.call, s->disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = NODE_TIMEOUT_NS;
	rc = node_stat(&u.node, s->disk, s->ids, n, s->stat, s->rcs);
	disk_end(&s->errand.call, &u, rc, 0);
	return rc;
}

/* Every disk that can be asked, one lease each, at most one janitor on it at a time. */
static int each_disk(struct janitor *j, const char *what, int (*fn)(struct shelf *s, uint64_t arg),
		     uint64_t arg)
{
	int rc = janitor_map(j);
	if (rc < 0)
		return rc;
	size_t n = 0;
	AUTO_FREE uint64_t *ids = disk_ids(j, &n);
	AUTO_FREE struct shelf *s = malloc(sizeof(*s));
	if (ids == NULL || s == NULL)
		return -ENOMEM;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		uint64_t disk = ids[(i + j->holder % n) % n];
		enum disk_fate fate = disk_fate(j, disk);
		if (fate != DISK_WELL && fate != DISK_EMPTYING)
			continue;
		memset(s, 0, sizeof(*s));
		s->j = j;
		s->disk = disk;
		errand_init(j, &s->errand, 0);
		snprintf(s->lease, sizeof(s->lease), "%s/%016lx", what, disk);
		rc = lease_take(j, s->lease);
		if (rc == 0) {
			int done = fn(s, arg);
			if (done < 0 && done != -ECANCELED && done != -EBUSY)
				log_warn("janitor_disk", "what=%s disk=%016lx rc=%d", what, disk,
					 done);
			if (done == -ECANCELED)
				rc = done;
			else if (done != -EBUSY)
				lease_drop(j, s->lease);
		}
		if (rc == -EBUSY)
			rc = 0;
	}
	return rc;
}

/* --- orphans ---------------------------------------------------------------------------------- */

static uint64_t sighting_key(const struct shelf *s, struct chunk_id id)
{
	uint64_t parts[3] = {s->disk, id.block, id.index};
	return hash64(parts, sizeof(parts), 0);
}

static int orphan_seen(struct shelf *s, struct chunk_id id)
{
	struct janitor *j = s->j;
	uint64_t key = sighting_key(s, id);
	struct sighting *old = map_get(&j->sightings, key);
	if (old == NULL) {
		j->stats.orphans_seen++;
		old = malloc(sizeof(*old));
		if (old == NULL)
			return -ENOMEM;
		old->epoch = j->epoch;
		if (map_put(&j->sightings, key, old) < 0)
			free(old); /* too many at once: seen another time */
		return 0;
	}
	if (j->epoch < old->epoch + 2)
		return 0;
	int rc = pacer_wait(&j->deletes, 1, j->opts.deletes_per_s);
	if (rc == 0)
		rc = chunk_delete(j, s->disk, id);
	if (rc < 0)
		return rc;
	j->stats.orphans_deleted++;
	free(map_remove(&j->sightings, key));
	return 0;
}

static int orphans_page(struct shelf *s, size_t n)
{
	size_t count = 0;
	int rc = shelf_stat(s, n);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		struct meta_found_chunk f = {.chunk_block = s->ids[i].block,
					     .index = s->ids[i].index};
		if (s->rcs[i] < 0)
			continue;
		if (label_read(s->stat[i].label, &f.tenant, &f.block) < 0) {
			s->j->stats.unlabelled++;
			continue;
		}
		s->place[count] = i;
		s->found[count++] = f;
	}
	if (rc < 0 || count == 0)
		return rc;
	struct meta_call m = errand_meta(s->j, &s->errand);
	rc = meta_client_chunks_wanted(&m, s->disk, s->found, count, s->wanted);
	for (size_t i = 0; rc == 0 && i < count; i++) {
		struct chunk_id id = s->ids[s->place[i]];
		if (!s->wanted[i])
			rc = orphan_seen(s, id);
		else
			free(map_remove(&s->j->sightings, sighting_key(s, id)));
	}
	return rc;
}

static int orphans_disk(struct shelf *s, uint64_t unused)
{
	(void)unused;
	int64_t n;
	int rc = 0;
	do {
		n = shelf_list(s);
		if (n > 0)
			rc = orphans_page(s, (size_t)n);
		if (rc == 0)
			rc = lease_keep(s->j, s->lease);
	} while (rc == 0 && n > 0);
	return n < 0 ? (int)n : rc;
}

int janitor_orphans(struct janitor *j)
{
	struct errand e;
	errand_init(j, &e, 0);
	struct meta_call m = errand_meta(j, &e);
	uint64_t epoch;
	int rc = meta_client_gc_epoch(&m, &epoch, &j->partitions);
	if (rc < 0)
		return rc;
	if (epoch != j->epoch) {
		j->epoch = epoch;
		j->epoch_ns = rt_now_ns();
	}
	return each_disk(j, "orphans", orphans_disk, 0);
}

/* --- scrub ------------------------------------------------------------------------------------ */

static int report(struct shelf *s, uint32_t tenant, uint64_t block, uint32_t index)
{
	struct errand e;
	errand_init(s->j, &e, tenant);
	struct meta_call m = errand_meta(s->j, &e);
	return meta_client_block_report(&m, block, index, s->disk);
}

static int report_unlabelled(struct shelf *s, struct chunk_id id)
{
	struct meta_call m = errand_meta(s->j, &s->errand);
	struct meta_tenant t[TENANTS_PAGE];
	uint32_t after = 0;
	for (;;) {
		int64_t n = meta_client_tenant_list(&m, after, t, TENANTS_PAGE);
		if (n <= 0)
			return (int)n;
		for (int64_t i = 0; i < n; i++)
			if (report(s, t[i].id, id.block, id.index) == 0)
				return 0;
		after = t[n - 1].id;
	}
}

static int scrub_chunk(struct shelf *s, size_t i, bool *bad)
{
	struct store_range ranges[16];
	struct disk_use u;
	int64_t n = disk_begin(&s->errand.call, s->disk, &u);
	if (n < 0)
		return (int)n;
	u.node.timeout_ns = SCAN_TIMEOUT_NS;
	n = node_scan(&u.node, s->disk, s->ids[i], ranges, ARRAY_LEN(ranges));
	disk_end(&s->errand.call, &u, n < 0 ? (int)n : 0, 0);
	*bad = n > 0 || n == -EBADMSG;
	return n == -ENOENT || n >= 0 || *bad ? 0 : (int)n;
}

static int scrub_page(struct shelf *s, size_t n, uint64_t bytes_per_s)
{
	struct pacer pace = {0};
	int rc = shelf_stat(s, n);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		bool bad = false;
		uint64_t len = s->rcs[i] < 0 ? 0 : s->stat[i].len;
		if (s->rcs[i] == -ENOENT)
			continue;
		if (bytes_per_s > 0)
			rc = pacer_wait(&pace, len, bytes_per_s);
		if (rc == 0)
			rc = scrub_chunk(s, i, &bad);
		if (rc < 0)
			return rc;
		s->j->stats.scrubbed_chunks++;
		s->j->stats.scrubbed_bytes += len;
		uint32_t tenant;
		uint64_t block;
		if (bad) {
			s->j->stats.damage_found++;
			if (s->rcs[i] == 0 && label_read(s->stat[i].label, &tenant, &block) == 0)
				(void)report(s, tenant, block, s->ids[i].index);
			else
				rc = report_unlabelled(s, s->ids[i]);
		}
		if (rc == 0)
			rc = lease_keep(s->j, s->lease);
	}
	return rc;
}

static struct pass *pass_of(struct janitor *j, uint64_t disk)
{
	struct pass *p = map_get(&j->passes, disk);
	if (p != NULL)
		return p;
	p = calloc(1, sizeof(*p));
	if (p != NULL && map_put(&j->passes, disk, p) < 0) {
		free(p);
		p = NULL;
	}
	return p;
}

static void scrub_age(struct janitor *j)
{
	uint64_t now_ns = rt_now_ns(), oldest_ns = 0;
	map_for_each(&j->passes, it) {
		const struct pass *p = it.value;
		oldest_ns =
			max_u64(oldest_ns, now_ns - (p->done_ns != 0 ? p->done_ns : j->start_ns));
	}
	j->stats.scrub_oldest_ns = oldest_ns;
}

/* Fast enough to be through in half of the time: the rest is for disks that are away meanwhile. */
static uint64_t scrub_rate(const struct shelf *s, uint64_t pass_ns)
{
	const struct cluster_disk *d = cluster_disk(s->j->fabric.map, s->disk);
	uint64_t all = d == NULL ? GIB : max_u64(d->capacity_bytes, GIB);
	return pass_ns == 0 ? 0 : (uint64_t)((double)all / ((double)pass_ns / 2e9)) + 1;
}

static int scrub_disk(struct shelf *s, uint64_t pass_ns)
{
	struct pass *p = pass_of(s->j, s->disk);
	uint64_t begin_ns = rt_now_ns();
	if (p == NULL)
		return -ENOMEM;
	if (pass_ns > 0 && p->done_ns != 0 && begin_ns - p->done_ns < pass_ns / 2)
		return 0;
	uint64_t rate = scrub_rate(s, pass_ns);
	int rc = 0;
	int64_t n;
	do {
		n = shelf_list(s);
		if (n > 0)
			rc = scrub_page(s, (size_t)n, rate);
		scrub_age(s->j);
	} while (rc == 0 && n > 0);
	if (n == 0 && rc == 0)
		p->done_ns = begin_ns;
	scrub_age(s->j);
	return n < 0 ? (int)n : rc;
}

int janitor_scrub(struct janitor *j, uint64_t pass_ns)
{
	return each_disk(j, "scrub", scrub_disk, pass_ns);
}
