// SPDX-License-Identifier: Apache-2.0
/*
 * A store keeps chunks. A disk is a store, and so are a pool of disks and wrappers that inject faults or
 * emulate the speed of another device. All implement the one interface below, and a wrapper works over any
 * other store.
 *
 * A chunk is a run of bytes named by (block, index). A put creates it, complete or open for appends; appends
 * make it grow; a seal ends that. Stored bytes never change in place: the bytes below the length stay the
 * same until the chunk is deleted or its seal cuts it.
 *
 * Checksums. Bytes arrive with the CRC-32C that their sender computed, and a store accepts them only if they
 * still have it (-EBADMSG). Bytes that are read are verified with the checksums from that time and returned
 * with a CRC derived from those. At no moment are bytes covered only by a checksum that was computed over
 * them in memory later.
 *
 * Epochs. Every chunk keeps the highest epoch that it has seen. An append or seal brings its writer's epoch:
 * an older one is refused with -ESTALE, a newer one is recorded by the same operation. So once an operation
 * of a new writer has been accepted (store_fence), nothing of the old writer is accepted any more.
 *
 * Acknowledged means that the call returned 0: the change then survives a power cut at any later moment.
 * After an error or a crash an operation has either happened completely or not at all. This is decided at
 * the latest when the store is opened again, and what a reader has been shown does not change by it.
 *
 * A store belongs to one loop. Calls may wait. Once put, append, seal or delete have begun to write they run
 * to their end, so that a deadline cannot interrupt a change half-way. Several calls on one chunk may run
 * at the same time: changes run one after the other, reads see the last acknowledged state.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/base.h"

struct chunk_id {
	uint64_t block;
	uint32_t index;
};

/* Maximum length of a chunk. */
#define STORE_CHUNK_MAX (256 * MIB)
/* Size of the label that a caller can store with a chunk. */
#define STORE_LABEL_BYTES 32
/* Maximum number of pieces of a payload. */
#define STORE_IOV_MAX 2048
/* As the offset of an append: the current end of the chunk. */
#define STORE_AT_END UINT64_MAX

/*
 * A payload. Its pieces may have any length and alignment; pieces that are aligned to 4 KiB are
 * not copied.
 */
struct store_data {
	const struct iovec *iov;
	int n;
	uint64_t len; /* sum of the lengths of the pieces */
	uint32_t crc; /* CRC of all pieces, as computed by their sender */
};

struct store_put {
	struct store_data data;
	uint64_t epoch;
	uint64_t capacity; /* maximum length; 0: the length of the data */
	bool open;         /* appends follow; otherwise the chunk is sealed at once */
	bool reserved;     /* uses the space of an earlier reserve, which the caller gives back */
	bool replace; /* disks only: replaces an existing chunk in one step; after an error either the old or the new one is there */
	uint8_t label[STORE_LABEL_BYTES];
};

struct chunk_stat {
	uint64_t len;
	uint64_t capacity;
	uint64_t epoch;
	uint32_t crc;        /* CRC of all its bytes */
	uint32_t unit_bytes; /* smallest range that a read verifies */
	bool sealed;
	uint8_t label[STORE_LABEL_BYTES];
};

/* The position of a list: all zero at its start, then set by the store. */
struct store_cursor {
	uint64_t major;
	struct chunk_id last;
	bool within; /* continue after `last`; otherwise at the start of `major` */
};

struct store_range {
	uint64_t off;
	uint64_t len;
};

enum store_state {
	STORE_ONLINE,
	STORE_FULL,    /* no space: as draining, but with -ENOSPC, until space is free */
	STORE_SUSPECT, /* after an error: refuses new data (-EROFS) until a probe succeeds */
	STORE_DRAINING, /* set by an operator: only reads, seals and deletes; -EROFS for other changes */
	STORE_FAILED, /* every call returns -EIO, or -ENODEV when the device is missing */
};

struct store_info {
	enum store_state state;
	uint64_t total_bytes;
	uint64_t free_bytes; /* without reserved_bytes */
	uint64_t reserved_bytes;
	uint64_t io_errors;       /* calls that the device failed */
	uint64_t checksum_errors; /* reads of bytes that did not match their checksum */
	uint64_t rolled_back;     /* appends that a crash interrupted and that were rolled back */
};

struct store;

/*
 * Every call may also return -EIO and -ENODEV (see the states), -ENOMEM, and -ETIME or -ECANCELED
 * before it has begun to write. Arguments are borrowed until the call returns.
 */
struct store_ops {
	/*
	 * Creates a chunk. -EEXIST, -EALREADY while another put of it is running, -EBADMSG,
	 * -ENOSPC, -EROFS, -EFBIG, -EINVAL (also for replace in a pool).
	 */
	int (*put)(struct store *s, struct chunk_id id, const struct store_put *p);

	/*
	 * Appends to an open chunk; off must be its end. Without data it only raises the epoch.
	 * -ENOENT, -ESTALE, -EPERM when sealed, -ERANGE when off is not the end, -EFBIG beyond its
	 * capacity, -EBADMSG, -ENOSPC, -EROFS, -EINVAL.
	 */
	int (*append)(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t off,
		      const struct store_data *data);

	/*
	 * Reads [off, off + len) into buf and sets *crc to the CRC of these bytes. -ENOENT,
	 * -ERANGE past the end, -EBADMSG (the contents of buf are then undefined).
	 */
	int (*get)(struct store *s, struct chunk_id id, uint64_t off, void *buf, uint64_t len,
		   uint32_t *crc);

	/*
	 * Ends appends at len and cuts off the bytes beyond it. Repeating it with the same len
	 * returns 0. -ENOENT, -ESTALE, -EPERM when sealed at another length, -ERANGE when the
	 * chunk is shorter, -EROFS.
	 */
	int (*seal)(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t len);

	/* Deletes a chunk, damaged or not. -ENOENT. */
	int (*delete)(struct store *s, struct chunk_id id);

	/*
	 * Lists up to max ids after the cursor, in an order that the store chooses, and moves the
	 * cursor. Returns their number, 0 at the end. A chunk that exists during the whole list is
	 * listed once.
	 */
	int64_t (*list)(struct store *s, struct store_cursor *at, struct chunk_id *out, size_t max);

	/*
	 * Reads a chunk completely from the medium and verifies it. Returns the number of damaged
	 * ranges, at most max, in order; 0 when there are none. -ENOENT, -EBADMSG when nothing of
	 * the chunk can be read.
	 */
	int64_t (*scan)(struct store *s, struct chunk_id id, struct store_range *bad, size_t max);

	/* Returns facts about a chunk. -ENOENT, -EBADMSG. */
	int (*stat)(struct store *s, struct chunk_id id, struct chunk_stat *out);

	/* Reserves space (bytes > 0) or gives it back (bytes < 0). Not durable. -ENOSPC, -EROFS. */
	int (*reserve)(struct store *s, int64_t bytes);

	/* Reports state and counters; never fails. A number that cannot be determined is 0. */
	void (*info)(struct store *s, struct store_info *out);

	/*
	 * Sets the state to online, draining or failed. -EINVAL for other states, -EIO when the
	 * store cannot come back online.
	 */
	int (*control)(struct store *s, enum store_state state);

	/* Frees the store; no call may be running. Wrappers close the store below. */
	void (*close)(struct store *s);
};

struct store {
	const struct store_ops *ops;
};

/* --- for callers and implementations ---------------------------------------------------------- */

static inline int store_put(struct store *s, struct chunk_id id, const struct store_put *p)
{
	return s->ops->put(s, id, p);
}

static inline int store_append(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t off,
			       const struct store_data *data)
{
	return s->ops->append(s, id, epoch, off, data);
}

/* Refuses operations with an older epoch on this chunk from now on. Errors of append. */
static inline int store_fence(struct store *s, struct chunk_id id, uint64_t epoch)
{
	return s->ops->append(s, id, epoch, STORE_AT_END, &(struct store_data){0});
}

static inline int store_get(struct store *s, struct chunk_id id, uint64_t off, void *buf,
			    uint64_t len, uint32_t *crc)
{
	return s->ops->get(s, id, off, buf, len, crc);
}

static inline int store_seal(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t len)
{
	return s->ops->seal(s, id, epoch, len);
}

static inline int store_delete(struct store *s, struct chunk_id id)
{
	return s->ops->delete (s, id);
}

static inline int64_t store_list(struct store *s, struct store_cursor *at, struct chunk_id *out,
				 size_t max)
{
	return s->ops->list(s, at, out, max);
}

static inline int64_t store_scan(struct store *s, struct chunk_id id, struct store_range *bad,
				 size_t max)
{
	return s->ops->scan(s, id, bad, max);
}

static inline int store_stat(struct store *s, struct chunk_id id, struct chunk_stat *out)
{
	return s->ops->stat(s, id, out);
}

static inline int store_reserve(struct store *s, int64_t bytes)
{
	return s->ops->reserve(s, bytes);
}

static inline void store_info(struct store *s, struct store_info *out)
{
	s->ops->info(s, out);
}

static inline int store_control(struct store *s, enum store_state state)
{
	return s->ops->control(s, state);
}

/* Closes a store; NULL is allowed. */
static inline void store_close(struct store *s)
{
	if (s != NULL)
		s->ops->close(s);
}

/* Returns "online", "full", "suspect", "draining" or "failed". */
const char *store_state_name(enum store_state state);

/* Orders ids by block, then index; returns < 0, 0 or > 0. */
int chunk_id_compare(struct chunk_id a, struct chunk_id b);

static inline bool chunk_id_equal(struct chunk_id a, struct chunk_id b)
{
	return a.block == b.block && a.index == b.index;
}

/* Makes a payload of one piece, with the CRC that came with the bytes. */
struct store_data store_data_of(struct iovec *piece, const void *bytes, uint64_t len, uint32_t crc);

/* Checks number and lengths of the pieces, not the bytes. -EINVAL, -EFBIG. */
int store_data_check(const struct store_data *data);

/* Checks all arguments of a put. Errors of store_data_check. */
int store_put_check(const struct store_put *p);

/* Copies bytes [off, off + len) of the payload. */
void store_data_copy(const struct store_data *data, uint64_t off, void *to, uint64_t len);

/* The rules of append that all stores share: 0 or the slot's error. */
int store_append_check(const struct chunk_stat *st, uint64_t epoch, uint64_t off, uint64_t len);
/* The rules of seal. STORE_SEAL_DONE when the chunk is sealed at this length already. */
#define STORE_SEAL_DONE 1
int store_seal_check(const struct chunk_stat *st, uint64_t epoch, uint64_t len);
/* The rules of get. -ERANGE past the end, -EOVERFLOW. */
int store_get_check(const struct chunk_stat *st, uint64_t off, uint64_t len);

#endif
