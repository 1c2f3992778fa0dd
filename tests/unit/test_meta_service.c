// SPDX-License-Identifier: Apache-2.0
/* The metadata service and its client: names, files, blocks and tenants. */
#include "meta/gc.h"
#include "meta_api/id.h"
#include "meta_service_fixture.h"

#include "base/err.h"
#include "meta/schema.h"
#include "meta_api/wire.h"
#include "rpc/client.h"
#include "rpc/context.h"

/* --- names -------------------------------------------------------------------------------------- */

static void names_are_created_found_listed_moved_and_removed(struct fixture *fixture)
{
	struct meta_call *c = &fixture->call;
	struct meta_entry e;
	struct meta_dir d;
	uint64_t a = make_dir(c, META_ROOT, "a"), b = make_dir(c, a, "b");
	uint64_t f = make_file(c, b, "f");
	CHECK_EQ(meta_client_lookup(c, b, meta_name("f"), &e), 0);
	CHECK(e.id == f && e.kind == META_FILE && e.mtime_ns == 5 && e.sealed);
	CHECK(e.name.len == 1 && e.name.text[0] == 'f');
	CHECK_EQ(meta_client_resolve(c, META_ROOT, meta_name("/a//b/f/"), &e), 0);
	CHECK(e.id == f && e.name.len == 1 && e.name.text[0] == 'f');
	CHECK_EQ(meta_client_resolve(c, META_ROOT, meta_name("/a/x/f"), &e), -ENOENT);
	CHECK(c->error[0] != 0 && !c->in_doubt);
	uint64_t in = 0;
	CHECK_EQ(meta_client_find(c, META_ROOT, meta_name("/a/b/"), meta_name("f"), &in, &e), 0);
	CHECK(in == b && e.id == f);
	CHECK_EQ(meta_client_find(c, META_ROOT, meta_name("a/b"), meta_name("x"), &in, &e), 0);
	CHECK(in == b && e.id == 0);
	CHECK_EQ(meta_client_find(c, META_ROOT, meta_name(""), meta_name("a"), &in, &e), 0);
	CHECK(in == META_ROOT && e.id == a && e.kind == META_DIR);
	CHECK_EQ(meta_client_find(c, META_ROOT, meta_name("a/b/f"), meta_name("x"), &in, &e),
		 -ENOTDIR);
	CHECK_EQ(meta_client_find(c, META_ROOT, meta_name("a/y"), meta_name("x"), &in, &e),
		 -ENOENT);
	CHECK_EQ(meta_client_dir_get(c, b, &d), 0);
	CHECK(d.parent == a && !d.sealed);
	CHECK_EQ(c->error[0], 0);
	/* A copy of a request returns the same result. */
	CHECK_EQ(meta_client_mkdir(c, a, meta_name("b"), b, NULL), 0);
	CHECK_EQ(meta_client_mkdir(c, a, meta_name("b"), meta_id(), NULL), -EEXIST);
	CHECK_EQ(meta_client_rename(c, b, meta_name("f"), meta_name("g"), meta_id(), 0), 0);
	CHECK_EQ(meta_client_lookup(c, b, meta_name("f"), &e), -ENOENT);
	/* A copy of an executed request succeeds without effect; a late copy changes no other object. */
	uint64_t request = meta_id(), late = make_file(c, b, "late");
	CHECK_EQ(meta_client_rename(c, b, meta_name("late"), meta_name("kept"), request, 0), 0);
	CHECK_EQ(meta_client_rename(c, b, meta_name("late"), meta_name("kept"), request, 0), 0);
	CHECK_EQ(meta_client_remove(c, b, meta_name("kept"), late, 0), 0);
	uint64_t other = make_file(c, b, "late");
	struct meta_ctx ctx = {.tenant = 1};
	struct meta *m = NULL;
	struct meta_options o;
	meta_options_init(&o);
	CHECK_EQ(meta_open(&m, fixture->servers[0].kv, &o), 0);
	CHECK_EQ(meta_rename_id(m, &ctx,
				&(struct meta_move){.from_dir = b,
						    .from = meta_name("late"),
						    .id = late,
						    .to_dir = b,
						    .to = meta_name("kept"),
						    .request = request}),
		 0);
	CHECK_EQ(meta_rename_id(m, &ctx,
				&(struct meta_move){.from_dir = b,
						    .from = meta_name("late"),
						    .id = late,
						    .to_dir = b,
						    .to = meta_name("kept"),
						    .request = meta_id()}),
		 -ESTALE);
	CHECK_EQ(meta_move(m, &ctx,
			   &(struct meta_move){.from_dir = b,
					       .from = meta_name("late"),
					       .id = late,
					       .to_dir = a,
					       .to = meta_name("kept"),
					       .new_id = meta_id(),
					       .request = meta_id()}),
		 -ESTALE);
	CHECK_EQ(meta_client_lookup(c, b, meta_name("late"), &e), 0);
	CHECK(e.id == other);
	meta_close(m);
	CHECK_EQ(meta_client_remove(c, b, meta_name("late"), other, 0), 0);
	uint64_t moved = meta_id();
	CHECK_EQ(meta_client_move(c, &(struct meta_move){.from_dir = b,
							 .from = meta_name("g"),
							 .to_dir = a,
							 .to = meta_name("h"),
							 .new_id = moved,
							 .request = meta_id()}),
		 0);
	CHECK_EQ(meta_client_lookup(c, a, meta_name("h"), &e), 0);
	CHECK(e.id == moved);
	CHECK_EQ(meta_client_rmdir(c, META_ROOT, meta_name("a"), 0), -ENOTEMPTY);
	CHECK_EQ(meta_client_rmdir(c, a, meta_name("b"), b), 0);
	CHECK_EQ(meta_client_remove(c, a, meta_name("h"), 0, 0), 0);
	CHECK_EQ(meta_client_remove(c, a, meta_name("h"), 0, 0), -ENOENT);
	CHECK_EQ(meta_client_dir_seal(c, a), 0);
	CHECK_EQ(meta_client_mkdir(c, a, meta_name("z"), meta_id(), NULL), -EROFS);
	CHECK_EQ(meta_client_dir_unseal(c, a), 0);
	CHECK_EQ(meta_client_mkdir(c, a, meta_name("z"), meta_id(), NULL), 0);
}

static void many_files_are_created_in_one_request_and_listed_in_pages(struct fixture *fixture)
{
	enum { FILES = 600 };
	struct meta_call *c = &fixture->call;
	static struct meta_create files[FILES];
	static char names[FILES][16];
	static int results[FILES];
	uint64_t dir = make_dir(c, META_ROOT, "many"), first = meta_id_run(FILES);
	for (size_t i = 0; i < FILES; i++) {
		snprintf(names[i], sizeof(names[i]), "f%05zu", i);
		files[i] = (struct meta_create){.name = meta_name(names[i]), .id = first + i};
	}
	files[17].name = (struct meta_name){.text = "\xff\xfe", .len = 2};
	files[18].name = meta_name("a/b");
	CHECK_EQ(meta_client_create(c, dir, files, FILES, 0, results), 0);
	for (size_t i = 0; i < FILES; i++)
		CHECK_EQ(results[i], i == 17 ? -EILSEQ : i == 18 ? -EINVAL : 0);
	size_t seen = 0;
	struct meta_page page;
	struct meta_cursor at = {0};
	do {
		CHECK_EQ(meta_client_list(c, dir, &at, 100, &fixture->arena, &page), 0);
		for (size_t i = 0; i < page.count; i++) {
			size_t want = seen + i < 17 ? seen + i : seen + i + 2;
			CHECK(page.entries[i].name.len == 6 &&
			      memcmp(page.entries[i].name.text, names[want], 6) == 0);
			CHECK(page.entries[i].id == first + want);
		}
		seen += page.count;
		at = page.next;
	} while (!at.end);
	CHECK_EQ(seen, FILES - 2);
}

/* Sends requests that meta_client refuses to send. */
static void a_request_for_no_block_or_for_too_many_is_refused(struct fixture *fixture)
{
	static uint64_t ids[META_BATCH_MAX + 1];
	static const struct {
		size_t n;
		int want;
	} cases[] = {{0, -EINVAL}, {1, 0}, {META_BATCH_MAX, 0}, {META_BATCH_MAX + 1, -EINVAL}};
	struct rpc_channel *ch = NULL;
	for (size_t i = 0; i < ARRAY_LEN(ids); i++)
		ids[i] = meta_id();
	CHECK_RC(rpc_channel_open(&ch, fixture->servers[0].addr,
				  &(struct rpc_channel_options){.pool = &fixture->pool}),
		 0);
	AUTO_CONTEXT const struct context *tenant = NULL;
	CHECK_RC(context_new(&tenant, &(struct context){.tenant = "default"}), 0);
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(tenant);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		Terrane__Meta__BlockGetRequest q = TERRANE__META__BLOCK_GET_REQUEST__INIT;
		q.blocks = ids;
		q.n_blocks = cases[i].n;
		struct rpc_call call = {.type = &meta_type_block_get, .request = &q.base};
		AUTO_REPLY struct rpc_reply reply;
		CHECK_RC(rpc_call(ch, &call, &reply), cases[i].want);
	}
	rpc_channel_close(ch);
}

static void invalid_names_are_refused_with_a_text_and_change_nothing(struct fixture *fixture)
{
	struct meta_call *c = &fixture->call;
	struct meta_page page;
	static char long_name[5000];
	memset(long_name, 'x', sizeof(long_name));
	const struct {
		struct meta_name name;
		int want;
	} bad[] = {
		{{"", 0}, -EINVAL},
		{{".", 1}, -EINVAL},
		{{"..", 2}, -EINVAL},
		{{"a/b", 3}, -EINVAL},
		{{"a\0b", 3}, -EINVAL},
		{{"\xc3\x28", 2}, -EILSEQ},
		{{long_name, 256}, -ENAMETOOLONG},
		{{long_name, 5000}, -ENAMETOOLONG},
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		CHECK_EQ(meta_client_mkdir(c, META_ROOT, bad[i].name, meta_id(), NULL),
			 bad[i].want);
		CHECK(c->error[0] != 0);
	}
	struct meta_entry e;
	struct meta_name path = {.text = long_name, .len = 5000};
	CHECK_EQ(meta_client_resolve(c, META_ROOT, path, &e), -ENAMETOOLONG);
	CHECK_EQ(
		meta_client_list(c, META_ROOT, &(struct meta_cursor){0}, 0, &fixture->arena, &page),
		0);
	CHECK_EQ(page.count, 0);
	CHECK_EQ(meta_client_list(c, 12345, &(struct meta_cursor){0}, 0, &fixture->arena, &page),
		 -ENOENT);
}

/* --- files and blocks --------------------------------------------------------------------------- */

static struct meta_block a_block(struct meta_chunk *chunks, size_t n)
{
	uint64_t id = meta_id();
	struct meta_block b = {.id = id,
			       .epoch = 3,
			       .chunk_block = id,
			       .capacity = 1 << 20,
			       .chunk_count = n,
			       .chunks = chunks};
	snprintf(b.encoding, sizeof(b.encoding), "r%zu", n);
	for (size_t i = 0; i < n; i++)
		chunks[i] = (struct meta_chunk){.disk = 100 + i, .crc = (uint32_t)i};
	return b;
}

/* Creates a file of one sealed block by the calls of a writer. */
static uint64_t write_file(struct meta_call *c, uint64_t dir, const char *name, uint64_t *block)
{
	struct meta_chunk chunks[3];
	struct meta_block b = a_block(chunks, 3);
	uint64_t file = meta_id(), token = meta_id();
	b.media = CLUSTER_MEDIA_FLASH;
	CHECK_EQ(meta_client_file_new(c, dir, file, token), 0);
	CHECK_EQ(meta_client_block_allocate(c, &b, &(uint64_t){0}), 0);
	b.state = META_BLOCK_SEALED;
	b.length = 1000;
	b.chunk_length = 1000;
	struct meta_owner owner = {.file = file, .bytes = 1000};
	CHECK_EQ(meta_client_block_commit(c, &b, &owner, 1), 0);
	struct meta_extent extent = {.block = b.id, .length = 1000};
	CHECK_EQ(meta_client_file_add(c, file, token, 0, &extent, 1), 0);
	CHECK_EQ(meta_client_link(
			 c, dir, meta_name(name),
			 &(struct meta_naming){
				 .file = file, .token = token, .seal = true, .mtime_ns = 9}),
		 0);
	*block = b.id;
	return file;
}

static void a_file_is_written_opened_and_read_from_the_cache(struct fixture *fixture)
{
	struct meta_call *c = &fixture->call;
	struct meta_opened o;
	struct meta_file f;
	struct meta_block b;
	struct meta_client_stats before, after;
	uint64_t block, dir = make_dir(c, META_ROOT, "data");
	uint64_t file = write_file(c, dir, "one", &block);
	CHECK_EQ(
		meta_client_open_path(c, META_ROOT, meta_name("/data/one"), 0, &fixture->arena, &o),
		0);
	CHECK(o.entry.id == file && o.entry.name.len == 3 && o.file.sealed && o.file.size == 1000);
	CHECK(o.extent_count == 1 && o.extents[0].block == block && o.block_count == 1);
	CHECK(o.blocks[0].id == block && o.blocks[0].chunk_count == 3);
	CHECK(o.blocks[0].chunks[2].disk == 102 && o.blocks[0].chunks[2].crc == 2);
	CHECK(strcmp(o.blocks[0].encoding, "r3") == 0);
	CHECK_EQ(o.blocks[0].media, CLUSTER_MEDIA_FLASH);
	meta_client_stats(fixture->client, &before);
	struct meta_part part = {.offset = 500};
	CHECK_EQ(meta_client_file_get(c, file, &part, &fixture->arena, &f), 0);
	CHECK(part.count == 1 && part.first_offset == 0 && f.size == 1000 &&
	      part.extents[0].block == block);
	part = (struct meta_part){.offset = 1000};
	CHECK_EQ(meta_client_file_get(c, file, &part, &fixture->arena, &f), 0);
	CHECK(part.count == 0 && part.first_offset == 1000);
	CHECK_EQ(meta_client_block_get(c, &block, 1, &fixture->arena, &b), 0);
	CHECK(b.chunk_count == 3 && b.chunks[1].disk == 101);
	meta_client_stats(fixture->client, &after);
	CHECK_EQ(after.calls, before.calls);
	CHECK_EQ(after.cache_hits, before.cache_hits + 3);
	/* Opening a directory returns the entry of the directory only. */
	CHECK_EQ(meta_client_open_path(c, META_ROOT, meta_name("data"), 0, &fixture->arena, &o), 0);
	CHECK(o.entry.kind == META_DIR && o.entry.id == dir && o.extent_count == 0);
	CHECK_EQ(meta_client_open_path(c, META_ROOT, meta_name("/data/no"), 0, &fixture->arena, &o),
		 -ENOENT);
	part = (struct meta_part){0};
	CHECK_EQ(meta_client_file_open(c, dir, meta_name("one"), &part, &fixture->arena, &f), 0);
	CHECK(f.id == file && part.count == 1);
}

static void a_refresh_finds_chunks_that_moved(struct fixture *fixture)
{
	struct meta_call *c = &fixture->call;
	struct meta_block b;
	uint64_t block;
	(void)write_file(c, META_ROOT, "one", &block);
	CHECK_EQ(meta_client_block_get(c, &block, 1, &fixture->arena, &b), 0);
	uint64_t layout = b.layout;
	CHECK_EQ(meta_client_block_refresh(c, block, layout, &fixture->arena, &b), -ESTALE);
	/* A service that acts for this tenant repairs the block. */
	struct meta_call repair = {.client = fixture->system};
	struct meta_place place = {
		.chunk_block = b.chunk_block, .index = 1, .crc = 55, .from = 101, .to = 777};
	AUTO_CONTEXT const struct context *system = NULL;
	CHECK_EQ(context_new(&system, &(struct context){.tenant = META_SYSTEM ":1"}), 0);
	const struct context *before = rt_context_enter(system);
	CHECK_EQ(meta_client_block_replace(&repair, block, &place), 0);
	rt_context_leave(before);
	CHECK_EQ(meta_client_block_get(c, &block, 1, &fixture->arena, &b), 0);
	CHECK_EQ(b.chunks[1].disk, 101); /* the value in this client's cache, which is older */
	CHECK_EQ(meta_client_block_refresh(c, block, layout, &fixture->arena, &b), 0);
	CHECK_EQ(b.chunks[1].disk, 777);
	CHECK_EQ(meta_client_block_get(c, &block, 1, &fixture->arena, &b), 0);
	CHECK_EQ(b.chunks[1].disk, 777);
	CHECK_EQ(meta_client_block_refresh(c, meta_id(), 1, &fixture->arena, &b), -ENOENT);
	struct meta_owner owners[4];
	CHECK_EQ(meta_client_block_owners(c, block, 0, owners, 4), 1);
	CHECK_EQ(owners[0].bytes, 1000);
}

/* The client limits the memory of a response by its length: a missing block must not take more than it adds to that. */
static void many_blocks_that_do_not_exist_are_answered_in_one_request(struct fixture *fixture)
{
	static uint64_t ids[META_BATCH_MAX];
	static struct meta_block blocks[META_BATCH_MAX];
	uint64_t block;
	(void)write_file(&fixture->call, META_ROOT, "one", &block);
	for (size_t i = 0; i < ARRAY_LEN(ids); i++)
		ids[i] = i % 333 == 0 ? block : meta_id();
	CHECK_RC(
		meta_client_block_get(&fixture->call, ids, ARRAY_LEN(ids), &fixture->arena, blocks),
		0);
	for (size_t i = 0; i < ARRAY_LEN(ids); i++)
		if (ids[i] == block)
			CHECK(blocks[i].id == block && blocks[i].state == META_BLOCK_SEALED &&
			      blocks[i].chunk_count > 0);
		else
			CHECK_EQ(blocks[i].state, 0);
}

/* Runs one round of all kinds over all partitions, and deletes dead chunks; returns the number of their sets. */
static size_t collect(struct meta_call *root, struct arena *arena)
{
	uint64_t epoch, partitions;
	size_t found = 0;
	CHECK_EQ(meta_client_gc_epoch(root, &epoch, &partitions), 0);
	CHECK_EQ(partitions, 64);
	for (unsigned kind = 0; kind < META_GC_KINDS; kind++) {
		struct meta_gc_counts n = {0};
		for (struct meta_walk w = {.end = partitions}; w.index < w.end;)
			CHECK_EQ(meta_client_gc_step(root, (enum meta_gc_kind)kind, epoch, &w, &n),
				 0);
	}
	for (struct meta_walk w = {.end = partitions}; w.index < w.end;) {
		struct meta_dead_chunks dead[2];
		int64_t n = meta_client_gc_chunks(root, epoch, &w, arena, dead, ARRAY_LEN(dead));
		CHECK(n >= 0);
		for (int64_t i = 0; i < n; i++, found++) {
			CHECK_EQ(dead[i].chunk_count, 3);
			CHECK_EQ(dead[i].chunks[1].disk, 101);
			for (int again = 0; again < 2; again++)
				CHECK_EQ(meta_client_gc_chunks_done(root, dead[i].tenant,
								    dead[i].block,
								    dead[i].chunk_block),
					 0);
		}
	}
	CHECK_EQ(meta_client_gc_advance(root, epoch), 0);
	CHECK_EQ(meta_client_gc_advance(root, epoch), 0);
	return found;
}

/* A store whose File layer is slow to scan. */
struct slow {
	struct kv base;
	struct kv *below;
};

static struct slow *slow_of(struct kv *kv)
{
	return container_of(kv, struct slow, base);
}

static int slow_get(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
		    struct kv_rows *rows)
{
	return kv_get(slow_of(kv)->below, partition, keys, n, rows);
}

static int slow_scan(struct kv *kv, uint64_t partition, const struct kv_range *range,
		     struct kv_rows *rows)
{
	int rc = partition >> 56 == META_LAYER_FILE ? rt_sleep_ns(50 * NS_PER_MS) : 0;
	return rc < 0 ? rc : kv_scan(slow_of(kv)->below, partition, range, rows);
}

static int slow_txn(struct kv *kv, uint64_t partition, const struct kv_txn *txn, size_t *failed)
{
	return kv_txn(slow_of(kv)->below, partition, txn, failed);
}

static const struct kv_ops slow_ops = {
	.name = "slow", .get = slow_get, .scan = slow_scan, .txn = slow_txn};

/* One request over all partitions would take three times as long as the client waits. */
static void a_slow_walk_is_answered_in_parts(struct fixture *fixture)
{
	struct slow slow[SERVERS];
	uint64_t epoch, partitions;
	for (unsigned i = 0; i < SERVERS; i++) {
		struct server *s = &fixture->servers[i];
		slow[i] = (struct slow){.base.ops = &slow_ops, .below = s->kv};
		server_stop(s);
		s->kv = &slow[i].base;
		server_start(s);
	}
	CHECK_EQ(meta_client_gc_epoch(&fixture->root, &epoch, &partitions), 0);
	unsigned requests = 0;
	struct meta_gc_counts n = {0};
	for (struct meta_walk w = {.end = partitions}; w.index < w.end; requests++)
		CHECK_EQ(meta_client_gc_step(&fixture->root, META_GC_FILES, epoch, &w, &n), 0);
	CHECK(requests > 1);
	for (unsigned i = 0; i < SERVERS; i++) {
		server_stop(&fixture->servers[i]);
		fixture->servers[i].kv = slow[i].below;
	}
}

static void removed_files_are_collected_through_the_service(struct fixture *fixture)
{
	struct meta_call *c = &fixture->call, *root = &fixture->root;
	struct meta_tenant t;
	struct meta_on_disk on[8];
	uint64_t block, epoch, partitions;
	for (int i = 0; i < 5; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%d", i);
		(void)write_file(c, META_ROOT, name, &block);
	}
	struct meta_found_chunk f[] = {{1, 1, block, block}, {1, 2, block, block}};
	bool wanted[2];
	CHECK_EQ(meta_client_chunks_wanted(root, 101, f, 2, wanted), 0);
	CHECK(wanted[0] && !wanted[1]);
	CHECK_EQ(meta_client_chunk_give_up(root, 101, &f[0], wanted), 0);
	CHECK_EQ(meta_client_chunk_give_up(root, 101, &f[1], wanted + 1), 0);
	CHECK(wanted[0] && !wanted[1]);
	size_t blocks = 0, pages = 0;
	for (struct meta_walk w = {.end = 64}; w.index < w.end; pages++) {
		int64_t n = meta_client_disk_blocks(root, 101, &w, on, 2);
		CHECK(n >= 0);
		blocks += (size_t)n;
		for (int64_t i = 0; i < n; i++)
			CHECK(on[i].tenant == 1 && on[i].index == 1);
	}
	CHECK_EQ(blocks, 5);
	CHECK(pages <= 4);
	for (struct meta_walk w = {.end = 64}; w.index < w.end;) {
		struct meta_block_at at[2];
		int64_t n = meta_client_blocks(root, &w, &fixture->arena, at, 2);
		CHECK(n >= 0);
		blocks -= (size_t)n;
		for (int64_t i = 0; i < n; i++)
			CHECK(at[i].owned_bytes == 1000 && at[i].block.chunk_count == 3);
	}
	CHECK_EQ(blocks, 0);
	for (int i = 1; i < 5; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%d", i);
		CHECK_EQ(meta_client_remove(c, META_ROOT, meta_name(name), 0, 0), 0);
	}
	size_t dead = 0;
	for (int round = 0; round < 12; round++)
		dead += collect(root, &fixture->arena);
	CHECK_EQ(dead, 4);
	CHECK_EQ(meta_client_chunks_wanted(root, 101, f, 2, wanted), 0);
	CHECK(!wanted[0] && !wanted[1]);
	CHECK_EQ(meta_client_tenant_get(root, 1, NULL, &t), 0);
	CHECK_EQ(t.used_bytes, 1000);
	/* A client of a tenant may do none of the following. */
	CHECK_EQ(meta_client_gc_epoch(c, &epoch, &partitions), -EPERM);
	struct meta_walk w = {.end = 64};
	CHECK_EQ(meta_client_disk_blocks(c, 101, &w, on, 2), -EPERM);
	w.end = 65;
	CHECK_EQ(meta_client_disk_blocks(root, 101, &w, on, 2), -EINVAL);
}

static void a_lease_that_is_not_renewed_is_taken_over(struct fixture *fixture)
{
	struct meta_call *root = &fixture->root;
	struct meta_lease a = {.name = "work/1", .holder = 1, .duration_ns = 200 * NS_PER_MS};
	struct meta_lease b = {.name = "work/1", .holder = 2, .duration_ns = 200 * NS_PER_MS};
	CHECK_EQ(meta_client_lease_take(root, &a), 0);
	CHECK_EQ(meta_client_lease_take(root, &b), -EBUSY);
	for (int i = 0; i < 6; i++) {
		CHECK_EQ(rt_sleep_ns(60 * NS_PER_MS), 0);
		CHECK_EQ(meta_client_lease_take(root, &a), 0);
		CHECK_EQ(meta_client_lease_take(root, &b), -EBUSY);
	}
	CHECK_EQ(rt_sleep_ns(260 * NS_PER_MS), 0);
	CHECK_EQ(meta_client_lease_take(root, &b), 0);
	CHECK_EQ(meta_client_lease_take(root, &a), -EBUSY);
	CHECK_EQ(meta_client_lease_drop(root, &a), 0); /* another holder's lease stays */
	CHECK_EQ(meta_client_lease_take(root, &a), -EBUSY);
	CHECK_EQ(meta_client_lease_drop(root, &b), 0);
	CHECK_EQ(meta_client_lease_take(root, &a), 0);
	CHECK_EQ(meta_client_lease_take(&fixture->call, &a), -EPERM);
}

static void a_stolen_token_fences_the_old_writer(struct fixture *fixture)
{
	struct meta_call *c = &fixture->call;
	struct meta_chunk chunks[3];
	struct meta_block b = a_block(chunks, 3), seen;
	struct meta_file f;
	struct meta_extent open;
	uint64_t file = meta_id();
	CHECK_EQ(meta_client_file_new(c, META_ROOT, file, 11), 0);
	CHECK_EQ(meta_client_block_allocate(c, &b, &(uint64_t){0}), 0);
	b.state = META_BLOCK_OPEN;
	struct meta_owner owner = {.file = file};
	CHECK_EQ(meta_client_block_commit(c, &b, &owner, 1), 0);
	struct meta_extent extent = {.block = b.id, .open = true};
	CHECK_EQ(meta_client_file_add(c, file, 11, 0, &extent, 1), 0);
	CHECK_EQ(meta_client_block_extend(c, b.id, 3, 0, 100, 7), 0);
	CHECK_EQ(meta_client_file_steal(c, file, 12, &f, &open), 0);
	CHECK(open.open && open.block == b.id);
	CHECK_EQ(meta_client_file_close_extent(c, file, 11, b.id, 100), -ESTALE);
	CHECK_EQ(meta_client_block_fence(c, b.id, 4, &fixture->arena, &seen), 0);
	CHECK(seen.length == 100 && seen.crc == 7 && seen.chunk_count == 3);
	CHECK_EQ(meta_client_block_extend(c, b.id, 3, 100, 200, 8), -ESTALE);
	CHECK_EQ(meta_client_block_seal(c, b.id, 4, 100, 100, 7), 0);
	CHECK_EQ(meta_client_block_fence(c, b.id, 5, &fixture->arena, &seen), -EROFS);
	CHECK_EQ(seen.length, 100);
	CHECK_EQ(meta_client_file_close_extent(c, file, 12, b.id, 100), 0);
	CHECK_EQ(meta_client_link(c, META_ROOT, meta_name("log"),
				  &(struct meta_naming){
					  .file = file, .token = 12, .seal = true, .mtime_ns = 1}),
		 0);
	CHECK_EQ(meta_client_file_steal(c, file, 13, &f, &open), -EROFS);
}

static void usage_is_counted_on_request(struct fixture *fixture)
{
	struct meta_call *c = &fixture->call;
	struct meta_usage u;
	uint64_t block, dir = make_dir(c, META_ROOT, "d");
	(void)write_file(c, dir, "a", &block);
	(void)write_file(c, dir, "b", &block);
	CHECK_EQ(meta_client_du(c, META_ROOT, false, &u), 0);
	CHECK_EQ(u.taken_ns, 0);
	/* A tenant may not start a count. */
	CHECK_EQ(meta_client_du(c, META_ROOT, true, &u), -EPERM);
	struct meta_client *system = open_client(fixture, META_SYSTEM ":1");
	CHECK_EQ(meta_client_du(&(struct meta_call){.client = system}, META_ROOT, true, &u), 0);
	meta_client_close(system);
	CHECK_EQ(meta_client_du(c, META_ROOT, false, &u), 0);
	CHECK(u.files == 2 && u.dirs == 1 && u.bytes == 2000 && u.taken_ns != 0);
	CHECK_EQ(meta_client_du(c, 4711, false, &u), -ENOENT);
}

static void usage_is_counted_periodically_by_one_server(struct fixture *fixture)
{
	struct meta_call *c = &fixture->call;
	struct meta_usage u;
	uint64_t block, dir = make_dir(c, META_ROOT, "d");
	(void)write_file(c, dir, "a", &block);
	do
		CHECK_EQ(meta_client_du(c, META_ROOT, false, &u), 0);
	while (u.files != 1 && rt_sleep_ns(NS_PER_MS) == 0);
	uint64_t taken_ns = u.taken_ns;
	CHECK(taken_ns != 0 && u.bytes == 1000);
	/* The server that counts usage ends: the other server takes over. */
	for (unsigned i = 0; i < SERVERS; i++) {
		server_stop(&fixture->servers[i]);
		do
			CHECK_EQ(meta_client_du(c, META_ROOT, false, &u), 0);
		while (u.taken_ns <= taken_ns && rt_sleep_ns(NS_PER_MS) == 0);
		taken_ns = u.taken_ns;
		server_start(&fixture->servers[i]);
	}
	/* A server that ends gives its lease back, so that no other server has to wait for it. */
	for (unsigned i = 0; i < SERVERS; i++)
		server_stop(&fixture->servers[i]);
	struct meta_options o;
	struct meta *m;
	struct meta_lease lease = {.name = "usage", .holder = 1, .duration_ns = NS_PER_MS};
	meta_options_init(&o);
	CHECK_EQ(meta_open(&m, fixture->servers[0].kv, &o), 0);
	CHECK_EQ(meta_lease_take(m, &lease), 0);
	CHECK_EQ(meta_lease_drop(m, &lease), 0);
	meta_close(m);
	for (unsigned i = 0; i < SERVERS; i++)
		server_start(&fixture->servers[i]);
}

/* --- tenants ------------------------------------------------------------------------------------ */

static void tenants_see_only_their_own_objects(struct fixture *fixture)
{
	struct meta_tenant t = {.id = 9, .name = "physics", .quota_bytes = 500}, got;
	struct meta_call *c = &fixture->call, *root = &fixture->root;
	CHECK_EQ(meta_client_tenant_create(c, &t), -EPERM);
	CHECK_EQ(meta_client_tenant_create(root, &t), 0);
	CHECK_EQ(meta_client_tenant_create(root, &t), 0);
	struct meta_tenant ours = {.id = 10, .name = META_SYSTEM ":1"};
	CHECK_EQ(meta_client_tenant_create(root, &ours), -EINVAL);
	struct meta_client *other = open_client(fixture, "physics");
	struct meta_call p = {.client = other};
	uint64_t dir = make_dir(c, META_ROOT, "mine");
	uint64_t block, file = write_file(c, dir, "f", &block);
	struct meta_entry e;
	struct meta_file f;
	struct meta_block b;
	CHECK_EQ(meta_client_lookup(&p, META_ROOT, meta_name("mine"), &e), -ENOENT);
	CHECK_EQ(meta_client_lookup(&p, dir, meta_name("f"), &e), -ENOENT);
	CHECK_EQ(meta_client_file_get(&p, file, NULL, NULL, &f), -ENOENT);
	CHECK_EQ(meta_client_block_get(&p, &block, 1, &fixture->arena, &b), 0);
	CHECK_EQ(b.state, 0);
	CHECK_EQ(meta_client_tenant_get(&p, 0, NULL, &got), 0);
	CHECK(got.id == 9 && got.quota_bytes == 500 && strcmp(got.name, "physics") == 0);
	CHECK_EQ(meta_client_tenant_get(&p, 1, NULL, &got), -EPERM);
	CHECK_EQ(meta_client_tenant_get(root, 0, "physics", &got), 0);
	CHECK_EQ(got.id, 9);
	/* The error of an exceeded quota has a text. */
	struct meta_chunk chunks[3];
	struct meta_block big = a_block(chunks, 3);
	CHECK_EQ(meta_client_block_allocate(&p, &big, &(uint64_t){0}), 0);
	big.state = META_BLOCK_SEALED;
	big.length = 501;
	big.chunk_length = 501;
	CHECK_EQ(meta_client_block_commit(&p, &big, &(struct meta_owner){.file = 5, .bytes = 501},
					  1),
		 -EDQUOT);
	CHECK(strstr(p.error, "physics") != NULL);
	CHECK_EQ(meta_client_tenant_set_quota(root, 9, 1000), 0);
	CHECK_EQ(meta_client_block_commit(&p, &big, &(struct meta_owner){.file = 5, .bytes = 501},
					  1),
		 0);
	struct meta_tenant all[4];
	CHECK_EQ(meta_client_tenant_list(root, 0, all, 4), 2);
	meta_client_close(other);
	struct meta_client *stranger = open_client(fixture, "nobody");
	struct meta_call s = {.client = stranger};
	CHECK_EQ(meta_client_lookup(&s, META_ROOT, meta_name("x"), &e), -EACCES);
	CHECK(strstr(s.error, "nobody") != NULL);
	meta_client_close(stranger);
	CHECK_EQ(meta_client_lookup(root, META_ROOT, meta_name("x"), &e), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(names_are_created_found_listed_moved_and_removed),
		TEST(many_files_are_created_in_one_request_and_listed_in_pages),
		TEST(invalid_names_are_refused_with_a_text_and_change_nothing),
		TEST(a_request_for_no_block_or_for_too_many_is_refused),
		TEST(many_blocks_that_do_not_exist_are_answered_in_one_request),
		TEST(a_file_is_written_opened_and_read_from_the_cache),
		TEST(a_refresh_finds_chunks_that_moved),
		TEST(removed_files_are_collected_through_the_service),
		TEST_SIM(a_slow_walk_is_answered_in_parts),
		TEST_SIM(a_lease_that_is_not_renewed_is_taken_over),
		TEST(a_stolen_token_fences_the_old_writer),
		TEST(usage_is_counted_on_request),
		TEST_USAGE(usage_is_counted_periodically_by_one_server),
		TEST(tenants_see_only_their_own_objects),
	};
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
