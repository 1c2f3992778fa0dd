// SPDX-License-Identifier: Apache-2.0
#include "janitor/stats.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/rng.h"
#include "janitor/notes.h"
#include "meta_api/note.h"
#include "rt/rt.h"

#define NOTE_DISKS 60 /* number of disks, one per line, in one note */
#define NOTE_PARTS_MAX (CLUSTER_DISKS_MAX / NOTE_DISKS + 1)
#define REGISTER_BITS 10
#define REGISTER_MAX 55

void stats_init(struct stats *s)
{
	memset(s, 0, sizeof(*s));
	map_init(&s->held, CLUSTER_DISKS_MAX);
}

void stats_fini(struct stats *s)
{
	map_for_each(&s->held, it)
		free(it.value);
	map_fini(&s->held);
}

static struct stats_disk *held_of(struct stats *s, uint64_t disk)
{
	struct stats_disk *d = map_get(&s->held, disk);
	if (d != NULL)
		return d;
	d = calloc(1, sizeof(*d));
	if (d != NULL && map_put(&s->held, disk, d) < 0) {
		free(d);
		d = NULL;
	}
	return d;
}

/* --- counting ---------------------------------------------------------------------------------- */

uint32_t stats_racks(const struct cluster *c, enum cluster_media media)
{
	uint32_t n = 0;
	map_for_each(&c->racks, rack) {
		bool takes = false;
		map_for_each(&c->disks, it) {
			const struct cluster_node *node = cluster_node_of(c, it.key);
			takes = takes || (node != NULL && node->rack == (uint32_t)rack.key &&
					  cluster_disk_media(c, it.key) == media &&
					  cluster_disk_state(c, it.value) == CLUSTER_ONLINE);
		}
		n += takes;
	}
	return n;
}

/* Adds the set of disks of a block to the sketch. The hash is commutative, so that the order
 * of the disks does not matter. */
static void sketch_add(struct stats *s, const struct meta_block *b)
{
	uint64_t h = 0;
	for (size_t i = 0; i < b->chunk_count; i++)
		h += mix_u64(b->chunks[i].disk);
	h = mix_u64(h);
	size_t at = h >> (64 - REGISTER_BITS);
	unsigned zeros =
		(unsigned)__builtin_clzll(h << REGISTER_BITS | 1ULL << (REGISTER_BITS - 1));
	uint8_t value = (uint8_t)min_u64(zeros + 1, REGISTER_MAX);
	if (s->sketch[at] < value)
		s->sketch[at] = value;
}

static bool is_crowded(const struct cluster *c, uint32_t racks, const struct meta_block *b)
{
	size_t most = 0;
	for (size_t i = 0; i < b->chunk_count; i++) {
		const struct cluster_node *n = cluster_node_of(c, b->chunks[i].disk);
		size_t same = 0;
		for (size_t k = 0; n != NULL && k < b->chunk_count; k++) {
			const struct cluster_node *o = cluster_node_of(c, b->chunks[k].disk);
			same += o != NULL && o->rack == n->rack;
		}
		most = same > most ? same : most;
	}
	return racks > 0 && most > (b->chunk_count + racks - 1) / racks;
}

int stats_block(struct stats *s, const struct cluster *c, uint32_t racks,
		const struct meta_block_at *at)
{
	const struct meta_block *b = &at->block;
	assert(b->chunk_count == 0 || b->chunks != NULL);
	s->open_blocks += b->state == META_BLOCK_OPEN;
	s->pending_blocks += b->state == META_BLOCK_PENDING;
	if (b->state != META_BLOCK_SEALED)
		return 0;
	s->blocks++;
	s->bytes += b->length;
	s->owned += min_u64(at->owned_bytes, b->length);
	for (size_t i = 0; i < b->chunk_count; i++) {
		if (b->chunks[i].disk == 0) {
			s->missing_chunks += b->length > 0;
			continue;
		}
		s->damaged_chunks += b->chunks[i].damaged;
		struct stats_disk *d = held_of(s, b->chunks[i].disk);
		if (d == NULL)
			return -ENOMEM;
		d->bytes += b->chunk_length;
		d->chunks++;
		s->stored += b->chunk_length;
	}
	sketch_add(s, b);
	s->crowded += is_crowded(c, racks, b);
	return 0;
}

double stats_copysets(const struct stats *s)
{
	double sum = 0, m = STATS_SKETCH;
	unsigned zeros = 0;
	for (size_t i = 0; i < STATS_SKETCH; i++) {
		sum += ldexp(1, -s->sketch[i]);
		zeros += s->sketch[i] == 0;
	}
	double guess = 0.7213 / (1 + 1.079 / m) * m * m / sum;
	/* A small count is estimated better from the number of empty registers. */
	return guess <= 2.5 * m && zeros > 0 ? m * log(m / zeros) : guess;
}

/* --- balance ----------------------------------------------------------------------------------- */

double stats_share(const struct cluster_disk *d)
{
	return (double)d->capacity_bytes * d->weight / CLUSTER_WEIGHT_ONE;
}

double stats_fill(const struct stats *s, const struct cluster_disk *d)
{
	const struct stats_disk *h = map_get(&s->held, d->id);
	double share = stats_share(d);
	if (share <= 0)
		return -1;
	return h == NULL ? 0 : (double)h->bytes / share;
}

void stats_balance(const struct stats *s, const struct cluster *c, enum cluster_media media,
		   struct stats_balance *out)
{
	double held = 0, share = 0, squares = 0;
	unsigned n = 0;
	*out = (struct stats_balance){0};
	map_for_each(&c->disks, it) {
		const struct cluster_disk *d = it.value;
		double fill = stats_fill(s, d);
		if (d->media != media || cluster_disk_state(c, d) > CLUSTER_FULL || fill < 0)
			continue;
		held += fill * stats_share(d);
		share += stats_share(d);
		if (n == 0 || fill > out->most) {
			out->most = fill;
			out->fullest = d->id;
		}
		if (n == 0 || fill < out->least) {
			out->least = fill;
			out->emptiest = d->id;
		}
		n++;
	}
	if (n == 0 || held <= 0)
		return;
	out->mean = held / share;
	map_for_each(&c->disks, it) {
		const struct cluster_disk *d = it.value;
		double off = stats_fill(s, d) / out->mean - 1;
		if (d->media == media && cluster_disk_state(c, d) <= CLUSTER_FULL &&
		    stats_share(d) > 0)
			squares += off * off;
	}
	out->deviation = sqrt(squares / n);
}

const struct stats_balance *stats_worst(const struct stats_balance all[CLUSTER_MEDIA_COUNT])
{
	const struct stats_balance *worst = &all[0];
	for (int i = 1; i < CLUSTER_MEDIA_COUNT; i++)
		if (all[i].deviation > worst->deviation || worst->mean <= 0)
			worst = &all[i];
	return worst;
}

/* --- notes ------------------------------------------------------------------------------------- */

/* Writes the note and replaces any older version of it. */
static int note_write(struct meta_call *m, struct meta_note *n)
{
	int rc = -ESTALE;
	for (int i = 0; rc == -ESTALE && i < 3; i++)
		rc = meta_client_note_put(m, n);
	return rc == -ESTALE ? -EBUSY : rc;
}

static int save_numbers(struct meta_call *m, unsigned share, const struct stats *s)
{
	char text[META_NOTE_TEXT_MAX], sketch[STATS_SKETCH + 1];
	struct meta_note n = {.text = text};
	for (size_t i = 0; i < STATS_SKETCH; i++)
		sketch[i] = (char)('A' + s->sketch[i]);
	sketch[STATS_SKETCH] = 0;
	for (char *c = sketch; *c != 0; c++)
		if (*c == '\\')
			*c = '!'; /* so that the JSON needs no escapes */
	snprintf(n.name, sizeof(n.name), "stats/%02u", share);
	snprintf(text, sizeof(text),
		 "{\"taken_ns\": %" PRIu64 ", \"blocks\": %" PRIu64 ", \"open\": %" PRIu64
		 ", \"pending\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"owned\": %" PRIu64
		 ", \"stored\": %" PRIu64 ", \"missing\": %" PRIu64 ", \"damaged\": %" PRIu64
		 ", \"crowded\": %" PRIu64 ", \"degraded\": %" PRIu64 ", \"unreachable\": %" PRIu64
		 ", \"lost\": %" PRIu64 ", \"sketch\": \"%s\"}",
		 s->taken_ns, s->blocks, s->open_blocks, s->pending_blocks, s->bytes, s->owned,
		 s->stored, s->missing_chunks, s->damaged_chunks, s->crowded, s->degraded_blocks,
		 s->unreachable_blocks, s->lost_blocks, sketch);
	return note_write(m, &n);
}

static int save_disks(struct meta_call *m, unsigned share, unsigned part, const char *lines)
{
	char text[META_NOTE_TEXT_MAX];
	struct meta_note n = {.text = text};
	snprintf(n.name, sizeof(n.name), "held/%02u/%04u", share, part);
	snprintf(text, sizeof(text), "{%s}", lines);
	return note_write(m, &n);
}

int stats_save(struct meta_call *m, unsigned share, const struct stats *s)
{
	char lines[META_NOTE_TEXT_MAX - 2] = "";
	unsigned part = 0, count = 0;
	size_t len = 0;
	int rc = save_numbers(m, share, s);
	map_for_each(&s->held, it) {
		const struct stats_disk *d = it.value;
		if (rc < 0)
			return rc;
		len += (size_t)snprintf(lines + len, sizeof(lines) - len,
					"%s\"%" PRIx64 "\": [%" PRIu64 ", %" PRIu64 "]",
					count == 0 ? "" : ", ", it.key, d->bytes, d->chunks);
		if (++count == NOTE_DISKS) {
			rc = save_disks(m, share, part++, lines);
			count = 0;
			len = 0;
		}
	}
	if (rc == 0 && (count > 0 || part == 0))
		rc = save_disks(m, share, part++, count > 0 ? lines : "");
	/* Deletes the parts that an earlier, longer count wrote. */
	for (; rc == 0 && part < NOTE_PARTS_MAX; part++) {
		char name[META_NOTE_NAME_MAX + 1];
		struct meta_note was;
		struct arena a;
		arena_init(&a, 64 * KIB);
		snprintf(name, sizeof(name), "held/%02u/%04u", share, part);
		rc = meta_client_note_get(m, name, &a, &was);
		arena_fini(&a);
		if (rc == 0)
			rc = meta_client_note_drop(m, name);
		else if (rc == -ENOENT)
			return 0;
	}
	return rc;
}

static uint64_t number(json_t *o, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(o, key));
	return v < 0 ? 0 : (uint64_t)v;
}

/* Adds n to *sum. Notes may hold any number, so the sum stops at the largest JSON integer. */
static void add(uint64_t *sum, uint64_t n)
{
	*sum = n > INT64_MAX - min_u64(*sum, INT64_MAX) ? INT64_MAX : *sum + n;
}

void stats_add_numbers(struct stats *s, const char *text)
{
	AUTO_JSON json_t *o = json_loads(text, 0, NULL);
	uint64_t taken_ns = number(o, "taken_ns");
	const char *sketch = json_string_value(json_object_get(o, "sketch"));
	if (taken_ns == 0)
		return;
	s->taken_ns = s->parts == 0 ? taken_ns : min_u64(s->taken_ns, taken_ns);
	s->parts++;
	add(&s->blocks, number(o, "blocks"));
	add(&s->open_blocks, number(o, "open"));
	add(&s->pending_blocks, number(o, "pending"));
	add(&s->bytes, number(o, "bytes"));
	add(&s->owned, number(o, "owned"));
	add(&s->stored, number(o, "stored"));
	add(&s->missing_chunks, number(o, "missing"));
	add(&s->damaged_chunks, number(o, "damaged"));
	add(&s->crowded, number(o, "crowded"));
	add(&s->degraded_blocks, number(o, "degraded"));
	add(&s->unreachable_blocks, number(o, "unreachable"));
	add(&s->lost_blocks, number(o, "lost"));
	for (size_t i = 0; sketch != NULL && i < STATS_SKETCH && sketch[i] != 0; i++) {
		int v = (sketch[i] == '!' ? '\\' : sketch[i]) - 'A';
		if (v > s->sketch[i] && v <= REGISTER_MAX)
			s->sketch[i] = (uint8_t)v;
	}
}

int stats_add_disks(struct stats *s, const char *text)
{
	AUTO_JSON json_t *o = json_loads(text, 0, NULL);
	const char *key;
	json_t *pair;
	json_object_foreach(o, key, pair)
	{
		uint64_t id;
		if (!hex_read(key, &id))
			continue;
		struct stats_disk *d = held_of(s, id);
		if (d == NULL)
			return -ENOMEM;
		json_int_t bytes = json_integer_value(json_array_get(pair, 0));
		json_int_t chunks = json_integer_value(json_array_get(pair, 1));
		add(&d->bytes, bytes < 0 ? 0 : (uint64_t)bytes);
		add(&d->chunks, chunks < 0 ? 0 : (uint64_t)chunks);
	}
	return 0;
}

static int load_family(struct meta_call *m, struct stats *s, const char *family, bool disks)
{
	AUTO_FREE struct meta_note *notes = calloc(META_NOTES_MAX, sizeof(*notes));
	char after[META_NOTE_NAME_MAX + 1] = "";
	bool end = false;
	int rc = notes == NULL ? -ENOMEM : 0;
	while (rc == 0 && !end) {
		struct arena a;
		arena_init(&a, 2 * MIB);
		int64_t n =
			meta_client_note_list(m, family, after, &a, notes, META_NOTES_MAX, &end);
		rc = n < 0 ? (int)n : 0;
		for (int64_t i = 0; rc == 0 && i < n; i++) {
			if (disks)
				rc = stats_add_disks(s, notes[i].text);
			else
				stats_add_numbers(s, notes[i].text);
			memcpy(after, notes[i].name, sizeof(after));
		}
		arena_fini(&a);
	}
	return rc;
}

int stats_load(struct meta_call *m, struct stats *out)
{
	int rc = load_family(m, out, "stats/", false);
	return rc < 0 ? rc : load_family(m, out, "held/", true);
}
