// SPDX-License-Identifier: Apache-2.0
#include "janitor_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/crc.h"
#include "code/codec.h"
#include "code/shape.h"
#include "kv/mem.h"
#include "meta/meta.h"
#include "node/label.h"

#define FIXTURE_CHUNKS_MAX 16

static const char *const META_ADDRS[] = {"meta:7100"};

void janitor_fixture_open(struct janitor_fixture *jf, struct client_fixture *fx)
{
	*jf = (struct janitor_fixture){.cluster = fx};
	rt_background();
	CHECK_EQ(fixture_engine_open(fx, &(struct fabric_options){0}, &jf->engine), 0);
	rt_pool_init(&jf->pool, 16 * MIB);
	struct meta_client_options o = {.addrs = META_ADDRS,
					.addr_count = 1,
					.tenant = META_SYSTEM,
					.channel = {.pool = &jf->pool}};
	CHECK_EQ(meta_client_open(&jf->client, &o), 0);
	jf->root = (struct meta_call){.client = jf->client};
}

void janitor_fixture_close(struct janitor_fixture *jf)
{
	rt_background();
	meta_client_close(jf->client);
	rt_pool_fini(&jf->pool);
	engine_close(jf->engine);
}

struct janitor_options quick(void)
{
	return (struct janitor_options){
		.addrs = META_ADDRS,
		.addr_count = 1,
		.grace_ns = GRACE_NS,
		.lease_ns = 20 * NS_PER_S,
		.delay_ns = 30 * NS_PER_S,
		.disk_bytes_per_s = 1000000000000,
		.rack_bytes_per_s = 1000000000000,
	};
}

struct janitor *hire(const struct janitor_options *o)
{
	struct janitor *j;
	rt_background();
	CHECK_EQ(janitor_open(&j, o), 0);
	return j;
}

struct janitor_stats stats_of(const struct janitor *j)
{
	struct janitor_stats s;
	janitor_stats(j, &s);
	return s;
}

int write_text(struct janitor_fixture *jf, const char *path, uint64_t text, uint64_t len,
	       const char *encoding)
{
	return write_text_on(jf, path, text, len, encoding, TERRANE_MEDIA_DEFAULT);
}

int write_text_on(struct janitor_fixture *jf, const char *path, uint64_t text, uint64_t len,
		  const char *encoding, enum terrane_media media)
{
	struct terrane_options o = {.encoding = encoding, .block_bytes = 64 * KIB, .media = media};
	struct call c;
	engine_call(jf->engine, &c, &o);
	struct efile *f;
	int rc = engine_create(&c, path, 0, &o, &f);
	uint8_t *bytes = malloc(len);
	CHECK(bytes != NULL);
	fixture_fill(text, 0, bytes, len);
	struct iovec iov = {bytes, len};
	if (rc == 0) {
		rc = engine_append(&c, f, &iov, 1, NULL);
		rc = rc == 0 ? engine_file_close(&c, f) : (engine_file_discard(f), rc);
	}
	free(bytes);
	rt_background();
	return rc;
}

int read_text(struct janitor_fixture *jf, const char *path, uint64_t text, uint64_t len)
{
	struct call c;
	engine_call(jf->engine, &c, NULL);
	struct efile *f;
	int64_t rc = engine_file_open(&c, path, &f);
	if (rc == 0) {
		uint8_t *bytes = malloc(len);
		CHECK(bytes != NULL);
		struct iovec iov = {bytes, len};
		uint32_t crc;
		rc = engine_preadv(&c, f, &iov, 1, 0, &crc);
		CHECK(rc < 0 || (rc == (int64_t)len && fixture_same(text, 0, bytes, len)));
		free(bytes);
		CHECK_EQ(engine_file_close(&c, f), 0);
	}
	rt_background();
	return rc < 0 ? (int)rc : 0;
}

int remove_path(struct janitor_fixture *jf, const char *path)
{
	struct call c;
	engine_call(jf->engine, &c, NULL);
	int rc = engine_remove(&c, path);
	rt_background();
	return rc;
}

static void use_begin(struct janitor_fixture *jf, uint64_t disk, struct call *c, struct disk_use *u)
{
	call_init(c, engine_fabric(jf->engine));
	CHECK_EQ(disk_begin(c, disk, u), 0);
	u->node.timeout_ns = 10 * NS_PER_S;
}

size_t chunks_on(struct janitor_fixture *jf, uint64_t disk, struct chunk_id *out, size_t max)
{
	struct call c;
	struct disk_use u;
	struct store_cursor at = {0};
	use_begin(jf, disk, &c, &u);
	int64_t n = node_list(&u.node, disk, &at, out, max);
	disk_end(&c, &u, n < 0 ? (int)n : 0, 0);
	CHECK(n >= 0);
	return (size_t)n;
}

size_t chunks_everywhere(struct janitor_fixture *jf)
{
	struct chunk_id ids[512];
	size_t n = 0;
	for (unsigned i = 0; i < jf->cluster->node_count; i++)
		n += chunks_on(jf, 10 * i + 1, ids, ARRAY_LEN(ids));
	return n;
}

struct chunk_stat stat_of(struct janitor_fixture *jf, uint64_t disk, struct chunk_id id)
{
	struct call c;
	struct disk_use u;
	struct chunk_stat st = {0};
	use_begin(jf, disk, &c, &u);
	CHECK_EQ(node_stat_one(&u.node, disk, id, &st), 0);
	disk_end(&c, &u, 0, 0);
	return st;
}

void chunk_drop(struct janitor_fixture *jf, uint64_t disk, struct chunk_id id)
{
	struct call c;
	struct disk_use u;
	use_begin(jf, disk, &c, &u);
	CHECK_EQ(node_delete_one(&u.node, disk, id), 0);
	disk_end(&c, &u, 0, 0);
}

static struct chunk_id junk_id(size_t i)
{
	return (struct chunk_id){0x6a756e6b00000000ULL + i, 0};
}

size_t fill_disk(struct janitor_fixture *jf, uint64_t disk)
{
	struct call c;
	struct disk_use u;
	struct node_put p = {0};
	size_t n = 0;
	use_begin(jf, disk, &c, &u);
	/* Ever smaller chunks, until less than a page is free. */
	for (uint64_t len = MIB; len > 0; len /= 4) {
		int rc = rt_pool_get(&jf->pool, len, &p.data.buf);
		CHECK_EQ(rc, 0);
		memset(p.data.buf->data, 'j', len);
		p.data.len = len;
		p.data.crc = crc32c(0, p.data.buf->data, len);
		while ((rc = node_put(&u.node, disk, junk_id(n), &p)) == 0)
			n++;
		CHECK_EQ(rc, -ENOSPC);
		buf_unref(p.data.buf);
	}
	disk_end(&c, &u, 0, 0);
	return n;
}

void empty_disk(struct janitor_fixture *jf, uint64_t disk, size_t n)
{
	for (size_t i = 0; i < n; i++)
		chunk_drop(jf, disk, junk_id(i));
}

/* Returns the bytes of a chunk; the reference is the caller's. */
static struct slice chunk_get(struct janitor_fixture *jf, uint64_t disk, struct chunk_id id,
			      struct chunk_stat *st)
{
	struct call c;
	struct disk_use u;
	struct slice data = {0};
	use_begin(jf, disk, &c, &u);
	CHECK_EQ(node_stat_one(&u.node, disk, id, st), 0);
	if (st->len > 0)
		CHECK_EQ(node_get_one(&u.node, disk, id, 0, st->len, NULL, &data), 0);
	CHECK_EQ(data.len, st->len);
	disk_end(&c, &u, 0, 0);
	return data;
}

void chunk_copy(struct janitor_fixture *jf, uint64_t from, uint64_t to, struct chunk_id id,
		uint64_t spoiler)
{
	struct chunk_stat st;
	struct slice data = chunk_get(jf, from, id, &st);
	CHECK(data.len > 0);
	struct node_put p = {.data = data, .epoch = st.epoch};
	memcpy(p.label, st.label, sizeof(p.label));
	if (spoiler != 0 && spoiler % 4 == 0) {
		data.buf->data[data.offset + spoiler]++;
		p.data.crc = crc32c(0, data.buf->data + data.offset, data.len);
	} else if (spoiler % 4 == 1) {
		p.data.len -= spoiler;
		p.data.crc = crc32c(0, data.buf->data + data.offset, p.data.len);
	} else if (spoiler % 4 == 2) {
		p.open = true;
		p.capacity = data.len + spoiler;
	} else if (spoiler % 4 == 3) {
		label_make(p.label, 1, spoiler, 1);
	}
	if (from == to)
		chunk_drop(jf, to, id);
	struct call c;
	struct disk_use u;
	use_begin(jf, to, &c, &u);
	CHECK_EQ(node_put(&u.node, to, id, &p), 0);
	disk_end(&c, &u, 0, 0);
	buf_unref(data.buf);
}

uint64_t used_bytes(struct janitor_fixture *jf)
{
	struct meta_tenant t;
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(NULL);
	CHECK_EQ(meta_client_tenant_get(&jf->root, 1, NULL, &t), 0);
	return t.used_bytes;
}

uint64_t waiting_bytes(struct janitor_fixture *jf)
{
	struct meta_tenant t;
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(NULL);
	CHECK_EQ(meta_client_tenant_get(&jf->root, 1, NULL, &t), 0);
	return t.waiting_bytes;
}

size_t blocks_on(struct janitor_fixture *jf, uint64_t disk, struct meta_on_disk *first)
{
	size_t n = 0;
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(NULL);
	for (struct meta_walk w = {.end = 1 << META_PARTITION_BITS}; w.index < w.end;) {
		struct meta_on_disk on[32];
		int64_t got = meta_client_disk_blocks(&jf->root, disk, &w, on, ARRAY_LEN(on));
		CHECK(got >= 0);
		if (n == 0 && got > 0 && first != NULL)
			*first = on[0];
		n += (size_t)got;
	}
	return n;
}

/* --- whether blocks are whole ------------------------------------------------------------------ */

/* The chunks of a block, read from their disks. */
struct block_bytes {
	struct shape shape;
	struct slice chunk[FIXTURE_CHUNKS_MAX];
	struct iovec iov[FIXTURE_CHUNKS_MAX];
	struct sg sg[FIXTURE_CHUNKS_MAX];
};

static void check_chunk(struct janitor_fixture *jf, const struct meta_block_at *at, size_t k,
			struct block_bytes *to)
{
	const struct meta_block *b = &at->block;
	struct chunk_id id = {b->chunk_block, (uint32_t)k};
	struct chunk_stat st;
	struct store_range bad[4];
	uint32_t tenant;
	uint64_t block;
	struct call c;
	struct disk_use u;
	CHECK(b->chunks[k].disk != 0 && !b->chunks[k].damaged);
	to->chunk[k] = chunk_get(jf, b->chunks[k].disk, id, &st);
	use_begin(jf, b->chunks[k].disk, &c, &u);
	CHECK_EQ(node_scan(&u.node, u.disk, id, bad, 4), 0);
	disk_end(&c, &u, 0, 0);
	CHECK(b->state != META_BLOCK_SEALED || st.sealed);
	CHECK_EQ(label_read(st.label, &tenant, &block), 0);
	CHECK(tenant == at->tenant && block == b->id);
}

/* Checks the data against the record, and the parities against those that the plain kernels
 * compute. */
static void check_code(const struct meta_block *b, struct block_bytes *w)
{
	struct codec *codec;
	size_t len = shape_chunk_len(&w->shape, b->length);
	uint32_t crc = 0;
	CHECK_EQ(codec_open_with(&w->shape.net, &kernel_plain, &codec), 0);
	for (int i = 0; i < w->shape.n; i++) {
		struct slice *s = &w->chunk[i];
		CHECK_EQ(s->len, shape_stored_len(&w->shape, i, b->length));
		CHECK(b->chunks[i].crc == 0 || s->len == 0 || b->chunks[i].crc == s->crc);
		if (i < w->shape.k)
			crc = crc32c_combine(crc, s->crc, s->len);
		uint8_t *at = s->len == 0 ? NULL : s->buf->data + s->offset;
		if (i >= w->shape.k)
			at = malloc(len);
		CHECK(at != NULL || s->len == 0);
		w->iov[i] = (struct iovec){at, s->len};
		w->sg[i] = (struct sg){&w->iov[i], s->len == 0 ? 0 : 1};
	}
	CHECK_EQ(crc, b->crc);
	CHECK_EQ(codec_encode(codec, len, w->sg), 0);
	for (int i = w->shape.k; i < w->shape.n; i++) {
		struct slice *s = &w->chunk[i];
		CHECK(memcmp(s->buf->data + s->offset, w->iov[i].iov_base, len) == 0);
		free(w->iov[i].iov_base);
	}
	codec_close(codec);
}

/* Checks that the block is in as many racks as it has chunks, or as take chunks. */
static void check_apart(const struct cluster *map, const struct meta_block *b,
			const struct shape *shape)
{
	bool mlec = shape->encoding.kind == ENCODING_MLEC;
	size_t used = 0, all = 0;
	map_for_each(&map->racks, it) {
		bool has = false, could = false;
		map_for_each(&map->disks, d) {
			const struct cluster_disk *disk = d.value;
			if (cluster_node_of(map, disk->id)->rack != it.key)
				continue;
			could = could || (cluster_disk_state(map, disk) == CLUSTER_ONLINE &&
					  (disk->pool || !mlec));
			for (size_t i = 0; i < b->chunk_count; i++)
				has = has || b->chunks[i].disk == disk->id;
		}
		used += has;
		all += could || has;
	}
	CHECK_EQ(used, min_u64(b->chunk_count, all));
}

static void check_block(struct janitor_fixture *jf, const struct cluster *map,
			const struct meta_block_at *at)
{
	const struct meta_block *b = &at->block;
	struct encoding enc;
	struct block_bytes *w = calloc(1, sizeof(*w));
	CHECK(w != NULL && b->chunk_count <= FIXTURE_CHUNKS_MAX);
	CHECK_EQ(encoding_parse(b->encoding, &enc, NULL, 0), 0);
	CHECK_EQ(shape_init(&w->shape, &enc), 0);
	CHECK_EQ(b->chunk_count, w->shape.n);
	for (size_t k = 0; k < b->chunk_count; k++)
		check_chunk(jf, at, k, w);
	for (size_t k = 0; w->shape.copies && k < b->chunk_count; k++)
		CHECK(w->chunk[k].len == b->length && w->chunk[k].crc == b->crc);
	if (!w->shape.copies)
		check_code(b, w);
	check_apart(map, b, &w->shape);
	for (size_t k = 0; k < b->chunk_count; k++)
		buf_unref(w->chunk[k].buf);
	free(w);
}

size_t check_whole(struct janitor_fixture *jf)
{
	struct arena a;
	arena_init(&a, 64 * MIB);
	size_t blocks = 0;
	struct cluster *map;
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(NULL);
	for (struct meta_walk w = {.end = 1 << META_PARTITION_BITS}; w.index < w.end;) {
		struct meta_block_at at[32];
		int64_t n = meta_client_blocks(&jf->root, &w, &a, at, ARRAY_LEN(at));
		CHECK(n >= 0);
		CHECK_EQ(meta_client_map(&jf->root, NS_PER_S, &map), 0);
		for (int64_t i = 0; i < n; i++, blocks++)
			check_block(jf, map, &at[i]);
	}
	arena_fini(&a);
	return blocks;
}

struct media_count count_media(struct janitor_fixture *jf)
{
	struct media_count n = {0};
	struct arena a;
	struct cluster *map;
	arena_init(&a, 64 * MIB);
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(NULL);
	for (struct meta_walk w = {.end = 1 << META_PARTITION_BITS}; w.index < w.end;) {
		struct meta_block_at at[32];
		int64_t got = meta_client_blocks(&jf->root, &w, &a, at, ARRAY_LEN(at));
		CHECK(got >= 0);
		CHECK_EQ(meta_client_map(&jf->root, 0, &map), 0);
		for (int64_t i = 0; i < got; i++) {
			const struct meta_block *b = &at[i].block;
			if (b->state == META_BLOCK_PENDING)
				continue;
			n.chunks[b->media] += b->chunk_count;
			for (size_t k = 0; k < b->chunk_count; k++)
				n.misplaced +=
					b->chunks[k].disk != 0 &&
					cluster_disk_media(map, b->chunks[k].disk) != b->media;
		}
	}
	arena_fini(&a);
	return n;
}

void record_spoil(struct janitor_fixture *jf, uint64_t partition, struct schema_key key)
{
	struct kv *kv;
	struct kv_write spoil = {.kind = KV_PUT, .key = key_bytes(&key), .value = kv_bytes("?", 1)};
	CHECK_EQ(kv_mem_open(&kv, jf->cluster->kv), 0);
	CHECK_EQ(kv_txn(kv, partition, &(struct kv_txn){.writes = &spoil, .write_count = 1}, NULL),
		 0);
	kv_close(kv);
}

void block_spoil(struct janitor_fixture *jf, const struct meta_on_disk *on)
{
	record_spoil(
		jf,
		schema_partition(META_PARTITION_BITS, META_LAYER_BLOCK, on->tenant, on->block, 0),
		key_id('b', on->tenant, on->block));
}

void collect_for(struct janitor *j, uint64_t time_ns)
{
	uint64_t end_ns = rt_now_ns() + time_ns;
	while (rt_now_ns() < end_ns) {
		CHECK_EQ(janitor_collect(j), 0);
		CHECK_EQ(rt_sleep_ns(20 * NS_PER_S), 0);
	}
}

void epochs_pass(struct janitor_fixture *jf, int n)
{
	uint64_t epoch, partitions;
	for (int i = 0; i < n; i++) {
		CHECK_EQ(meta_client_gc_epoch(&jf->root, &epoch, &partitions), 0);
		CHECK_EQ(meta_client_gc_advance(&jf->root, epoch), 0);
	}
}

void fresh_map(struct janitor_fixture *jf)
{
	struct cluster *map;
	rt_context_set(NULL);
	CHECK_EQ(meta_client_map(&jf->root, 0, &map), 0);
	CHECK_EQ(rt_sleep_ns(3 * NS_PER_S), 0);
	/* The engine refreshes its map with a request. */
	struct call c;
	engine_call(jf->engine, &c, NULL);
	struct terrane_stat st;
	(void)engine_stat(&c, "/", &st);
	rt_background();
}

const struct context *act_for_tenant(void)
{
	AUTO_CONTEXT const struct context *system = NULL;
	CHECK_EQ(context_new(&system, &(struct context){.tenant = META_SYSTEM ":1"}), 0);
	return rt_context_enter(system);
}

struct meta_block block_get(struct janitor_fixture *jf, uint64_t block, struct arena *a)
{
	struct meta_block b;
	struct meta_call c = {.client = jf->client};
	AUTO_RT_CONTEXT const struct context *before = act_for_tenant();
	CHECK_EQ(meta_client_block_get(&c, &block, 1, a, &b), 0);
	return b;
}

const char *const FIXTURE_ENCODINGS[FIXTURE_FILES] = {"r3", "rs:3+2", "lrc:2+2+1"};

void write_all(struct janitor_fixture *jf)
{
	for (size_t i = 0; i < FIXTURE_FILES; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%zu", i);
		CHECK_EQ(write_text(jf, path, i, TEXT_BYTES, FIXTURE_ENCODINGS[i]), 0);
	}
	/* Wait until the records name late chunks. */
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
}

void read_all(struct janitor_fixture *jf)
{
	for (size_t i = 0; i < FIXTURE_FILES; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%zu", i);
		CHECK_EQ(read_text(jf, path, i, TEXT_BYTES), 0);
	}
}

void lose_disk(struct janitor_fixture *jf, uint64_t disk)
{
	rt_context_set(NULL);
	CHECK_EQ(meta_client_want_disk(&jf->root, disk, CLUSTER_GONE), 0);
	fresh_map(jf);
}

void repair_fiber(void *arg)
{
	struct round *r = arg;
	rt_background();
	r->rc = janitor_repair(r->j, true);
	r->done = true;
}

void run_janitor(void *arg)
{
	struct round *r = arg;
	r->rc = janitor_run(r->j);
}
