// SPDX-License-Identifier: Apache-2.0
/*
 * A store keeps chunks. A disk is a store, a pool of disks is one, and so is a store with faults or
 * the speed of another device in front of it: all have the one interface below, and a wrapper works
 * over any other.
 *
 * A chunk is a run of bytes named by (block, index). It is made by put, whole or open for appends,
 * grows by append, and is sealed once. Nothing stored ever changes in place: the bytes below the
 * length are the same for ever, until the chunk is deleted or its seal cuts it.
 *
 * Checksums. Bytes come with the CRC-32C that their sender computed, and a store takes them only
 * when they still have it (-EBADMSG). What leaves is checked against the checksums of when it came
 * in, and leaves with the CRC that follows from those: at no moment are bytes covered only by a sum
 * that was computed over them in memory afterwards.
 *
 * Epochs. Every chunk holds the highest epoch it has seen. Who appends or seals names its own: an
 * older one is refused with -ESTALE, a newer one is recorded with the same operation. So once a new
 * writer has been accepted (store_fence), nothing of the old one is.
 *
 * Acknowledged is what returned 0: it survives the loss of power at any moment after that. After an
 * error or a crash an operation has happened as a whole or not at all. Which of the two is decided
 * when the store is opened again at the latest, and from then on what a reader has been shown stays.
 *
 * A store belongs to one loop. Calls wait; put, append, seal and delete run to their end once they
 * have begun to write, so that a deadline cannot leave a chunk half-way. Several calls on the same
 * chunk may be under way: changes of it take their turn, reads see the last acknowledged state.
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

/* No chunk is longer. */
#define STORE_CHUNK_MAX (256 * MIB)
/* What the layer above may keep with a chunk. */
#define STORE_LABEL_BYTES 32
/* Pieces of one payload. */
#define STORE_IOV_MAX 2048
/* As an offset of append: wherever the chunk ends. */
#define STORE_AT_END UINT64_MAX

/* Bytes on their way in. Pieces of any length and alignment; multiples of 4 KiB are not copied. */
struct store_data {
	const struct iovec *iov;
	int n;
	uint64_t len; /* the sum of the pieces */
	uint32_t crc; /* of all of them, from where they came from */
};

struct store_put {
	struct store_data data;
	uint64_t epoch;
	uint64_t capacity; /* the most it may grow to; 0: as long as the data */
	bool open;         /* appends follow; otherwise it is sealed from the start */
	bool reserved;     /* the space is part of an earlier reserve, which the caller releases */
	bool replace;      /* disks only: takes the place of what is there, if anything, as a whole;
			    * after an error the one or the other is there */
	uint8_t label[STORE_LABEL_BYTES];
};

struct chunk_stat {
	uint64_t len;
	uint64_t capacity;
	uint64_t epoch;
	uint32_t crc;        /* of all its bytes */
	uint32_t unit_bytes; /* what a read verifies at least */
	bool sealed;
	uint8_t label[STORE_LABEL_BYTES];
};

/* Where a list goes on: all zero for its beginning, afterwards the store's own. */
struct store_cursor {
	uint64_t major;
	struct chunk_id last;
	bool within; /* after `last`, not before the first of `major` */
};

struct store_range {
	uint64_t off;
	uint64_t len;
};

enum store_state {
	STORE_ONLINE,
	STORE_FULL,    /* no space: as draining, but with -ENOSPC, and only until there is some */
	STORE_SUSPECT, /* an error was met: takes nothing new (-EROFS) until a probe went well */
	STORE_DRAINING, /* as an operator wants it: read, sealed and deleted from, -EROFS for the rest */
	STORE_FAILED, /* answers -EIO, or -ENODEV when the device is gone */
};

struct store_info {
	enum store_state state;
	uint64_t total_bytes;
	uint64_t free_bytes; /* without what is reserved */
	uint64_t reserved_bytes;
	uint64_t io_errors;       /* calls the device failed */
	uint64_t checksum_errors; /* reads that met bytes which were not what was written */
	uint64_t rolled_back;     /* appends found torn after a crash and taken back */
};

struct store;

/*
 * Every call may also return -EIO and -ENODEV (see the states), -ENOMEM, and before it has begun
 * -ETIME and -ECANCELED. Arguments are borrowed until the call returns.
 */
struct store_ops {
	/* Makes a chunk. -EEXIST, -EALREADY when a put of it is under way, -EBADMSG, -ENOSPC,
	 * -EROFS, -EFBIG, -EINVAL (a pool replaces nothing). */
	int (*put)(struct store *s, struct chunk_id id, const struct store_put *p);

	/* Adds to an open chunk at its end, which off must name. No bytes: only raises the epoch.
	 * -ENOENT, -ESTALE, -EPERM when sealed, -ERANGE when it does not end there, -EFBIG beyond
	 * its capacity, -EBADMSG, -ENOSPC, -EROFS, -EINVAL. */
	int (*append)(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t off,
		      const struct store_data *data);

	/* Reads [off, off + len) into buf and sets *crc to its CRC. -ENOENT, -ERANGE past the end,
	 * -EBADMSG: then the contents of buf are undefined. */
	int (*get)(struct store *s, struct chunk_id id, uint64_t off, void *buf, uint64_t len,
		   uint32_t *crc);

	/* Ends appends at len and cuts off what lies beyond. Again with the same len: 0. -ENOENT,
	 * -ESTALE, -EPERM when sealed at another length, -ERANGE when it is shorter, -EROFS. */
	int (*seal)(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t len);

	/* Forgets a chunk, damaged or not. -ENOENT. */
	int (*delete)(struct store *s, struct chunk_id id);

	/* Up to max ids after the cursor, in an order of the store's own, and moves the cursor.
	 * Returns their number, 0 at the end. A chunk that is there all the while is listed once. */
	int64_t (*list)(struct store *s, struct store_cursor *at, struct chunk_id *out, size_t max);

	/* Reads all of a chunk past every cache and verifies it. Returns the number of damaged
	 * ranges, at most max, in order; 0 when it is whole. -ENOENT, -EBADMSG when nothing of it
	 * can be read. */
	int64_t (*scan)(struct store *s, struct chunk_id id, struct store_range *bad, size_t max);

	/* -ENOENT, -EBADMSG. */
	int (*stat)(struct store *s, struct chunk_id id, struct chunk_stat *out);

	/* Sets aside space (bytes > 0) or gives it back (< 0). Not durable. -ENOSPC, -EROFS. */
	int (*reserve)(struct store *s, int64_t bytes);

	/* Never fails on a store that is open: what cannot be asked is 0. */
	void (*info)(struct store *s, struct store_info *out);

	/* Moves it to online, draining or failed. -EINVAL for the other states, -EIO when it
	 * cannot come back online. */
	int (*control)(struct store *s, enum store_state state);

	/* Frees it; no call may be under way. Wrappers close what is below them. */
	void (*close)(struct store *s);
};

struct store {
	const struct store_ops *ops;
};

/* --- what every user and implementation needs ------------------------------------------------- */

static inline int store_put(struct store *s, struct chunk_id id, const struct store_put *p)
{
	return s->ops->put(s, id, p);
}

static inline int store_append(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t off,
			       const struct store_data *data)
{
	return s->ops->append(s, id, epoch, off, data);
}

/* From now on nothing with an older epoch is accepted for this chunk. Errors as append. */
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

/* NULL is fine. */
static inline void store_close(struct store *s)
{
	if (s != NULL)
		s->ops->close(s);
}

/* "online", "full", "suspect", "draining", "failed". */
const char *store_state_name(enum store_state state);

/* By block, then index: less than, equal to or greater than 0. */
int chunk_id_compare(struct chunk_id a, struct chunk_id b);

static inline bool chunk_id_equal(struct chunk_id a, struct chunk_id b)
{
	return a.block == b.block && a.index == b.index;
}

/* One payload in one piece, with a CRC that came with it. */
struct store_data store_data_of(struct iovec *piece, const void *bytes, uint64_t len, uint32_t crc);

/* Whether the pieces are possible and add up: 0, -EINVAL, -EFBIG. Does not look at the bytes. */
int store_data_check(const struct store_data *data);

/* The same for a put as a whole. */
int store_put_check(const struct store_put *p);

/* Copies len bytes of the payload, from off. */
void store_data_copy(const struct store_data *data, uint64_t off, void *to, uint64_t len);

/* The rules of append and seal, the same for all stores: 0 or the error of the slot. */
int store_append_check(const struct chunk_stat *st, uint64_t epoch, uint64_t off, uint64_t len);
/* STORE_SEAL_DONE when the chunk is sealed at this length already. */
#define STORE_SEAL_DONE 1
int store_seal_check(const struct chunk_stat *st, uint64_t epoch, uint64_t len);
/* -ERANGE, -EOVERFLOW. */
int store_get_check(const struct chunk_stat *st, uint64_t off, uint64_t len);

#endif
