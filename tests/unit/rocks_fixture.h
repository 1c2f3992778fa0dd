// SPDX-License-Identifier: Apache-2.0
/* A temporary folder for each test of the engine on RocksDB, and rows to fill it with. */
#ifndef TESTS_ROCKS_FIXTURE_H
#define TESTS_ROCKS_FIXTURE_H

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/base.h"
#include "check.h"
#include "kv/rocksdb.h"
#include "kv_suite.h"
#include "rt/real.h"
#include "rt/rt.h"

struct fixture {
	char root[64];
	char dir[80];
	/* input and output of a test's fiber */
	const struct kv_case *test;
	bool salvage;
	uint64_t numbers[4];
	const uint64_t *acknowledged;
	int rc;
};

static inline void fixture_make(struct fixture *p)
{
	*p = (struct fixture){0};
	snprintf(p->root, sizeof(p->root), "/tmp/terrane-kv-XXXXXX");
	assert_non_null(mkdtemp(p->root));
	snprintf(p->dir, sizeof(p->dir), "%s/db", p->root);
}

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline void fixture_remove(struct fixture *p)
{
	assert_int_equal(nftw(p->root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static inline int open_there(struct fixture *p, struct kv **kv)
{
	return kv_rocksdb_open(kv, &(struct kv_rocksdb_options){.dir = p->dir,
								.memtable_bytes = 4 * MIB,
								.salvage = p->salvage});
}

static inline void in_fiber(struct fixture *p, void (*body)(void *))
{
	assert_int_equal(rt_real_run(NULL, body, p), 0);
}

#define MANY 20000 /* number of rows that a test writes */
#define EACH 200   /* number of rows in one transaction */

static inline void number_key(char out[16], unsigned n)
{
	snprintf(out, 16, "key%08u", n);
}

static inline void fill_some(struct kv *kv, unsigned from, unsigned to)
{
	for (unsigned n = from; n < to; n += EACH) {
		char keys[EACH][16];
		char values[EACH][64];
		struct kv_write w[EACH];
		for (unsigned i = 0; i < EACH; i++) {
			number_key(keys[i], n + i);
			snprintf(values[i], sizeof(values[i]), "value of %u, with some length",
				 n + i);
			w[i] = (struct kv_write){.kind = KV_PUT,
						 .key = kv_text(keys[i]),
						 .value = kv_text(values[i])};
		}
		struct kv_txn t = {.writes = w, .write_count = EACH};
		CHECK_EQ(kv_txn(kv, n % 7, &t, NULL), 0);
	}
}

static inline bool has(struct kv *kv, unsigned n)
{
	char key[16];
	char value[64];
	number_key(key, n);
	snprintf(value, sizeof(value), "value of %u, with some length", n);
	return kv_is(kv, n / EACH * EACH % 7, key, value);
}

#endif
