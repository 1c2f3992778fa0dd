// SPDX-License-Identifier: Apache-2.0
#include "store/throttle.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "rt/rt.h"
#include "store/format.h"

struct throttle_store {
	struct store base;
	struct store *below;
	struct drive drive;
};

static struct throttle_store *throttle_of(struct store *s)
{
	return container_of(s, struct throttle_store, base);
}

static uint64_t offset_of(const struct throttle_store *t, struct chunk_id id)
{
	uint64_t size = t->drive.spec.size_bytes;
	uint64_t room = size > STORE_CHUNK_MAX + CHUNK_SLOTS_BYTES
				? size - STORE_CHUNK_MAX - CHUNK_SLOTS_BYTES
				: 1;
	return hash64_u64s(id.block, id.index) % room / CHUNK_PAGE_BYTES * CHUNK_PAGE_BYTES;
}

/*
 * Waits for the device after a successful call below. A write has already happened in the store
 * below, so the deadline does not end its wait: the write is acknowledged late rather than not at
 * all.
 */
static int wait_for_device(struct throttle_store *t, uint64_t start_ns, uint64_t at, uint64_t bytes,
			   bool write)
{
	if (!write)
		return drive_request(&t->drive, start_ns, at, bytes, false);
	rt_shield_enter();
	int rc = drive_request(&t->drive, start_ns, at, bytes, true);
	rt_shield_leave();
	return rc;
}

static int throttle_put(struct store *s, struct chunk_id id, const struct store_put *p)
{
	struct throttle_store *t = throttle_of(s);
	uint64_t start_ns = rt_now_ns();
	int rc = store_put(t->below, id, p);

	if (rc != 0)
		return rc;
	return wait_for_device(t, start_ns, offset_of(t, id), CHUNK_SLOTS_BYTES + p->data.len,
			       true);
}

static int throttle_append(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t off,
			   const struct store_data *data)
{
	struct throttle_store *t = throttle_of(s);
	uint64_t start_ns = rt_now_ns();
	int rc = store_append(t->below, id, epoch, off, data);

	if (rc != 0)
		return rc;
	if (data->len >= CHUNK_PAGE_BYTES) {
		rc = wait_for_device(t, start_ns,
				     offset_of(t, id) + CHUNK_SLOTS_BYTES + chunk_paged(off),
				     data->len, true);
		start_ns = rt_now_ns();
	}
	return rc != 0 ? rc
		       : wait_for_device(t, start_ns, offset_of(t, id), CHUNK_SLOT_BYTES, true);
}

static int throttle_get(struct store *s, struct chunk_id id, uint64_t off, void *buf, uint64_t len,
			uint32_t *crc)
{
	struct throttle_store *t = throttle_of(s);
	uint64_t start_ns = rt_now_ns();
	int rc = store_get(t->below, id, off, buf, len, crc);

	if (rc != 0)
		return rc;
	return wait_for_device(t, start_ns, offset_of(t, id) + CHUNK_SLOTS_BYTES + off, len, false);
}

static int throttle_seal(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t len)
{
	struct throttle_store *t = throttle_of(s);
	uint64_t start_ns = rt_now_ns();
	int rc = store_seal(t->below, id, epoch, len);

	return rc != 0 ? rc
		       : wait_for_device(t, start_ns, offset_of(t, id), CHUNK_SLOT_BYTES, true);
}

static int throttle_delete(struct store *s, struct chunk_id id)
{
	struct throttle_store *t = throttle_of(s);
	uint64_t start_ns = rt_now_ns();
	int rc = store_delete(t->below, id);

	return rc != 0 ? rc
		       : wait_for_device(t, start_ns, offset_of(t, id), CHUNK_PAGE_BYTES, true);
}

static int64_t throttle_list(struct store *s, struct store_cursor *at, struct chunk_id *out,
			     size_t max)
{
	return store_list(throttle_of(s)->below, at, out, max);
}

static int64_t throttle_scan(struct store *s, struct chunk_id id, struct store_range *bad,
			     size_t max)
{
	struct throttle_store *t = throttle_of(s);
	uint64_t start_ns = rt_now_ns();
	struct chunk_stat st;
	int64_t n = store_scan(t->below, id, bad, max);

	if (n < 0 || store_stat(t->below, id, &st) != 0)
		return n;
	int rc = wait_for_device(t, start_ns, offset_of(t, id), CHUNK_SLOTS_BYTES + st.len, false);
	return rc != 0 ? rc : n;
}

static int throttle_stat(struct store *s, struct chunk_id id, struct chunk_stat *out)
{
	return store_stat(throttle_of(s)->below, id, out);
}

static int throttle_reserve(struct store *s, int64_t bytes)
{
	return store_reserve(throttle_of(s)->below, bytes);
}

static void throttle_info(struct store *s, struct store_info *out)
{
	store_info(throttle_of(s)->below, out);
}

static int throttle_control(struct store *s, enum store_state state)
{
	return store_control(throttle_of(s)->below, state);
}

static void throttle_close(struct store *s)
{
	struct throttle_store *t = throttle_of(s);

	store_close(t->below);
	free(t);
}

static const struct store_ops throttle_ops = {
	.put = throttle_put,
	.append = throttle_append,
	.get = throttle_get,
	.seal = throttle_seal,
	.delete = throttle_delete,
	.list = throttle_list,
	.scan = throttle_scan,
	.stat = throttle_stat,
	.reserve = throttle_reserve,
	.info = throttle_info,
	.control = throttle_control,
	.close = throttle_close,
};

int store_throttle_open_take(struct store *below, const struct drive_spec *spec, struct store **out)
{
	struct throttle_store *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return -ENOMEM;
	int rc = drive_init(&t->drive, spec);
	if (rc != 0) {
		free(t);
		return rc;
	}
	t->base.ops = &throttle_ops;
	t->below = below;
	*out = &t->base;
	return 0;
}

void store_throttle_stats(const struct store *s, struct drive_stats *out)
{
	*out = container_of(s, struct throttle_store, base)->drive.stats;
}
