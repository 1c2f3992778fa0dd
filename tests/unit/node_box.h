// SPDX-License-Identifier: Apache-2.0
/*
 * A storage node with a few disks in small folders, and a client of it, in either world. The service runs as
 * a fiber of the same process; a test is a function that runs beside it.
 *
 *   disk 1, 2   folders d1, d2
 *   disk 3      its folder does not exist
 *   disk 10     a declustered pool 2+1 over the folders m0 to m4, which are disks 100 to 104
 *   disk 11     a clustered pool 2+1 over c0 to c2, disks 110 to 112, with the spare s0, disk 119
 */
#ifndef UNIT_NODE_BOX_H
#define UNIT_NODE_BOX_H

#include "check.h"
#include "node/node_client.h"
#include "node/service.h"
#include "rt/net.h"
#include "rt/pool.h"
#include "store_fixture.h"

enum box_world { BOX_REAL, BOX_SIM };

#define BOX_DISKS 5
#define BOX_FOLDERS 12
/* By their number. */
enum { D1, D2, GONE, M0, M1, M2, M3, M4, C0, C1, C2, S0 };
#define BOX_POOL_BYTES (256 * MIB)

struct node_box {
	char root[256];
	char paths[BOX_FOLDERS][300];
	struct node_folder folders[BOX_FOLDERS];
	struct node_disk_spec specs[BOX_DISKS];
	struct node_serve_options options;
	struct rt_fiber *server;
	struct rt_cond ready_or_ended;
	struct node *node; /* while it serves */
	char addr[RT_ADDR_MAX];
	int served; /* what node_serve returned */
	bool ended;
	struct rt_pool pool;
	struct rpc_channel *channel;
	struct node_call call;
	void *arg; /* the test's */
};

/* Runs the body with a node that serves. */
void box_run(enum box_world world, void (*body)(struct node_box *b));
void box_run_everywhere(void (*body)(struct node_box *b));

/* The parts, for who starts it several times. */
void box_init(struct node_box *b, const char *root, const char *listen);
int box_start(struct node_box *b);
void box_stop(struct node_box *b);
void box_make_folders(struct node_box *b);

/* A slice of bytes [off, off + len) of the text; release with buf_unref(slice.buf). */
struct slice box_text(struct node_box *b, uint64_t text, uint64_t off, uint64_t len);
int box_put(struct node_box *b, uint64_t disk, struct chunk_id id, uint64_t text, uint64_t len,
	    bool open, uint64_t capacity);
int box_append(struct node_box *b, uint64_t disk, struct chunk_id id, uint64_t epoch, uint64_t text,
	       uint64_t off, uint64_t len);
/* Reads and checks that it is the text's. */
int box_get(struct node_box *b, uint64_t disk, struct chunk_id id, uint64_t text, uint64_t off,
	    uint64_t len);

/* What the node says of a disk; waits until it says so. */
enum store_state box_state(struct node_box *b, uint64_t disk);
void box_await_state(struct node_box *b, uint64_t disk, enum store_state want);

struct box_pool {
	size_t down;
	uint64_t rebuilds;
	uint64_t rows;
	uint64_t lost;
	bool rebuilding;
};

struct box_pool box_look(struct node_box *b, uint64_t disk);
/* Until a rebuild has ended that began after these. */
struct box_pool box_await_rebuild(struct node_box *b, uint64_t disk, uint64_t rebuilds);

/* Gives something in a folder another name. */
void box_move(struct node_box *b, int folder, const char *from, const char *to);
/* A folder looks as if its disk were unmounted, or as if it were back. */
void box_take_away(struct node_box *b, int folder);
void box_bring_back(struct node_box *b, int folder);

/* Chunks 0 to n - 1, and how many of them cannot be read. */
void box_fill(struct node_box *b, uint64_t disk, uint32_t n);
int box_count_bad(struct node_box *b, uint64_t disk, uint32_t n);

#endif
