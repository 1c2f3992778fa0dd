// SPDX-License-Identifier: Apache-2.0
/* Formats the stores of a new box: the metadata, in a process of its own, and the disks of all nodes. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "box/box.h"
#include "roles/node_role.h"
#include "rt/real.h"
#include "rt/rt.h"

#define FORMAT_FIBERS 16
/* Bits of the number of chunk folders of a disk: to make 256 on each of many disks takes seconds, 16 do not. */
#define FAN_BITS 4

struct formatting {
	const struct box *box;
	struct strbuf *err;
	int64_t next; /* the next node to format */
	int rc;       /* first error of a node; 0: none */
};

static void add_trouble(void *ctx, uint64_t disk, const char *trouble)
{
	struct formatting *f = ctx;
	if (trouble != NULL)
		strbuf_printf(f->err, "%sdisk %lu: %s", f->err->len > 0 ? "; " : "", disk, trouble);
}

static int format_node(struct formatting *f, int64_t node)
{
	char path[256];
	assert(node >= 1 && node <= f->box->shape.nodes);
	struct node_role *role = malloc(sizeof(*role));
	if (role == NULL)
		return -ENOMEM;
	snprintf(path, sizeof(path), "conf/node-%ld.ini", node);
	int rc = node_role_load(role, path, f->err);
	if (rc == 0) {
		role->setup.options.disks.fan_bits = FAN_BITS;
		rc = node_role_format(role, 0, add_trouble, f);
		node_role_free(role);
	}
	free(role);
	return rc;
}

/* Runs as a fiber that formats one node after the other until no node is left. */
static void format_some(void *arg)
{
	struct formatting *f = arg;
	while (f->rc == 0 && f->next <= f->box->shape.nodes) {
		int rc = format_node(f, f->next++);
		if (rc < 0)
			f->rc = rc;
	}
}

static void format_main(void *arg)
{
	struct rt_group g;
	rt_group_init(&g);
	for (int i = 1; i < FORMAT_FIBERS; i++)
		if (rt_group_spawn(&g, "format", format_some, arg) < 0)
			break;
	format_some(arg);
	rt_group_join(&g);
}

/* Formats all disks. Until it returns, the working folder of this process is that of the box, because paths in the
 * settings are relative to it. */
static int format_disks(const struct box *b, struct strbuf *err)
{
	struct formatting f = {.box = b, .err = err, .next = 1};
	int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (here < 0 || chdir(b->dir) < 0)
		return -errno;
	rt_real_log(LOG_WARN);
	int rc = rt_real_run(NULL, format_main, &f);
	if (fchdir(here) < 0 && rc == 0)
		rc = -errno;
	close(here);
	return rc < 0 ? rc : f.rc;
}

static int format_meta(const struct box *b, struct strbuf *err)
{
	char path[BOX_PATH_MAX];
	int rc = box_path(b, path, "conf/meta.ini");
	if (rc < 0)
		return rc;
	char *words[] = {(char *)"terrane",  (char *)"meta", (char *)"format",
			 (char *)"--config", path,           NULL};
	rc = box_call(b, "meta", words);
	if (rc == 0)
		return 0;
	strbuf_puts(err, "cannot format the metadata store; its log ends with:\n");
	box_log_tail(b, "meta", err);
	return rc < 0 ? rc : -EIO;
}

int box_format(const struct box *b, struct strbuf *err)
{
	int rc = format_meta(b, err);
	return rc == 0 ? format_disks(b, err) : rc;
}
