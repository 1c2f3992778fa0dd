// SPDX-License-Identifier: Apache-2.0
/*
 * Re-encoding by policy: files are written as replicas, which are quick to write and to append to, and
 * get an encoding that takes less space once they have not changed for a while.
 *
 * A policy is a note, "policy/TENANT" for all of a tenant or "policy/TENANT/DIRECTORY" for a directory
 * and all below it, with {"encoding": "rs:4+2", "after_ns": ...}. The nearest policy at or above a
 * file's directory applies. Encoding "keep": blocks there are not re-encoded. A block belongs to the
 * first of its owners, and its age is the time since that file's last change. client/reencode.c does
 * the work: the old chunks are released when the record names the new ones.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "client/engine.h"
#include "code/shape.h"
#include "janitor/impl.h"
#include "janitor/notes.h"
#include "meta_api/note.h"
#include "rt/rt.h"

#define POLICIES_MAX 10000
#define DIRS_MAX 65536 /* largest number of directories whose policy a run remembers */

/* --- policies ------------------------------------------------------------------------------ */

int policies_load(struct janitor *j)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	AUTO_FREE struct meta_note *notes = calloc(META_NOTES_MAX, sizeof(*notes));
	char after[META_NOTE_NAME_MAX + 1] = "";
	size_t count = 0;
	bool end = notes == NULL;
	assert(j->policy_count <= POLICIES_MAX);
	int rc = notes == NULL ? -ENOMEM : 0;
	while (rc == 0 && !end && count + META_NOTES_MAX < POLICIES_MAX) {
		struct arena a;
		arena_init(&a, 2 * MIB);
		int64_t n = meta_client_note_list(&m, "policy/", after, &a, notes, META_NOTES_MAX,
						  &end);
		size_t room = n < 0 ? 0 : count + (size_t)n + 1;
		struct policy *all =
			n < 0 ? NULL : realloc(j->policies, room * sizeof(*j->policies));
		rc = n < 0 ? (int)n : all == NULL ? -ENOMEM : 0;
		if (all != NULL)
			j->policies = all;
		for (int64_t i = 0; rc == 0 && i < n; i++) {
			count += policy_read(&notes[i], &j->policies[count]) == 0;
			memcpy(after, notes[i].name, sizeof(after));
		}
		arena_fini(&a);
	}
	j->policy_count = rc == 0 ? count : 0;
	return rc;
}

static const struct policy *policy_at(const struct janitor *j, uint32_t tenant, uint64_t dir)
{
	for (size_t i = 0; i < j->policy_count; i++)
		if (j->policies[i].tenant == tenant && j->policies[i].dir == dir)
			return &j->policies[i];
	return NULL;
}

bool policy_wants(struct janitor *j, const struct meta_block_at *b)
{
	struct encoding enc;
	struct shape shape;
	bool any = false;
	if (b->block.state != META_BLOCK_SEALED || b->block.length == 0 || b->owned_bytes == 0)
		return false;
	for (size_t i = 0; !any && i < j->policy_count; i++)
		any = j->policies[i].tenant == b->tenant && j->policies[i].encoding[0] != 0 &&
		      strcmp(j->policies[i].encoding, b->block.encoding) != 0;
	return any && encoding_parse(b->block.encoding, &enc, NULL, 0) == 0 &&
	       shape_init(&shape, &enc) == 0 && shape.copies;
}

/* --- re-encoding -------------------------------------------------------------------------------------- */

struct applying {
	struct janitor *j;
	uint32_t tenant;  /* tenant to which the directories in dirs belong */
	struct map dirs;  /* directory -> struct policy that applies there, or &no */
	struct policy no; /* stands for "no policy" */
};

/* Finds the nearest policy at or above a directory. &p->no: there is none. */
static int policy_of(struct applying *p, struct meta_call *m, uint64_t dir,
		     const struct policy **out)
{
	const struct policy *found = NULL;
	uint64_t at = dir;
	for (unsigned depth = 0; found == NULL && depth < META_DEPTH_MAX; depth++) {
		struct meta_dir d;
		found = policy_at(p->j, p->tenant, at);
		if (found == NULL)
			found = map_get(&p->dirs, at);
		if (found == NULL && at == META_ROOT)
			found = &p->no;
		int rc = found != NULL ? 0 : meta_client_dir_get(m, at, &d);
		if (rc < 0)
			return rc;
		if (found == NULL)
			at = d.parent;
	}
	*out = found == NULL ? &p->no : found;
	assert(*out == &p->no || (*out)->tenant == p->tenant);
	if (map_get(&p->dirs, dir) == NULL)
		(void)map_put(&p->dirs, dir, (void *)*out);
	return 0;
}

/* Sets *out to the encoding that the policy of the block's first owner gives the block now;
 * NULL: the block is not re-encoded. */
static int block_policy(struct applying *p, const struct job *job, const char **out)
{
	assert(job->tenant == p->tenant);
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(p->j, &e, job->tenant);
	struct meta_call m = tenant_call_meta(p->j, &e);
	struct meta_owner owner;
	struct meta_file f;
	struct arena a;
	const struct policy *policy = NULL;
	*out = NULL;
	int64_t n = meta_client_block_owners(&m, job->block, 0, &owner, 1);
	if (n <= 0)
		return (int)n;
	arena_init(&a, MIB);
	int rc = meta_client_file_get(&m, owner.file, NULL, &a, &f);
	arena_fini(&a);
	if (rc == 0)
		rc = policy_of(p, &m, f.dir, &policy);
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc; /* the file or a directory was deleted */
	uint64_t now_ns = rt_wall_ns();
	if (policy != NULL && f.sealed && !f.removed && now_ns >= f.mtime_ns &&
	    now_ns - f.mtime_ns >= policy->after_ns && policy->encoding[0] != 0)
		*out = policy->encoding;
	return 0;
}

static int block_rewrite(struct janitor *j, const struct job *job, const struct meta_block *b,
			 const char *encoding)
{
	struct tenant_call e;
	int rc = rewrite_wait(j, b, 1, job->live_bytes);
	if (rc < 0)
		return rc;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, job->tenant);
	uint64_t before_ns = rewrite_call(&e);
	rc = engine_block_reencode(&e.call, b, encoding);
	rt_deadline_set(before_ns);
	if (rc < 0 && rc != -ECANCELED && rc != -ENOENT && rc != -ESTALE)
		log_warn("reencode", "block=%016lx encoding=%s rc=%d text=%s", job->block, encoding,
			 rc, LOG_QUOTE(e.call.error));
	j->stats.blocks_reencoded += rc == 0;
	j->stats.reencoded_bytes += rc == 0 ? job->live_bytes : 0;
	return rc;
}

static int block_apply(struct applying *p, const struct job *job)
{
	const char *encoding = NULL;
	int rc = block_policy(p, job, &encoding);
	if (rc < 0 || encoding == NULL)
		return rc;
	struct meta_block b;
	struct arena a;
	arena_init(&a, 256 * KIB);
	rc = rewrite_records(p->j, job->tenant, &job->block, 1, &a, &b);
	if (rc == 0 && b.state == META_BLOCK_SEALED)
		rc = block_rewrite(p->j, job, &b, encoding);
	arena_fini(&a);
	return rc;
}

int policy_run(struct janitor *j, struct jobs *w)
{
	struct applying p = {.j = j};
	struct job job;
	int rc = 0;
	map_init(&p.dirs, DIRS_MAX);
	while (rc == 0 && jobs_next(j, w, &job, &rc)) {
		if (job.tenant != p.tenant) {
			map_fini(&p.dirs);
			map_init(&p.dirs, DIRS_MAX);
			p.tenant = job.tenant;
		}
		int done = block_apply(&p, &job);
		if (done == -ECANCELED || done == -ENOMEM)
			rc = done;
	}
	map_fini(&p.dirs);
	return rc;
}
