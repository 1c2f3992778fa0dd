// SPDX-License-Identifier: Apache-2.0
/*
 * Reads with an operation on the bytes: the range is an image file, and the response is a part of it, cut or resized.
 *
 * The file is read as every read is. Then the request leaves the disk's queue and waits for a turn at the processors,
 * which traffic groups share by weight as they share a disk, and an offload thread does the operation. The result never
 * has more bytes than the file, so it is put into the buffer that held the file. Whatever stands in the way of the
 * operation, the response is the file, which costs no more than the read would have.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "node/service_impl.h"
#include "prep/fingerprint.h"
#include "rt/rt.h"

#define WAIT_NS (500 * NS_PER_MS) /* longest wait for a turn at the processors */
#define WORK_NS NS_PER_S          /* most processor time of an operation */

struct transform {
	struct work w;
	const Terrane__Node__TransformRequest *q;
	struct prep_op op;
	struct buf *buf; /* the file, then the bytes of the result */
	uint64_t skew;   /* offset of the file in it */
	uint64_t len;    /* of the file */
	uint32_t crc;    /* of the file, as the store has it */
	struct prep_result result;
	uint64_t start_ns, cpu_ns; /* processor time of the offload thread */
};

int node_prep_open(struct node_prep *p, const struct node_serve_options *o)
{
	*p = (struct node_prep){0};
	if (o->prep_cores == 0)
		return 0;
	p->decoder = prep_fingerprint();
	struct sched_config config = sched_for_cores(o->prep_cores);
	int rc = sched_open(&config, &p->cores);
	for (size_t i = 0; rc == 0 && i < o->disks.weight_count; i++)
		rc = sched_weigh(p->cores, o->disks.weights[i].group, o->disks.weights[i].weight);
	return rc;
}

void node_prep_close(struct node_prep *p)
{
	sched_close(p->cores);
	p->cores = NULL;
}

/* --- on an offload thread ----------------------------------------------------------------------- */

static uint64_t thread_cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static bool is_too_long(void *ctx)
{
	const struct transform *t = ctx;
	return thread_cpu_ns() - t->start_ns > WORK_NS;
}

static void transform_work(void *arg)
{
	struct transform *t = arg;
	struct prep_limits limits = prep_limits_node;
	limits.stop = is_too_long;
	limits.stop_ctx = t;
	t->start_ns = thread_cpu_ns();
	struct prep_bytes file = {.data = t->buf->data + t->skew, .len = t->len};
	prep_serve(&t->op, t->w.node->prep.decoder, &limits, file, &t->result);
	t->cpu_ns = thread_cpu_ns() - t->start_ns;
}

/* --- the steps of a request --------------------------------------------------------------------- */

static int take_request(struct transform *t)
{
	const Terrane__Node__TransformRequest *q = t->q;
	struct rpc_request *r = t->w.r;
	if (q->range == NULL || q->range->len == 0)
		return rpc_fail(r, -EINVAL, "the request names no bytes");
	if (q->range->len > NODE_BYTES_MAX)
		return rpc_fail(r, -EMSGSIZE, "an operation takes at most %u bytes",
				NODE_BYTES_MAX);
	if (prep_op_get(&t->op, (struct prep_bytes){.data = q->op.data, .len = q->op.len}) < 0)
		return rpc_fail(r, -EINVAL, "the operation is not valid");
	t->len = q->range->len;
	return 0;
}

static int read_file(struct transform *t)
{
	t->skew = t->q->range->offset % BUF_ALIGN;
	if (t->len + t->skew > NODE_BYTES_MAX)
		t->skew = 0;
	int rc = work_hold_read(&t->w, t->len + t->skew);
	if (rc == 0)
		rc = rpc_reply_buf(t->w.r, t->len + t->skew, &t->buf);
	struct access_token token;
	access_open(&t->w, &t->q->token, &token);
	return rc == 0 ? work_read(&t->w, t->q->range, &token, t->buf->data + t->skew, &t->crc)
		       : rc;
}

/* Waits for a turn at the processors. -EAGAIN: not now. */
static int take_turn(struct transform *t, struct sched_turn *turn)
{
	struct sched_request want = work_request(&t->w, SCHED_READ, t->len);
	uint64_t before = rt_deadline_narrow(rt_now_ns() + WAIT_NS);
	int rc = sched_begin(t->w.node->prep.cores, &want, turn);
	rt_deadline_set(before);
	if (rc == -ETIME && rt_now_ns() < before)
		rc = -EAGAIN;
	return rc;
}

static int work_on_it(struct transform *t)
{
	AUTO_SCHED_TURN struct sched_turn turn = {0};
	int rc = take_turn(t, &turn);
	if (rc == -EAGAIN) {
		prep_refuse(&t->op, PREP_BUSY, t->crc, t->len, &t->result);
		return 0;
	}
	if (rc == 0)
		rc = rt_offload(transform_work, t);
	if (rc < 0)
		return rc;
	/* The store has checked the bytes: only memory can have changed them. */
	if (t->result.source_crc != t->crc)
		return rpc_fail(t->w.r, -EBADMSG, "the file changed in memory");
	(void)sched_next(&turn, 0);
	return 0;
}

static int transform(struct transform *t)
{
	struct node_prep *p = &t->w.node->prep;
	if (t->op.form != PREP_RAW && p->cores != NULL && t->op.decoder == p->decoder)
		return work_on_it(t);
	enum prep_reason reason = t->op.form == PREP_RAW ? PREP_ASKED
				  : p->cores == NULL     ? PREP_BUSY
							 : PREP_DECODER;
	prep_refuse(&t->op, reason, t->crc, t->len, &t->result);
	return 0;
}

static void count(struct node_prep *p, const struct transform *t)
{
	atomic_fetch_add_explicit(&p->results[t->result.reason], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&p->source_bytes, t->len, memory_order_relaxed);
	atomic_fetch_add_explicit(&p->sent_bytes, t->result.len, memory_order_relaxed);
	atomic_fetch_add_explicit(&p->cpu_ns, t->cpu_ns, memory_order_relaxed);
}

static int answer(struct transform *t)
{
	Terrane__Node__TransformResponse *reply = rpc_reply_body(t->w.r);
	uint8_t *head = rpc_alloc(t->w.r, PREP_RESULT_BYTES);
	if (head == NULL)
		return -ENOMEM;
	prep_result_put(&t->result, head);
	reply->result = (ProtobufCBinaryData){.len = PREP_RESULT_BYTES, .data = head};
	reply->cpu_ns = t->cpu_ns;
	if (t->result.data != NULL) {
		assert(t->result.len < t->len);
		memcpy(t->buf->data + t->skew, t->result.data, t->result.len);
	}
	count(&t->w.node->prep, t);
	rpc_reply_payload_take(t->w.r, (struct slice){.buf = t->buf,
						      .offset = t->skew,
						      .len = t->result.len,
						      .crc = t->result.crc});
	t->buf = NULL;
	return 0;
}

int handle_transform(struct rpc_request *r)
{
	struct transform t = {.q = rpc_body(r)};
	int rc = work_begin(&t.w, r, t.q->disk);
	if (rc == 0)
		rc = take_request(&t);
	if (rc == 0)
		rc = read_file(&t);
	if (rc == 0)
		rc = transform(&t);
	if (rc == 0)
		rc = answer(&t);
	prep_result_fini(&t.result);
	if (t.buf != NULL)
		buf_unref(t.buf);
	return work_end(&t.w, rc);
}

/* --- metrics ------------------------------------------------------------------------------------ */

int node_prep_print(struct node_prep *p, struct strbuf *out)
{
	int rc = strbuf_puts(out,
			     "# HELP terrane_prep_results_total reads with an operation, by why "
			     "the file was sent as it is\n"
			     "# TYPE terrane_prep_results_total counter\n");
	for (int i = 0; i < PREP_REASONS && rc == 0; i++)
		rc = strbuf_printf(out, "terrane_prep_results_total{reason=\"%s\"} %llu\n",
				   prep_reason_text((enum prep_reason)i),
				   (unsigned long long)atomic_load(&p->results[i]));
	if (rc == 0)
		rc = strbuf_printf(
			out,
			"# HELP terrane_prep_source_bytes_total bytes of the files of these reads\n"
			"# TYPE terrane_prep_source_bytes_total counter\n"
			"terrane_prep_source_bytes_total %llu\n"
			"# HELP terrane_prep_sent_bytes_total bytes sent instead\n"
			"# TYPE terrane_prep_sent_bytes_total counter\n"
			"terrane_prep_sent_bytes_total %llu\n"
			"# HELP terrane_prep_cpu_seconds_total processor time of operations\n"
			"# TYPE terrane_prep_cpu_seconds_total counter\n"
			"terrane_prep_cpu_seconds_total %.6f\n",
			(unsigned long long)atomic_load(&p->source_bytes),
			(unsigned long long)atomic_load(&p->sent_bytes),
			(double)atomic_load(&p->cpu_ns) / NS_PER_S);
	return rc;
}
