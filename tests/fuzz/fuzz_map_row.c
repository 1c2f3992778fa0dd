// SPDX-License-Identifier: Apache-2.0
/*
 * The cluster map with arbitrary rows in its partition: heads, racks, nodes, disks and heartbeats. An input is a
 * sequence of rows:
 *
 *      byte 0          kind: c r n d h, and the next byte is the id of the key; any other: the next byte is the
 *                      length of a key that follows. With the highest bit set, the row is written while the map is open
 *      2 bytes         length of the value, little-endian; the value
 *
 * A map that opens must have the rack of every node and the node of every disk. The target then works with it: it
 * judges silent nodes, registers a new node in a rack of its own and chooses disks. The rows that this writes must
 * read back the same.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/log.h"
#include "cluster/choose.h"
#include "fuzz_sim.h"
#include "kv/mem.h"
#include "meta/map_impl.h"
#include "meta_api/node.h"
#include "rt/rt.h"
#include "rt/sim.h"

#define ROWS_MAX 64
#define LATE 0x80
#define NODE 200 /* an input may contain a heartbeat of this node */
#define RACK "a rack of its own"

struct input {
	const uint8_t *data;
	size_t size;
	bool done, any_late;
};

static const struct meta_map_options options = {.suspect_ns = NS_PER_S, .failed_ns = 3 * NS_PER_S};

/* Returns at most n bytes from *at on, and advances *at. */
static struct kv_bytes take(const uint8_t **at, const uint8_t *end, size_t n)
{
	struct kv_bytes b = kv_bytes(*at, min_u64(n, (size_t)(end - *at)));
	*at += b.len;
	return b;
}

static void put_rows(struct kv *kv, struct input *in, bool late)
{
	const uint8_t *at = in->data, *end = in->data + in->size;
	for (int i = 0; i < ROWS_MAX && end - at >= 4; i++) {
		bool is_late = (at[0] & LATE) != 0;
		char kind = (char)(at[0] & ~LATE);
		uint8_t id = at[1];
		at += 2;
		struct map_key made = map_key(kind, id);
		struct kv_bytes key = kv_bytes(made.bytes, made.len);
		if (strchr("crndh", kind) == NULL || kind == 0)
			key = take(&at, end, id);
		if (end - at < 2)
			return;
		size_t len = (size_t)(at[0] | at[1] << 8);
		at += 2;
		struct kv_write w = {.kind = KV_PUT, .key = key, .value = take(&at, end, len)};
		struct kv_txn t = {.writes = &w, .write_count = 1};
		in->any_late = in->any_late || is_late;
		if (is_late == late && key.len > 0)
			(void)kv_txn(kv, map_partition(), &t, NULL);
	}
}

static void check_known(int rc)
{
	assert(rc <= 0 && strcmp(err_name(rc), "EUNKNOWN") != 0);
}

static void check_whole(struct cluster *c)
{
	map_for_each(&c->nodes, it) {
		const struct cluster_node *n = it.value;
		assert(n->id == it.key && cluster_rack(c, n->rack) != NULL);
		assert(n->version <= c->version);
	}
	map_for_each(&c->disks, it) {
		const struct cluster_disk *d = it.value;
		assert(d->id == it.key && cluster_node_of(c, d->id) != NULL);
		assert(d->version <= c->version);
		assert(cluster_state_valid(cluster_disk_state(c, d)));
	}
	for (uint64_t block = 1; block < 4; block++) {
		static const char *const codes[] = {"r2", "rs:2+1", "mlec:2+1/2+1"};
		struct cluster_want want = {.block = block};
		struct cluster_choice choice;
		assert(encoding_parse(codes[block - 1], &want.encoding, NULL, 0) == 0);
		int rc = cluster_choose(c, &want, &choice);
		assert(rc == 0 || rc == -ENOSPC);
	}
}

static void check_same(struct cluster *a, struct cluster *b)
{
	assert(a->version == b->version && a->id.high == b->id.high && a->id.low == b->id.low);
	assert(map_count(&a->racks) == map_count(&b->racks));
	assert(map_count(&a->nodes) == map_count(&b->nodes));
	assert(map_count(&a->disks) == map_count(&b->disks));
	map_for_each(&a->nodes, it) {
		const struct cluster_node *x = it.value, *y = cluster_node(b, x->id);
		assert(y != NULL && x->rack == y->rack && x->health == y->health);
		assert(strcmp(x->name, y->name) == 0 && strcmp(x->addr, y->addr) == 0);
	}
	map_for_each(&a->disks, it) {
		const struct cluster_disk *x = it.value, *y = cluster_disk(b, x->id);
		assert(y != NULL && x->node == y->node && x->health == y->health);
		assert(x->wanted == y->wanted && x->capacity_bytes == y->capacity_bytes);
	}
}

/* Checks that a new heartbeat is stored, whatever was stored before. */
static void check_beat(struct meta_map *m)
{
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct map_key k = map_key(MAP_KEY_BEAT, NODE);
	struct kv_bytes key = kv_bytes(k.bytes, k.len);
	ProtobufCMessage *message = NULL;
	struct arena a;
	assert(kv_get(m->kv, map_partition(), &key, 1, &rows) == 0 && rows.row[0].found);
	int rc = map_unpack(&terrane__cluster__beat_record__descriptor, &a, rows.row[0].value,
			    &message);
	assert(rc == 0 && ((const Terrane__Cluster__BeatRecord *)message)->incarnation == 1);
	arena_fini(&a);
}

static void work(struct meta_map *m)
{
	struct meta_map_disk disks[] = {{.id = 1, .capacity_bytes = GIB},
					{.id = 2, .capacity_bytes = GIB, .local = {2, 1}},
					{.id = NODE, .capacity_bytes = GIB}};
	struct meta_map_node n = {.id = NODE,
				  .incarnation = 1,
				  .name = "new",
				  .rack = RACK,
				  .addr = "new:1",
				  .disks = disks,
				  .disk_count = ARRAY_LEN(disks)};
	uint64_t version = meta_map_cluster(m)->version;
	size_t racks = map_count(&meta_map_cluster(m)->racks);
	bool known = cluster_rack_named(meta_map_cluster(m), RACK) != NULL;
	rt_sleep_ns(5 * NS_PER_S); /* all nodes are silent during this time */
	int rc = meta_map_register(m, &n);
	check_known(rc);
	const struct cluster *c = meta_map_cluster(m);
	const struct cluster_node *is = cluster_node(c, NODE);
	assert(c->version >= version);
	if (rc == 0) {
		assert(is != NULL && strcmp(cluster_rack(c, is->rack)->name, RACK) == 0);
		assert(known ||
		       map_count(&c->racks) > racks); /* a new rack gets an unused number */
	}
	rc = meta_map_beat(m, &n);
	check_known(rc);
	rt_sleep_ns(2 * NS_PER_S);
	if (rc == 0)
		check_beat(m);
	disks[0].health = CLUSTER_SUSPECT;
	check_known(meta_map_beat(m, &n));
	check_known(meta_map_want_disk(m, 1, CLUSTER_DRAINING));
	check_known(meta_map_want_node(m, 1, CLUSTER_GONE));
	check_known(meta_map_weigh_disk(m, 2, CLUSTER_WEIGHT_MAX));
}

static void fuzz_main(void *arg)
{
	struct input *in = arg;
	struct kv *kv = NULL;
	struct meta_map *m = NULL, *again = NULL;
	struct kv_mem *mem = kv_mem_new(&(struct kv_mem_options){.seed = 1});
	assert(mem != NULL && kv_mem_open(&kv, mem) == 0);
	put_rows(kv, in, false);
	int rc = meta_map_open(&m, kv, &options);
	assert(rc == 0 || rc == -EBADMSG || rc == -ENOENT);
	if (rc == 0) {
		put_rows(kv, in, true);
		check_whole(meta_map_cluster(m));
		work(m);
		check_whole(meta_map_cluster(m));
		rc = meta_map_open(&again, kv, &options);
		assert(rc == 0 || in->any_late);
		if (rc == 0 && !in->any_late)
			check_same(meta_map_cluster(m), meta_map_cluster(again));
	}
	meta_map_close(again);
	meta_map_close(m);
	kv_close(kv);
	kv_mem_free(mem);
	in->done = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {.data = data, .size = size};
	fuzz_in_sim(fuzz_main, &in, 3600);
	assert(in.done);
	return 0;
}
