// SPDX-License-Identifier: Apache-2.0
/* The file format of models: one walk over the fields both writes and reads them. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "base/crc.h"
#include "base/le.h"
#include "placement/model.h"

#define VERSION 1u
#define RATES (sizeof(struct cost_rates) / sizeof(double))
#define TREE_BYTES 8u
#define NODE_BYTES 8u
#define ENTRY_BYTES (4 + 8 + 8 + 4 * (PAST_VALUES + 5))

static const uint8_t magic[8] = {'T', 'r', 'n', 'P', 'l', 'a', 'c', 'e'};

/* Writes when `out` is set, else reads. `short_of` is set when a read passes the end. */
struct cursor {
	uint8_t *out;
	const uint8_t *in;
	size_t at, size;
	bool short_of;
};

static bool has(struct cursor *c, size_t n)
{
	if (n > c->size - c->at)
		c->short_of = true;
	return !c->short_of;
}

static void u32(struct cursor *c, uint32_t *v)
{
	if (!has(c, 4))
		return;
	if (c->out != NULL)
		put_u32(c->out + c->at, *v);
	else
		*v = get_u32(c->in + c->at);
	c->at += 4;
}

static void u64(struct cursor *c, uint64_t *v)
{
	if (!has(c, 8))
		return;
	if (c->out != NULL)
		put_u64(c->out + c->at, *v);
	else
		*v = get_u64(c->in + c->at);
	c->at += 8;
}

static void f64(struct cursor *c, double *v)
{
	uint64_t bits;
	memcpy(&bits, v, sizeof(bits));
	u64(c, &bits);
	memcpy(v, &bits, sizeof(bits));
}

static void f32(struct cursor *c, float *v)
{
	uint32_t bits;
	memcpy(&bits, v, sizeof(bits));
	u32(c, &bits);
	memcpy(v, &bits, sizeof(bits));
}

static void name(struct cursor *c, char *text)
{
	if (!has(c, FEATURES_NAME_MAX))
		return;
	if (c->out != NULL)
		memcpy(c->out + c->at, text, FEATURES_NAME_MAX);
	else
		memcpy(text, c->in + c->at, FEATURES_NAME_MAX);
	c->at += FEATURES_NAME_MAX;
}

static void walk_head(struct cursor *c, struct model *m, uint32_t *used)
{
	uint32_t kind = m->kind;
	u32(c, &kind);
	m->kind = kind == MODEL_CLASSES ? MODEL_CLASSES : MODEL_ORDINAL;
	if (kind > MODEL_CLASSES)
		c->short_of = true;
	u32(c, &m->cuts.categories);
	u32(c, &m->features.numbers_n);
	u32(c, &m->features.texts_n);
	u32(c, &m->trees.groups);
	u32(c, &m->trees.features_n);
	u32(c, &m->trees.trees_n);
	u32(c, &m->trees.nodes_n);
	u32(c, &m->history.slots);
	u32(c, used);
	f32(c, &m->trees.base);
	f64(c, &m->trained_s);
	for (uint32_t i = 0; i < CATEGORY_MAX; i++)
		f64(c, &m->cuts.cut[i]);
	for (size_t i = 0; i < RATES; i++) {
		double rate;
		memcpy(&rate, (char *)&m->rates + i * sizeof(rate), sizeof(rate));
		f64(c, &rate);
		memcpy((char *)&m->rates + i * sizeof(rate), &rate, sizeof(rate));
	}
}

static void walk_names(struct cursor *c, struct features *f)
{
	for (uint32_t i = 0; i < f->numbers_n; i++)
		name(c, f->number_names[i]);
	for (uint32_t i = 0; i < f->texts_n; i++)
		name(c, f->text_names[i]);
}

static void walk_trees(struct cursor *c, struct trees *t)
{
	for (uint32_t i = 0; i < t->trees_n; i++) {
		u32(c, &t->list[i].first);
		u32(c, &t->list[i].group);
	}
	for (uint32_t i = 0; i < t->nodes_n; i++) {
		struct tree_node *n = &t->nodes[i];
		uint32_t bits =
			n->feature | (uint32_t)n->missing_left << 15 | (uint32_t)n->left << 16;
		f32(c, &n->value);
		u32(c, &bits);
		n->feature = bits & TREES_LEAF;
		n->missing_left = bits >> 15 & 1;
		n->left = (uint16_t)(bits >> 16);
	}
}

static void walk_entry(struct cursor *c, uint32_t *slot, struct past_entry *e)
{
	u32(c, slot);
	u64(c, &e->key);
	f64(c, &e->last_s);
	f32(c, &e->jobs);
	for (uint32_t i = 0; i < PAST_VALUES; i++)
		f32(c, &e->mean[i]);
	f32(c, &e->spread);
	f32(c, &e->last);
	f32(c, &e->gained);
	f32(c, &e->held);
}

static uint32_t count_used(const struct past *h)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < h->slots; i++)
		n += h->list[i].key != 0;
	return n;
}

int model_write(const struct model *m, uint8_t **bytes, size_t *len)
{
	struct model copy = *m;
	uint32_t used = count_used(&m->history);
	size_t columns = m->features.numbers_n + m->features.texts_n;
	size_t size = MODEL_HEAD_BYTES + 11 * 4 + 8 + 8 * (CATEGORY_MAX + RATES) +
		      columns * FEATURES_NAME_MAX + (size_t)m->trees.trees_n * TREE_BYTES +
		      (size_t)m->trees.nodes_n * NODE_BYTES + (size_t)used * ENTRY_BYTES;
	uint8_t *out = malloc(size);
	if (out == NULL)
		return -ENOMEM;
	struct cursor c = {.out = out, .at = MODEL_HEAD_BYTES, .size = size};
	walk_head(&c, &copy, &used);
	walk_names(&c, &copy.features);
	walk_trees(&c, &copy.trees);
	for (uint32_t i = 0; i < copy.history.slots; i++)
		if (copy.history.list[i].key != 0)
			walk_entry(&c, &i, &copy.history.list[i]);
	assert(!c.short_of && c.at == size);
	memcpy(out, magic, sizeof(magic));
	put_u32(out + 8, VERSION);
	put_u32(out + 12, crc32c(0, out + MODEL_HEAD_BYTES, size - MODEL_HEAD_BYTES));
	*bytes = out;
	*len = size;
	return 0;
}

static bool rates_valid(const struct cost_rates *r)
{
	double v;
	for (size_t i = 0; cost_rate(r, i, &v) != NULL; i++)
		if (!isfinite(v) || v < 0 || v > 1e30)
			return false;
	/* The cost model divides by these. */
	return r->disk_bytes_per_s >= 1 && r->group_bytes >= 1 && r->flash_byte_usd >= 1e-60 &&
	       r->dram_share <= 1;
}

static bool head_valid(const struct model *m, uint32_t used)
{
	const struct category_cuts *cuts = &m->cuts;
	bool ordinal = m->kind == MODEL_ORDINAL;
	if (cuts->categories < 2 || cuts->categories > CATEGORY_MAX ||
	    m->trees.groups != (ordinal ? 1 : cuts->categories) ||
	    m->features.numbers_n > FEATURES_COLUMNS_MAX ||
	    m->features.texts_n > FEATURES_COLUMNS_MAX || m->trees.trees_n > TREES_MAX ||
	    m->trees.nodes_n > TREES_NODES_MAX || used > m->history.slots ||
	    m->trees.features_n != features_count(&m->features) || !isfinite(m->trained_s))
		return false;
	for (uint32_t i = 0; i < CATEGORY_MAX; i++)
		if (!isfinite(cuts->cut[i]))
			return false;
	for (uint32_t i = 0; ordinal && i + 1 < cuts->categories - 2; i++)
		if (cuts->cut[i] > cuts->cut[i + 1])
			return false;
	return rates_valid(&m->rates);
}

static bool name_valid(const char *text, char kind)
{
	size_t n = strnlen(text, FEATURES_NAME_MAX);
	return n >= 3 && n < FEATURES_NAME_MAX && text[0] == kind && text[1] == '_' &&
	       strspn(text + 2, "abcdefghijklmnopqrstuvwxyz0123456789_") == n - 2;
}

static bool names_valid(const struct features *f)
{
	for (uint32_t i = 0; i < f->numbers_n; i++)
		if (!name_valid(f->number_names[i], 'n'))
			return false;
	for (uint32_t i = 0; i < f->texts_n; i++)
		if (!name_valid(f->text_names[i], 's'))
			return false;
	return true;
}

static int read_history(struct cursor *c, struct past *h, uint32_t used)
{
	for (uint32_t i = 0; i < used; i++) {
		struct past_entry e = {0};
		uint32_t slot = 0;
		walk_entry(c, &slot, &e);
		if (c->short_of)
			return -EBADMSG;
		if (!past_valid(h, slot, &e) || h->list[slot].key != 0)
			return -EINVAL;
		h->list[slot] = e;
	}
	return 0;
}

static int read_body(struct cursor *c, struct model *m)
{
	uint32_t used = 0, slots;
	walk_head(c, m, &used);
	if (c->short_of)
		return -EBADMSG;
	slots = m->history.slots;
	bool valid = head_valid(m, used);
	m->history.slots = 0; /* until the list is there */
	if (!valid)
		return -EINVAL;
	/* Before memory is taken, the file must be long enough for what it announces. */
	if (!has(c, (size_t)m->trees.trees_n * TREE_BYTES + (size_t)m->trees.nodes_n * NODE_BYTES +
			    (size_t)used * ENTRY_BYTES))
		return -EBADMSG;
	int rc = past_init(&m->history, slots);
	if (rc != 0)
		return rc;
	m->trees.list = calloc(m->trees.trees_n + 1, sizeof(*m->trees.list));
	m->trees.nodes = calloc(m->trees.nodes_n + 1, sizeof(*m->trees.nodes));
	if (m->trees.list == NULL || m->trees.nodes == NULL)
		return -ENOMEM;
	walk_names(c, &m->features);
	walk_trees(c, &m->trees);
	if (c->short_of)
		return -EBADMSG;
	if (!names_valid(&m->features) || !trees_check(&m->trees))
		return -EINVAL;
	rc = read_history(c, &m->history, used);
	return rc == 0 && c->at != c->size ? -EBADMSG : rc;
}

int model_parse(struct model *m, const uint8_t *bytes, size_t len)
{
	*m = (struct model){0};
	if (len > MODEL_BYTES_MAX)
		return -EINVAL;
	if (len < MODEL_HEAD_BYTES || memcmp(bytes, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	if (get_u32(bytes + 8) != VERSION)
		return -EPROTONOSUPPORT;
	if (get_u32(bytes + 12) != crc32c(0, bytes + MODEL_HEAD_BYTES, len - MODEL_HEAD_BYTES))
		return -EBADMSG;
	struct cursor c = {.in = bytes, .at = MODEL_HEAD_BYTES, .size = len};
	int rc = read_body(&c, m);
	if (rc != 0)
		model_fini(m);
	return rc;
}
