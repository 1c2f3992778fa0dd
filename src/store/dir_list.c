// SPDX-License-Identifier: Apache-2.0
/*
 * Listing: one directory of chunks after the other, each in the order of the ids. A call reads all
 * names of a directory and keeps the smallest ids that fit in the caller's buffer, so memory does
 * not grow with the directory. The cursor is the last id returned.
 */
#include <assert.h>
#include <errno.h>

#include "base/log.h"
#include "store/dir_impl.h"

/* A max-heap of the smallest ids found so far. */
struct smallest {
	const struct dir_store *d;
	const struct store_cursor *after;
	uint32_t fan;
	struct chunk_id *ids;
	size_t count;
	size_t max;
};

static void sift_down(struct chunk_id *ids, size_t count, size_t i)
{
	for (size_t child; (child = 2 * i + 1) < count; i = child) {
		if (child + 1 < count && chunk_id_compare(ids[child], ids[child + 1]) < 0)
			child++;
		if (chunk_id_compare(ids[i], ids[child]) >= 0)
			return;
		struct chunk_id t = ids[i];
		ids[i] = ids[child];
		ids[child] = t;
	}
}

static void sift_up(struct chunk_id *ids, size_t i)
{
	for (size_t parent; i > 0; i = parent) {
		parent = (i - 1) / 2;
		if (chunk_id_compare(ids[parent], ids[i]) >= 0)
			return;
		struct chunk_id t = ids[i];
		ids[i] = ids[parent];
		ids[parent] = t;
	}
}

static void sort(struct chunk_id *ids, size_t count)
{
	while (count > 1) {
		struct chunk_id t = ids[0];
		ids[0] = ids[--count];
		ids[count] = t;
		sift_down(ids, count, 0);
	}
}

static bool add_name(void *ctx, const char *name, bool is_dir)
{
	struct smallest *s = ctx;
	struct chunk_id id;

	if (is_dir || chunk_name_parse(name, &id) != 0 ||
	    chunk_fan(id, s->d->super.fan_bits) != s->fan) {
		log_warn("not_a_chunk", "name=%s", LOG_QUOTE(name));
		return true;
	}
	if (s->after->within && chunk_id_compare(id, s->after->last) <= 0)
		return true;
	const struct dir_chunk *c = dir_chunk_find(s->d, id);
	if (c != NULL && c->creating)
		return true;
	assert(s->count <= s->max);
	if (s->count < s->max) {
		s->ids[s->count] = id;
		sift_up(s->ids, s->count++);
	} else if (chunk_id_compare(id, s->ids[0]) < 0) {
		s->ids[0] = id;
		sift_down(s->ids, s->count, 0);
	}
	return true;
}

int64_t dir_list(struct store *s, struct store_cursor *at, struct chunk_id *out, size_t max)
{
	struct dir_store *d = dir_of(s);
	struct store_cursor cursor = *at;
	char path[DIR_PATH_MAX];
	size_t count = 0;
	int rc = dir_may_read(d);

	if (rc == 0 && max == 0)
		rc = -EINVAL;
	while (rc == 0 && count < max && cursor.major < UINT64_C(1) << d->super.fan_bits) {
		struct smallest sm = {.d = d,
				      .after = &cursor,
				      .fan = (uint32_t)cursor.major,
				      .ids = out + count,
				      .max = max - count};
		dir_fan_path(d, sm.fan, path);
		rc = dir_note(d, rt_dir_list(path, add_name, &sm));
		if (rc != 0)
			break;
		sort(sm.ids, sm.count);
		count += sm.count;
		if (sm.count == sm.max) {
			cursor.within = true;
			cursor.last = out[count - 1];
		} else {
			cursor = (struct store_cursor){.major = cursor.major + 1};
		}
	}
	if (rc != 0)
		return rc;
	*at = cursor;
	return (int64_t)count;
}
