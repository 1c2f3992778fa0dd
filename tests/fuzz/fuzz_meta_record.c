// SPDX-License-Identifier: Apache-2.0
/*
 * Every record and key that meta reads from storage, with arbitrary bytes: the first byte chooses the record. An
 * accepted record must pack and read again; a refusal must report damage.
 */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "fuzz.h"
#include "meta/record.h"
#include "meta/schema.h"

#define CHECK_RECORD(type)                                           \
	static void check_##type(struct arena *a, struct kv_bytes v) \
	{                                                            \
		rec_##type *r;                                       \
		rec_##type *again;                                   \
		struct kv_bytes packed;                              \
		int rc = rec_read_##type(a, v, &r);                  \
		assert(rc == 0 || rc == -EBADMSG);                   \
		if (rc != 0 || rec_pack(a, &r->base, &packed) != 0)  \
			return;                                      \
		assert(rec_read_##type(a, packed, &again) == 0);     \
	}

CHECK_RECORD(format)
CHECK_RECORD(entry)
CHECK_RECORD(dir)
CHECK_RECORD(slice_state)
CHECK_RECORD(tombstone)
CHECK_RECORD(usage)
CHECK_RECORD(transfer)
CHECK_RECORD(file)
CHECK_RECORD(extent)
CHECK_RECORD(dead_file)
CHECK_RECORD(suspect)
CHECK_RECORD(block)
CHECK_RECORD(owner)
CHECK_RECORD(on_disk)
CHECK_RECORD(dead_chunks)
CHECK_RECORD(refund)
CHECK_RECORD(tenant)
CHECK_RECORD(tenant_name)
CHECK_RECORD(account)
CHECK_RECORD(counted)
CHECK_RECORD(gc_epoch)
CHECK_RECORD(lease)
CHECK_RECORD(note)
CHECK_RECORD(placed)
CHECK_RECORD(job_spec)
CHECK_RECORD(job_state)
CHECK_RECORD(job_count)

static void check_keys(struct arena *a, struct kv_bytes v)
{
	(void)a;
	uint32_t tenant;
	uint32_t slice;
	uint64_t id;
	uint64_t second;
	struct meta_name name;
	key_read_id(v, &tenant, &id);
	key_read_ids(v, &tenant, &id, &second);
	key_read_slice(v, &tenant, &id, &slice);
	key_read_slice_id(v, &tenant, &id, &slice, &second);
	key_read_disk(v, &id, &tenant, &second);
	if (key_read_entry(v, &tenant, &id, &slice, &name)) {
		struct schema_key k = key_entry(tenant, id, slice, name);
		assert(k.len == v.len);
		schema_name_check(name);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const checks[])(struct arena *, struct kv_bytes) = {
		check_format,    check_entry,       check_dir,         check_slice_state,
		check_tombstone, check_usage,       check_transfer,    check_file,
		check_extent,    check_dead_file,   check_suspect,     check_block,
		check_owner,     check_on_disk,     check_dead_chunks, check_refund,
		check_tenant,    check_tenant_name, check_account,     check_counted,
		check_gc_epoch,  check_lease,       check_keys,        check_note,
		check_placed,    check_job_spec,    check_job_state,   check_job_count,
	};
	if (size < 1 || size > KV_VALUE_MAX)
		return 0;
	struct arena a;
	arena_init(&a, 16 * MIB);
	checks[data[0] % ARRAY_LEN(checks)](&a, kv_bytes(data + 1, size - 1));
	arena_fini(&a);
	return 0;
}
