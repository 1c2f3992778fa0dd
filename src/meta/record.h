// SPDX-License-Identifier: Apache-2.0
/*
 * Encodes and decodes stored records. A record that is read is checked like untrusted input: if it cannot be decoded,
 * or a field has an invalid value, the result is -EBADMSG.
 */
#ifndef META_RECORD_H
#define META_RECORD_H

#include "jobs/jobs.pb-c.h"
#include "kv/kv.h"
#include "meta/record.pb-c.h"
#include "meta_api/types.h"

struct arena;

typedef Terrane__Rec__Extent rec_extent;
typedef Terrane__Rec__Format rec_format;
typedef Terrane__Rec__Attrs rec_attrs;
typedef Terrane__Rec__Entry rec_entry;
typedef Terrane__Rec__Dir rec_dir;
typedef Terrane__Rec__SliceState rec_slice_state;
typedef Terrane__Rec__Tombstone rec_tombstone;
typedef Terrane__Rec__Usage rec_usage;
typedef Terrane__Rec__Place rec_place;
typedef Terrane__Rec__Transfer rec_transfer;
typedef Terrane__Rec__File rec_file;
typedef Terrane__Rec__DeadFile rec_dead_file;
typedef Terrane__Rec__Placed rec_placed;
typedef Terrane__Rec__Suspect rec_suspect;
typedef Terrane__Rec__Chunk rec_chunk;
typedef Terrane__Rec__Block rec_block;
typedef Terrane__Rec__Owner rec_owner;
typedef Terrane__Rec__OnDisk rec_on_disk;
typedef Terrane__Rec__DeadChunks rec_dead_chunks;
typedef Terrane__Rec__Refund rec_refund;
typedef Terrane__Rec__Tenant rec_tenant;
typedef Terrane__Rec__TenantName rec_tenant_name;
typedef Terrane__Rec__Account rec_account;
typedef Terrane__Rec__DirQuota rec_dir_quota;
typedef Terrane__Rec__Counted rec_counted;
typedef Terrane__Rec__GcEpoch rec_gc_epoch;
typedef Terrane__Rec__Lease rec_lease;
typedef Terrane__Rec__Note rec_note;
typedef Terrane__Job__Spec rec_job_spec;
typedef Terrane__Job__State rec_job_state;
typedef Terrane__Job__Count rec_job_count;

#define REC_PENDING TERRANE__REC__TRANSFER__STATE__PENDING
#define REC_COMMITTED TERRANE__REC__TRANSFER__STATE__COMMITTED
#define REC_ABORTED TERRANE__REC__TRANSFER__STATE__ABORTED
#define REC_RENAME TERRANE__REC__TRANSFER__KIND__RENAME
#define REC_MOVE_DIR TERRANE__REC__TRANSFER__KIND__MOVE_DIR
#define REC_MOVE_FILE TERRANE__REC__TRANSFER__KIND__MOVE_FILE
#define REC_RMDIR TERRANE__REC__TRANSFER__KIND__RMDIR

/* Encodes a record into bytes in the arena. -ENOMEM; -EMSGSIZE: the arena is full; -EFBIG: more than KV_VALUE_MAX
 * bytes. */
int rec_pack(struct arena *a, const ProtobufCMessage *msg, struct kv_bytes *out);

/* Each of these functions decodes and checks a record; *out is in the arena. -EBADMSG: the record is damaged;
 * -ENOMEM; -EFBIG: the arena is full. */
int rec_read_format(struct arena *a, struct kv_bytes v, rec_format **out);
int rec_read_entry(struct arena *a, struct kv_bytes v, rec_entry **out);
int rec_read_dir(struct arena *a, struct kv_bytes v, rec_dir **out);
int rec_read_slice_state(struct arena *a, struct kv_bytes v, rec_slice_state **out);
int rec_read_tombstone(struct arena *a, struct kv_bytes v, rec_tombstone **out);
int rec_read_usage(struct arena *a, struct kv_bytes v, rec_usage **out);
int rec_read_transfer(struct arena *a, struct kv_bytes v, rec_transfer **out);
int rec_read_file(struct arena *a, struct kv_bytes v, rec_file **out);
int rec_read_extent(struct arena *a, struct kv_bytes v, rec_extent **out);
int rec_read_dead_file(struct arena *a, struct kv_bytes v, rec_dead_file **out);
int rec_read_placed(struct arena *a, struct kv_bytes v, rec_placed **out);
int rec_read_suspect(struct arena *a, struct kv_bytes v, rec_suspect **out);
int rec_read_block(struct arena *a, struct kv_bytes v, rec_block **out);
int rec_read_owner(struct arena *a, struct kv_bytes v, rec_owner **out);
int rec_read_on_disk(struct arena *a, struct kv_bytes v, rec_on_disk **out);
int rec_read_dead_chunks(struct arena *a, struct kv_bytes v, rec_dead_chunks **out);
int rec_read_refund(struct arena *a, struct kv_bytes v, rec_refund **out);
int rec_read_tenant(struct arena *a, struct kv_bytes v, rec_tenant **out);
int rec_read_tenant_name(struct arena *a, struct kv_bytes v, rec_tenant_name **out);
int rec_read_account(struct arena *a, struct kv_bytes v, rec_account **out);
int rec_read_dir_quota(struct arena *a, struct kv_bytes v, rec_dir_quota **out);
int rec_read_counted(struct arena *a, struct kv_bytes v, rec_counted **out);
int rec_read_gc_epoch(struct arena *a, struct kv_bytes v, rec_gc_epoch **out);
int rec_read_lease(struct arena *a, struct kv_bytes v, rec_lease **out);
int rec_read_note(struct arena *a, struct kv_bytes v, rec_note **out);
int rec_read_job_spec(struct arena *a, struct kv_bytes v, rec_job_spec **out);
int rec_read_job_state(struct arena *a, struct kv_bytes v, rec_job_state **out);
int rec_read_job_count(struct arena *a, struct kv_bytes v, rec_job_count **out);

/* Checks an extent that a client sent. -EINVAL, -EOVERFLOW. */
int meta_extent_check(const struct meta_extent *e);

void rec_extent_set(rec_extent *to, const struct meta_extent *from);
void rec_extent_get(const rec_extent *from, struct meta_extent *to);

#endif
