// SPDX-License-Identifier: Apache-2.0
/*
 * Files of settings as an administrator may write them: the first byte chooses the role, the rest is the text.
 * Behind the parser (fuzz_conf.c) it reaches the lists of disks, pools and members, the shape of a box and the
 * cluster's id. Accepted settings must print and read back; a refusal must come with a reason.
 */
#include "fuzz.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "box/box.h"
#include "box/conf.h"
#include "client/cluster_file.h"
#include "node/label.h"
#include "roles/janitor_conf.h"
#include "roles/meta_conf.h"
#include "roles/node_conf.h"

#define ERR_MAX 8192
#define SHOW_MAX (1 << 20)

union settings {
	struct box_shape box;
	struct cluster_file cluster;
	struct janitor_conf janitor;
	struct meta_conf meta;
	struct node_conf node;
};

struct kind {
	const struct conf_key *schema;
	const size_t *count;
	void (*check)(union settings *s);
};

static void check_node(union settings *s)
{
	struct node_setup setup;
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, ERR_MAX);
	int rc = node_setup_init(&setup, &s->node, &err);
	assert(rc == 0 || (rc < 0 && err.len > 0));
	if (rc == 0)
		node_setup_fini(&setup);
}

static void check_box(union settings *s)
{
	AUTO_STRBUF struct strbuf err;
	struct box b = {.shape = s->box};
	char name[BOX_NAME_MAX];
	strbuf_init(&err, ERR_MAX);
	int rc = box_settle(&b.shape, &err);
	assert(rc == 0 || (rc == -EINVAL && err.len > 0));
	s->box = b.shape;
	if (rc != 0)
		return;
	assert(b.shape.nodes >= b.shape.racks && b.shape.disks >= 1);
	assert(box_role(&b, b.shape.nodes + 1, name) && strcmp(name, "janitor") == 0);
	assert(box_rack_of(&b.shape, b.shape.nodes) <= b.shape.racks);
}

static void check_cluster(union settings *s)
{
	uint64_t high = 1, low = 1;
	int rc = cluster_file_id(&s->cluster, &high, &low);
	assert(rc == 0 || rc == -EINVAL);
}

static void check_nothing(union settings *s)
{
	(void)s;
}

static void check_shown(const struct kind *k, union settings *s)
{
	union settings again = {0};
	AUTO_STRBUF struct strbuf text, err;
	strbuf_init(&text, SHOW_MAX);
	strbuf_init(&err, ERR_MAX);
	int rc = conf_show(k->schema, *k->count, s, &text);
	assert(rc == 0);
	rc = conf_parse(strbuf_text(&text), text.len, "again", k->schema, *k->count, &again, &err);
	assert(rc == 0);
	conf_free(k->schema, *k->count, &again);
}

/* Labels of chunks: arbitrary bytes are accepted or refused. */
static void check_label(const uint8_t *data, size_t size)
{
	uint8_t label[STORE_LABEL_BYTES] = {0}, same[STORE_LABEL_BYTES];
	uint32_t tenant;
	uint64_t block;
	memcpy(label, data, min_u64(size, sizeof(label)));
	if (label_read(label, &tenant, &block) != 0)
		return;
	label_make(same, tenant, block, label_put(label));
	assert(memcmp(label, same, 24) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct kind kinds[] = {
		{node_conf_schema, &node_conf_count, check_node},
		{box_schema, &box_schema_count, check_box},
		{cluster_file_schema, &cluster_file_keys, check_cluster},
		{janitor_conf_schema, &janitor_conf_count, check_nothing},
		{meta_conf_schema, &meta_conf_count, check_nothing},
	};
	union settings s = {0};
	if (size < 1)
		return 0;
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, ERR_MAX);
	const struct kind *k = &kinds[data[0] % ARRAY_LEN(kinds)];
	check_label(data + 1, size - 1);
	int rc = conf_parse((const char *)data + 1, size - 1, "fuzz", k->schema, *k->count, &s,
			    &err);
	assert(rc == 0 || err.len > 0);
	if (rc == 0) {
		k->check(&s);
		check_shown(k, &s);
	}
	conf_free(k->schema, *k->count, &s);
	return 0;
}
