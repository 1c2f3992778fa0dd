// SPDX-License-Identifier: Apache-2.0
/* seal and unseal: make files and directories immutable, and directories changeable again. */
#include <errno.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/fs.h"

static int seal_path(struct fs *fs, const char *path)
{
	int rc = terrane_seal(fs->t, path, &fs->o);
	return rc < 0 && rc != -ENOENT ? fs_fail(&fs->error, rc, "cannot seal", path) : CLI_OK;
}

static int unseal_path(struct fs *fs, const char *path)
{
	int rc = terrane_unseal(fs->t, path, &fs->o);
	return rc < 0 && rc != -ENOENT ? fs_fail(&fs->error, rc, "cannot unseal", path) : CLI_OK;
}

static int seal_entry(void *ctx, struct fs_path *path, const struct terrane_entry *e)
{
	struct fs *fs = ctx;
	bool whole = fs->flags.encoding != NULL || fs->flags.media != TERRANE_MEDIA_DEFAULT;
	/* A file that was sealed is done, unless its blocks shall change. */
	if (e->kind == TERRANE_DIRECTORY || (e->sealed && !whole))
		return CLI_OK;
	return seal_path(fs, path->text);
}

/* A directory is sealed after its contents, so that an interrupted command can run again. */
static int seal_leave(void *ctx, struct fs_path *path, const struct terrane_entry *dir)
{
	(void)dir;
	return seal_path(ctx, path->text);
}

static int unseal_leave(void *ctx, struct fs_path *path, const struct terrane_entry *dir)
{
	(void)dir;
	return unseal_path(ctx, path->text);
}

/* Seals or unseals a path, with -R all below. */
static int change_one(struct fs *fs, const char *name, bool seal)
{
	struct terrane_entry e;
	struct fs_path path;
	const struct fs_walk w = {.fs = fs,
				  .ctx = fs,
				  .entry = seal ? seal_entry : NULL,
				  .leave = seal ? seal_leave : unseal_leave};
	int rc = fs_path_set(&path, name) ? fs_entry(fs, name, &e) : -ENAMETOOLONG;
	if (rc < 0)
		return fs_fail(&fs->error, rc, seal ? "cannot seal" : "cannot unseal", name);
	if (fs->flags.recursive && e.kind == TERRANE_DIRECTORY)
		return fs_walk(&w, &path, &e);
	return seal ? seal_path(fs, name) : unseal_path(fs, name);
}

static int change_all(struct fs *fs, int n, char **paths, bool seal)
{
	int status = CLI_OK;
	for (int i = 0; i < n; i++)
		if (seal && !fs->flags.force && fs_is_root(paths[i]))
			return cli_usage(
				"seal: \"%s\" is the root: no name could be added to it or "
				"removed any more; --force seals it, and \"terrane unseal /\" "
				"takes that back. Nothing was sealed",
				paths[i]);
	fs_catch_signals();
	for (int i = 0; i < n && !fs_interrupted(); i++)
		if (change_one(fs, paths[i], seal) != CLI_OK)
			status = CLI_FAILED;
	return fs_interrupted() ? cli_fail("interrupted; run the command again to go on") : status;
}

static int run_seal(struct fs *fs, int n, char **paths)
{
	return change_all(fs, n, paths, true);
}

static int run_unseal(struct fs *fs, int n, char **paths)
{
	return change_all(fs, n, paths, false);
}

const struct fs_command fs_seal_commands[] = {
	{"seal", "make a file or directory immutable", "PATH...",
	 "A sealed file can never grow, and no name in a sealed directory can change until it is\n"
	 "unsealed, so both may be cached. -R seals all files and directories below, too.\n"
	 "--encoding re-encodes the replicas of a log; --media moves the blocks of a file to that\n"
	 "media.",
	 "eMRf", 1, 1000, run_seal, FS_REMOTE_ALL},
	{"unseal", "let names in a sealed directory change again", "PATH...",
	 "Takes the seal of directories back; -R also of all directories below. A sealed file "
	 "stays\n"
	 "as it is. Needs the role of an administrator of the path.",
	 "R", 1, 1000, run_unseal, FS_REMOTE_ALL},
};
const size_t fs_seal_count = ARRAY_LEN(fs_seal_commands);
