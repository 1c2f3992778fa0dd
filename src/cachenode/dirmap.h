// SPDX-License-Identifier: Apache-2.0
/*
 * Where the blocks of directories stand in the order in which jobs scan them: what turns a read of a block into a read of
 * position p of a bucket (cache/jobs.h).
 *
 * Only directories that registered jobs read are mapped. The node lists them itself, in the name of the tenant, so that a
 * position never depends on what a client says.
 *
 *   files in the order of their names       a.bin            b.bin            c.bin
 *   blocks in the order of the files        [A0   ][A1  ]    [B0   ][B1  ]    [C0 ]
 *   positions, in segments                  0      3         5      8         10        each block fills whole segments
 *
 * Files of about the same length get the same number of positions each, so that readers who scan files side by side follow
 * from the order contract. A block that several files share (packed small files) stands at the first of them.
 *
 * Bounds: DIRMAP_FILES_MAX files and DIRMAP_BLOCKS_MAX blocks in all directories together. A directory that does not fit,
 * or cannot be listed, is known without positions.
 */
#ifndef CACHENODE_DIRMAP_H
#define CACHENODE_DIRMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

struct meta_call;

#define DIRMAP_FILES_MAX 65536u
#define DIRMAP_BLOCKS_MAX (1u << 20)
#define DIRMAP_DIRS_MAX 1024u /* below one part of a job */
#define DIRMAP_DEPTH_MAX 8u

struct dirmap_file {
	uint64_t id;
	uint32_t first,
		segments; /* its positions; 0: its blocks belong to other files, or it is empty */
};

struct dirmap_block {
	uint64_t id;
	const struct dirmap_dir *dir;
	uint32_t file;  /* index in the files of the directory */
	uint32_t first; /* position of its first segment */
	uint32_t segments;
};

struct dirmap_dir {
	uint64_t id;
	uint32_t tenant;
	uint32_t users;
	uint64_t bytes;         /* of its files */
	bool placed;            /* positions are known */
	uint32_t segments;      /* all positions; at least 1 */
	uint32_t file_segments; /* positions of each file; 0: files differ */
	struct dirmap_file *files;
	struct dirmap_block *blocks;
	uint32_t files_n, blocks_n;
};

struct dirmap {
	struct map dirs;   /* key of tenant and directory -> struct dirmap_dir */
	struct map blocks; /* id -> struct dirmap_block */
	uint64_t segment_bytes;
	uint32_t files_n;
};

void dirmap_init(struct dirmap *m, uint64_t segment_bytes);
/* All directories must have been released. */
void dirmap_fini(struct dirmap *m);

/*
 * Sets out to the directories with files at and below `root`, in the order of their names, and returns their number, at most
 * DIRMAP_DIRS_MAX; 0: there is no file, or there are too many directories. Waits. In the context of the tenant. -ENOENT;
 * -EACCES: the node may not list; -ENOMEM; errors of a request.
 */
int64_t dirmap_walk(struct meta_call *c, uint64_t root, uint64_t out[DIRMAP_DIRS_MAX]);

/*
 * Takes a directory, which is listed if it is not known yet. Waits. In the context of the tenant. A directory that cannot be
 * listed is taken, too, without positions. -ENOMEM, -ECANCELED.
 */
int dirmap_take(struct dirmap *m, struct meta_call *c, uint32_t tenant, uint64_t dir,
		struct dirmap_dir **out);
void dirmap_release(struct dirmap *m, struct dirmap_dir *d);

/* Returns where a block of the tenant stands. NULL: it is in no directory with positions. */
const struct dirmap_block *dirmap_find(const struct dirmap *m, uint32_t tenant, uint64_t block);

#endif
