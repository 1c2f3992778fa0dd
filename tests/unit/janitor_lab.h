// SPDX-License-Identifier: Apache-2.0
/* What the tests of the background services share: a client and a way to the metadata of a simulated cluster, and
 * janitors that are quick. */
#ifndef UNIT_JANITOR_LAB_H
#define UNIT_JANITOR_LAB_H

#include "client_box.h"
#include "janitor/janitor.h"
#include "meta/schema.h"
#include "meta_client/meta_client.h"

#define GRACE_NS (60 * NS_PER_S)
#define TEXT_BYTES ((uint64_t)(200 * KIB) + 123)

struct lab {
	struct client_box *box;
	struct engine *engine;
	struct rt_pool pool;
	struct meta_client *client;
	struct meta_call root;
};

void lab_open(struct lab *l, struct client_box *b);
void lab_close(struct lab *l);

/* Short times and no limit of bandwidth. */
struct janitor_options quick(void);
struct janitor *hire(const struct janitor_options *o);
struct janitor_stats stats_of(const struct janitor *j);

int write_text(struct lab *l, const char *path, uint64_t text, uint64_t len, const char *encoding);
int read_text(struct lab *l, const char *path, uint64_t text, uint64_t len);
int remove_path(struct lab *l, const char *path);

/* Files of one encoding each; read_all checks all of them. */
#define LAB_FILES 3
extern const char *const LAB_ENCODINGS[LAB_FILES];
void write_all(struct lab *l);
void read_all(struct lab *l);

size_t chunks_on(struct lab *l, uint64_t disk, struct chunk_id *out, size_t max);
size_t chunks_everywhere(struct lab *l);
struct chunk_stat stat_of(struct lab *l, uint64_t disk, struct chunk_id id);
/* As if it had never been there. */
void chunk_drop(struct lab *l, uint64_t disk, struct chunk_id id);
/* Puts chunks that no record knows until the disk takes no more, and says how many; takes them away. */
size_t fill_disk(struct lab *l, uint64_t disk);
void empty_disk(struct lab *l, uint64_t disk, size_t n);
/* Puts what one disk has of a chunk on another, or on the same again. With a spoiler: not quite that, but a
 * chunk that is whole by its own checksums; by the spoiler's remainder of 4 it has other bytes, is shorter, is
 * still open, or says that it is of another block. */
void chunk_copy(struct lab *l, uint64_t from, uint64_t to, struct chunk_id id, uint64_t spoiler);
uint64_t used_bytes(struct lab *l);
/* How many blocks have a chunk there, as the metadata knows it. */
size_t blocks_on(struct lab *l, uint64_t disk, struct meta_on_disk *first);
struct meta_block block_get(struct lab *l, uint64_t block, struct arena *a);
/* Every chunk of every block is where its record says, whole, has its label and the bytes that follow from the
 * block's; and blocks are in as many racks as they can be. The number of blocks. */
size_t check_whole(struct lab *l);

/* What is there does not read any more. */
void record_spoil(struct lab *l, uint64_t partition, struct schema_key key);
void block_spoil(struct lab *l, const struct meta_on_disk *on);

void collect_for(struct janitor *j, uint64_t time_ns);
void fresh_map(struct lab *l);
/* An operator says that it is gone. */
void lose_disk(struct lab *l, uint64_t disk);

/* A look at everything and repair, in a fiber of its own. */
struct round {
	struct janitor *j;
	bool done;
	int rc;
};
void repair_fiber(void *arg);

#endif
