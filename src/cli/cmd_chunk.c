// SPDX-License-Identifier: Apache-2.0
/* terrane chunk: chunks of one storage node, for operators. */
#include "cli/cmd_chunk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/cli.h"
#include "rt/pool.h"

#define PIECE_BYTES (8 * MIB)

static const char usage_text[] =
	"usage: terrane chunk COMMAND [BLOCK:INDEX] [FILE] --node ADDR --disk NUMBER [OPTIONS]\n"
	"\n"
	"Reads and writes single chunks of a storage node. A file consists of chunks of several\n"
	"nodes: use terrane get and put for files. CHUNK is BLOCK:INDEX.\n"
	"\n"
	"  put CHUNK [FILE]     store a file as a chunk (default: standard input)\n"
	"  append CHUNK [FILE]  append a file to an open chunk at --offset\n"
	"  seal CHUNK           seal an open chunk at --length\n"
	"  fence CHUNK          refuse later writes with an epoch below --epoch\n"
	"  get CHUNK [FILE]     print a chunk, or write it to a file\n"
	"  stat CHUNK           show its length, checksum and epoch\n"
	"  list                 list all chunks of the disk\n"
	"  scan CHUNK           read all of it and compare checksums\n"
	"  delete CHUNK         delete it\n"
	"\n"
	"  --node ADDR          HOST:PORT or unix:PATH (default " NODE_ADDR_DEFAULT ")\n"
	"  --disk NUMBER        disk or pool of the node\n"
	"  --open               with put: leave the chunk open for appends, up to --capacity\n"
	"                       SIZE\n"
	"  --offset SIZE        of get and append\n"
	"  --length SIZE        of get and seal\n"
	"  --epoch NUMBER       of put, append, seal and fence (default 0)\n"
	"  --timeout TIME       deadline of each request (default 30s)\n"
	"  --json               print JSON\n";

/* --- writing ---------------------------------------------------------------------------------- */

/* Copies the piece of the input at offset `at` to a buffer of the pool. The slice has the checksum of the input, so
 * that the node detects a damaged copy. */
static int piece_of(struct node_session *s, size_t at, struct slice *out)
{
	*out = (struct slice){0};
	size_t len = (size_t)min_u64(s->data_len - at, NODE_BYTES_MAX);
	if (len == 0)
		return 0;
	int rc = rt_pool_get(&s->admin.pool, len, &out->buf);
	if (rc != 0)
		return rc;
	out->len = len;
	out->crc = crc32c(0, s->data + at, len);
	memcpy(out->buf->data, s->data + at, len);
	return 0;
}

static int call_put(struct node_session *s)
{
	bool long_one = s->data_len > NODE_BYTES_MAX;
	struct node_put p = {.epoch = s->epoch,
			     .capacity = long_one ? max_u64(s->capacity, s->data_len) : s->capacity,
			     .open = s->open || long_one};
	int rc = piece_of(s, 0, &p.data);
	if (rc == 0)
		rc = node_put(&s->call, s->disk, s->id, &p);
	buf_unref(p.data.buf);
	for (size_t at = p.data.len; rc == 0 && at < s->data_len;) {
		struct slice more;
		rc = piece_of(s, at, &more);
		if (rc == 0)
			rc = node_append(&s->call, s->disk, s->id, s->epoch, at, more);
		at += more.len;
		buf_unref(more.buf);
	}
	if (rc == 0 && long_one && !s->open)
		rc = node_seal(&s->call, s->disk, s->id, s->epoch, s->data_len, NULL);
	return rc;
}

static int call_append(struct node_session *s)
{
	int rc = 0;
	for (size_t at = 0; rc == 0 && at < s->data_len;) {
		struct slice more;
		rc = piece_of(s, at, &more);
		if (rc == 0)
			rc = node_append(&s->call, s->disk, s->id, s->epoch, s->offset + at, more);
		at += more.len;
		buf_unref(more.buf);
	}
	return rc;
}

/* --- describing ------------------------------------------------------------------------------- */

static int show_stat(const struct node_session *s, const struct chunk_stat *st)
{
	if (!s->json)
		return printf("length %" PRIu64 "\ncapacity %" PRIu64 "\ncrc32c %08" PRIx32
			      "\nepoch %" PRIu64 "\n%s\n",
			      st->len, st->capacity, st->crc, st->epoch,
			      st->sealed ? "sealed" : "open") < 0
			       ? -EIO
			       : 0;
	char crc[12];
	snprintf(crc, sizeof(crc), "%08" PRIx32, st->crc);
	AUTO_JSON json_t *json =
		json_pack("{s:I, s:I, s:s, s:I, s:b}", "length", (json_int_t)st->len, "capacity",
			  (json_int_t)st->capacity, "crc32c", crc, "epoch", (json_int_t)st->epoch,
			  "sealed", st->sealed);
	return json_emit(stdout, json);
}

static int call_seal(struct node_session *s)
{
	struct chunk_stat st;
	uint64_t len = s->length;
	int rc = 0;
	if (len == UINT64_MAX) {
		rc = node_stat_one(&s->call, s->disk, s->id, &st);
		len = st.len;
	}
	if (rc == 0)
		rc = node_seal(&s->call, s->disk, s->id, s->epoch, len, &st);
	return rc != 0 ? rc : show_stat(s, &st);
}

static int call_fence(struct node_session *s)
{
	struct chunk_stat st;
	int rc = node_fence(&s->call, s->disk, s->id, s->epoch, &st);
	return rc != 0 ? rc : show_stat(s, &st);
}

static int call_stat(struct node_session *s)
{
	struct chunk_stat st;
	int rc = node_stat_one(&s->call, s->disk, s->id, &st);
	return rc != 0 ? rc : show_stat(s, &st);
}

static int call_list(struct node_session *s)
{
	struct store_cursor at = {0};
	struct chunk_id ids[256];
	int64_t n;
	while ((n = node_list(&s->call, s->disk, &at, ids, ARRAY_LEN(ids))) > 0)
		for (int64_t i = 0; i < n; i++)
			printf(s->json ? "{\"block\": %" PRIu64 ", \"index\": %" PRIu32 "}\n"
				       : "%" PRIu64 ":%" PRIu32 "\n",
			       ids[i].block, ids[i].index);
	return (int)n;
}

static int call_scan(struct node_session *s)
{
	struct store_range bad[NODE_SCAN_MAX];
	int64_t n = node_scan(&s->call, s->disk, s->id, bad, NODE_SCAN_MAX);
	for (int64_t i = 0; i < n; i++)
		printf(s->json ? "{\"offset\": %" PRIu64 ", \"length\": %" PRIu64 "}\n"
			       : "damaged: offset %" PRIu64 ", length %" PRIu64 "\n",
		       bad[i].off, bad[i].len);
	if (n == 0 && !s->json)
		printf("undamaged\n");
	if (n > 0)
		snprintf(s->call.error, sizeof(s->call.error),
			 "the chunk is damaged at the ranges above");
	return n > 0 ? -EBADMSG : (int)n;
}

static int call_delete(struct node_session *s)
{
	return node_delete_one(&s->call, s->disk, s->id);
}

/* --- reading ---------------------------------------------------------------------------------- */

static int copy_out(struct node_session *s, FILE *to, uint64_t off, uint64_t end, uint32_t *crc)
{
	while (off < end) {
		struct slice got;
		uint64_t len = min_u64(PIECE_BYTES, end - off);
		int rc = node_get_one(&s->call, s->disk, s->id, off, len, NULL, &got);
		if (rc != 0)
			return rc;
		*crc = crc32c_combine(*crc, got.crc, got.len);
		size_t written = fwrite(got.buf->data + got.offset, 1, got.len, to);
		buf_unref(got.buf);
		if (written != len)
			return -EIO;
		off += len;
	}
	return 0;
}

static int call_get(struct node_session *s)
{
	struct chunk_stat st;
	int rc = node_stat_one(&s->call, s->disk, s->id, &st);
	if (rc != 0)
		return rc;
	uint64_t off = s->offset;
	uint64_t len = s->length != UINT64_MAX ? s->length : st.len - min_u64(off, st.len);
	rc = store_get_check(&st, off, len);
	if (rc != 0)
		return rc;
	FILE *to = s->operand_count > 1 ? fopen(s->operands[1], "wb") : stdout;
	if (to == NULL)
		return -errno;
	uint32_t crc = 0;
	rc = copy_out(s, to, off, off + len, &crc);
	if (rc == 0 && off == 0 && len == st.len && st.sealed && crc != st.crc)
		rc = -EBADMSG;
	if (to != stdout && fclose(to) != 0 && rc == 0)
		rc = -EIO;
	return rc;
}

static const struct node_command commands[] = {
	{"put", 1, 2, true, true, true, call_put},
	{"append", 1, 2, true, true, true, call_append},
	{"seal", 1, 1, true, true, false, call_seal},
	{"fence", 1, 1, true, true, false, call_fence},
	{"get", 1, 2, true, true, false, call_get},
	{"stat", 1, 1, true, true, false, call_stat},
	{"list", 0, 0, true, false, false, call_list},
	{"scan", 1, 1, true, true, false, call_scan},
	{"delete", 1, 1, true, true, false, call_delete},
};

int cmd_chunk(int argc, char **argv)
{
	return node_command_run(argc, argv, commands, ARRAY_LEN(commands), usage_text);
}
