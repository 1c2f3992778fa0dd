// SPDX-License-Identifier: Apache-2.0
/*
 * A storage node with a few disks in small folders, and a client of it, on the real rt or in the
 * simulator. The service runs as a fiber of the same process; a test is a function that runs in
 * another.
 *
 *   disk 1, 2   folders d1, d2
 *   disk 3      its folder does not exist
 *   disk 10     a declustered pool 2+1 over the folders m0 to m4, which are disks 100 to 104
 *   disk 11     a clustered pool 2+1 over c0 to c2, disks 110 to 112, with the spare s0, disk 119
 */
#ifndef UNIT_NODE_FIXTURE_H
#define UNIT_NODE_FIXTURE_H

#include "check.h"
#include "node/node_client.h"
#include "node/service.h"
#include "rt/net.h"
#include "rt/pool.h"
#include "store_fixture.h"

enum fixture_world { FIXTURE_REAL, FIXTURE_SIM };

#define FIXTURE_DISKS 5
#define FIXTURE_FOLDERS 12
/* Folders, by the number of their disk. */
enum { D1, D2, GONE, M0, M1, M2, M3, M4, C0, C1, C2, S0 };
#define FIXTURE_POOL_BYTES (256 * MIB)

struct node_fixture {
	char root[256];
	char paths[FIXTURE_FOLDERS][300];
	struct node_folder folders[FIXTURE_FOLDERS];
	struct node_disk_spec specs[FIXTURE_DISKS];
	struct node_serve_options options;
	unsigned loops; /* loops of the node */
	struct rt_fiber *server;
	struct rt_cond ready_or_ended;
	struct node *node; /* the running node; NULL: no node runs */
	char addr[RT_ADDR_MAX];
	int served; /* result of node_serve */
	bool ended;
	struct rt_pool pool;
	const struct secure_self *self; /* credentials of the channel; NULL: none */
	struct rpc_channel *channel;
	struct node_call call;
	void *arg; /* argument of the test's body */
};

/* Runs the body with a running node on one loop; everywhere: in both worlds, on one loop and on three. */
void node_fixture_run(enum fixture_world world, void (*body)(struct node_fixture *fx));
void node_fixture_run_everywhere(void (*body)(struct node_fixture *fx));

/* The steps of it, for tests that start the node several times. */
void fixture_init(struct node_fixture *fx, const char *root, const char *listen);
int fixture_start(struct node_fixture *fx);
void fixture_stop(struct node_fixture *fx);
void fixture_make_folders(struct node_fixture *fx);

/* A slice of bytes [off, off + len) of the text; release with buf_unref(slice.buf). */
struct slice fixture_text(struct node_fixture *fx, uint64_t text, uint64_t off, uint64_t len);
int fixture_put(struct node_fixture *fx, uint64_t disk, struct chunk_id id, uint64_t text,
		uint64_t len, bool open, uint64_t capacity);
int fixture_append(struct node_fixture *fx, uint64_t disk, struct chunk_id id, uint64_t epoch,
		   uint64_t text, uint64_t off, uint64_t len);
/* Reads a range and checks that it has the bytes of the text. */
int fixture_get(struct node_fixture *fx, uint64_t disk, struct chunk_id id, uint64_t text,
		uint64_t off, uint64_t len);

/* Returns the node's description of a disk; waits until the disk has the given state. */
enum store_state fixture_state(struct node_fixture *fx, uint64_t disk);
void fixture_await_state(struct node_fixture *fx, uint64_t disk, enum store_state want);

struct fixture_pool {
	size_t down;
	uint64_t rebuilds;
	uint64_t rows;
	uint64_t lost;
	bool rebuilding;
};

struct fixture_pool fixture_look(struct node_fixture *fx, uint64_t disk);
/* Waits until a rebuild has ended that began after the given number of them. */
struct fixture_pool fixture_await_rebuild(struct node_fixture *fx, uint64_t disk,
					  uint64_t rebuilds);

/* Renames an entry of a folder. */
void fixture_move(struct node_fixture *fx, int folder, const char *from, const char *to);
/* Make a folder look as if its disk were unmounted, or mounted again. */
void fixture_take_away(struct node_fixture *fx, int folder);
void fixture_bring_back(struct node_fixture *fx, int folder);

/* Write chunks 0 to n - 1; count those that cannot be read. */
void fixture_fill(struct node_fixture *fx, uint64_t disk, uint32_t n);
int fixture_count_bad(struct node_fixture *fx, uint64_t disk, uint32_t n);

#endif
