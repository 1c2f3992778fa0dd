// SPDX-License-Identifier: Apache-2.0
#include "dataset/manifest.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/hash.h"
#include "base/json.h"
#include "dataset/format.h"

static const char *const label_kinds[] = {
	[LABELS_NONE] = "none", [LABELS_NUMBERS] = "numbers", [LABELS_NAMES] = "names"};

/* --- names -------------------------------------------------------------------------------------- */

void names_init(struct names *n, uint32_t max)
{
	*n = (struct names){.max = max};
}

void names_fini(struct names *n)
{
	for (uint32_t i = 0; i < n->count; i++)
		free(n->text[i]);
	free(n->text);
	free(n->slots);
	*n = (struct names){.max = n->max};
}

/* The slot of a text: the one that has it, or the empty one where it belongs. */
static uint32_t names_slot(const struct names *n, const char *text, size_t len)
{
	uint32_t at = (uint32_t)hash64(text, len, 0) & (n->slots_n - 1);
	for (;; at = (at + 1) & (n->slots_n - 1)) {
		if (n->slots[at] == 0)
			return at;
		const char *have = n->text[n->slots[at] - 1];
		if (strlen(have) == len && memcmp(have, text, len) == 0)
			return at;
	}
}

int64_t names_find(const struct names *n, const char *text, size_t len)
{
	if (n->count == 0)
		return -ENOENT;
	uint32_t number = n->slots[names_slot(n, text, len)];
	return number > 0 ? (int64_t)number - 1 : -ENOENT;
}

/* Doubles the room for texts and the table, which stays at most half full. */
static int names_grow(struct names *n)
{
	uint32_t cap = n->cap == 0 ? 16 : 2 * n->cap;
	char **text = realloc(n->text, cap * sizeof(*text));
	if (text == NULL)
		return -ENOMEM;
	n->text = text;
	uint32_t *slots = calloc(2 * (size_t)cap, sizeof(*slots));
	if (slots == NULL)
		return -ENOMEM;
	free(n->slots);
	n->slots = slots;
	n->slots_n = 2 * cap;
	n->cap = cap;
	for (uint32_t i = 0; i < n->count; i++)
		n->slots[names_slot(n, n->text[i], strlen(n->text[i]))] = i + 1;
	return 0;
}

int64_t names_add(struct names *n, const char *text, size_t len)
{
	int64_t have = names_find(n, text, len);
	assert(n->count <= n->cap && memchr(text, 0, len) == NULL);
	if (have >= 0)
		return have;
	if (n->count == n->max)
		return -E2BIG;
	if (n->count == n->cap && names_grow(n) < 0)
		return -ENOMEM;
	char *copy = strndup(text, len);
	if (copy == NULL)
		return -ENOMEM;
	n->slots[names_slot(n, text, len)] = n->count + 1;
	n->text[n->count] = copy;
	return n->count++;
}

/* --- the object --------------------------------------------------------------------------------- */

void manifest_init(struct manifest *m)
{
	*m = (struct manifest){0};
	names_init(&m->labels, LABELS_MAX);
	names_init(&m->parts, PARTS_MAX);
}

void manifest_fini(struct manifest *m)
{
	names_fini(&m->labels);
	names_fini(&m->parts);
	free(m->shards);
	m->shards = NULL;
	m->shards_n = m->shards_cap = 0;
}

int manifest_add(struct manifest *m, const struct manifest_shard *shard)
{
	assert(shard->samples > 0 && shard->samples <= SHARD_SAMPLES_MAX);
	assert(m->shards_n <= m->shards_cap);
	if (m->shards_n == SHARDS_MAX)
		return -E2BIG;
	if (m->shards_n == m->shards_cap) {
		uint32_t cap = m->shards_cap == 0 ? 16 : 2 * m->shards_cap;
		struct manifest_shard *more = realloc(m->shards, cap * sizeof(*more));
		if (more == NULL)
			return -ENOMEM;
		m->shards = more;
		m->shards_cap = cap;
	}
	m->shards[m->shards_n] = *shard;
	m->shards[m->shards_n++].first = m->samples;
	m->samples += shard->samples;
	m->payload_bytes += shard->payload_bytes;
	return 0;
}

uint32_t manifest_find(const struct manifest *m, uint64_t sample)
{
	uint32_t low = 0, high = m->shards_n;
	assert(sample < m->samples);
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		if (m->shards[middle].first <= sample)
			low = middle;
		else
			high = middle;
	}
	assert(sample - m->shards[low].first < m->shards[low].samples);
	return low;
}

bool manifest_shard_path(char *out, size_t room, const char *dir, const char *name,
			 const char *suffix)
{
	int n = snprintf(out, room, "%s/data/%s.%s", dir, name, suffix);
	return n >= 0 && (size_t)n < room;
}

/* --- text --------------------------------------------------------------------------------------- */

static bool number_of(const json_t *o, const char *key, uint64_t max, uint64_t *out)
{
	const json_t *v = json_object_get(o, key);
	if (!json_is_integer(v) || json_integer_value(v) < 0 ||
	    (uint64_t)json_integer_value(v) > max)
		return false;
	*out = (uint64_t)json_integer_value(v);
	return true;
}

/* Takes a list of texts of up to len_max bytes. 0, -EBADMSG, -ENOMEM. */
static int names_of(const json_t *list, size_t len_max, struct names *out)
{
	if (!json_is_array(list) || json_array_size(list) > out->max)
		return -EBADMSG;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));
		if (text == NULL || strlen(text) > len_max)
			return -EBADMSG;
		int64_t rc = names_add(out, text, strlen(text));
		if (rc != (int64_t)i)
			return rc < 0 ? (int)rc : -EBADMSG; /* twice the same */
	}
	return 0;
}

/* Takes the name of a shard, which becomes part of a path. */
static bool shard_name_of(const char *text, char out[SHARD_NAME_MAX])
{
	size_t len = text != NULL ? strlen(text) : 0;
	if (len == 0 || len >= SHARD_NAME_MAX || strspn(text, "0123456789abcdef-") != len)
		return false;
	memcpy(out, text, len + 1);
	return true;
}

static int shard_of(const json_t *o, struct manifest *m)
{
	struct manifest_shard s = {0};
	if (!shard_name_of(json_string_value(json_object_get(o, "name")), s.name) ||
	    !number_of(o, "samples", SHARD_SAMPLES_MAX, &s.samples) || s.samples == 0 ||
	    !number_of(o, "data_bytes", SHARD_BYTES_MAX, &s.data_bytes) ||
	    !number_of(o, "index_bytes", INDEX_BYTES_MAX + index_head_bytes(SHARD_SAMPLES_MAX),
		       &s.index_bytes) ||
	    !number_of(o, "payload_bytes", s.data_bytes, &s.payload_bytes) ||
	    s.index_bytes < index_head_bytes(s.samples))
		return -EBADMSG;
	return manifest_add(m, &s);
}

static int labels_of(const json_t *root, struct manifest *m)
{
	const char *kind = json_string_value(json_object_get(root, "label_kind"));
	size_t i = 0;
	while (kind != NULL && i < ARRAY_LEN(label_kinds) && strcmp(label_kinds[i], kind) != 0)
		i++;
	if (kind == NULL || i == ARRAY_LEN(label_kinds))
		return -EBADMSG;
	m->label_kind = (enum label_kind)i;
	return names_of(json_object_get(root, "labels"), LABEL_BYTES_MAX, &m->labels);
}

static int take(const json_t *root, struct manifest *m)
{
	const char *format = json_string_value(json_object_get(root, "format"));
	const char *source = json_string_value(json_object_get(root, "source"));
	const json_t *shards = json_object_get(root, "shards");
	uint64_t number = 0, samples = 0;
	if (format == NULL || strcmp(format, "terrane-dataset") != 0 ||
	    !number_of(root, "format_version", INT64_MAX, &number))
		return -EBADMSG;
	if (number > MANIFEST_VERSION)
		return -EPROTONOSUPPORT;
	if (number != MANIFEST_VERSION || !number_of(root, "version", INT64_MAX, &m->version) ||
	    m->version == 0 || !number_of(root, "parent", m->version - 1, &m->parent) ||
	    !number_of(root, "seed", INT64_MAX, &m->seed) ||
	    !number_of(root, "created_ns", INT64_MAX, &m->created_ns) ||
	    !number_of(root, "samples", INT64_MAX, &samples) || source == NULL ||
	    strlen(source) >= sizeof(m->source) || !json_is_array(shards) ||
	    json_array_size(shards) > SHARDS_MAX)
		return -EBADMSG;
	memcpy(m->source, source, strlen(source) + 1);
	int rc = labels_of(root, m);
	if (rc == 0)
		rc = names_of(json_object_get(root, "parts"), PART_NAME_MAX, &m->parts);
	for (size_t i = 0; rc == 0 && i < json_array_size(shards); i++)
		rc = shard_of(json_array_get(shards, i), m);
	if (rc == 0 && (m->samples != samples || samples == 0 || m->parts.count == 0))
		return -EBADMSG;
	return rc;
}

int manifest_parse(struct manifest *m, const char *text, size_t len)
{
	assert(m->shards_n == 0 && m->samples == 0);
	if (len > MANIFEST_BYTES_MAX)
		return -EBADMSG;
	AUTO_JSON json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	return json_is_object(root) ? take(root, m) : -EBADMSG;
}

static json_t *names_list(const struct names *n)
{
	json_t *list = json_array();
	for (uint32_t i = 0; list != NULL && i < n->count; i++) {
		if (json_array_append_new(list, json_text(n->text[i], strlen(n->text[i]))) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *shards_list(const struct manifest *m)
{
	json_t *list = json_array();
	for (uint32_t i = 0; list != NULL && i < m->shards_n; i++) {
		const struct manifest_shard *s = &m->shards[i];
		json_t *o =
			json_pack("{s:s, s:I, s:I, s:I, s:I}", "name", s->name, "samples",
				  (json_int_t)s->samples, "data_bytes", (json_int_t)s->data_bytes,
				  "payload_bytes", (json_int_t)s->payload_bytes, "index_bytes",
				  (json_int_t)s->index_bytes);
		if (json_array_append_new(list, o) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static int dump(const char *bytes, size_t len, void *out)
{
	return strbuf_add(out, bytes, len);
}

int manifest_print(const struct manifest *m, struct strbuf *out)
{
	json_t *labels = names_list(&m->labels), *parts = names_list(&m->parts);
	json_t *shards = shards_list(m);
	/* o takes the references, also when it fails */
	AUTO_JSON json_t *root = json_pack(
		"{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:o, s:o, s:o}", "format",
		"terrane-dataset", "format_version", MANIFEST_VERSION, "version",
		(json_int_t)m->version, "parent", (json_int_t)m->parent, "samples",
		(json_int_t)m->samples, "payload_bytes", (json_int_t)m->payload_bytes, "seed",
		(json_int_t)m->seed, "created_ns", (json_int_t)m->created_ns, "source", m->source,
		"label_kind", label_kinds[m->label_kind], "parts", parts, "labels", labels,
		"shards", shards);
	if (root == NULL)
		return -ENOMEM;
	return json_dump_callback(root, dump, out, JSON_INDENT(1)) < 0 ? -ENOMEM : 0;
}
