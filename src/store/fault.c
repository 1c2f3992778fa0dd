// SPDX-License-Identifier: Apache-2.0
#include "store/fault.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "rt/rt.h"

struct fault_store {
	struct store base;
	struct store *below;
	struct store_fault fault;
	uint64_t calls;
	uint64_t hits;
};

static struct fault_store *fault_of(struct store *s)
{
	return container_of(s, struct fault_store, base);
}

/*
 * Counts a call and returns whether the fault affects it. Sets *rc to the error that the call must
 * return at once, or to 0 to continue.
 */
static bool count_call(struct fault_store *f, enum store_call call, int *rc)
{
	*rc = 0;
	if ((f->fault.calls & (unsigned)call) == 0)
		return false;
	f->calls++;
	if (f->fault.nth == 0 || f->calls < f->fault.nth ||
	    (f->calls > f->fault.nth && !f->fault.from_there))
		return false;
	f->hits++;
	if (f->fault.delay_ns > 0)
		*rc = rt_sleep_ns(f->fault.delay_ns);
	return true;
}

/* Returns the result of a call for which the store below returned `below`. */
static int64_t result(const struct fault_store *f, bool affected, int64_t below)
{
	return affected && f->fault.rc != 0 ? f->fault.rc : below;
}

/* Returns whether the call is passed to the store below. */
static bool calls_below(const struct fault_store *f, bool affected)
{
	return !affected || f->fault.rc == 0 || f->fault.after;
}

/* Returns a contiguous copy of the payload with one bit flipped and the CRC unchanged. */
static uint8_t *corrupted(const struct store_data *data, struct iovec *piece,
			  struct store_data *out)
{
	uint8_t *bytes = malloc(data->len);

	if (bytes == NULL)
		return NULL;
	store_data_copy(data, 0, bytes, data->len);
	bytes[data->len / 2] ^= 0x10;
	*out = store_data_of(piece, bytes, data->len, data->crc);
	return bytes;
}

static int fault_put(struct store *s, struct chunk_id id, const struct store_put *p)
{
	struct fault_store *f = fault_of(s);
	struct store_put changed = *p;
	struct iovec piece;
	int rc;
	bool affected = count_call(f, STORE_CALL_PUT, &rc);

	if (rc != 0 || !calls_below(f, affected))
		return rc != 0 ? rc : f->fault.rc;
	AUTO_FREE uint8_t *copy = NULL;
	if (affected && f->fault.corrupt && p->data.len > 0) {
		copy = corrupted(&p->data, &piece, &changed.data);
		if (copy == NULL)
			return -ENOMEM;
	}
	return (int)result(f, affected, store_put(f->below, id, &changed));
}

static int fault_append(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t off,
			const struct store_data *data)
{
	struct fault_store *f = fault_of(s);
	struct store_data changed = *data;
	struct iovec piece;
	int rc;
	bool affected = count_call(f, STORE_CALL_APPEND, &rc);

	if (rc != 0 || !calls_below(f, affected))
		return rc != 0 ? rc : f->fault.rc;
	AUTO_FREE uint8_t *copy = NULL;
	if (affected && f->fault.corrupt && data->len > 0) {
		copy = corrupted(data, &piece, &changed);
		if (copy == NULL)
			return -ENOMEM;
	}
	return (int)result(f, affected, store_append(f->below, id, epoch, off, &changed));
}

static int fault_get(struct store *s, struct chunk_id id, uint64_t off, void *buf, uint64_t len,
		     uint32_t *crc)
{
	struct fault_store *f = fault_of(s);
	int rc;
	bool affected = count_call(f, STORE_CALL_GET, &rc);

	if (rc != 0 || !calls_below(f, affected))
		return rc != 0 ? rc : f->fault.rc;
	rc = store_get(f->below, id, off, buf, len, crc);
	if (rc == 0 && affected && f->fault.corrupt && len > 0)
		((uint8_t *)buf)[len / 2] ^= 0x10;
	return (int)result(f, affected, rc);
}

static int fault_seal(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t len)
{
	struct fault_store *f = fault_of(s);
	int rc;
	bool affected = count_call(f, STORE_CALL_SEAL, &rc);

	if (rc != 0 || !calls_below(f, affected))
		return rc != 0 ? rc : f->fault.rc;
	return (int)result(f, affected, store_seal(f->below, id, epoch, len));
}

static int fault_delete(struct store *s, struct chunk_id id)
{
	struct fault_store *f = fault_of(s);
	int rc;
	bool affected = count_call(f, STORE_CALL_DELETE, &rc);

	if (rc != 0 || !calls_below(f, affected))
		return rc != 0 ? rc : f->fault.rc;
	return (int)result(f, affected, store_delete(f->below, id));
}

static int64_t fault_list(struct store *s, struct store_cursor *at, struct chunk_id *out,
			  size_t max)
{
	struct fault_store *f = fault_of(s);
	int rc;
	bool affected = count_call(f, STORE_CALL_LIST, &rc);

	if (rc != 0 || !calls_below(f, affected))
		return rc != 0 ? rc : f->fault.rc;
	return result(f, affected, store_list(f->below, at, out, max));
}

static int64_t fault_scan(struct store *s, struct chunk_id id, struct store_range *bad, size_t max)
{
	struct fault_store *f = fault_of(s);
	int rc;
	bool affected = count_call(f, STORE_CALL_SCAN, &rc);

	if (rc != 0 || !calls_below(f, affected))
		return rc != 0 ? rc : f->fault.rc;
	return result(f, affected, store_scan(f->below, id, bad, max));
}

static int fault_stat(struct store *s, struct chunk_id id, struct chunk_stat *out)
{
	struct fault_store *f = fault_of(s);
	int rc;
	bool affected = count_call(f, STORE_CALL_STAT, &rc);

	if (rc != 0 || !calls_below(f, affected))
		return rc != 0 ? rc : f->fault.rc;
	return (int)result(f, affected, store_stat(f->below, id, out));
}

static int fault_reserve(struct store *s, int64_t bytes)
{
	struct fault_store *f = fault_of(s);
	int rc;
	bool affected = count_call(f, STORE_CALL_RESERVE, &rc);

	if (rc != 0 || !calls_below(f, affected))
		return rc != 0 ? rc : f->fault.rc;
	return (int)result(f, affected, store_reserve(f->below, bytes));
}

static void fault_info(struct store *s, struct store_info *out)
{
	store_info(fault_of(s)->below, out);
}

static int fault_control(struct store *s, enum store_state state)
{
	return store_control(fault_of(s)->below, state);
}

static void fault_close(struct store *s)
{
	struct fault_store *f = fault_of(s);

	store_close(f->below);
	free(f);
}

static const struct store_ops fault_ops = {
	.put = fault_put,
	.append = fault_append,
	.get = fault_get,
	.seal = fault_seal,
	.delete = fault_delete,
	.list = fault_list,
	.scan = fault_scan,
	.stat = fault_stat,
	.reserve = fault_reserve,
	.info = fault_info,
	.control = fault_control,
	.close = fault_close,
};

int store_fault_open_take(struct store *below, struct store **out)
{
	struct fault_store *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -ENOMEM;
	f->base.ops = &fault_ops;
	f->below = below;
	*out = &f->base;
	return 0;
}

void store_fault_set(struct store *s, const struct store_fault *fault)
{
	struct fault_store *f = fault_of(s);

	assert(fault->rc <= 0);
	f->fault = *fault;
	f->calls = 0;
	f->hits = 0;
}

uint64_t store_fault_calls(const struct store *s)
{
	return container_of(s, struct fault_store, base)->calls;
}

uint64_t store_fault_hits(const struct store *s)
{
	return container_of(s, struct fault_store, base)->hits;
}
