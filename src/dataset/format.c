// SPDX-License-Identifier: Apache-2.0
#include "dataset/format.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/crc.h"
#include "base/le.h"

static const char magic[8] = {'T', 'R', 'N', 'D', 'S', 'I', 'D', 'X'};

#define PART_BYTES 9u

/* --- writing ------------------------------------------------------------------------------------ */

void index_writer_init(struct index_writer *w)
{
	w->samples = w->in_page = w->pages = 0;
	w->data_end = 0;
	strbuf_init(&w->records, (size_t)INDEX_PAGE * INDEX_RECORD);
	strbuf_init(&w->tails, PAGE_BYTES_MAX - (size_t)INDEX_PAGE * INDEX_RECORD);
	strbuf_init(&w->done, INDEX_BYTES_MAX);
}

void index_writer_fini(struct index_writer *w)
{
	strbuf_fini(&w->records);
	strbuf_fini(&w->tails);
	strbuf_fini(&w->done);
}

/* Moves the page that is filled to the pages that are done. */
static int page_end(struct index_writer *w)
{
	assert(w->in_page > 0 && w->in_page <= INDEX_PAGE && w->pages < PAGES_MAX);
	assert(w->records.len == (size_t)w->in_page * INDEX_RECORD);
	uint32_t crc = crc32c(crc32c(0, w->records.text, w->records.len), strbuf_text(&w->tails),
			      w->tails.len);
	struct index_place place = {.offset = w->done.len,
				    .len = (uint32_t)(w->records.len + w->tails.len),
				    .crc = crc};
	int rc = strbuf_add(&w->done, w->records.text, w->records.len);
	if (rc == 0)
		rc = strbuf_add(&w->done, strbuf_text(&w->tails), w->tails.len);
	if (rc < 0)
		return rc;
	w->place[w->pages++] = place;
	strbuf_clear(&w->records);
	strbuf_clear(&w->tails);
	w->in_page = 0;
	return 0;
}

static int tail_add(struct index_writer *w, const struct index_sample *s)
{
	size_t before = w->tails.len;
	uint64_t sum = 0;
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < s->parts; i++) {
		uint8_t part[PART_BYTES] = {s->part[i].name};
		put_u64(part + 1, s->part[i].size);
		sum += s->part[i].size;
		rc = strbuf_add(&w->tails, (char *)part, sizeof(part));
	}
	assert(rc < 0 || sum == s->entry.size);
	if (rc == 0 && s->sha256 != NULL)
		rc = strbuf_add(&w->tails, (const char *)s->sha256, SHA256_BYTES);
	if (rc == 0)
		rc = strbuf_add(&w->tails, s->key, s->key_len);
	if (rc < 0)
		w->tails.len = before;
	return rc;
}

int index_writer_add(struct index_writer *w, const struct index_sample *s)
{
	uint8_t record[INDEX_RECORD];
	assert(s->key_len <= KEY_MAX && s->parts > 0 && s->parts <= PARTS_MAX);
	assert(s->entry.size <= SAMPLE_BYTES_MAX && s->entry.offset >= w->data_end);
	if (w->samples == SHARD_SAMPLES_MAX)
		return -ENOSPC;
	uint32_t tail = (uint32_t)w->tails.len;
	int rc = tail_add(w, s);
	if (rc < 0)
		return rc;
	put_u64(record, s->entry.offset);
	put_u64(record + 8, s->entry.size);
	put_u32(record + 16, s->entry.crc);
	put_u32(record + 20, (uint32_t)s->entry.label);
	put_u32(record + 24, s->entry.width);
	put_u32(record + 28, s->entry.height);
	put_u32(record + 32, tail);
	put_u16(record + 36, (uint16_t)s->key_len);
	record[38] = (uint8_t)s->parts;
	record[39] = s->sha256 != NULL ? INDEX_SHA256 : 0;
	rc = strbuf_add(&w->records, (char *)record, sizeof(record));
	if (rc < 0) {
		w->tails.len = tail;
		return rc;
	}
	w->data_end = s->entry.offset + s->entry.size;
	w->samples++;
	return ++w->in_page == INDEX_PAGE ? page_end(w) : 0;
}

int index_writer_end(struct index_writer *w, uint64_t data_bytes, uint64_t plan, uint32_t shard,
		     struct strbuf *out)
{
	assert(data_bytes >= w->data_end);
	int rc = w->in_page > 0 ? page_end(w) : 0;
	size_t head_bytes = index_head_bytes(w->samples);
	AUTO_FREE uint8_t *head = calloc(1, head_bytes);
	if (rc < 0 || head == NULL)
		return rc < 0 ? rc : -ENOMEM;
	assert(w->pages == (head_bytes - INDEX_HEADER) / INDEX_TABLE_ENTRY);
	memcpy(head, magic, sizeof(magic));
	put_u32(head + 8, INDEX_VERSION);
	put_u32(head + 12, INDEX_PAGE);
	put_u64(head + 16, w->samples);
	put_u64(head + 24, data_bytes);
	put_u64(head + 32, plan);
	put_u32(head + 40, shard);
	put_u32(head + 44, w->pages);
	for (uint32_t i = 0; i < w->pages; i++) {
		uint8_t *at = head + INDEX_HEADER + (size_t)i * INDEX_TABLE_ENTRY;
		put_u64(at, w->place[i].offset + head_bytes);
		put_u32(at + 8, w->place[i].len);
		put_u32(at + 12, w->place[i].crc);
	}
	uint32_t crc = crc32c(0, head, INDEX_HEADER - 4);
	put_u32(head + INDEX_HEADER - 4,
		crc32c(crc, head + INDEX_HEADER, head_bytes - INDEX_HEADER));
	rc = strbuf_add(out, (char *)head, head_bytes);
	return rc < 0 ? rc : strbuf_add(out, strbuf_text(&w->done), w->done.len);
}

/* --- reading ------------------------------------------------------------------------------------ */

static bool places_are_sound(const struct index_header *h, const struct index_place *places,
			     uint64_t index_bytes)
{
	uint64_t at = index_head_bytes(h->samples);
	for (uint32_t i = 0; i < h->pages; i++) {
		const struct index_place *p = &places[i];
		uint64_t least = (uint64_t)index_page_samples(h, i) * INDEX_RECORD;
		if (p->offset != at || p->len < least || p->len > PAGE_BYTES_MAX)
			return false;
		at += p->len;
	}
	return at == index_bytes;
}

int index_head_parse(const uint8_t *raw, size_t len, uint64_t index_bytes, struct index_header *out,
		     struct index_place *places)
{
	if (len < INDEX_HEADER || memcmp(raw, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	if (get_u32(raw + 8) != INDEX_VERSION)
		return get_u32(raw + 8) > INDEX_VERSION ? -EPROTONOSUPPORT : -EBADMSG;
	*out = (struct index_header){.samples = get_u64(raw + 16),
				     .data_bytes = get_u64(raw + 24),
				     .plan = get_u64(raw + 32),
				     .shard = get_u32(raw + 40),
				     .pages = get_u32(raw + 44)};
	if (get_u32(raw + 12) != INDEX_PAGE || out->samples == 0 ||
	    out->samples > SHARD_SAMPLES_MAX || out->data_bytes > SHARD_BYTES_MAX ||
	    out->pages != (out->samples + INDEX_PAGE - 1) / INDEX_PAGE)
		return -EBADMSG;
	size_t head_bytes = index_head_bytes(out->samples);
	if (len < head_bytes)
		return head_bytes <= index_bytes ? -EAGAIN : -EBADMSG;
	uint32_t crc = crc32c(crc32c(0, raw, INDEX_HEADER - 4), raw + INDEX_HEADER,
			      head_bytes - INDEX_HEADER);
	if (crc != get_u32(raw + INDEX_HEADER - 4))
		return -EBADMSG;
	for (uint32_t i = 0; i < out->pages; i++) {
		const uint8_t *at = raw + INDEX_HEADER + (size_t)i * INDEX_TABLE_ENTRY;
		places[i] = (struct index_place){get_u64(at), get_u32(at + 8), get_u32(at + 12)};
	}
	return places_are_sound(out, places, index_bytes) ? 0 : -EBADMSG;
}

uint32_t index_page_samples(const struct index_header *h, uint32_t page)
{
	assert(page < h->pages);
	return (uint32_t)min_u64(INDEX_PAGE, h->samples - (uint64_t)page * INDEX_PAGE);
}

/* Checks the tail of a record that has `size` bytes of samples, against the tails of its page. */
static bool tail_is_sound(const uint8_t *record, const uint8_t *tails, uint64_t tails_len)
{
	uint64_t at = get_u32(record + 32), parts = record[38], size = get_u64(record + 8), sum = 0;
	uint64_t fixed = parts * PART_BYTES + (record[39] & INDEX_SHA256 ? SHA256_BYTES : 0);
	uint64_t key_len = get_u16(record + 36);
	if (parts == 0 || key_len > KEY_MAX || at > tails_len || fixed + key_len > tails_len - at)
		return false;
	for (uint64_t i = 0; i < parts; i++) {
		uint64_t part = get_u64(tails + at + i * PART_BYTES + 1);
		if (part > SAMPLE_BYTES_MAX)
			return false;
		sum += part;
	}
	return sum == size;
}

int index_page_check(const struct index_header *h, uint32_t page, const struct index_place *place,
		     const uint8_t *raw)
{
	uint32_t n = index_page_samples(h, page);
	uint64_t records = (uint64_t)n * INDEX_RECORD, before = 0;
	assert(place->len >= records);
	if (crc32c(0, raw, place->len) != place->crc)
		return -EBADMSG;
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *record = raw + (size_t)i * INDEX_RECORD;
		uint64_t offset = get_u64(record), size = get_u64(record + 8);
		if (size > SAMPLE_BYTES_MAX || offset < before || offset > h->data_bytes ||
		    size > h->data_bytes - offset ||
		    !tail_is_sound(record, raw + records, place->len - records))
			return -EBADMSG;
		before = offset + size;
	}
	return 0;
}

void index_page_entry(const uint8_t *raw, uint32_t i, struct index_entry *out)
{
	const uint8_t *record = raw + (size_t)i * INDEX_RECORD;
	assert(i < INDEX_PAGE);
	*out = (struct index_entry){.offset = get_u64(record),
				    .size = get_u64(record + 8),
				    .crc = get_u32(record + 16),
				    .label = (int32_t)get_u32(record + 20),
				    .width = get_u32(record + 24),
				    .height = get_u32(record + 28)};
}

void index_page_tail(const uint8_t *raw, uint32_t samples, uint32_t i, struct index_tail *out)
{
	const uint8_t *record = raw + (size_t)i * INDEX_RECORD;
	assert(i < samples && samples <= INDEX_PAGE);
	const uint8_t *at = raw + (size_t)samples * INDEX_RECORD + get_u32(record + 32);
	*out = (struct index_tail){
		.part_bytes = at, .parts = record[38], .key_len = get_u16(record + 36)};
	at += (size_t)out->parts * PART_BYTES;
	if (record[39] & INDEX_SHA256) {
		out->sha256 = at;
		at += SHA256_BYTES;
	}
	out->key = (const char *)at;
}

struct index_part index_tail_part(const struct index_tail *t, uint32_t part)
{
	assert(part < t->parts);
	const uint8_t *at = t->part_bytes + (size_t)part * PART_BYTES;
	return (struct index_part){.name = at[0], .size = get_u64(at + 1)};
}
