// SPDX-License-Identifier: Apache-2.0
#include "kv/rados_op.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "kv/rows.h"

/* Keys and values as librados takes them: arrays of pointers and of lengths. */
struct arrays {
	const char **keys;
	const char **values;
	size_t *key_lens;
	size_t *value_lens;
};

static int arrays_init(struct arrays *a, size_t n)
{
	*a = (struct arrays){
		.keys = calloc(n, sizeof(*a->keys)),
		.values = calloc(n, sizeof(*a->values)),
		.key_lens = calloc(n, sizeof(*a->key_lens)),
		.value_lens = calloc(n, sizeof(*a->value_lens)),
	};
	bool all = a->keys != NULL && a->values != NULL && a->key_lens != NULL &&
		   a->value_lens != NULL;
	return all ? 0 : -ENOMEM;
}

static void arrays_fini(struct arrays *a)
{
	free(a->keys);
	free(a->values);
	free(a->key_lens);
	free(a->value_lens);
}

/* --- writes ----------------------------------------------------------------------------------- */

static void add_guard(rados_write_op_t op, const struct omap_guard *g)
{
	uint8_t compare =
		g->kind == OMAP_PRESENT ? LIBRADOS_CMPXATTR_OP_GT : LIBRADOS_CMPXATTR_OP_EQ;
	bool equals = g->kind == OMAP_EQUALS;
	rados_write_op_omap_cmp2(op, g->key.data, compare, equals ? g->value.data : "", g->key.len,
				 equals ? g->value.len : 0, NULL);
}

static int add_sets(rados_write_op_t op, const struct omap_write *w)
{
	struct arrays a;
	int rc = arrays_init(&a, w->set_count);
	for (size_t i = 0; i < w->set_count && rc == 0; i++) {
		a.keys[i] = w->sets[i].key.data;
		a.key_lens[i] = w->sets[i].key.len;
		a.values[i] = w->sets[i].value.data;
		a.value_lens[i] = w->sets[i].value.len;
	}
	if (rc == 0)
		rados_write_op_omap_set2(op, a.keys, a.values, a.key_lens, a.value_lens,
					 w->set_count);
	arrays_fini(&a);
	return rc;
}

static int add_removes(rados_write_op_t op, const struct omap_write *w)
{
	struct arrays a;
	int rc = arrays_init(&a, w->remove_count);
	for (size_t i = 0; i < w->remove_count && rc == 0; i++) {
		a.keys[i] = w->removes[i].data;
		a.key_lens[i] = w->removes[i].len;
	}
	if (rc == 0)
		rados_write_op_omap_rm_keys2(op, a.keys, a.key_lens, w->remove_count);
	arrays_fini(&a);
	return rc;
}

int rados_op_write(struct rados_op *op, const struct omap_write *w)
{
	*op = (struct rados_op){.write = rados_create_write_op()};
	if (op->write == NULL)
		return -ENOMEM;
	assert(w->set_count + w->remove_count > 0);
	bool must_be_new = w->version_guard && w->version == 0;
	rados_write_op_create(op->write,
			      must_be_new ? LIBRADOS_CREATE_EXCLUSIVE : LIBRADOS_CREATE_IDEMPOTENT,
			      NULL);
	if (w->version_guard && !must_be_new)
		rados_write_op_assert_version(op->write, w->version);
	for (size_t i = 0; i < w->guard_count; i++)
		add_guard(op->write, &w->guards[i]);
	int rc = w->set_count > 0 ? add_sets(op->write, w) : 0;
	if (rc == 0 && w->remove_count > 0)
		rc = add_removes(op->write, w);
	return rc;
}

/* --- reads ------------------------------------------------------------------------------------ */

static const char *c_string(struct rados_op *op, struct kv_bytes text)
{
	char *copy = kv_rows_alloc(&op->memory, text.len + 1);
	if (copy == NULL)
		return NULL;
	if (text.len > 0)
		memcpy(copy, text.data, text.len);
	copy[text.len] = '\0';
	return copy;
}

static int add_keys(struct rados_op *op, const struct omap_read *r)
{
	struct arrays a;
	int rc = arrays_init(&a, r->key_count);
	for (size_t i = 0; i < r->key_count && rc == 0; i++) {
		a.keys[i] = r->keys[i].data;
		a.key_lens[i] = r->keys[i].len;
	}
	if (rc == 0)
		rados_read_op_omap_get_vals_by_keys2(op->read, a.keys, r->key_count, a.key_lens,
						     &op->keys, &op->keys_rc);
	arrays_fini(&a);
	return rc;
}

int rados_op_read(struct rados_op *op, const struct omap_read *r)
{
	*op = (struct rados_op){.read = rados_create_read_op()};
	if (op->read == NULL)
		return -ENOMEM;
	assert(r->key_count > 0 || r->prefix.len > 0);
	int rc = r->key_count > 0 ? add_keys(op, r) : 0;
	if (rc != 0 || r->prefix.len == 0)
		return rc;
	const char *prefix = c_string(op, r->prefix);
	const char *after = c_string(op, r->after);
	if (prefix == NULL || after == NULL)
		return -ENOMEM;
	rados_read_op_omap_get_vals2(op->read, after, prefix, r->rows_max, &op->page, &op->more,
				     &op->page_rc);
	return 0;
}

static int copy_rows(rados_omap_iter_t it, struct kv_rows *rows)
{
	for (;;) {
		char *key = NULL;
		char *value = NULL;
		struct kv_bytes k = {0};
		struct kv_bytes v = {0};
		int rc = rados_omap_get_next2(it, &key, &value, &k.len, &v.len);
		if (rc != 0)
			return rc;
		if (key == NULL)
			return 0;
		k.data = key;
		v.data = value;
		rc = kv_rows_add(rows, k, v);
		if (rc != 0)
			return rc;
	}
}

int rados_op_rows(struct rados_op *op, struct omap_read *r)
{
	assert(op->read != NULL);
	int rc = op->keys_rc != 0 ? op->keys_rc : op->page_rc;
	if (rc == 0 && op->keys != NULL)
		rc = copy_rows(op->keys, &r->found);
	if (rc == 0 && op->page != NULL)
		rc = copy_rows(op->page, &r->page);
	r->page.more = op->more != 0;
	return rc;
}

/* --- both ------------------------------------------------------------------------------------- */

int rados_op_submit(struct rados_op *op, rados_ioctx_t io, rados_completion_t completion,
		    const char *object)
{
	assert((op->write != NULL) != (op->read != NULL));
	/* FULL_TRY: on a full cluster the write fails, instead of waiting without limit. */
	if (op->write != NULL)
		return rados_aio_write_op_operate(op->write, io, completion, object, NULL,
						  LIBRADOS_OPERATION_FULL_TRY);
	return rados_aio_read_op_operate(op->read, io, completion, object,
					 LIBRADOS_OPERATION_NOFLAG);
}

void rados_op_fini(struct rados_op *op)
{
	if (op->keys != NULL)
		rados_omap_get_end(op->keys);
	if (op->page != NULL)
		rados_omap_get_end(op->page);
	if (op->write != NULL)
		rados_release_write_op(op->write);
	if (op->read != NULL)
		rados_release_read_op(op->read);
	kv_rows_fini(&op->memory);
}
