// SPDX-License-Identifier: Apache-2.0
#include "box/start.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "meta_client/meta_client.h"
#include "node/node_client.h"
#include "rt/net.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "secure/secure.h"
#include "shift/shift_client.h"

#define READY_NS (60 * NS_PER_S)
#define ASK_NS NS_PER_S
#define STEP_NS (20 * NS_PER_MS)
#define REPORTED_NS (60 * NS_PER_S) /* a janitor whose last report is older does not work */

/* --- starting ----------------------------------------------------------------------------------- */

static int refuse(struct strbuf *err, int rc, const char *fmt, ...) PRINTF(3, 4);

static int refuse(struct strbuf *err, int rc, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	strbuf_vprintf(err, fmt, args);
	va_end(args);
	return rc;
}

static int start_one(const struct box *b, const char *name, char *const words[], pid_t *pid,
		     struct strbuf *err)
{
	*pid = box_spawn(b, name, words);
	return *pid < 0 ? refuse(err, (int)*pid, "cannot start the process %s: %s", name,
				 err_text((int)*pid))
			: 0;
}

static int start_together(const struct box *b, struct box_started *out, struct strbuf *err)
{
	char path[BOX_PATH_MAX];
	int rc = box_path(b, path, "box.ini");
	if (rc < 0)
		return refuse(err, rc, "%s: the path is too long", b->dir);
	char *words[] = {(char *)"terrane", (char *)"box", path, NULL};
	rc = start_one(b, "box", words, &out->pid, err);
	out->together = true;
	out->count = rc == 0;
	return rc;
}

static int start_each(const struct box *b, struct box_started *out, struct strbuf *err)
{
	char name[BOX_NAME_MAX], path[BOX_PATH_MAX];
	for (int64_t i = 0; box_role(b, i, name); i++) {
		assert(i < (int64_t)ARRAY_LEN(out->found));
		out->found[i] = box_pid(b, name) != 0;
		if (out->found[i])
			continue;
		int rc = box_path(b, path, "conf/%s.ini", name);
		if (rc < 0)
			return refuse(err, rc, "%s: the path is too long", b->dir);
		/* A box of an earlier version may have no janitor. */
		if (access(path, F_OK) < 0)
			continue;
		const char *role = i == 0                    ? "meta"
				   : i <= b->shape.nodes     ? "node"
				   : i == b->shape.nodes + 1 ? "janitor"
							     : "cache";
		char *words[] = {(char *)"terrane", (char *)role, (char *)"--config", path, NULL};
		rc = start_one(b, name, words, &out->pid, err);
		if (rc < 0)
			return rc;
		out->count++;
	}
	return 0;
}

int box_start(const struct box *b, bool procs, struct box_started *out, struct strbuf *err)
{
	pid_t pid = box_pid(b, "box");
	if (pid != 0) {
		*out = (struct box_started){.together = true, .pid = pid, .found = {true}};
		return 0;
	}
	return procs || box_alive(b) > 0 ? start_each(b, out, err) : start_together(b, out, err);
}

/* --- waiting ------------------------------------------------------------------------------------ */

struct waiting {
	const struct box *box;
	const struct box_started *started;
	struct secure_self self; /* of the operator; empty: the box has no credentials */
	struct meta_client *client;
	bool answered[BOX_NODES_MAX + BOX_CACHE_NODES_MAX + 1];
	bool works; /* a janitor reported */
	int rc;
	char why[256];
};

/* Returns whether a process that this command started has ended. */
static bool child_ended(void)
{
	return waitpid(-1, NULL, WNOHANG) > 0;
}

/* Returns whether a process that box_start found running has ended since; it was probably being killed then. */
static bool found_ended(const struct waiting *w)
{
	char name[BOX_NAME_MAX] = "box";
	if (w->started->together)
		return w->started->found[0] && box_pid(w->box, name) == 0;
	for (int64_t i = 0; box_role(w->box, i, name); i++)
		if (w->started->found[i] && box_pid(w->box, name) == 0)
			return true;
	return false;
}

static const struct secure_self *self_of(const struct waiting *w)
{
	return w->self.credentials != NULL ? &w->self : NULL;
}

static bool node_answers(struct waiting *w, const struct cluster_node *n)
{
	char addr[RT_ADDR_MAX];
	memcpy(addr, n->addr, sizeof(addr));
	struct node_call call = {.timeout_ns = ASK_NS};
	AUTO_REPLY struct rpc_reply reply = {0};
	struct rpc_channel_options o = {.self = self_of(w), .server = n->id};
	if (rpc_channel_open(&call.channel, addr, &o) < 0)
		return false;
	int rc = n->cache_weight > 0 ? shift_status(call.channel, 0, ASK_NS, &reply)
				     : node_disks(&call, 0, &reply);
	rpc_channel_close(call.channel);
	if (rc < 0)
		snprintf(w->why, sizeof(w->why), "node %lu at %s: %s", n->id, addr, err_text(rc));
	return rc == 0;
}

/* Returns whether every node that was not removed is online or draining in the map and has answered a request.
 * Otherwise sets w->why. */
static bool all_ready(struct waiting *w)
{
	struct meta_call call = {.client = w->client, .timeout_ns = ASK_NS};
	struct cluster *map = NULL;
	int rc = meta_client_map(&call, 0, &map);
	if (rc < 0) {
		snprintf(w->why, sizeof(w->why), "the metadata server: %s", err_text(rc));
		return false;
	}
	const struct box_shape *s = &w->box->shape;
	for (int64_t i = 1; i <= s->nodes + s->cache_nodes; i++) {
		const struct cluster_node *n = cluster_node(map, (uint64_t)i);
		if (n == NULL) {
			snprintf(w->why, sizeof(w->why), "%s-%ld has not registered",
				 i <= s->nodes ? "node" : "cache", i);
			return false;
		}
		enum cluster_state state = cluster_node_state(n);
		if (state == CLUSTER_GONE)
			continue; /* removed by an operator: it never becomes online again */
		if (state != CLUSTER_ONLINE && state != CLUSTER_DRAINING) {
			snprintf(w->why, sizeof(w->why), "%s is %s", n->name,
				 cluster_state_name(state));
			return false;
		}
		if (!w->answered[i] && !(w->answered[i] = node_answers(w, n)))
			return false;
	}
	return true;
}

/* Returns whether a janitor reported within the last minute; else sets w->why. */
static bool janitor_works(struct waiting *w)
{
	char conf[BOX_PATH_MAX];
	struct meta_call call = {.client = w->client, .timeout_ns = ASK_NS};
	if (w->works || box_path(w->box, conf, "conf/janitor.ini") < 0 || access(conf, F_OK) < 0)
		return true;
	AUTO_FREE struct meta_note *notes = calloc(META_NOTES_MAX, sizeof(*notes));
	struct arena a;
	bool end;
	arena_init(&a, 2 * MIB);
	int64_t n = notes == NULL ? -ENOMEM
				  : meta_client_note_list(&call, "janitor/", "", &a, notes,
							  META_NOTES_MAX, &end);
	uint64_t now_ns = rt_wall_ns();
	for (int64_t i = 0; i < n && !w->works; i++) {
		AUTO_JSON json_t *o = json_loads(notes[i].text, 0, NULL);
		json_int_t at_ns = json_integer_value(json_object_get(o, "at_ns"));
		w->works = at_ns > 0 && (uint64_t)at_ns + REPORTED_NS > now_ns;
	}
	arena_fini(&a);
	if (!w->works)
		snprintf(w->why, sizeof(w->why), "the janitor has not reported%s%s",
			 n < 0 ? ": " : "", n < 0 ? err_text((int)n) : "");
	return w->works;
}

static void wait_main(void *arg)
{
	struct waiting *w = arg;
	assert(w->box->shape.nodes + w->box->shape.cache_nodes < (int64_t)ARRAY_LEN(w->answered));
	char addr[32];
	snprintf(addr, sizeof(addr), "127.0.0.1:%ld", w->box->shape.port);
	w->rc = meta_client_open(&w->client,
				 &(struct meta_client_options){.addrs = (const char *const[]){addr},
							       .addr_count = 1,
							       .tenant = META_SYSTEM,
							       .channel = {.self = self_of(w)},
							       .timeout_ns = ASK_NS,
							       .impatient = true});
	uint64_t end_ns = rt_now_ns() + READY_NS;
	while (w->rc == 0) {
		bool ready = all_ready(w) && janitor_works(w);
		if (child_ended())
			w->rc = -ECHILD;
		else if (found_ended(w))
			w->rc = -EAGAIN;
		else if (ready)
			break;
		else if (rt_now_ns() > end_ns)
			w->rc = -ETIMEDOUT;
		else
			rt_sleep_ns(STEP_NS);
	}
	meta_client_close(w->client);
}

/* Appends to err which process ended and the end of its log. */
static void tell_dead(const struct box *b, const struct box_started *started, struct strbuf *err)
{
	AUTO_STRBUF struct strbuf tail;
	strbuf_init(&tail, 16384);
	char name[BOX_NAME_MAX] = "box";
	for (int64_t i = 0; !started->together && box_role(b, i, name) && box_pid(b, name) != 0;
	     i++)
		;
	box_log_tail(b, name, &tail);
	strbuf_printf(err,
		      "the process %s ended while it started. Its log %s/log/%s.log ends with:\n%s",
		      name, b->dir, name, strbuf_text(&tail));
}

int box_wait(const struct box *b, struct box_started *started, struct strbuf *err)
{
	struct waiting w;
	int rc = 0;
	rt_real_log(LOG_ERROR);
	/* The loop ends, because each round starts a process that had been found running, and a process that was
	 * started here and ends is an error. */
	for (size_t i = 0; i <= ARRAY_LEN(started->found); i++) {
		w = (struct waiting){.box = b, .started = started};
		rc = box_self(b, &w.self, err);
		if (rc < 0)
			return rc;
		rc = rt_real_run(NULL, wait_main, &w);
		secure_self_close(&w.self);
		if (rc < 0 || w.rc != -EAGAIN)
			break;
		struct box_started more = {0};
		rc = box_start(b, !started->together, &more, err);
		if (rc < 0)
			return rc;
		more.count += started->count;
		*started = more;
	}
	assert(w.rc <= 0);
	rc = rc < 0 ? rc : w.rc;
	if (rc == -ECHILD || rc == -EAGAIN)
		tell_dead(b, started, err);
	else if (rc == -ETIMEDOUT)
		strbuf_printf(err,
			      "the cluster is not ready after %d s: %s; see the logs in %s/log",
			      (int)(READY_NS / NS_PER_S), w.why, b->dir);
	else if (rc < 0)
		strbuf_printf(err, "cannot ask the cluster whether it is ready: %s", err_text(rc));
	return rc;
}
