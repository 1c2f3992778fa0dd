// SPDX-License-Identifier: Apache-2.0
/*
 * Stores of every kind for tests, each in the environment that it needs, and payloads whose bytes
 * identify their offset.
 */
#ifndef TESTS_STORE_FIXTURE_H
#define TESTS_STORE_FIXTURE_H

#include "check.h"
#include "store/dir.h"
#include "store/store.h"

enum fixture_kind {
	FIXTURE_MEM,
	FIXTURE_FAULT,    /* fault store over a memory store, without faults */
	FIXTURE_THROTTLE, /* throttle store over a memory store, with the speed of an NVMe device */
	FIXTURE_DIR_SIM,  /* directory store on a simulated disk */
	FIXTURE_DIR_REAL, /* directory store on the real filesystem */
	FIXTURE_DIR_BUFFERED, /* directory store on the real filesystem, without O_DIRECT */
	FIXTURE_POOL_MEM,     /* pool of 3+2, declustered over 9 memory stores */
	FIXTURE_POOL_DIR,     /* pool of 2+1, clustered over 3 directories of a simulated disk */
	/* flash store: a memory store that caches chunks of another at their first read */
	FIXTURE_FLASH,
	FIXTURE_KINDS,
};

const char *fixture_name(enum fixture_kind kind);

/* Runs the body in a fiber with a new store of this kind. */
void fixture_run(enum fixture_kind kind, void (*body)(struct store *s));

/* Options and superblock of test disks: cluster (1, 2), node 3, disk 4, 4 directories. */
struct store_dir_options fixture_options(void);
struct super fixture_super(void);

/*
 * Runs the body in a fiber of the real runtime with a new, empty directory, which is removed
 * afterwards.
 */
void fixture_in_real_dir(void (*body)(const char *path));

/* Runs the body in a fiber of a simulated process with a disk at /d0. */
void fixture_in_sim_dir(uint64_t seed, void (*body)(const char *path));

/*
 * Fill or compare memory with bytes [off, off + len) of the text with this number; a text is the
 * same at every call.
 */
void text_fill(uint64_t text, uint64_t off, void *buf, uint64_t len);
bool text_is(uint64_t text, uint64_t off, const void *buf, uint64_t len);
uint32_t text_crc(uint64_t text, uint64_t off, uint64_t len);

/*
 * Allocates page-aligned memory and returns a pointer `skew` bytes behind its start; the caller
 * frees it with fixture_free.
 */
uint8_t *fixture_alloc(uint64_t len, unsigned skew);
void fixture_free(uint8_t *buf);

/* Put or append bytes of a text. */
int text_put(struct store *s, struct chunk_id id, uint64_t text, uint64_t len, bool open,
	     uint64_t capacity);
int text_append(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t text, uint64_t off,
		uint64_t len);

/* Overwrites a member's pool records with text, which is no valid record. */
void text_over_records(struct store *member);

/* Reads a range and checks that bytes and CRC are those of the text. Returns the result of get. */
int text_get(struct store *s, struct chunk_id id, uint64_t text, uint64_t off, uint64_t len,
	     unsigned skew);

#endif
