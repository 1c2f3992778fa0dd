// SPDX-License-Identifier: Apache-2.0
/* The processes of a simulated cluster, all of them the production code, and its operator. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/err.h"
#include "client/engine.h"
#include "janitor/janitor.h"
#include "meta/service.h"
#include "node/service.h"
#include "roles/node_beat.h"
#include "rt/file.h"
#include "rt/rt.h"
#include "simbox/impl.h"

#define NODE_PORT 7000
#define GRACE_NS (60 * NS_PER_S)
#define NEVER_NS (86400 * NS_PER_S)
#define LOOK_NS (500 * NS_PER_MS) /* longest time between two looks at the pool */
#define ORDER_TIMEOUT_NS (3600 * NS_PER_S)

static const enum place_kind kinds[] = {PLACE_CLUSTERED, PLACE_DECLUSTERED};
static const char *const META_ADDRS[] = {SIMBOX_META};

/* --- metadata ----------------------------------------------------------------------------------- */

static void meta_main(void *arg)
{
	struct simbox *b = arg;
	struct kv *kv;
	struct cluster_id id = SIMBOX_CLUSTER_ID;
	struct meta_options mo;
	meta_options_init(&mo);
	int rc = kv_mem_open(&kv, b->kv);
	if (rc < 0)
		return;
	rc = meta_format(kv, &mo, &id, kinds[b->conf->network], SIMBOX_TENANT);
	if (rc == 0)
		(void)meta_serve(kv,
				 &(struct meta_serve_options){.listen = SIMBOX_META, .meta = mo});
	kv_close(kv);
}

/* --- nodes -------------------------------------------------------------------------------------- */

struct node_run {
	struct simbox_node *node;
	struct node_beat *beat;
	char paths[SIMBOX_DISKS_MAX * SIMBOX_MEMBERS_MAX][32];
	struct node_folder folders[SIMBOX_DISKS_MAX * SIMBOX_MEMBERS_MAX];
	struct node_disk_spec disks[SIMBOX_DISKS_MAX];
	struct sched_config sched;
};

static unsigned rack_of(const struct simbox_node *n)
{
	return n->index / (unsigned)n->box->conf->nodes;
}

static int node_ready(void *ctx, struct node *node, const char *addr)
{
	struct node_run *r = ctx;
	char name[16], rack[16];
	(void)node;
	snprintf(name, sizeof(name), "n%u", r->node->index);
	snprintf(rack, sizeof(rack), "r%u", rack_of(r->node));
	return node_beat_open(&r->beat, &(struct node_beat_options){.metadata = SIMBOX_META,
								    .cluster = SIMBOX_CLUSTER_ID,
								    .node = r->node->index + 1,
								    .name = name,
								    .rack = rack,
								    .addr = addr});
}

static void node_ended(void *ctx)
{
	struct node_run *r = ctx;
	node_beat_close(r->beat);
	r->beat = NULL;
}

/* Drives of a disk: the members of a pool and the spares that replace those that fail, or one. */
static unsigned drives_of(const struct simbox_conf *c)
{
	return simbox_pools(c) ? (unsigned)(c->members + c->fail_members) : 1;
}

static void disk_fill(struct node_run *r, unsigned d)
{
	const struct simbox_conf *c = r->node->box->conf;
	unsigned drives = drives_of(c), first = d * drives;
	for (unsigned m = 0; m < drives; m++) {
		snprintf(r->paths[first + m], sizeof(r->paths[0]), "/d%u-%u/s", d, m);
		(void)rt_mkdir(r->paths[first + m]);
		r->folders[first + m] = (struct node_folder){
			100 * simbox_disk_id(r->node->index, d) + m, r->paths[first + m]};
	}
	r->disks[d] = (struct node_disk_spec){.disk = simbox_disk_id(r->node->index, d),
					      .sched = &r->sched,
					      .emulate = &c->spec,
					      .folders = r->folders + first,
					      .folder_count = 1};
	if (!simbox_pools(c)) {
		r->folders[first].disk = r->disks[d].disk;
		return;
	}
	r->disks[d].pool = true;
	r->disks[d].folder_count = (uint32_t)c->members;
	r->disks[d].shape = (struct store_pool_shape){.k = (uint32_t)c->code.mlec.local.k,
						      .p = (uint32_t)c->code.mlec.local.p,
						      .place = kinds[c->local],
						      .piece_bytes = (uint32_t)c->piece_bytes};
	/* Only a clustered pool needs other drives: a declustered one has spare space on all of its own. */
	r->disks[d].spares = r->folders + first + c->members;
	r->disks[d].spare_count = c->local == 0 ? (uint32_t)c->fail_members : 0;
}

static void node_main(void *arg)
{
	struct simbox_node *n = arg;
	const struct simbox_conf *c = n->box->conf;
	AUTO_FREE struct node_run *r = calloc(1, sizeof(*r));
	char listen[32];
	if (r == NULL)
		return;
	r->node = n;
	r->sched = c->drive == SIMBOX_NVME   ? sched_nvme
		   : c->drive == SIMBOX_SATA ? sched_sata
					     : sched_hdd;
	for (unsigned d = 0; d < (unsigned)c->disks; d++)
		disk_fill(r, d);
	snprintf(listen, sizeof(listen), "n%u:%d", n->index, NODE_PORT);
	struct node_serve_options o = {
		.listen = listen,
		.disks = {.cluster = SIMBOX_CLUSTER_ID,
			  .node = n->index + 1,
			  .disks = r->disks,
			  .disk_count = (size_t)c->disks,
			  .format = true,
			  .fan_bits = 4,
			  .give_up_ns = NEVER_NS,
			  .rebuild_member_bytes_per_s =
				  c->spec.read_bytes_per_s / 100 * (uint64_t)c->repair_percent,
			  .repair_outside = c->repair >= JANITOR_R_FCO},
		.pool_bytes = 256 * MIB,
		.ready = node_ready,
		.ended = node_ended,
		.ctx = r};
	int rc = node_serve(&o);
	if (rc < 0 && rc != -ECANCELED)
		rt_note("node ended: %d", rc);
}

/* --- janitor ------------------------------------------------------------------------------------ */

static void janitor_work(void *arg)
{
	rt_background();
	(void)janitor_run(arg);
}

static void janitor_main(void *arg)
{
	const struct simbox_conf *c = ((struct simbox *)arg)->conf;
	struct janitor_options o = {.addrs = META_ADDRS,
				    .addr_count = 1,
				    .grace_ns = GRACE_NS,
				    .round_ns = c->round_ns,
				    .disk_bytes_per_s = c->spec.read_bytes_per_s,
				    .rack_bytes_per_s = c->rack_bytes_s,
				    .percent = (unsigned)c->repair_percent,
				    .parallel = 16,
				    .method = (enum janitor_method)c->repair};
	struct janitor *j;
	struct rt_fiber *fiber;
	if (janitor_open(&j, &o) != 0)
		return;
	if (rt_spawn(&fiber, "janitor", janitor_work, j) == 0) {
		(void)rt_shutdown_wait();
		rt_cancel(fiber);
		rt_join(fiber);
	}
	janitor_close(j);
}

/* --- the operator ------------------------------------------------------------------------------- */

#define LOSSES_MAX 128

struct pool_state {
	uint64_t hurt, beyond; /* stripes that lack rows, and more than the pool tolerates */
};

static int state_get(struct node_call *n, uint64_t disk, unsigned tolerated, struct pool_state *out)
{
	struct store_cursor at = {0};
	struct store_pool_loss losses[LOSSES_MAX];
	int64_t count;
	*out = (struct pool_state){0};
	while ((count = node_pool_failures(n, disk, &at, losses, LOSSES_MAX)) > 0)
		for (int64_t i = 0; i < count; i++) {
			out->hurt += losses[i].stripes;
			out->beyond += losses[i].lost_rows > tolerated ? losses[i].stripes : 0;
		}
	return (int)count;
}

static int members_fail(const struct simbox_conf *c, struct node_call *n, uint64_t disk)
{
	int rc = 0;
	for (uint32_t m = 0; rc == 0 && m < (uint32_t)c->fail_members; m++)
		rc = node_pool_fail(n, disk, m);
	for (uint32_t m = 0; rc == 0 && c->local == 0 && m < (uint32_t)c->fail_members; m++)
		rc = node_pool_replace(n, disk, m);
	return rc;
}

/* Sends one request, or a few, to the node of the first pool; `fail`: lets drives fail, else looks at the pool. */
static int pool_ask(struct simbox *b, struct engine *e, bool fail, struct pool_state *out)
{
	const struct simbox_conf *c = b->conf;
	const uint64_t disk = simbox_disk_id(0, 0);
	struct call call;
	struct disk_use u;
	rt_background();
	call_init(&call, engine_fabric(e));
	int rc = disk_begin(&call, disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = ORDER_TIMEOUT_NS;
	rc = fail ? members_fail(c, &u.node, disk)
		  : state_get(&u.node, disk, (unsigned)c->code.mlec.local.p, out);
	disk_end(&call, &u, rc, 0);
	return rc;
}

static void observe(struct simbox *b, struct engine *e)
{
	struct simbox_result *r = b->result;
	struct pool_state s;
	while (r->whole_ns == 0 && rt_sleep_ns(min_u64(LOOK_NS, b->conf->round_ns)) == 0) {
		if (pool_ask(b, e, false, &s) < 0)
			continue;
		uint64_t since = rt_now_ns() - b->begin_ns;
		if (s.beyond == 0 && r->recoverable_ns == 0)
			r->recoverable_ns = since;
		if (s.hurt == 0)
			r->whole_ns = since;
	}
}

static int operate(struct simbox *b, struct engine *e)
{
	struct call c;
	struct terrane_stat st;
	struct pool_state state;
	/* The engine gets the map when it is asked for something. */
	int rc = engine_call(e, &c, NULL);
	if (rc == 0)
		rc = engine_stat(&c, "/", &st);
	rt_background();
	b->result->failed_ns = rt_now_ns() - b->begin_ns;
	if (rc == 0)
		rc = pool_ask(b, e, true, &state);
	if (rc == 0)
		observe(b, e);
	return rc;
}

void simbox_operate(void *arg)
{
	struct simbox *b = arg;
	char why[FABRIC_ERROR_MAX];
	struct engine *e;
	struct engine_options o = {.metadata = SIMBOX_META,
				   .tenant = SIMBOX_TENANT,
				   .traffic_group = "",
				   .traffic_class = TRAFFIC_SILVER};
	if (rt_sleep_ns(b->conf->fail_ns) < 0)
		return;
	int rc = engine_open(&e, &o, why);
	if (rc == 0) {
		rc = operate(b, e);
		rt_shield_enter();
		engine_close(e);
		rt_shield_leave();
	}
	if (rc < 0 && rc != -ECANCELED && b->err->len == 0)
		(void)strbuf_printf(b->err, "cannot let drives of the first pool fail: %s",
				    err_text(rc));
}

/* --- all ---------------------------------------------------------------------------------------- */

static void node_add(struct simbox *b, unsigned index)
{
	const struct simbox_conf *c = b->conf;
	char name[32];
	snprintf(name, sizeof(name), "n%u", index);
	b->nodes[index] = (struct simbox_node){b, index};
	unsigned rack = rack_of(&b->nodes[index]);
	struct sim_node *n = sim_node_add(b->sim, name, rack);
	if (b->racks[rack] == NULL && c->rack_bytes_s != 0)
		b->racks[rack] = sim_link_add(b->sim, b->cluster, SIMBOX_OPEN_RATE);
	struct sim_link *l = b->racks[rack] != NULL ? b->racks[rack] : b->cluster;
	if (l != NULL)
		sim_node_behind(n, l);
	for (unsigned d = 0; d < (unsigned)c->disks; d++)
		for (unsigned m = 0; m < drives_of(c); m++) {
			snprintf(name, sizeof(name), "d%u-%u", d, m);
			(void)sim_disk_add(n, name, b->drive_bytes);
		}
	sim_node_start(n, node_main, &b->nodes[index]);
}

void simbox_roles_start(struct simbox *b)
{
	const struct simbox_conf *c = b->conf;
	struct sim_node *meta = sim_node_add(b->sim, "meta", SIMBOX_RACKS_MAX);
	struct sim_node *janitor = sim_node_add(b->sim, "janitor", SIMBOX_RACKS_MAX + 1);
	if (b->cluster != NULL) {
		sim_node_behind(meta, b->cluster);
		sim_node_behind(janitor, b->cluster);
	}
	sim_node_start(meta, meta_main, b);
	assert(c->racks * c->nodes <= SIMBOX_NODES_MAX && c->racks <= SIMBOX_RACKS_MAX);
	for (unsigned i = 0; i < (unsigned)(c->racks * c->nodes); i++)
		node_add(b, i);
	sim_node_start(janitor, janitor_main, b);
}
