// SPDX-License-Identifier: Apache-2.0
/*
 * terrane box: all roles of a box in one process, each a fiber of one loop. `terrane up` starts it. When one
 * role cannot serve, all end: the log says which.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "cli/box.h"
#include "cli/cli.h"
#include "roles/janitor_role.h"
#include "roles/meta_role.h"
#include "roles/node_role.h"
#include "rt/real.h"
#include "rt/rt.h"

static const char usage_text[] = "usage: terrane box DIR/box.ini\n"
				 "\n"
				 "Serves all roles of a cluster in a folder in this process, until "
				 "it is asked to stop (SIGTERM,\n"
				 "SIGINT). terrane up starts it.\n";

struct all {
	struct box box;
	struct meta_role meta;
	struct node_role *nodes;
	size_t node_count;
	struct janitor_role janitor;
	bool has_janitor; /* a box may have been made before there were any */
	struct rt_group group;
	bool failed;
};

struct one {
	struct all *all;
	size_t i; /* 0: metadata, then the nodes, then the janitor */
};

/* --- serving ------------------------------------------------------------------------------------ */

static void role_main(void *arg)
{
	struct one *o = arg;
	struct all *all = o->all;
	AUTO_STRBUF struct strbuf why;
	strbuf_init(&why, 4096);
	if (o->i == 0) {
		meta_role_main(&all->meta);
		if (all->meta.rc < 0)
			meta_role_why(&all->meta, &why);
	} else if (o->i > all->node_count) {
		janitor_role_main(&all->janitor);
		janitor_role_why(&all->janitor, &why);
	} else {
		struct node_role *node = &all->nodes[o->i - 1];
		node_role_main(node);
		node_role_why(node, &why);
	}
	if (why.len == 0 || all->failed)
		return;
	all->failed = true;
	cli_fail("%s", strbuf_text(&why));
	rt_group_cancel(&all->group);
}

static void all_main(void *arg)
{
	struct all *all = arg;
	size_t count = all->node_count + 1 + all->has_janitor;
	AUTO_FREE struct one *each = calloc(count, sizeof(*each));
	int rc = each == NULL ? -ENOMEM : 0;
	rt_group_init(&all->group);
	for (size_t i = 0; rc == 0 && i < count; i++) {
		each[i] = (struct one){.all = all, .i = i};
		rc = rt_group_spawn(&all->group, "role", role_main, &each[i]);
	}
	if (rc < 0) {
		all->failed = true;
		cli_fail("cannot start all roles: %s", err_text(rc));
		rt_group_cancel(&all->group);
	}
	rt_group_join(&all->group);
}

/* --- settings ----------------------------------------------------------------------------------- */

static int load_nodes(struct all *all, struct strbuf *err)
{
	all->nodes = calloc((size_t)all->box.shape.nodes, sizeof(*all->nodes));
	if (all->nodes == NULL)
		return -ENOMEM;
	for (int64_t i = 1; i <= all->box.shape.nodes; i++) {
		char path[BOX_PATH_MAX];
		int rc = box_path(&all->box, path, "conf/node-%ld.ini", i);
		if (rc == 0)
			rc = node_role_load(&all->nodes[all->node_count], path, err);
		if (rc < 0)
			return rc;
		all->node_count++;
	}
	return 0;
}

static int load_janitor(struct all *all, struct strbuf *err)
{
	char path[BOX_PATH_MAX];
	int rc = box_path(&all->box, path, "conf/janitor.ini");
	if (rc < 0 || access(path, F_OK) < 0)
		return rc;
	rc = janitor_role_load(&all->janitor, path, err);
	all->has_janitor = rc == 0;
	return rc;
}

static int serve(struct all *all, struct strbuf *err)
{
	char path[BOX_PATH_MAX];
	int rc = box_path(&all->box, path, "conf/meta.ini");
	if (rc == 0)
		rc = meta_role_load(&all->meta, path, err);
	if (rc < 0)
		return rc;
	rc = load_nodes(all, err);
	if (rc == 0)
		rc = load_janitor(all, err);
	if (rc == 0) {
		rt_real_log(LOG_INFO);
		rc = rt_real_run(&(struct rt_real_options){.signals = true}, all_main, all);
	}
	for (size_t i = 0; i < all->node_count; i++)
		node_role_free(&all->nodes[i]);
	free(all->nodes);
	if (all->has_janitor)
		janitor_role_free(&all->janitor);
	meta_role_free(&all->meta);
	return rc;
}

int cmd_box(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		fputs(usage_text, stdout);
		return CLI_OK;
	}
	char *slash = argc == 2 ? strrchr(argv[1], '/') : NULL;
	if (slash == NULL || strcmp(slash, "/box.ini") != 0)
		return cli_usage("box: say \"terrane box DIR/box.ini\"");
	*slash = 0;
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	struct all *all = calloc(1, sizeof(*all));
	int rc = all == NULL ? -ENOMEM : box_load(&all->box, argv[1], &err);
	*slash = '/'; /* the command line says whose process this is */
	if (rc == 0) {
		rc = serve(all, &err);
		box_free(&all->box);
	}
	bool failed = all == NULL || all->failed;
	free(all);
	if (rc < 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	return failed ? CLI_FAILED : CLI_OK;
}
