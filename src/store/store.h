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
 * still match it; otherwise they return -EBADMSG. Bytes that are read are verified with the checksums from
 * that time and returned with a CRC that is derived from these checksums. At no moment are bytes covered
 * only by a checksum that was computed over them later, when they were already in memory.
 *
 * Epochs. Every chunk keeps the highest epoch that it has seen. An append or seal brings its writer's epoch:
 * an older one is refused with -ESTALE, a newer one is recorded by the same operation. So once a store has
 * accepted an operation of a new writer (store_fence), it refuses every operation of the old writer.
 *
 * Acknowledged means that the call returned 0: the change then survives a power cut at any later moment.
 * After an error or a crash an operation has either happened completely or not at all. This is decided at
 * the latest when the store is opened again, and the outcome agrees with what readers have already seen.
 *
 * A store belongs to one loop. Calls may wait. Once put, append, seal or delete have begun to write they run
 * to their end, so that a deadline cannot interrupt a change half-way. Several calls on one chunk may run at
 * the same time: changes run one after the other, a read returns the last acknowledged state.
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
/* Value for the offset of an append: append at the current end of the chunk. */
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
	/* CRCs of each CRC_PIECE_BYTES of the payload (base/crc.h), taken when it was received; NULL: none. Whoever changes
	 * the payload clears it. */
	const uint32_t *crcs;
};

struct store_put {
	struct store_data data;
	uint64_t epoch;
	uint64_t capacity; /* maximum length in bytes; 0: the length of the data */
	bool open;         /* appends will follow; false: the chunk is sealed at once */
	bool reserved; /* the space was reserved earlier; the caller gives the reservation back */
	/*
	 * disks only: replaces an existing chunk in one step; after an error either the old or the new
	 * chunk exists
	 */
	bool replace;
	uint8_t label[STORE_LABEL_BYTES];
};

struct chunk_stat {
	uint64_t len;
	uint64_t capacity;
	uint64_t epoch;
	uint32_t crc;        /* CRC of all bytes of the chunk */
	uint32_t unit_bytes; /* bytes of the smallest range that a read verifies */
	bool sealed;
	uint8_t label[STORE_LABEL_BYTES];
};

/*
 * The position of a listing: zeroed by the caller before the first call, then updated by the store.
 */
struct store_cursor {
	uint64_t major;
	struct chunk_id last;
	/* true: continue after the chunk `last`; false: continue at the start of `major` */
	bool within;
};

struct store_range {
	uint64_t off;
	uint64_t len;
};

enum store_state {
	STORE_ONLINE,
	/*
	 * no space is free: refuses the same calls as STORE_DRAINING, but with -ENOSPC, until space
	 * is free
	 */
	STORE_FULL,
	/* a call to the device failed: refuses new data (-EROFS) until a probe succeeds */
	STORE_SUSPECT,
	/* set by an operator: accepts only reads, seals and deletes; other changes return -EROFS */
	STORE_DRAINING,
	STORE_FAILED, /* every call returns -EIO, or -ENODEV when the device is missing */
};

struct store_info {
	enum store_state state;
	uint64_t total_bytes;
	uint64_t free_bytes; /* free bytes, without reserved_bytes */
	uint64_t reserved_bytes;
	uint64_t io_errors;       /* number of calls that failed on the device */
	uint64_t checksum_errors; /* number of reads whose bytes did not match their checksum */
	/* number of appends that a crash interrupted and that were rolled back */
	uint64_t rolled_back;
};

struct store;

/*
 * Every call may also return -EIO and -ENODEV (see the states), -ENOMEM, and -ETIME or -ECANCELED
 * before the call has begun to write. The store uses the arguments only until the call returns.
 */
struct store_ops {
	/*
	 * Creates a chunk. -EEXIST, -EALREADY while another put of this chunk is running, -EBADMSG,
	 * -ENOSPC, -EROFS, -EFBIG, -EINVAL (a pool also returns it if `replace` is set).
	 */
	int (*put)(struct store *s, struct chunk_id id, const struct store_put *p);

	/*
	 * Appends to an open chunk; off must be its end. An append without data only raises the
	 * epoch. -ENOENT, -ESTALE, -EPERM when sealed, -ERANGE when off is not the end, -EFBIG
	 * beyond its capacity, -EBADMSG, -ENOSPC, -EROFS, -EINVAL.
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
	 * Ends appends at len and cuts off the bytes beyond len. A repeated seal with the same len
	 * returns 0. -ENOENT, -ESTALE, -EPERM when sealed at another length, -ERANGE when the chunk
	 * is shorter, -EROFS.
	 */
	int (*seal)(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t len);

	/* Deletes a chunk, even if it is damaged. -ENOENT if it does not exist. */
	int (*delete)(struct store *s, struct chunk_id id);

	/*
	 * Lists up to max ids after the cursor, in an order that the store chooses, and moves the
	 * cursor. Returns their number, 0 at the end. A chunk that exists during the whole list is
	 * listed once.
	 */
	int64_t (*list)(struct store *s, struct store_cursor *at, struct chunk_id *out, size_t max);

	/*
	 * Reads a chunk completely from the medium and verifies it. Returns the number of damaged
	 * ranges, at most max, in order; 0 when no range is damaged. -ENOENT, -EBADMSG when no byte
	 * of the chunk can be read.
	 */
	int64_t (*scan)(struct store *s, struct chunk_id id, struct store_range *bad, size_t max);

	/* Returns length, epoch, checksums and label of a chunk in *out. -ENOENT, -EBADMSG. */
	int (*stat)(struct store *s, struct chunk_id id, struct chunk_stat *out);

	/*
	 * Reserves space (bytes > 0) or gives reserved space back (bytes < 0). Reservations are
	 * lost at a restart. -ENOSPC, -EROFS.
	 */
	int (*reserve)(struct store *s, int64_t bytes);

	/* Reports state and counters; never fails. A number that cannot be determined is 0. */
	void (*info)(struct store *s, struct store_info *out);

	/*
	 * Sets the state to online, draining or failed. -EINVAL for other states, -EIO when the
	 * store cannot come back online.
	 */
	int (*control)(struct store *s, enum store_state state);

	/*
	 * Frees the store; no call may be running. A wrapper also closes the store that it wraps.
	 */
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

/*
 * Raises the epoch of a chunk, so that operations with an older epoch are refused from now on.
 * Returns the errors of append.
 */
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

/* Returns the CRCs of the pieces of bytes [off, off + len) of the payload; NULL: it came without, or no piece begins or
 * ends where these bytes do. */
const uint32_t *store_data_crcs(const struct store_data *data, uint64_t off, uint64_t len);

/* Checks all arguments of a put. Errors of store_data_check. */
int store_put_check(const struct store_put *p);

/* Copies bytes [off, off + len) of the payload to `to`. */
void store_data_copy(const struct store_data *data, uint64_t off, void *to, uint64_t len);

/*
 * Checks an append by the rules that all stores share. Returns 0, or the error that append must
 * return.
 */
int store_append_check(const struct chunk_stat *st, uint64_t epoch, uint64_t off, uint64_t len);
/*
 * Checks a seal by the rules that all stores share. Returns 0, the error that seal must return, or
 * STORE_SEAL_DONE when the chunk is sealed at this length already.
 */
#define STORE_SEAL_DONE 1
int store_seal_check(const struct chunk_stat *st, uint64_t epoch, uint64_t len);
/*
 * Checks a get by the rules that all stores share. -ERANGE past the end of the chunk, -EOVERFLOW.
 */
int store_get_check(const struct chunk_stat *st, uint64_t off, uint64_t len);

#endif
