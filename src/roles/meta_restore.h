// SPDX-License-Identifier: Apache-2.0
/*
 * Restores a backup of the metadata into the folder of a stopped server. The backup is copied to a folder beside the store,
 * checked there, and prepared for serving (meta/restored.h); only then it gets the name of the store. So a restore that
 * fails or is interrupted leaves the store as it was.
 */
#ifndef ROLES_META_RESTORE_H
#define ROLES_META_RESTORE_H

#include "kv/rocksdb.h"
#include "meta/gc.h"
#include "meta/restored.h"
#include "roles/meta_conf.h"

struct meta_restore {
	const struct meta_conf *conf;
	const char *from; /* folder of the backups, an absolute path */
	uint64_t number;  /* of the backup; 0: the last */
	bool replace;     /* the folder may have a store, which is kept under another name */
	bool verify;      /* only check the backup: the store is neither needed nor changed */
	bool force;       /* restore even if the check finds errors */
	struct meta_check_options check;
	/* Results: */
	struct kv_backup backup;
	struct meta_check_report report;
	struct meta_restored_report restored;
	char kept[600]; /* folder of the store that was replaced; empty: there was none */
	enum {
		RESTORE_FIND,  /* the backup */
		RESTORE_STORE, /* the folder of the store, which must be free */
		RESTORE_COPY,
		RESTORE_CHECK,
		RESTORE_PREPARE,
		RESTORE_SWAP
	} stage;
	int rc;
};

/* Runs in a fiber and sets rc: -EEXIST: the folder has a store and replace is false; -EBUSY: a server uses the store, or
 * another process the backups; -ENOENT: no such backup; -EBADMSG: the backup is damaged, or its check found errors. */
void meta_restore_main(void *restore);

/* Lists the backups of a folder, in a fiber. */
#define META_BACKUPS_MAX 1000
struct meta_backups {
	const char *dir;
	char owner[KV_BACKUP_OWNER_MAX + 1];
	struct kv_backup list[META_BACKUPS_MAX];
	int64_t count; /* or an error of kv_rocksdb_backups */
};
void meta_backups_main(void *backups);

#endif
