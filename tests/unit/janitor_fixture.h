// SPDX-License-Identifier: Apache-2.0
/* Helpers of the tests of the background services: a client and a metadata client of a simulated
 * cluster, and janitors with short times. */
#ifndef UNIT_JANITOR_FIXTURE_H
#define UNIT_JANITOR_FIXTURE_H

#include "client_fixture.h"
#include "janitor/janitor.h"
#include "meta/schema.h"
#include "meta_client/meta_client.h"

#define GRACE_NS (60 * NS_PER_S)
#define TEXT_BYTES ((uint64_t)(200 * KIB) + 123)

struct janitor_fixture {
	struct client_fixture *cluster;
	struct engine *engine;
	struct rt_pool pool;
	struct meta_client *client;
	struct meta_call root;
};

void janitor_fixture_open(struct janitor_fixture *jf, struct client_fixture *fx);
void janitor_fixture_close(struct janitor_fixture *jf);

/* Options with short times and no bandwidth limit. */
struct janitor_options quick(void);
struct janitor *hire(const struct janitor_options *o);
struct janitor_stats stats_of(const struct janitor *j);

int write_text(struct janitor_fixture *jf, const char *path, uint64_t text, uint64_t len,
	       const char *encoding);
int write_text_on(struct janitor_fixture *jf, const char *path, uint64_t text, uint64_t len,
		  const char *encoding, enum terrane_media media);
int read_text(struct janitor_fixture *jf, const char *path, uint64_t text, uint64_t len);
int remove_path(struct janitor_fixture *jf, const char *path);

/* Writes one file for each encoding; read_all checks all of them. */
#define FIXTURE_FILES 3
extern const char *const FIXTURE_ENCODINGS[FIXTURE_FILES];
void write_all(struct janitor_fixture *jf);
void read_all(struct janitor_fixture *jf);

size_t chunks_on(struct janitor_fixture *jf, uint64_t disk, struct chunk_id *out, size_t max);
size_t chunks_everywhere(struct janitor_fixture *jf);
struct chunk_stat stat_of(struct janitor_fixture *jf, uint64_t disk, struct chunk_id id);
/* Deletes the chunk from the disk; its record still names it. */
void chunk_drop(struct janitor_fixture *jf, uint64_t disk, struct chunk_id id);
/* fill_disk puts orphans until the disk is full and returns their number; empty_disk deletes
 * them. */
size_t fill_disk(struct janitor_fixture *jf, uint64_t disk);
void empty_disk(struct janitor_fixture *jf, uint64_t disk, size_t n);
/* Puts a copy of a chunk of disk `from` on disk `to`, or again on the same disk. With a spoiler
 * the copy is valid by its own checksums and wrong: by the spoiler's remainder of 4 it has other
 * bytes, is shorter, is still open, or has the label of another block. */
void chunk_copy(struct janitor_fixture *jf, uint64_t from, uint64_t to, struct chunk_id id,
		uint64_t spoiler);
uint64_t used_bytes(struct janitor_fixture *jf);
/* Returns the bytes of deleted blocks of the tenant whose chunks still exist. */
uint64_t waiting_bytes(struct janitor_fixture *jf);
/* Returns how many blocks have a chunk on the disk by the reverse index. */
size_t blocks_on(struct janitor_fixture *jf, uint64_t disk, struct meta_on_disk *first);
/* The fiber carries a context of the system in the name of the tenant, until rt_context_leave. */
const struct context *act_for_tenant(void);
struct meta_block block_get(struct janitor_fixture *jf, uint64_t block, struct arena *a);
/* Checks that every chunk of every block is intact where its record says, has the right label and
 * the bytes that follow from the block, and that blocks are in as many racks as possible. Returns
 * the number of blocks. */
size_t check_whole(struct janitor_fixture *jf);

/* Replace the stored value by one that does not parse. */
void record_spoil(struct janitor_fixture *jf, uint64_t partition, struct schema_key key);
void block_spoil(struct janitor_fixture *jf, const struct meta_on_disk *on);

/* Chunks of all blocks by the media of their block, and those that are on a disk of another one. */
struct media_count {
	size_t chunks[CLUSTER_MEDIA_COUNT];
	size_t misplaced;
};
struct media_count count_media(struct janitor_fixture *jf);

void collect_for(struct janitor *j, uint64_t time_ns);
/* Advances the epoch of collection n times at once. */
void epochs_pass(struct janitor_fixture *jf, int n);
void fresh_map(struct janitor_fixture *jf);
/* Declares the disk gone, as an operator would. */
void lose_disk(struct janitor_fixture *jf, uint64_t disk);

/* A round of repair with a walk of all records, in its own fiber. */
struct round {
	struct janitor *j;
	bool done;
	int rc;
};
void repair_fiber(void *arg);
/* Runs all services of the janitor until the fiber is cancelled. */
void run_janitor(void *arg);

#endif
