// SPDX-License-Identifier: Apache-2.0
/* The simulated disks: duration of operations, free space, faults at random times, crashes. */
#include "rt/sim/disk.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SPELL_MIN_NS (100 * NS_PER_MS) /* shortest time that a disk stays slow, hung or full */
#define SPELL_MAX_NS (10 * NS_PER_S)
#define HANG_LOOK_NS \
	(100 * NS_PER_MS) /* interval at which an operation checks whether a hang has ended */
#define DISK_NAMES_MAX (1U << 24)

/* --- time and space ---------------------------------------------------------------------------- */

size_t disk_free_blocks(const struct sim_disk *d)
{
	size_t total = (size_t)(d->size_bytes / DISK_BLOCK_BYTES);

	if (d->node->sim->now_ns < d->full_until_ns || d->used_blocks >= total)
		return 0;
	return total - d->used_blocks;
}

/*
 * Returns the duration of an operation in ns: its latency, plus the time until all queued transfers
 * and its own have ended.
 */
static uint64_t operation_ns(struct sim_disk *d, uint64_t bytes)
{
	struct sim *s = d->node->sim;
	uint64_t latency = s->config.disk_latency_ns;
	uint64_t transfer = bytes * s->config.disk_ns_per_mib / MIB;

	latency = sim_between(s, latency / 2, latency + latency / 2);
	if (s->now_ns < d->slow_until_ns) {
		latency *= d->slow_factor;
		transfer *= d->slow_factor;
	}
	d->busy_until_ns = max_u64(d->busy_until_ns, s->now_ns) + transfer;
	return d->busy_until_ns - s->now_ns + latency;
}

int disk_wait(struct sim_disk *d, uint64_t bytes)
{
	struct sim *s = d->node->sim;
	struct rt_loop *l = rt_loop_self();
	uint64_t delay_ns;

	if (l->dead)
		return -ECANCELED;
	if (d->lost)
		return -ENODEV;
	delay_ns = operation_ns(d, bytes);
	for (;;) {
		int rc = sim_delay(s, delay_ns);
		/* The process may crash after the delay has ended and before the fiber runs. */
		if (rc != 0 || l->dead)
			return -ECANCELED;
		if (d->lost)
			return -ENODEV;
		if (s->now_ns >= d->hang_until_ns)
			return 0;
		delay_ns = min_u64(d->hang_until_ns - s->now_ns, HANG_LOOK_NS);
	}
}

/* --- faults at random times ---------------------------------------------------------- */

static void hit_trace(struct sim_disk *d, enum sim_fault f, uint64_t a, uint64_t b,
		      const char *what)
{
	d->node->sim->fault_counts[f]++;
	sim_trace(d->node->sim, d->node, sim_fault_table[f].name, a, b, what);
}

static uint64_t spell_end_ns(struct sim_disk *d)
{
	struct sim *s = d->node->sim;
	return s->now_ns + sim_between(s, SPELL_MIN_NS, SPELL_MAX_NS);
}

static void flip(struct inode *i, uint64_t offset, unsigned bit)
{
	assert(!i->is_dir && offset < i->cache.size_bytes);
	image_flip(&i->cache, offset, bit);
	image_flip(&i->stable, offset, bit);
	i->unlike = true;
	i->disk->damage |= SIM_DAMAGE_ROT;
}

/* Flips a bit of a stored byte; every byte has the same probability. */
static void hit_rot(void *ctx)
{
	struct sim_disk *d = ctx;
	struct sim *s = d->node->sim;
	struct inode *i;
	uint64_t stored = 0;

	list_for_each_entry(i, &d->inodes, link)
		stored += i->cache.size_bytes;
	if (stored == 0 || d->spared)
		return;
	uint64_t at = sim_between(s, 0, stored - 1);
	unsigned bit = (unsigned)sim_between(s, 0, 7);
	list_for_each_entry(i, &d->inodes, link) {
		if (at < i->cache.size_bytes)
			break;
		at -= i->cache.size_bytes;
	}
	hit_trace(d, SIM_DISK_ROT, at, bit, i->label);
	flip(i, at, bit);
}

static void hit_full(void *ctx)
{
	struct sim_disk *d = ctx;
	d->full_until_ns = spell_end_ns(d);
	hit_trace(d, SIM_DISK_FULL, d->full_until_ns, 0, d->name);
}

static void hit_slow(void *ctx)
{
	struct sim_disk *d = ctx;
	d->slow_until_ns = spell_end_ns(d);
	d->slow_factor = sim_between(d->node->sim, 10, 100);
	hit_trace(d, SIM_DISK_SLOW, d->slow_until_ns, d->slow_factor, d->name);
}

static void hit_hang(void *ctx)
{
	struct sim_disk *d = ctx;
	d->hang_until_ns = spell_end_ns(d);
	hit_trace(d, SIM_DISK_HANG, d->hang_until_ns, 0, d->name);
}

static void disk_lose(struct sim_disk *d)
{
	struct inode *i, *after;

	if (d->lost)
		return;
	sim_trace(d->node->sim, d->node, "disk-lost", d->used_blocks, 0, d->name);
	d->lost = true;
	d->damage |= SIM_DAMAGE_LOST;
	name_wipe(d);
	list_for_each_entry_safe(i, after, &d->inodes, link) {
		inode_wipe(i);
		inode_settle_refs(i);
	}
}

static void hit_loss(void *ctx)
{
	struct sim_disk *d = ctx;
	if (d->lost || d->spared)
		return;
	hit_trace(d, SIM_DISK_LOSS, 0, 0, d->name);
	disk_lose(d);
}

/* --- calls of the simulator and of tests ----------------------------------------- */

struct sim_disk *sim_disk_add(struct sim_node *n, const char *name, uint64_t size_bytes)
{
	static const struct {
		enum sim_fault fault;
		void (*hit)(void *ctx);
	} strikers[DISK_STRIKERS] = {
		{SIM_DISK_ROT, hit_rot},   {SIM_DISK_FULL, hit_full}, {SIM_DISK_SLOW, hit_slow},
		{SIM_DISK_HANG, hit_hang}, {SIM_DISK_LOSS, hit_loss},
	};
	struct sim_disk *d = sim_need(calloc(1, sizeof(*d)));

	assert(name[0] != '\0' && strlen(name) < sizeof(d->name) && strchr(name, '/') == NULL);
	snprintf(d->name, sizeof(d->name), "%s", name);
	d->node = n;
	d->size_bytes = size_bytes;
	list_init(&d->inodes);
	list_init(&d->journal);
	map_init(&d->names, DISK_NAMES_MAX);
	d->root = inode_new(d, true);
	d->root->names = 1;
	list_push_back(&n->disks, &d->node_link);
	for (size_t k = 0; k < DISK_STRIKERS; k++)
		sim_strike(n->sim, &d->strikers[k], strikers[k].fault, strikers[k].hit, d);
	return d;
}

static void disk_crash(struct sim_disk *d, bool power)
{
	struct inode *i, *after;

	if (power && !d->lost)
		name_power_loss(d);
	list_for_each_entry_safe(i, after, &d->inodes, link) {
		if (power || d->lost)
			inode_power_loss(i);
		else
			inode_process_death(i);
		if (d->lost)
			inode_wipe(i); /* also drops the writes that survived inode_power_loss */
		inode_settle_refs(i);
	}
	if (power)
		d->busy_until_ns = 0;
}

void sim_disks_crash(struct sim_node *n, bool power)
{
	struct sim_disk *d;

	list_for_each_entry(d, &n->disks, node_link)
		disk_crash(d, power);
}

void sim_disks_lose(struct sim_node *n)
{
	struct sim_disk *d;

	list_for_each_entry(d, &n->disks, node_link)
		disk_lose(d);
}

void sim_disks_heal(struct sim_node *n)
{
	struct sim_disk *d;

	list_for_each_entry(d, &n->disks, node_link) {
		d->slow_until_ns = 0;
		d->hang_until_ns = 0;
		d->full_until_ns = 0;
	}
}

void sim_disks_free(struct sim_node *n)
{
	struct list *l;

	while ((l = list_pop_front(&n->disks)) != NULL) {
		struct sim_disk *d = list_entry(l, struct sim_disk, node_link);
		struct list *k;
		for (size_t s = 0; s < DISK_STRIKERS; s++)
			sim_striker_stop(&d->strikers[s]);
		name_wipe(d);
		assert(d->journal_count == 0);
		while ((k = list_first(&d->inodes)) != NULL)
			inode_free(list_entry(k, struct inode, link));
		/* all blocks were charged to inodes, which have no blocks now */
		assert(d->used_blocks == 0);
		map_fini(&d->names);
		free(d);
	}
}

unsigned sim_disk_damage(const struct sim_disk *d)
{
	return d->damage;
}

bool sim_disk_damaged(const struct sim_disk *d)
{
	return (d->damage & (SIM_DAMAGE_ROT | SIM_DAMAGE_WRITE | SIM_DAMAGE_LOST)) != 0;
}

void sim_disk_spare(struct sim_disk *d, bool spare)
{
	d->spared = spare;
}

static struct inode *file_find(struct sim_disk *d, const char *path)
{
	struct place p;
	bool found = name_find(d->node, path, &p) == 0 && p.disk == d && p.inode != NULL;

	return found && !p.inode->is_dir ? p.inode : NULL;
}

int sim_disk_peek(struct sim_disk *d, const char *path, uint64_t offset, void *buf, size_t len)
{
	struct inode *i = file_find(d, path);

	if (i == NULL)
		return -ENOENT;
	if (offset > i->cache.size_bytes || len > i->cache.size_bytes - offset)
		return -ERANGE;
	image_read(&i->cache, offset, buf, len);
	return 0;
}

int sim_disk_flip(struct sim_disk *d, const char *path, uint64_t offset, unsigned bit)
{
	struct inode *i = file_find(d, path);

	if (i == NULL)
		return -ENOENT;
	if (offset >= i->cache.size_bytes || bit > 7)
		return -ERANGE;
	flip(i, offset, bit);
	return 0;
}
