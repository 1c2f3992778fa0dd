// SPDX-License-Identifier: Apache-2.0
/*
 * The requests of the metadata service, and conversion between the structs of types.h and their messages. The functions
 * that read a message check it: -EINVAL for values that a correct client never sends; the client turns -EINVAL into
 * -EPROTO when it reads a response. Results are in the arena, or point into the message.
 */
#ifndef META_API_WIRE_H
#define META_API_WIRE_H

#include "meta_api/meta.pb-c.h"
#include "meta_api/types.h"
#include "rpc/type.h"

struct arena;

/* type number, name (messages are Name + Request and Response), size limits of request and response in bytes */
#define META_TYPES(X)                                                 \
	X(0x301, tenant_create, META_WIRE_SMALL, META_WIRE_SMALL)     \
	X(0x302, tenant_get, META_WIRE_SMALL, META_WIRE_SMALL)        \
	X(0x303, tenant_quota, META_WIRE_SMALL, META_WIRE_SMALL)      \
	X(0x304, tenant_list, META_WIRE_SMALL, META_WIRE_LARGE)       \
	X(0x305, tenant_remove, META_WIRE_SMALL, META_WIRE_SMALL)     \
	X(0x306, tenant_share, META_WIRE_SMALL, META_WIRE_SMALL)      \
	X(0x307, tenant_shares, META_WIRE_SMALL, META_WIRE_SMALL)     \
	X(0x310, lookup, META_WIRE_SMALL, META_WIRE_SMALL)            \
	X(0x311, resolve, META_WIRE_PATH, META_WIRE_SMALL)            \
	X(0x312, dir_get, META_WIRE_SMALL, META_WIRE_SMALL)           \
	X(0x313, list, META_WIRE_SMALL, META_WIRE_LARGE)              \
	X(0x314, mkdir, META_WIRE_PATH, META_WIRE_SMALL)              \
	X(0x315, create, META_WIRE_LARGE, META_WIRE_PATH)             \
	X(0x316, link, META_WIRE_PATH, META_WIRE_SMALL)               \
	X(0x317, remove, META_WIRE_SMALL, META_WIRE_SMALL)            \
	X(0x318, rename, META_WIRE_SMALL, META_WIRE_SMALL)            \
	X(0x319, move, META_WIRE_SMALL, META_WIRE_SMALL)              \
	X(0x31a, rmdir, META_WIRE_SMALL, META_WIRE_SMALL)             \
	X(0x31b, dir_seal, META_WIRE_SMALL, META_WIRE_SMALL)          \
	X(0x31c, open, META_WIRE_PATH, META_WIRE_LARGE)               \
	X(0x31d, open_many, META_WIRE_LARGE, META_WIRE_LARGE)         \
	X(0x31e, dir_unseal, META_WIRE_SMALL, META_WIRE_SMALL)        \
	X(0x31f, copy, META_WIRE_SMALL, META_WIRE_SMALL)              \
	X(0x320, file_new, META_WIRE_SMALL, META_WIRE_SMALL)          \
	X(0x321, file_get, META_WIRE_SMALL, META_WIRE_LARGE)          \
	X(0x322, file_steal, META_WIRE_SMALL, META_WIRE_SMALL)        \
	X(0x323, file_add, META_WIRE_LARGE, META_WIRE_SMALL)          \
	X(0x324, file_close_extent, META_WIRE_SMALL, META_WIRE_SMALL) \
	X(0x325, file_seal, META_WIRE_SMALL, META_WIRE_SMALL)         \
	X(0x326, file_remap, META_WIRE_SMALL, META_WIRE_SMALL)        \
	X(0x327, file_open, META_WIRE_SMALL, META_WIRE_LARGE)         \
	X(0x32c, attr_get, META_WIRE_PATH, META_WIRE_PATH)            \
	X(0x32d, attr_set, META_WIRE_ATTRS, META_WIRE_SMALL)          \
	X(0x330, block_allocate, META_WIRE_BLOCK, META_WIRE_SMALL)    \
	X(0x331, block_commit, META_WIRE_LARGE, META_WIRE_SMALL)      \
	X(0x332, block_own, META_WIRE_LARGE, META_WIRE_SMALL)         \
	X(0x333, block_extend, META_WIRE_SMALL, META_WIRE_SMALL)      \
	X(0x334, block_fence, META_WIRE_SMALL, META_WIRE_BLOCK)       \
	X(0x335, block_seal, META_WIRE_SMALL, META_WIRE_SMALL)        \
	X(0x336, block_replace, META_WIRE_SMALL, META_WIRE_SMALL)     \
	X(0x337, block_report, META_WIRE_SMALL, META_WIRE_SMALL)      \
	X(0x338, block_relayout, META_WIRE_BLOCK, META_WIRE_SMALL)    \
	X(0x339, block_get, META_WIRE_PATH * 2, META_WIRE_LARGE)      \
	X(0x33a, block_owners, META_WIRE_SMALL, META_WIRE_LARGE)      \
	X(0x340, du, META_WIRE_SMALL, META_WIRE_SMALL)                \
	X(0x3a0, dir_quota_set, META_WIRE_PATH, META_WIRE_SMALL)      \
	X(0x3a1, dir_quota_list, META_WIRE_SMALL, META_WIRE_LARGE)    \
	X(0x341, gc_epoch, META_WIRE_SMALL, META_WIRE_SMALL)          \
	X(0x342, gc_advance, META_WIRE_SMALL, META_WIRE_SMALL)        \
	X(0x343, gc_step, META_WIRE_SMALL, META_WIRE_SMALL)           \
	X(0x344, gc_chunks, META_WIRE_SMALL, META_WIRE_LARGE)         \
	X(0x345, gc_chunks_done, META_WIRE_SMALL, META_WIRE_SMALL)    \
	X(0x346, chunks_wanted, META_WIRE_LARGE, META_WIRE_PATH)      \
	X(0x347, disk_blocks, META_WIRE_SMALL, META_WIRE_LARGE)       \
	X(0x348, blocks, META_WIRE_SMALL, META_WIRE_LARGE)            \
	X(0x349, lease, META_WIRE_SMALL, META_WIRE_SMALL)             \
	X(0x34a, note_put, META_WIRE_PATH, META_WIRE_SMALL)           \
	X(0x34b, note_list, META_WIRE_SMALL, META_WIRE_LARGE)         \
	X(0x34c, gc_hold, META_WIRE_PATH, META_WIRE_SMALL)            \
	X(0x34d, backup, META_WIRE_PATH, META_WIRE_SMALL)             \
	X(0x350, map_get, META_WIRE_SMALL, META_WIRE_LARGE)           \
	X(0x351, node_register, META_WIRE_LARGE, META_WIRE_SMALL)     \
	X(0x352, node_beat, META_WIRE_LARGE, META_WIRE_SMALL)         \
	X(0x353, map_want, META_WIRE_SMALL, META_WIRE_SMALL)          \
	X(0x360, identity_list, META_WIRE_SMALL, META_WIRE_LARGE)     \
	X(0x361, identity_change, META_WIRE_PATH, META_WIRE_LARGE)    \
	X(0x362, identity_key, META_WIRE_SMALL, META_WIRE_SMALL)      \
	X(0x363, access_test, META_WIRE_PATH, META_WIRE_PATH)         \
	X(0x368, token_disks, META_WIRE_PATH, META_WIRE_BLOCK)        \
	X(0x369, token_keys, META_WIRE_PATH, META_WIRE_LARGE)         \
	X(0x36a, token_rotate, META_WIRE_SMALL, META_WIRE_SMALL)      \
	X(0x370, share, META_WIRE_BLOCK, META_WIRE_PATH * 4)          \
	X(0x371, traffic, META_WIRE_SMALL, META_WIRE_LARGE)           \
	X(0x378, place, META_WIRE_PATH, META_WIRE_SMALL)              \
	X(0x379, file_used, META_WIRE_SMALL, META_WIRE_SMALL)         \
	X(0x37a, placement, META_WIRE_SMALL, META_WIRE_LARGE)         \
	X(0x380, job_add, META_WIRE_JOB, META_WIRE_SMALL)             \
	X(0x381, job_change, META_WIRE_SMALL, META_WIRE_SMALL)        \
	X(0x382, job_get, META_WIRE_SMALL, META_WIRE_JOB * 2)         \
	X(0x383, job_list, META_WIRE_SMALL, META_WIRE_LARGE)          \
	X(0x384, job_enter, META_WIRE_SMALL, META_WIRE_SMALL)         \
	X(0x385, job_judge, META_WIRE_PATH, META_WIRE_SMALL)

#define META_WIRE_SMALL 2048  /* limit in bytes of a message with a few numbers and two names */
#define META_WIRE_PATH 8192   /* limit in bytes of a message with a path */
#define META_WIRE_ATTRS 16384 /* limit in bytes of a message with attributes to set and to remove */
#define META_WIRE_BLOCK \
	49152 /* limit in bytes of a message with a block, all its chunks and their tokens */
#define META_WIRE_JOB 65536 /* limit in bytes of a message with the spec of a job */
#define META_WIRE_LARGE ((uint32_t)(1 * MIB))

#define META_TOKEN_DISKS_MAX 320 /* disks of one token_disks or token_keys */

#define META_TYPE_DECLARE(number, lower, in, out) extern const struct rpc_type meta_type_##lower;
META_TYPES(META_TYPE_DECLARE)
#undef META_TYPE_DECLARE

/* Returns how many queries a request counts for: 1, and one more for each 16 objects that it names or 64 that it lists. */
uint64_t meta_wire_queries(const struct rpc_type *t, const ProtobufCMessage *request);

typedef Terrane__Meta__Entry meta_msg_entry;
typedef Terrane__Meta__Extent meta_msg_extent;
typedef Terrane__Meta__File meta_msg_file;
typedef Terrane__Meta__Block meta_msg_block;
typedef Terrane__Meta__Owner meta_msg_owner;
typedef Terrane__Meta__Cursor meta_msg_cursor;

/* Each of these functions converts an object to a message. Without memory, functions that return a list return
 * NULL, and the other functions return -ENOMEM. Names are copied to the arena, because messages need a terminator. */
int meta_wire_entry_set(struct arena *a, meta_msg_entry *m, const struct meta_entry *e);
void meta_wire_extent_set(meta_msg_extent *m, const struct meta_extent *e);
void meta_wire_file_set(meta_msg_file *m, const struct meta_file *f);
int meta_wire_block_set(struct arena *a, meta_msg_block *m, const struct meta_block *b);
int meta_wire_cursor_set(struct arena *a, meta_msg_cursor *m, const struct meta_cursor *c);
meta_msg_extent **meta_wire_extents(struct arena *a, const struct meta_extent *e, size_t n);
meta_msg_owner **meta_wire_owners(struct arena *a, const struct meta_owner *o, size_t n);
/* Copies the name to the arena with a terminator. NULL: no memory, or the name contains a NUL. */
char *meta_wire_name(struct arena *a, struct meta_name name);

/* Each of these functions reads an object from a message. m is NULL if the peer left the message out: -EINVAL,
 * except for a cursor, which is then at the start. */
/* Without the values of user attributes. */
int meta_wire_entry_get(const meta_msg_entry *m, struct meta_entry *e);
int meta_wire_extent_get(const meta_msg_extent *m, struct meta_extent *e);
int meta_wire_file_get(const meta_msg_file *m, struct meta_file *f);
int meta_wire_block_get(struct arena *a, const meta_msg_block *m, struct meta_block *b);
int meta_wire_cursor_get(const meta_msg_cursor *m, struct meta_cursor *c);
int meta_wire_extents_get(struct arena *a, meta_msg_extent *const *m, size_t n,
			  struct meta_extent **out);
int meta_wire_owners_get(struct arena *a, meta_msg_owner *const *m, size_t n,
			 struct meta_owner **out);

#endif
