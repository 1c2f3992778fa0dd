// SPDX-License-Identifier: Apache-2.0
#include "meta/record.h"

#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "jobs/wire.h"
#include "meta/attr.h"
#include "meta/jobs.h"
#include "meta/note.h"
#include "meta/quota.h"
#include "meta/schema.h"
#include "meta_api/gc.h"
#include "placement/outcome.h"
#include "rpc/body.h"

int rec_pack(struct arena *a, const ProtobufCMessage *msg, struct kv_bytes *out)
{
	size_t len = protobuf_c_message_get_packed_size(msg);
	if (len > KV_VALUE_MAX)
		return -EFBIG;
	uint8_t *bytes = arena_alloc(a, len + 1);
	if (bytes == NULL)
		return a->refused ? -EMSGSIZE : -ENOMEM;
	size_t packed = protobuf_c_message_pack(msg, bytes);
	assert(packed == len);
	*out = kv_bytes(bytes, len);
	return 0;
}

static int read_any(const ProtobufCMessageDescriptor *desc, struct arena *a, struct kv_bytes v,
		    ProtobufCMessage **out)
{
	int rc = body_unpack(desc, a, v.data, v.len, out);
	/* The arena is full, which does not mean that the record is damaged. */
	return rc == -EMSGSIZE ? -EFBIG : rc;
}

/* --- checks of values ------------------------------------------------------------------------- */

static bool extent_ok(const rec_extent *e)
{
	return e->block != 0 && e->length <= META_BLOCK_MAX && e->offset <= META_BLOCK_MAX &&
	       (e->length > 0 || e->open);
}

static bool extents_ok(rec_extent *const *e, size_t n, uint64_t size)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < n; i++) {
		if (!extent_ok(e[i]) || e[i]->open)
			return false;
		sum += e[i]->length;
	}
	return n <= META_INLINE_EXTENTS && sum == size;
}

static bool entry_ok(const rec_entry *e)
{
	if (e->kind != META_FILE && e->kind != META_DIR)
		return false;
	if (e->id == 0 || e->size > META_FILE_MAX)
		return false;
	if (e->attrs != NULL && !attr_record_ok(e->attrs))
		return false;
	/* The entry that an arriving entry replaces belongs to no transfer, so entries are nested at most once. */
	if (e->replaced != NULL &&
	    (!e->arriving || e->replaced->replaced != NULL || !entry_ok(e->replaced)))
		return false;
	return !e->arriving || e->transfer != 0;
}

static bool dir_ok(const rec_dir *d)
{
	return d->id != 0 && d->name.len <= META_NAME_MAX;
}

static bool slice_state_ok(const rec_slice_state *s)
{
	return s->sealed || s->spread || s->closing != 0;
}

static bool tombstone_ok(const rec_tombstone *g)
{
	return g->id != 0 && (g->kind == META_FILE || g->kind == META_DIR);
}

static bool place_ok(const rec_place *p)
{
	return p != NULL && p->dir != 0 &&
	       schema_name_check((struct meta_name){(const char *)p->name.data, p->name.len}) == 0;
}

static bool transfer_ok(const rec_transfer *t)
{
	if (t->kind < REC_RENAME || t->kind > REC_RMDIR || t->state < REC_PENDING ||
	    t->state > REC_ABORTED)
		return false;
	if (!place_ok(t->from) || t->was == NULL || !entry_ok(t->was))
		return false;
	if (t->kind == REC_RMDIR)
		return t->to == NULL && t->becomes == NULL;
	return place_ok(t->to) && t->becomes != NULL && entry_ok(t->becomes);
}

static bool file_ok(const rec_file *f)
{
	if (f->dir == 0 || f->size > META_FILE_MAX || f->name.len > META_NAME_MAX)
		return false;
	if (f->n_extents > 0 &&
	    (f->n_extents != f->extent_count || !extents_ok(f->extents, f->n_extents, f->size)))
		return false;
	return f->last == NULL || (extent_ok(f->last) && f->last->open && !f->sealed);
}

static bool dead_file_ok(const rec_dead_file *d)
{
	return d->file == NULL || file_ok(d->file);
}

static bool placed_ok(const rec_placed *p)
{
	return p->features != NULL && p->category <= META_CATEGORIES_MAX &&
	       outcome_features_valid(p->features, strlen(p->features));
}

static bool block_ok(const rec_block *b)
{
	return b->state >= META_BLOCK_PENDING && b->state <= META_BLOCK_SEALED &&
	       b->length <= b->capacity && b->capacity <= META_BLOCK_MAX && b->chunk_block != 0 &&
	       b->n_chunks <= META_CHUNKS_MAX && cluster_media_valid(b->media) &&
	       b->placement <= META_PLACEMENT_MAX && b->encoding != NULL &&
	       strlen(b->encoding) < META_ENCODING_MAX;
}

static bool owner_ok(const rec_owner *o)
{
	return o->bytes <= META_FILE_MAX;
}

static bool on_disk_ok(const rec_on_disk *o)
{
	return o->index < META_CHUNKS_MAX;
}

static bool dead_chunks_ok(const rec_dead_chunks *d)
{
	return d->n_chunks <= META_CHUNKS_MAX && d->refund <= META_BLOCK_MAX;
}

static bool format_ok(const rec_format *f)
{
	return f->version != 0 && f->partition_bits <= SCHEMA_PARTITION_BITS_MAX;
}

static bool tenant_ok(const rec_tenant *t)
{
	return t->name != NULL && t->name[0] != '\0' && strlen(t->name) <= META_TENANT_NAME_MAX;
}

static bool tenant_name_ok(const rec_tenant_name *t)
{
	return t->id != 0;
}

static bool lease_ok(const rec_lease *l)
{
	return l->holder != 0;
}

static bool note_ok(const rec_note *n)
{
	return n->turn != 0 && n->text != NULL && strlen(n->text) <= META_NOTE_TEXT_MAX;
}

/* Accepts every usage record, because all values of its fields are valid; the same holds for suspect and account
 * records. */
static bool usage_ok(const rec_usage *u)
{
	return u != NULL;
}

static bool suspect_ok(const rec_suspect *s)
{
	return s != NULL;
}

static bool account_ok(const rec_account *a)
{
	return a != NULL;
}

static bool dir_quota_ok(const rec_dir_quota *q)
{
	const int64_t sums[] = {q->since_bytes, q->since_files, q->before_bytes, q->before_files};
	for (size_t i = 0; i < ARRAY_LEN(sums); i++)
		if (sums[i] > QUOTA_SUM_MAX || sums[i] < -QUOTA_SUM_MAX)
			return false;
	return q->counted_bytes <= QUOTA_SUM_MAX && q->counted_files <= QUOTA_SUM_MAX &&
	       q->state <= QUOTA_WALKING && strlen(q->path) <= META_DIR_QUOTA_PATH_MAX;
}

static bool counted_ok(const rec_counted *c)
{
	return c->bytes <= META_BLOCK_MAX;
}

static bool refund_ok(const rec_refund *r)
{
	return r->bytes <= META_BLOCK_MAX;
}

static bool gc_epoch_ok(const rec_gc_epoch *e)
{
	/* The first epoch is 1: marks with 0 would mean "not marked". */
	return e->epoch != 0 && e->restored <= e->epoch && strlen(e->why) <= META_GC_WHY_MAX;
}

#define READER(name)                                                              \
	int rec_read_##name(struct arena *a, struct kv_bytes v, rec_##name **out) \
	{                                                                         \
		int rc = read_any(&terrane__rec__##name##__descriptor, a, v,      \
				  (ProtobufCMessage **)out);                      \
		return rc == 0 && !name##_ok(*out) ? -EBADMSG : rc;               \
	}

READER(format)
READER(entry)
READER(dir)
READER(slice_state)
READER(tombstone)
READER(usage)
READER(transfer)
READER(file)
READER(dead_file)
READER(placed)
READER(suspect)
READER(block)
READER(owner)
READER(on_disk)
READER(dead_chunks)
READER(tenant)
READER(tenant_name)
READER(account)
READER(dir_quota)
READER(counted)
READER(gc_epoch)
READER(refund)
READER(lease)
READER(note)
READER(extent)

/* Jobs: the messages are those of jobs/, which checks them. */
int rec_read_job_spec(struct arena *a, struct kv_bytes v, rec_job_spec **out)
{
	struct job_spec ignored;
	int rc = read_any(&terrane__job__spec__descriptor, a, v, (ProtobufCMessage **)out);
	if (rc == 0)
		rc = job_spec_read(a, *out, &ignored);
	return rc == -EINVAL ? -EBADMSG : rc;
}

int rec_read_job_state(struct arena *a, struct kv_bytes v, rec_job_state **out)
{
	struct job_state ignored;
	int rc = read_any(&terrane__job__state__descriptor, a, v, (ProtobufCMessage **)out);
	if (rc == 0)
		rc = job_state_read(*out, &ignored);
	return rc == -EINVAL ? -EBADMSG : rc;
}

int rec_read_job_count(struct arena *a, struct kv_bytes v, rec_job_count **out)
{
	int rc = read_any(&terrane__job__count__descriptor, a, v, (ProtobufCMessage **)out);
	return rc == 0 && (*out)->jobs > META_JOBS_MAX ? -EBADMSG : rc;
}

/* --- extents ---------------------------------------------------------------------------------- */

int meta_extent_check(const struct meta_extent *e)
{
	if (e->block == 0 || (e->length == 0 && !e->open) || (e->open && e->length != 0))
		return -EINVAL;
	if (e->offset > META_BLOCK_MAX || e->length > META_BLOCK_MAX ||
	    e->offset + e->length > META_BLOCK_MAX)
		return -EOVERFLOW;
	return 0;
}

void rec_extent_set(rec_extent *to, const struct meta_extent *from)
{
	assert(from->block != 0);
	assert(from->open == (from->length == 0));
	terrane__rec__extent__init(to);
	to->block = from->block;
	to->offset = from->offset;
	to->length = from->length;
	to->open = from->open;
}

void rec_extent_get(const rec_extent *from, struct meta_extent *to)
{
	*to = (struct meta_extent){.block = from->block,
				   .offset = from->offset,
				   .length = from->length,
				   .open = from->open != 0};
}
