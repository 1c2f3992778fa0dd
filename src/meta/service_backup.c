// SPDX-License-Identifier: Apache-2.0
/*
 * Backups of the store while it is served. A backup may take longer than a request may wait, so a request starts it, or
 * asks for the state of the one that has its number, and a fiber of the first loop makes one backup at a time. The last
 * backup is remembered, so that a client whose answer was lost learns how it ended.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "kv/kv.h"
#include "meta/service_impl.h"
#include "rt/rt.h"

#define DIR_MAX 1000
#define KEEP_MAX 100000

struct service_backup {
	struct rt_cond asked; /* signalled when `running` is set */
	uint64_t id;          /* of the backup that runs or was made last; 0: none */
	bool running;
	int rc; /* result of the last backup */
	unsigned keep;
	struct kv_backup made; /* the last one that succeeded */
	uint64_t count, failures;
	char dir[DIR_MAX + 1];
};

int ms_backup_open(struct meta_service *s)
{
	s->backup = calloc(1, sizeof(*s->backup));
	if (s->backup == NULL)
		return -ENOMEM;
	rt_cond_init(&s->backup->asked);
	return 0;
}

void ms_backup_close(struct meta_service *s)
{
	/* A backup that was asked for after the fiber ended was not begun. */
	free(s->backup);
	s->backup = NULL;
}

/* Makes the backup that was asked for. Its owner is the cluster, so that a folder has backups of one cluster only. */
static void make_one(struct meta_service *s)
{
	struct service_backup *b = s->backup;
	char owner[KV_BACKUP_OWNER_MAX + 1];
	struct cluster_id id = meta_map_cluster(s->map)->id;
	struct kv_backup made = {0};
	assert(b->running && rt_on_loop(s->loop));
	snprintf(owner, sizeof(owner), "cluster %016lx%016lx", id.high, id.low);
	b->rc = kv_backup(
		s->kv, &(struct kv_backup_request){.dir = b->dir, .owner = owner, .keep = b->keep},
		&made);
	if (b->rc == 0) {
		b->made = made;
		b->count++;
		log_info("backup_made", "dir=%s number=%lu bytes=%lu", LOG_QUOTE(b->dir),
			 made.number, made.bytes);
	} else {
		b->failures++;
		log_error("backup_failed", "dir=%s err=%s", LOG_QUOTE(b->dir), err_name(b->rc));
	}
	b->running = false;
}

void ms_backup_make(void *service)
{
	struct meta_service *s = service;
	int rc = 0;
	rt_background();
	while (rc == 0) {
		if (s->backup->running)
			make_one(s);
		rc = rt_cond_wait(&s->backup->asked);
	}
	if (s->backup->running)
		s->backup->rc = -ESHUTDOWN;
	s->backup->running = false;
}

static int begin(struct rpc_request *r, struct service_backup *b)
{
	const Terrane__Meta__BackupRequest *q = rpc_body(r);
	if (b->running)
		return rpc_fail(r, -EBUSY, "the server makes another backup, to %s", b->dir);
	if (q->dir[0] != '/' || strlen(q->dir) > DIR_MAX)
		return rpc_fail(r, -EINVAL,
				"the folder of a backup is an absolute path of up to %d bytes",
				DIR_MAX);
	if (q->keep > KEEP_MAX)
		return rpc_fail(r, -EINVAL, "a folder keeps up to %d backups", KEEP_MAX);
	memcpy(b->dir, q->dir, strlen(q->dir) + 1);
	b->id = q->id;
	b->keep = q->keep;
	b->rc = 0;
	b->running = true;
	rt_cond_signal(&b->asked);
	return 0;
}

int ms_handle_backup(struct rpc_request *r)
{
	const Terrane__Meta__BackupRequest *q = rpc_body(r);
	Terrane__Meta__BackupResponse *p = rpc_reply_body(r);
	struct service_backup *b = ((struct meta_service *)r->service)->backup;
	int rc = ms_system(r);
	if (rc == 0 && q->id == 0)
		rc = -EINVAL;
	if (rc == 0 && q->id != b->id)
		rc = begin(r, b);
	if (rc < 0)
		return rc;
	p->running = b->running;
	p->error = b->rc;
	if (!b->running && b->rc == 0) {
		p->number = b->made.number;
		p->made_s = b->made.made_s;
		p->bytes = b->made.bytes;
		p->files = b->made.files;
	}
	return 0;
}

int ms_backup_metrics(const struct meta_service *s, struct strbuf *out)
{
	const struct service_backup *b = s->backup;
	return strbuf_printf(
		out,
		"# HELP terrane_meta_backups_total backups of the store that this server made\n"
		"# TYPE terrane_meta_backups_total counter\n"
		"terrane_meta_backups_total %lu\n"
		"# HELP terrane_meta_backup_failures_total backups that failed\n"
		"# TYPE terrane_meta_backup_failures_total counter\n"
		"terrane_meta_backup_failures_total %lu\n"
		"# HELP terrane_meta_backup_time_seconds wall clock of the last backup; 0: none "
		"since "
		"the start\n"
		"# TYPE terrane_meta_backup_time_seconds gauge\n"
		"terrane_meta_backup_time_seconds %lu\n",
		b->count, b->failures, b->made.made_s);
}
