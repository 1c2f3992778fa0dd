// SPDX-License-Identifier: Apache-2.0
/*
 * A client of the metadata service alone, for black-box tests:
 *
 *   meta_tool ADDR[,ADDR...] create DIR WORKERS   create files in DIR until standard input ends; print the
 *                                                 name of each file once it is acknowledged
 *   meta_tool ADDR[,ADDR...] list DIR             print the names in DIR; fail if a file cannot be opened
 *   meta_tool ADDR[,ADDR...] map                  print a line for each disk: id, node, rack, state
 *
 * DIR is a name in the root of the tenant "default"; the tool creates it if it does not exist.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "meta_client/meta_client.h"
#include "rt/pool.h"
#include "rt/real.h"
#include "rt/rt.h"

#define WORKERS_MAX 64

struct tool {
	char **args;
	int count;
	struct meta_client *client;
	struct rt_pool pool;
	uint64_t dir;
	bool stop;
	int status;
};

static uint64_t draw_id(void)
{
	return rt_random_u64() | 2;
}

static int complain(const struct meta_call *c, const char *what, int rc)
{
	fprintf(stderr, "meta_tool: %s: %s (%s)\n", what, c->error, err_name(rc));
	return 1;
}

static int find_dir(struct tool *t, const char *name)
{
	struct meta_call c = {.client = t->client};
	struct meta_entry e = {.id = draw_id()};
	int rc = meta_client_mkdir(&c, META_ROOT, meta_name(name), e.id, NULL);
	if (rc == -EEXIST)
		rc = meta_client_lookup(&c, META_ROOT, meta_name(name), &e);
	t->dir = e.id;
	return rc < 0 ? complain(&c, name, rc) : 0;
}

/* --- create ---------------------------------------------------------------------------------------- */

struct worker {
	struct tool *tool;
	uint64_t number;
};

static void create_files(void *arg)
{
	struct worker *w = arg;
	struct tool *t = w->tool;
	struct meta_call c = {.client = t->client};
	char name[64];
	uint64_t life = draw_id();
	for (uint64_t n = 0; !t->stop; n++) {
		snprintf(name, sizeof(name), "%016" PRIx64 "-%" PRIu64 "-%" PRIu64, life, w->number,
			 n);
		struct meta_create f = {.name = meta_name(name), .id = draw_id()};
		int result = 0;
		int rc = meta_client_create(&c, t->dir, &f, 1, 0, &result);
		if (rc == 0)
			rc = result;
		if (rc < 0) {
			t->status = complain(&c, name, rc);
			t->stop = true;
			return;
		}
		printf("%s\n", name);
	}
}

static void read_end(void *arg)
{
	(void)arg;
	char byte;
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

static int create(struct tool *t)
{
	struct worker w[WORKERS_MAX];
	unsigned long n = t->count > 1 ? strtoul(t->args[1], NULL, 10) : 0;
	struct rt_group g;
	if (n == 0 || n > WORKERS_MAX || find_dir(t, t->args[0]) != 0)
		return 1;
	rt_group_init(&g);
	for (unsigned long i = 0; i < n; i++) {
		w[i] = (struct worker){.tool = t, .number = i};
		if (rt_group_spawn(&g, "create", create_files, &w[i]) < 0)
			return 1;
	}
	rt_offload(read_end, NULL);
	t->stop = true;
	rt_group_join(&g);
	return t->status;
}

/* --- list ------------------------------------------------------------------------------------------ */

static int print_page(struct tool *t, const struct meta_page *page)
{
	struct meta_call c = {.client = t->client};
	for (size_t i = 0; i < page->count; i++) {
		const struct meta_entry *e = &page->entries[i];
		struct meta_file f;
		int rc = meta_client_file_open(&c, t->dir, e->name, NULL, NULL, &f);
		if (rc < 0 || f.id != e->id)
			return complain(&c, "a listed file cannot be opened", rc);
		printf("%.*s\n", (int)e->name.len, e->name.text);
	}
	return 0;
}

static int list(struct tool *t)
{
	struct meta_call c = {.client = t->client};
	struct meta_cursor at = {0};
	if (t->count < 1 || find_dir(t, t->args[0]) != 0)
		return 1;
	while (!at.end) {
		struct arena a;
		struct meta_page page;
		arena_init(&a, 16 * MIB);
		int rc = meta_client_list(&c, t->dir, &at, 0, &a, &page);
		int status = rc < 0 ? complain(&c, "list", rc) : print_page(t, &page);
		at = page.next;
		arena_fini(&a);
		if (status != 0)
			return status;
	}
	return 0;
}

/* --- map ------------------------------------------------------------------------------------------- */

static int print_map(struct tool *t)
{
	struct meta_call c = {.client = t->client};
	struct cluster *map = NULL;
	int rc = meta_client_map_usage(&c, &map);
	if (rc < 0)
		return complain(&c, "map", rc);
	printf("version %" PRIu64 "\n", map->version);
	map_for_each(&map->disks, it) {
		const struct cluster_disk *d = it.value;
		const struct cluster_node *n = cluster_node(map, d->node);
		printf("%" PRIu64 " %s %s %s\n", d->id, n->name, cluster_rack(map, n->rack)->name,
		       cluster_state_name(cluster_disk_state(map, d)));
	}
	return 0;
}

/* --- the program ----------------------------------------------------------------------------------- */

static int open_client(struct tool *t, char *addrs)
{
	const char *list_of[META_CLIENT_SERVERS_MAX];
	size_t n = 0;
	char *save = NULL;
	for (char *a = strtok_r(addrs, ",", &save); a != NULL && n < META_CLIENT_SERVERS_MAX;
	     a = strtok_r(NULL, ",", &save))
		list_of[n++] = a;
	return meta_client_open(&t->client,
				&(struct meta_client_options){.addrs = list_of,
							      .addr_count = n,
							      .tenant = "default",
							      .channel = {.pool = &t->pool},
							      .timeout_ns = 60 * NS_PER_S});
}

static void tool_main(void *arg)
{
	struct tool *t = arg;
	const char *verb = t->args[1];
	rt_pool_init(&t->pool, 16 * MIB);
	if (open_client(t, t->args[0]) < 0) {
		fprintf(stderr,
			"meta_tool: an address is invalid; write HOST:PORT[,HOST:PORT...]\n");
		t->status = 2;
		return;
	}
	t->args += 2;
	t->count -= 2;
	if (strcmp(verb, "create") == 0)
		t->status = create(t);
	else if (strcmp(verb, "list") == 0)
		t->status = list(t);
	else if (strcmp(verb, "map") == 0)
		t->status = print_map(t);
	else
		t->status = 2;
	meta_client_close(t->client);
	rt_pool_fini(&t->pool);
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: meta_tool ADDR[,ADDR...] create|list|map [arguments]\n");
		return 2;
	}
	struct tool t = {.args = argv + 1, .count = argc - 1};
	setvbuf(stdout, NULL, _IOLBF, 0);
	rt_real_log(LOG_ERROR);
	if (rt_real_run(NULL, tool_main, &t) < 0)
		return 1;
	return t.status;
}
