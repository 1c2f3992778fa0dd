// SPDX-License-Identifier: Apache-2.0
/*
 * RADOS as an object store. Operations are submitted on an offload thread, because librados computes the
 * placement of the object in the caller, with a stack need that grows with the cluster. librados completes an
 * operation on a thread of its own, which posts a message to the loop.
 */
#include "kv/rados.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/log.h"
#include "kv/format.h"
#include "kv/omap_codec.h"
#include "kv/rados_op.h"
#include "kv/rows.h"
#include "rt/rt.h"
#include "rt/sync.h"

#define INFLIGHT_MAX 512 /* largest number of operations under way; librados blocks at 1024 */
#define CONNECT_TIMEOUT_MS 10000
#define OP_TIMEOUT_MS 15000
#define SETTLE_MS 30000
#define FORMAT_OBJECT "format"

struct rados {
	struct omap base;
	struct rt_loop *loop; /* loop that opened the store */
	rados_t cluster;
	rados_ioctx_t io;
	bool io_open;
	size_t inflight;     /* number of operations under way, up to INFLIGHT_MAX */
	struct rt_cond room; /* signalled when inflight falls */
};

/* One operation under way. Lives on the stack of its fiber, which waits until the operation has ended. */
struct call {
	struct rados *rados;
	struct rados_op *op;
	char name[OMAP_NAME_LEN + 1];
	rados_completion_t completion;
	int rc; /* result of submitting the operation */
	bool done;
	struct rt_cond changed;
	struct rt_msg msg;
};

static struct rados *rados_of(struct omap *o)
{
	return container_of(o, struct rados, base);
}

/* --- an operation ----------------------------------------------------------------------------- */

static void call_done(struct rt_msg *m)
{
	struct call *c = container_of(m, struct call, msg);
	assert(rt_on_loop(c->rados->loop) && !c->done);
	c->done = true;
	rt_cond_signal(&c->changed);
}

/* Posts the end of an operation to the loop. Runs on a thread of librados. */
static void completed(rados_completion_t completion, void *arg)
{
	(void)completion;
	struct call *c = arg;
	rt_post(c->rados->loop, &c->msg);
}

/* Submits an operation to librados. Runs on an offload thread. */
static void submit(void *arg)
{
	struct call *c = arg;
	c->rc = rados_aio_create_completion2(c, completed, &c->completion);
	if (c->rc != 0)
		return;
	c->rc = rados_op_submit(c->op, c->rados->io, c->completion, c->name);
	if (c->rc != 0) {
		rados_aio_release(c->completion);
		c->completion = NULL;
	}
}

/*
 * Sends an operation and waits until it has ended. The wait is shielded from deadline and
 * cancellation, because librados uses memory of the fiber's stack.
 */
static int call_run(struct rados *r, uint64_t object, struct rados_op *op, uint64_t *version)
{
	assert(rt_on_loop(r->loop));
	while (r->inflight >= INFLIGHT_MAX) {
		int rc = rt_cond_wait(&r->room);
		if (rc != 0)
			return rc;
	}
	struct call c = {.rados = r, .op = op, .msg = {.fn = call_done}};
	omap_name_encode(c.name, object);
	rt_cond_init(&c.changed);
	r->inflight++;
	assert(r->inflight <= INFLIGHT_MAX);
	rt_shield_enter();
	int rc = rt_offload(submit, &c);
	if (rc == 0)
		rc = c.rc;
	if (rc == 0) {
		while (!c.done)
			(void)rt_cond_wait(&c.changed);
		rc = rados_aio_get_return_value(c.completion);
		*version = rados_aio_get_version(c.completion);
		rados_aio_release(c.completion);
	}
	rt_shield_leave();
	r->inflight--;
	rt_cond_signal(&r->room);
	return rc;
}

/* --- reads and writes ---------------------------------------------------------------------------- */

/* Translates librados' result of a write operation; every failed guard becomes -ESTALE. */
static int write_result(int rc)
{
	switch (rc) {
	case -ECANCELED: /* a comparison failed */
	case -ERANGE:    /* the guard's version is older than the object's */
	case -EOVERFLOW: /* the guard's version is newer */
	case -EEXIST:    /* the object exists, and the guard says that it must not */
		return -ESTALE;
	/*
	 * the cluster has blocklisted this client: an earlier copy of the operation may have been
	 * done
	 */
	case -ESHUTDOWN:
		return -ETIMEDOUT;
	case -ENOENT: /* the pool was deleted */
		return -ENODEV;
	default:
		return rc;
	}
}

static int objects_write(struct omap *o, const struct omap_write *w)
{
	struct rados_op op;
	int rc = rados_op_write(&op, w);
	uint64_t version;
	if (rc == 0)
		rc = write_result(call_run(rados_of(o), w->object, &op, &version));
	rados_op_fini(&op);
	return rc;
}

static int objects_read(struct omap *o, struct omap_read *read)
{
	struct rados_op op;
	int rc = rados_op_read(&op, read);
	uint64_t version = 0;
	if (rc == 0)
		rc = call_run(rados_of(o), read->object, &op, &version);
	if (rc == 0) {
		rc = rados_op_rows(&op, read);
	} else if (rc == -ENOENT) {
		rc = 0;
		version = 0;
	}
	read->found.version = version;
	rados_op_fini(&op);
	return rc;
}

/* --- open, close: on an offload thread --------------------------------------------------------- */

struct open_job {
	struct rados *rados;
	const struct kv_rados_options *options;
	const char *step; /* name of the step in progress, for the log */
	int rc;
};

/*
 * Sets a timeout option of librados to ms, rounded to whole seconds as librados requires; at least
 * 1 s, because 0 would mean no timeout.
 */
static int set_seconds(rados_t cluster, const char *name, uint32_t ms)
{
	char text[24];
	snprintf(text, sizeof(text), "%u", ms < 1000 ? 1 : ms / 1000 + (ms % 1000 != 0));
	return rados_conf_set(cluster, name, text);
}

static int set_timeouts(rados_t cluster, const struct kv_rados_options *o)
{
	uint32_t connect_ms =
		o->connect_timeout_ms != 0 ? o->connect_timeout_ms : CONNECT_TIMEOUT_MS;
	uint32_t op_ms = o->op_timeout_ms != 0 ? o->op_timeout_ms : OP_TIMEOUT_MS;
	int rc = set_seconds(cluster, "client_mount_timeout", connect_ms);
	if (rc == 0)
		rc = set_seconds(cluster, "rados_mon_op_timeout", connect_ms);
	if (rc == 0)
		rc = set_seconds(cluster, "rados_osd_op_timeout", op_ms);
	/* After this time without an answer librados asks for a new map of the Ceph cluster. It must be shorter
	 * than the operation's timeout. Otherwise, once OSDs have restarted with new addresses, operation
	 * after operation would time out at the old addresses. */
	if (rc == 0)
		rc = set_seconds(cluster, "objecter_timeout", op_ms / 4);
	return rc != 0 ? rc : set_seconds(cluster, "objecter_tick_interval", op_ms / 8);
}

static int connect_cluster(struct open_job *j)
{
	const struct kv_rados_options *o = j->options;
	struct rados *r = j->rados;
	j->step = "configuration";
	const char *user = o->user != NULL ? o->user : "client.admin";
	int rc = rados_create2(&r->cluster, "ceph", user, 0);
	if (rc != 0) {
		r->cluster = NULL;
		return rc;
	}
	rc = rados_conf_read_file(r->cluster, o->conf);
	if (rc == 0)
		rc = set_timeouts(r->cluster, o);
	if (rc != 0)
		return rc;
	j->step = "monitors";
	rc = rados_connect(r->cluster);
	if (rc != 0)
		return rc;
	j->step = "pool";
	rc = rados_ioctx_create(r->cluster, o->pool, &r->io);
	if (rc != 0)
		return rc;
	r->io_open = true;
	rados_ioctx_set_namespace(r->io, o->space != NULL ? o->space : "terrane");
	return 0;
}

static int format_read(const struct open_job *j, uint8_t *record, size_t room)
{
	int rc = rados_read(j->rados->io, FORMAT_OBJECT, (char *)record, room, 0);
	return rc < 0 ? rc : kv_format_check(kv_bytes(record, (size_t)rc));
}

/*
 * Creates the format object or checks the existing one. A new format object gets a key in its omap: this
 * fails on an erasure-coded pool, which has no omap.
 */
static int format_settle(struct open_job *j)
{
	j->step = "format";
	uint8_t record[KV_FORMAT_BYTES + 1];
	if (j->options->only_existing)
		return format_read(j, record, sizeof(record));
	kv_format_write(record, KV_FORMAT_VERSION);
	const char *key = "k";
	const char *value = "v";
	size_t one = 1;
	rados_write_op_t op = rados_create_write_op();
	if (op == NULL)
		return -ENOMEM;
	rados_write_op_create(op, LIBRADOS_CREATE_EXCLUSIVE, NULL);
	rados_write_op_write_full(op, (const char *)record, KV_FORMAT_BYTES);
	rados_write_op_omap_set2(op, &key, &value, &one, &one, 1);
	int rc = rados_write_op_operate(op, j->rados->io, FORMAT_OBJECT, NULL, 0);
	rados_release_write_op(op);
	if (rc != -EEXIST)
		return rc;
	return format_read(j, record, sizeof(record));
}

static void open_run(void *arg)
{
	struct open_job *j = arg;
	j->rc = connect_cluster(j);
	if (j->rc == 0)
		j->rc = format_settle(j);
}

static void close_run(void *arg)
{
	struct rados *r = arg;
	if (r->io_open)
		rados_ioctx_destroy(r->io);
	if (r->cluster != NULL)
		rados_shutdown(r->cluster);
}

/* --- on the loop ------------------------------------------------------------------------------ */

static void objects_close(struct omap *o)
{
	struct rados *r = rados_of(o);
	assert(rt_on_loop(r->loop) && r->inflight == 0);
	rt_shield_enter();
	(void)rt_offload(close_run, r);
	rt_shield_leave();
	free(r);
}

static const struct omap_ops rados_ops = {
	.write = objects_write,
	.read = objects_read,
	.close = objects_close,
};

int rados_omap_open(struct omap **out, const struct kv_rados_options *options)
{
	struct rados *r = calloc(1, sizeof(*r));
	if (r == NULL)
		return -ENOMEM;
	r->base = (struct omap){.ops = &rados_ops, .name = "rados"};
	r->loop = rt_loop_self();
	rt_cond_init(&r->room);
	struct open_job j = {.rados = r, .options = options, .step = ""};
	int rc = rt_offload(open_run, &j);
	rc = rc != 0 ? rc : j.rc;
	if (rc != 0) {
		const char *conf = options->conf != NULL ? options->conf : "";
		log_error("kv_rados_open", "conf=%s pool=%s step=%s err=%s what=%s",
			  LOG_QUOTE(conf), LOG_QUOTE(options->pool), j.step, err_name(rc),
			  LOG_QUOTE(err_text(rc)));
		objects_close(&r->base);
		return rc;
	}
	*out = &r->base;
	return 0;
}

int kv_rados_open(struct kv **out, const struct kv_rados_options *options)
{
	struct omap *o;
	int rc = rados_omap_open(&o, options);
	if (rc != 0)
		return rc;
	uint64_t settle_ms = options->settle_ms != 0 ? options->settle_ms : SETTLE_MS;
	struct kv_omap_options ko = {.batch_txns_max = options->batch_txns_max,
				     .settle_ns = settle_ms * NS_PER_MS};
	return kv_omap_open_take(out, o, &ko);
}
