// SPDX-License-Identifier: Apache-2.0
#include "cli/admin.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "box/box.h"
#include "cli/cli.h"
#include "rt/real.h"
#include "rt/rt.h"

#define CALL_NS (4 * NS_PER_S)
#define POOL_BYTES (64 * MIB)

struct running {
	struct admin admin;
	int (*body)(struct admin *a);
	int status;
};

struct rpc_channel_options admin_channel(struct admin *a)
{
	return (struct rpc_channel_options){.pool = &a->pool,
					    .self = cluster_file_channel(&a->self)};
}

int admin_addrs(const struct admin *a, char text[ADMIN_ADDRS_MAX],
		const char *out[META_CLIENT_SERVERS_MAX], size_t *n)
{
	char *rest = text, *word;
	*n = 0;
	if (strlen(a->file.metadata) >= ADMIN_ADDRS_MAX)
		return -EINVAL;
	memcpy(text, a->file.metadata, strlen(a->file.metadata) + 1);
	while ((word = strtok_r(rest, ", \t", &rest)) != NULL && *n < META_CLIENT_SERVERS_MAX)
		out[(*n)++] = word;
	return 0;
}

int admin_client(struct admin *a, const char *const *addrs, size_t n, struct meta_client **out)
{
	return meta_client_open(out, &(struct meta_client_options){.addrs = addrs,
								   .addr_count = n,
								   .tenant = META_SYSTEM,
								   .channel = admin_channel(a),
								   .timeout_ns = CALL_NS,
								   .impatient = true});
}

int admin_connect(struct admin *a)
{
	char text[ADMIN_ADDRS_MAX];
	const char *addrs[META_CLIENT_SERVERS_MAX];
	size_t n;
	int rc = admin_addrs(a, text, addrs, &n);
	return rc == 0 ? admin_client(a, addrs, n, &a->client) : rc;
}

static int compare_cluster(struct admin *a)
{
	struct meta_call c = {.client = a->client};
	struct cluster *map = NULL;
	uint64_t high = 0, low = 0;
	int rc = meta_client_map(&c, 0, &map);
	if (rc < 0)
		return cli_fail(
			"cannot reach a metadata server at %s: %s; check that the cluster runs%s",
			a->file.metadata, err_text(rc),
			a->self.credentials != NULL
				? ""
				: ", and whether it needs credentials ($TERRANE_KEY_FILE)");
	if (cluster_file_id(&a->file, &high, &low) < 0)
		return cli_fail("[cluster] id in the cluster file must be 32 hexadecimal digits");
	if ((high != 0 || low != 0) && (map->id.high != high || map->id.low != low))
		return cli_fail("the metadata servers at %s serve another cluster than the cluster "
				"file names; use the file of that cluster",
				a->file.metadata);
	return CLI_OK;
}

static void running_main(void *arg)
{
	struct running *r = arg;
	struct admin *a = &r->admin;
	rt_pool_init(&a->pool, POOL_BYTES);
	int rc = admin_connect(a);
	if (rc < 0)
		r->status = cli_fail("cannot use the metadata addresses \"%s\": %s",
				     a->file.metadata, err_text(rc));
	else
		r->status = compare_cluster(a);
	if (r->status == CLI_OK)
		r->status = r->body(a);
	meta_client_close(a->client);
	rt_pool_fini(&a->pool);
}

bool admin_option(int letter, struct admin_where *where, bool *json)
{
	if (letter == 'c')
		where->file = optarg;
	else if (letter == 'd')
		where->dir = optarg;
	else if (letter == 'j')
		*json = true;
	else
		return false;
	return true;
}

int admin_run(const struct admin_where *where, int (*body)(struct admin *a), void *ctx)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	struct running r = {.admin = {.ctx = ctx}, .body = body};
	char path[BOX_PATH_MAX];
	const char *file = where->file;
	if (file == NULL && where->dir != NULL) {
		if (snprintf(path, sizeof(path), "%s/%s", where->dir, CLUSTER_FILE_NAME) >=
		    BOX_PATH_MAX)
			return cli_fail("--dir %s: the path is too long", where->dir);
		file = path;
	}
	int rc = cluster_file_load(&r.admin.file, file, &err);
	if (rc < 0)
		return cli_fail(
			"%s; name the cluster with -c FILE, --dir DIR or $" CLUSTER_FILE_ENV,
			err.len > 0 ? strbuf_text(&err) : err_text(rc));
	rc = cluster_file_self(&r.admin.file, &r.admin.self, &err);
	if (rc < 0) {
		cluster_file_free(&r.admin.file);
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	}
	rc = rt_real_run(NULL, running_main, &r);
	secure_self_close(&r.admin.self);
	cluster_file_free(&r.admin.file);
	return rc < 0 ? cli_fail("cannot start the runtime: %s", err_text(rc)) : r.status;
}

struct cluster *admin_map(struct admin *a)
{
	struct meta_call c = {.client = a->client};
	struct cluster *map = NULL;
	int rc = meta_client_map_usage(&c, &map);
	if (rc < 0)
		cli_fail("cannot get the cluster map: %s",
			 c.error[0] != 0 ? c.error : err_text(rc));
	return rc < 0 ? NULL : map;
}

/* --- lists, sorted by id ----------------------------------------------------------------------------------- */

#define TENANTS_PAGE 100

int admin_tenants(struct admin *a, int (*each)(struct admin *a, const struct meta_tenant *t))
{
	AUTO_FREE struct meta_tenant *page = calloc(TENANTS_PAGE, sizeof(*page));
	if (page == NULL)
		return cli_fail("out of memory");
	uint32_t after = 0;
	int64_t n;
	int status = CLI_OK;
	do {
		struct meta_call c = {.client = a->client};
		n = meta_client_tenant_list(&c, after, page, TENANTS_PAGE);
		if (n < 0)
			return cli_fail("cannot list the tenants: %s",
					c.error[0] != 0 ? c.error : err_text((int)n));
		for (int64_t i = 0; i < n && status == CLI_OK; i++)
			status = each(a, &page[i]);
		after = n > 0 ? page[n - 1].id : after;
	} while (status == CLI_OK && n == TENANTS_PAGE);
	return status;
}

static int add_waiting(struct admin *a, const struct meta_tenant *listed)
{
	uint64_t *bytes = a->ctx;
	struct meta_call c = {.client = a->client};
	struct meta_tenant t;
	int rc = meta_client_tenant_get(&c, listed->id, NULL, &t);
	if (rc < 0)
		return cli_fail("tenant %s: %s", listed->name,
				c.error[0] != 0 ? c.error : err_text(rc));
	*bytes += t.waiting_bytes;
	return CLI_OK;
}

int admin_waiting(struct admin *a, uint64_t *bytes)
{
	void *ctx = a->ctx;
	*bytes = 0;
	a->ctx = bytes;
	int status = admin_tenants(a, add_waiting);
	a->ctx = ctx;
	return status;
}

static int by_id(const void *a, const void *b)
{
	/* The structs of nodes and disks begin with the id, which the assertions below check. */
	uint64_t x = **(const uint64_t *const *)a, y = **(const uint64_t *const *)b;
	return (x > y) - (x < y);
}

static const void **sorted(const struct map *m, size_t *n)
{
	const void **all = calloc(map_count(m) + 1, sizeof(*all));
	*n = 0;
	if (all == NULL)
		return NULL;
	map_for_each(m, it)
		all[(*n)++] = it.value;
	qsort(all, *n, sizeof(*all), by_id);
	return all;
}

const struct cluster_node **admin_nodes(const struct cluster *c, size_t *n)
{
	static_assert(offsetof(struct cluster_node, id) == 0, "by_id");
	return (const struct cluster_node **)sorted(&c->nodes, n);
}

const struct cluster_disk **admin_disks(const struct cluster *c, size_t *n)
{
	static_assert(offsetof(struct cluster_disk, id) == 0, "by_id");
	return (const struct cluster_disk **)sorted(&c->disks, n);
}
