// SPDX-License-Identifier: Apache-2.0
/*
 * The distributed engine: one RADOS object per partition. Any number of processes may open the same store.
 * omap_txn.c describes how transactions are combined and applied exactly once, omap_codec.h the layout of a
 * partition, omap.h the interface to RADOS.
 *
 * Time. Calls wait during a failover of OSDs: about a second after a crash, the cluster's heartbeat grace
 * after a hang. A read without an answer for op_timeout_ms returns -EHOSTUNREACH, and so does a transaction
 * that was not sent. A transaction that was sent returns -ETIMEDOUT after settle_ms more.
 *
 * Keep partitions small: RADOS recovers an object as a unit, and writes to it wait until then. An object of
 * 50,000 keys takes about a second; Ceph warns at 200,000 keys.
 */
#ifndef KV_RADOS_H
#define KV_RADOS_H

#include "kv/kv.h"
#include "kv/omap.h"

struct kv_rados_options {
	const char *conf; /* path of ceph.conf; NULL: librados searches its default paths */
	const char *user; /* name of the Ceph user; NULL: client.admin */
	/* name of the pool; it must be replicated: erasure-coded pools have no omap */
	const char *pool;
	const char *space;           /* RADOS namespace of the store; NULL: "terrane" */
	uint32_t connect_timeout_ms; /* time limit for connecting; 0: 10 s */
	/*
	 * time after which librados gives up an operation; 0: 15 s; must be longer than the cluster
	 * needs to replace an OSD
	 */
	uint32_t op_timeout_ms;
	/* time limit for finding out whether a write without an answer was done; 0: 30 s */
	uint32_t settle_ms;
	/* transactions per commit, for measurements; 0: KV_BATCH_TXNS_MAX */
	unsigned batch_txns_max;
	bool only_existing; /* return -ENOENT if there is no store, instead of creating one */
};

/*
 * Connects to the cluster and opens the store, waiting for both. -ETIMEDOUT: no monitor answers; -ENOENT:
 * no such pool or configuration file; -EOPNOTSUPP: the pool has no omap, or a later version wrote the
 * store; -EBADMSG: the namespace holds objects of another program; -EACCES, -ENOMEM. The log names the step
 * that failed.
 */
int kv_rados_open(struct kv **out, const struct kv_rados_options *options);

/*
 * Opens the object store without the engine, for tests that wrap it. The caller closes it with the
 * close function of its ops.
 */
int rados_omap_open(struct omap **out, const struct kv_rados_options *options);

#endif
