// SPDX-License-Identifier: Apache-2.0
/*
 * Which loop of a server handles a request. Requests that change an object are at home on the loop of the object's
 * partition, so that the work of a client with one connection is spread, and changes of one directory wait for each
 * other on one loop. Reads are handled where they come in: any loop reads the rows that the store has in memory. Requests
 * about the cluster map and the traffic groups are handled on the first loop, which has them.
 *
 * No rule depends on the choice: any loop can handle any other request.
 */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "meta/service_impl.h"
#include "rt/rt.h"

enum home { HOME_HERE = 0, HOME_FIRST, HOME_DIR, HOME_FILE, HOME_BLOCK };

#define AT(home, type, field)                                         \
	{                                                             \
		home, offsetof(Terrane__Meta__##type##Request, field) \
	}

/* Requests without a row are handled where they come in. */
static const struct {
	enum home home;
	size_t id; /* offset of the id in the message */
} homes[METHOD_COUNT] = {
	[METHOD_mkdir] = AT(HOME_DIR, Mkdir, dir),
	[METHOD_attr_set] = AT(HOME_DIR, AttrSet, dir),
	[METHOD_create] = AT(HOME_DIR, Create, dir),
	[METHOD_link] = AT(HOME_DIR, Link, dir),
	[METHOD_remove] = AT(HOME_DIR, Remove, dir),
	[METHOD_rename] = AT(HOME_DIR, Rename, dir),
	[METHOD_move] = AT(HOME_DIR, Move, from_dir),
	[METHOD_copy] = AT(HOME_DIR, Copy, to_dir),
	[METHOD_rmdir] = AT(HOME_DIR, Rmdir, dir),
	[METHOD_dir_seal] = AT(HOME_DIR, DirSeal, dir),
	[METHOD_dir_unseal] = AT(HOME_DIR, DirUnseal, dir),
	[METHOD_file_new] = AT(HOME_FILE, FileNew, id),
	[METHOD_file_steal] = AT(HOME_FILE, FileSteal, file),
	[METHOD_file_add] = AT(HOME_FILE, FileAdd, file),
	[METHOD_file_close_extent] = AT(HOME_FILE, FileCloseExtent, file),
	[METHOD_file_seal] = AT(HOME_FILE, FileSeal, file),
	[METHOD_file_remap] = AT(HOME_FILE, FileRemap, file),
	[METHOD_block_own] = AT(HOME_BLOCK, BlockOwn, block),
	[METHOD_block_extend] = AT(HOME_BLOCK, BlockExtend, block),
	[METHOD_block_fence] = AT(HOME_BLOCK, BlockFence, block),
	[METHOD_block_seal] = AT(HOME_BLOCK, BlockSeal, block),
	[METHOD_block_replace] = AT(HOME_BLOCK, BlockReplace, block),
	[METHOD_block_report] = AT(HOME_BLOCK, BlockReport, block),
	[METHOD_map_get] = {HOME_FIRST, 0},
	[METHOD_node_register] = {HOME_FIRST, 0},
	[METHOD_node_beat] = {HOME_FIRST, 0},
	[METHOD_map_want] = {HOME_FIRST, 0},
	[METHOD_share] = {HOME_FIRST, 0},
	[METHOD_token_keys] = {HOME_FIRST, 0},
	[METHOD_traffic] = {HOME_FIRST, 0},
	[METHOD_place] = {HOME_FIRST, 0},
	[METHOD_backup] = {HOME_FIRST, 0},
	[METHOD_file_used] = AT(HOME_FILE, FileUsed, file),
	[METHOD_placement] = {HOME_FIRST, 0},
};

/* Returns the id of the request's tenant if it is known without a wait; 0: it is not. */
static uint32_t tenant_of(const struct meta_service *s)
{
	const char *name = rt_context()->tenant;
	uint32_t id = 0;
	return ms_is_system(name, &id) ? id : ms_known_tenant(s, name);
}

struct rt_port *ms_home(struct rpc_request *r)
{
	static const enum service_layer layers[] = {
		[HOME_DIR] = SERVICE_DIR, [HOME_FILE] = SERVICE_FILE, [HOME_BLOCK] = SERVICE_BLOCK};
	const struct meta_service *s = r->service;
	const struct service_all *all = s->all;
	size_t method = (size_t)(r->method - ms_methods);
	assert(method < METHOD_COUNT);
	enum home home = homes[method].home;
	if (all->part_count == 1 || home == HOME_HERE)
		return NULL;
	if (home == HOME_FIRST)
		return &all->branches[0].port;
	struct meta_ctx ctx = {.tenant = tenant_of(s)};
	if (ctx.tenant == 0)
		return NULL;
	uint64_t id;
	memcpy(&id, (const char *)r->body + homes[method].id, sizeof(id));
	uint64_t partition = ms_partition(s->meta, &ctx, layers[home], id);
	return &all->branches[partition % all->part_count].port;
}
