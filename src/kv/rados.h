// SPDX-License-Identifier: Apache-2.0
/*
 * The distributed engine: one RADOS object per partition. Any number of processes may have the same
 * store open. omap_txn.c says how transactions are combined and applied exactly once, omap_codec.h how
 * a partition looks, omap.h what is asked of RADOS.
 *
 * Time. While OSDs fail and others take over, calls wait; RADOS needs a second or so after a crash, and
 * the cluster's heartbeat grace after a hang. A call that gets no answer in op_timeout_ms is
 * -EHOSTUNREACH (reads, and transactions that were not sent) or, after settle_ms more, -ETIMEDOUT
 * (transactions that were).
 *
 * Keep partitions small: RADOS recovers an object as a whole, and writes to it wait meanwhile; 50,000
 * keys cost about a second, and Ceph warns at 200,000.
 */
#ifndef KV_RADOS_H
#define KV_RADOS_H

#include "kv/kv.h"
#include "kv/omap.h"

struct kv_rados_options {
	const char *conf;            /* path of ceph.conf; NULL: where librados looks */
	const char *user;            /* NULL: client.admin */
	const char *pool;            /* replicated: erasure-coded pools have no omap */
	const char *space;           /* the RADOS namespace; NULL: "terrane" */
	uint32_t connect_timeout_ms; /* 0: 10 s */
	uint32_t op_timeout_ms;      /* 0: 15 s; longer than the cluster needs to replace an OSD */
	uint32_t settle_ms;          /* 0: 30 s */
	unsigned batch_txns_max;     /* 0: many. For measurements */
};

/*
 * Waits. -ETIMEDOUT: no monitor answers; -ENOENT: no such pool or file; -EOPNOTSUPP: the pool has no
 * omap, or the store was written by a later version; -EBADMSG: not our store; -EACCES, -ENOMEM. The
 * log says which.
 */
int kv_rados_open(struct kv **out, const struct kv_rados_options *options);

/* The object store alone, for tests that stand something before it. Close it by its ops. */
int rados_omap_open(struct omap **out, const struct kv_rados_options *options);

#endif
