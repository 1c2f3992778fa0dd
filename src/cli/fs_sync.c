// SPDX-License-Identifier: Apache-2.0
/*
 * sync: makes one tree like another, in one direction: a local folder into the cluster, or with --get the reverse.
 *
 * Both trees are walked together, directory by directory, and compared by name, kind, size and time; with --verify by
 * bytes. What differs is transferred as by put and get. Only --delete removes anything: what the target has and the source
 * has not, or has as another kind. Nothing is removed from a directory whose source could not be listed completely.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/fs_put.h"
#include "cli/fs_side.h"

#define REMOVE_FDS 16 /* directories that the removal of a local tree has open at once */

struct sync {
	struct transfer x;
	struct fs *fs;
	bool get, dry, delete;
	struct fs_path local, remote;
	uint64_t removed, planned, planned_bytes;
};

/* --- what is done ----------------------------------------------------------------------------- */

/* Prints what is done, or what would be done, if the user asked for that. Returns whether it is only a plan. */
static bool told(struct sync *s, const char *action, bool dir)
{
	char shown[FS_PATH_MAX];
	const char *path = s->get ? s->local.text : s->remote.text;
	if (!s->dry)
		return false;
	if (s->fs->flags.json) {
		AUTO_JSON json_t *line = json_pack("{s:s, s:o}", "action", action, "path",
						   json_text(path, strlen(path)));
		if (line != NULL)
			(void)json_dumpf(line, stdout, JSON_COMPACT);
		putchar('\n');
	} else {
		printf("%s %s%s\n", action, fs_show(shown, path), dir ? "/" : "");
	}
	return true;
}

static int remove_local(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	if (fs_interrupted())
		return -ECANCELED;
	return remove(path) < 0 && errno != ENOENT ? -errno : 0;
}

/* Removes the target of the current path. Returns whether it is gone. */
static bool sync_remove(struct sync *s, const struct side_entry *to)
{
	int status = CLI_OK, rc = 0;
	bool dir = to->kind == SIDE_DIRECTORY;
	if (told(s, "remove", dir)) {
		s->removed++;
		return true;
	}
	if (!s->get) {
		status = fs_remove_tree(s->fs, s->remote.text, dir);
	} else {
		/* Links are removed, not followed. */
		rc = nftw(s->local.text, remove_local, REMOVE_FDS, FTW_DEPTH | FTW_PHYS);
		rc = rc == -1 ? -errno : rc;
	}
	if (rc < 0)
		transfer_fail(&s->x, NULL, rc, "cannot remove", s->local.text);
	else if (status != CLI_OK)
		atomic_fetch_add(&s->x.failed, 1);
	s->removed += rc == 0 && status == CLI_OK;
	return rc == 0 && status == CLI_OK;
}

static void sync_file(struct sync *s, const struct side_entry *from, bool compare)
{
	struct transfer_file f = {.local = s->local.text,
				  .remote = s->remote.text,
				  .id = from->id,
				  .size = from->sealed ? from->size : UINT64_MAX,
				  .wish = from->attrs,
				  .user = from->user_attributes > 0,
				  .compare = compare && s->get};
	s->planned++;
	s->planned_bytes += from->size;
	if (told(s, s->get ? "get" : "put", false))
		return;
	atomic_fetch_add(&s->x.progress.total_bytes, from->size);
	int rc = transfer_add(&s->x, &f);
	if (rc < 0)
		transfer_fail(&s->x, NULL, rc, "cannot sync", s->local.text);
}

/* --- attributes ------------------------------------------------------------------------------- */

static const struct terrane_attribute *find_user(const struct terrane_attributes *in,
						 const char *name)
{
	for (size_t i = 0; i < in->user_count; i++)
		if (strcmp(in->user[i].name, name) == 0)
			return &in->user[i];
	return NULL;
}

static bool same_value(const struct terrane_attribute *a, const struct terrane_attribute *b)
{
	return b != NULL && a->len == b->len &&
	       (a->len == 0 || memcmp(a->value, b->value, a->len) == 0);
}

/* Collects the user attributes that differ: those of `want` with their values, others of `have` to be removed. */
static size_t user_changes(const struct terrane_attributes *want,
			   const struct terrane_attributes *have, struct terrane_attribute *out)
{
	size_t n = 0;
	for (size_t i = 0; i < want->user_count; i++)
		if (!same_value(&want->user[i], find_user(have, want->user[i].name)))
			out[n++] = want->user[i];
	for (size_t i = 0; i < have->user_count && n < TERRANE_ATTRIBUTES_MAX; i++)
		if (find_user(want, have->user[i].name) == NULL)
			out[n++] = (struct terrane_attribute){.name = have->user[i].name};
	return n;
}

/* Sets the attributes of the current remote path to those of the local one, where they differ. */
static int push_attributes(struct sync *s, const struct side_entry *to)
{
	uint64_t buf[TERRANE_ATTRIBUTES_BYTES / sizeof(uint64_t)];
	struct terrane_attribute user[TERRANE_ATTRIBUTES_MAX];
	struct terrane_attributes have = {0};
	struct local_attrs want;
	struct stat st;
	if (stat(s->local.text, &st) < 0)
		return -errno;
	local_attrs_read(s->local.text, &st, &want);
	int rc = 0;
	if (want.all.user_count > 0 || to->user_attributes > 0)
		rc = terrane_attributes_get(s->fs->t, s->remote.text, &have, buf, sizeof(buf),
					    &s->fs->o);
	if (rc < 0)
		return rc;
	struct terrane_attributes change = want.all;
	change.user = user;
	change.user_count = user_changes(&want.all, &have, user);
	bool same = to->attrs.has == (want.all.set & ~(unsigned)TERRANE_HAS_MTIME) &&
		    to->attrs.mode == want.all.mode && to->attrs.uid == want.all.uid &&
		    to->attrs.gid == want.all.gid &&
		    ((want.all.set & TERRANE_HAS_MTIME) == 0 ||
		     to->attrs.mtime_ns == want.all.mtime_ns);
	if ((same && change.user_count == 0) || told(s, "set attributes of", false))
		return 0;
	return terrane_attributes_set(s->fs->t, s->remote.text, &change, &s->fs->o);
}

/* Returns whether a local file has the attributes of the remote one, as far as a listing tells. */
static bool same_attributes(const struct side_entry *from, const struct side_entry *to)
{
	const struct local_wish *w = &from->attrs;
	bool root = geteuid() == 0;
	return to->attrs.mtime_ns == w->mtime_ns && from->user_attributes == 0 &&
	       ((w->has & TERRANE_HAS_MODE) == 0 ||
		(to->attrs.mode & LOCAL_MODE_MASK) == (w->mode & LOCAL_MODE_MASK)) &&
	       (!root || (w->has & TERRANE_HAS_UID) == 0 || to->attrs.uid == w->uid) &&
	       (!root || (w->has & TERRANE_HAS_GID) == 0 || to->attrs.gid == w->gid);
}

/* Sets the attributes of the current local file to those of the remote one; those of a directory at the end, as its files
 * change its time until then. */
static int pull_attributes(struct sync *s, const struct side_entry *from,
			   const struct side_entry *to)
{
	bool same = same_attributes(from, to), user = from->user_attributes > 0;
	if (s->dry) {
		/* User attributes are not known here, so they are no reason to announce a change. */
		if (!same && !user)
			(void)told(s, "set attributes of", false);
		return 0;
	}
	if (from->kind == SIDE_DIRECTORY)
		return transfer_add_dir(&s->x, &(struct transfer_dir){.local = s->local.text,
								      .remote = s->remote.text,
								      .wish = from->attrs,
								      .user = user});
	if (same)
		return 0;
	int fd = open(s->local.text, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int rc = fd < 0 ? -errno
			: transfer_give(&s->x, fd, &from->attrs, user ? s->remote.text : NULL,
					&s->fs->o);
	if (fd >= 0)
		close(fd);
	return rc;
}

static void sync_attributes(struct sync *s, const struct side_entry *from,
			    const struct side_entry *to)
{
	if (s->fs->flags.bare)
		return;
	int rc = s->get ? pull_attributes(s, from, to) : push_attributes(s, to);
	if (rc < 0)
		transfer_fail(&s->x, &s->fs->error, rc, "cannot set the attributes of",
			      s->get ? s->local.text : s->remote.text);
}

/* --- directories ------------------------------------------------------------------------------ */

static void sync_dir(struct sync *s, uint64_t from_id, bool to_there, uint64_t to_id);

/* Makes the current target directory with the attributes of its source. Sets *id to its id in the cluster. */
static int make_dir(struct sync *s, const struct side_entry *from, uint64_t *id)
{
	if (told(s, "make", true))
		return 0;
	if (s->get) {
		int rc = mkdir(s->local.text, 0700) < 0 ? -errno : 0;
		return rc < 0 ? rc
			      : transfer_add_dir(&s->x, &(struct transfer_dir){
								.local = s->local.text,
								.remote = s->remote.text,
								.wish = from->attrs,
								.user = from->user_attributes > 0});
	}
	struct terrane_options o = s->fs->o;
	struct local_attrs attrs;
	struct terrane_stat made = {0};
	struct stat st;
	if (!s->fs->flags.bare && stat(s->local.text, &st) == 0) {
		local_attrs_read(s->local.text, &st, &attrs);
		o.attributes = &attrs.all;
	}
	int rc = terrane_mkdir(s->fs->t, s->remote.text, TERRANE_PARENTS, &o);
	if (rc == 0)
		rc = terrane_stat(s->fs->t, s->remote.text, &made, &s->fs->o);
	*id = made.id;
	return rc;
}

static void sync_subdir(struct sync *s, const struct side_entry *from, const struct side_entry *to)
{
	uint64_t id = to != NULL ? to->id : 0;
	int rc = to == NULL ? make_dir(s, from, &id) : 0;
	if (rc < 0) {
		transfer_fail(&s->x, &s->fs->error, rc, "cannot make",
			      s->get ? s->local.text : s->remote.text);
		return;
	}
	/* A plan compares with a directory that does not exist. */
	bool there = to != NULL || !s->dry;
	sync_dir(s, s->get ? from->id : 0, there, s->get ? 0 : id);
	if (to != NULL)
		sync_attributes(s, from, to);
}

static bool same_file(const struct sync *s, const struct side_entry *from,
		      const struct side_entry *to)
{
	return !s->fs->flags.verify && from->sealed && to->sealed && from->size == to->size &&
	       from->attrs.mtime_ns == to->attrs.mtime_ns;
}

/* Handles one name, whose paths are the current ones. to is NULL if the target does not have it. */
static void sync_entry(struct sync *s, const struct side_entry *from, const struct side_entry *to)
{
	if (from->kind == SIDE_OTHER) {
		transfer_refuse(&s->x, "cannot sync", s->local.text,
				"it is neither a file nor a directory");
		return;
	}
	if (to != NULL && to->kind != from->kind) {
		if (!s->delete) {
			transfer_refuse(&s->x, "cannot sync",
					s->get ? s->local.text : s->remote.text,
					"the target is of another kind; --delete replaces it");
			return;
		}
		if (!sync_remove(s, to))
			return;
		to = NULL;
	}
	if (from->kind == SIDE_DIRECTORY) {
		sync_subdir(s, from, to);
	} else if (to != NULL && same_file(s, from, to)) {
		atomic_fetch_add(&s->x.left_alone, 1);
		sync_attributes(s, from, to);
	} else {
		sync_file(s, from, to != NULL && s->fs->flags.verify && from->size == to->size);
	}
}

/* Handles one name of the source, the target or both; the other is NULL. */
static void sync_name(struct sync *s, const struct side_entry *from, const struct side_entry *to)
{
	assert(from != NULL || to != NULL);
	const char *name = from != NULL ? from->name : to->name;
	size_t local = fs_path_push(&s->local, name);
	size_t remote = local != SIZE_MAX ? fs_path_push(&s->remote, name) : SIZE_MAX;
	if (remote == SIZE_MAX)
		transfer_fail(&s->x, NULL, -ENAMETOOLONG, "cannot sync", name);
	else if (from != NULL)
		sync_entry(s, from, to);
	else if (s->delete)
		(void)sync_remove(s, to);
	if (remote != SIZE_MAX)
		fs_path_pop(&s->remote, remote);
	if (local != SIZE_MAX)
		fs_path_pop(&s->local, local);
}

/* Compares two sorted listings. First what is not in the source, so that --delete makes room. */
static void merge(struct sync *s, const struct side *from, const struct side *to, bool extra)
{
	size_t i = 0, j = 0;
	while ((i < from->count || j < to->count) && !transfer_ended(&s->x)) {
		int order = i == from->count ? 1
			    : j == to->count ? -1
					     : strcmp(from->all[i].name, to->all[j].name);
		if (order > 0 && extra)
			sync_name(s, NULL, &to->all[j]);
		else if (order <= 0 && !extra)
			sync_name(s, &from->all[i], order == 0 ? &to->all[j] : NULL);
		i += order <= 0;
		j += order >= 0;
	}
}

static int list_side(struct sync *s, bool local, uint64_t id, struct side *out)
{
	return local ? side_local(out, s->local.text, !s->get) : side_remote(s->fs, out, id);
}

/* Syncs the contents of the current directories. */
static void sync_dir(struct sync *s, uint64_t from_id, bool to_there, uint64_t to_id)
{
	struct side from, to;
	if (transfer_ended(&s->x))
		return;
	side_init(&from);
	side_init(&to);
	int rc = list_side(s, !s->get, from_id, &from);
	const char *what = s->get ? s->remote.text : s->local.text;
	if (rc == 0 && to_there) {
		what = s->get ? s->local.text : s->remote.text;
		rc = list_side(s, s->get, to_id, &to);
	}
	if (rc < 0) {
		transfer_fail(&s->x, s->fs->error.code == rc ? &s->fs->error : NULL, rc,
			      "cannot list", what);
	} else {
		merge(s, &from, &to, true);
		merge(s, &from, &to, false);
	}
	side_free(&from);
	side_free(&to);
}

/* --- the command ------------------------------------------------------------------------------ */

/* Finds both ends. Returns an exit status; nothing is changed unless it is CLI_OK. */
static int sync_ends(struct sync *s, const char *source, const char *target, uint64_t *from_id,
		     bool *to_there, uint64_t *to_id)
{
	struct fs *fs = s->fs;
	const char *local = s->get ? target : source, *remote = s->get ? source : target;
	struct terrane_stat rst = {0};
	struct stat lst;
	if (!fs_path_set(&s->local, local) || !fs_path_set(&s->remote, remote))
		return fs_fail(NULL, -ENAMETOOLONG, "cannot sync", source);
	int lrc = stat(local, &lst) < 0 ? -errno : S_ISDIR(lst.st_mode) ? 0 : -ENOTDIR;
	int rrc = terrane_stat(fs->t, remote, &rst, &fs->o);
	if (rrc == 0 && rst.kind != TERRANE_DIRECTORY)
		rrc = -ENOTDIR;
	if (s->get ? rrc < 0 : lrc < 0)
		return fs_fail(s->get && rrc != -ENOTDIR ? &fs->error : NULL, s->get ? rrc : lrc,
			       "cannot sync", source);
	int trc = s->get ? lrc : rrc;
	*to_there = trc == 0;
	if (trc < 0 && trc != -ENOENT)
		return fs_fail(NULL, trc, "cannot sync to", target);
	*from_id = *to_id = rst.id;
	if (*to_there)
		return CLI_OK;
	if (told(s, "make", true))
		return CLI_OK;
	if (s->get)
		trc = mkdir(local, 0755) < 0 ? -errno : 0;
	else
		trc = make_dir(s, &(struct side_entry){0}, to_id);
	*to_there = true;
	return trc < 0 ? fs_fail(&fs->error, trc, "cannot make", target) : CLI_OK;
}

/* Prints the sum of a plan. */
static int plan_end(const struct sync *s)
{
	char size[FS_SIZE_TEXT];
	unsigned long long same = atomic_load(&s->x.left_alone), failed = atomic_load(&s->x.failed);
	if (s->fs->flags.json)
		printf("{\"action\": \"sum\", \"files\": %lu, \"bytes\": %lu, \"removed\": %lu, "
		       "\"left_alone\": %llu, \"failed\": %llu}\n",
		       s->planned, s->planned_bytes, s->removed, same, failed);
	else
		printf("sync: would %s %lu files, %s; remove %lu names; %llu files are the same\n",
		       s->get ? "get" : "put", s->planned, fs_size(size, (double)s->planned_bytes),
		       s->removed, same);
	return failed > 0 ? CLI_FAILED : CLI_OK;
}

static int run_sync(struct fs *fs, int n, char **operands)
{
	(void)n;
	uint64_t from_id = 0, to_id = 0;
	bool there = false;
	if (fs_path_check("sync", operands[fs->flags.pull ? 0 : 1]) != CLI_OK)
		return CLI_FAILED;
	struct sync *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return fs_fail(NULL, -ENOMEM, "cannot sync", operands[0]);
	s->fs = fs;
	s->get = fs->flags.pull;
	s->dry = fs->flags.dry;
	s->delete = fs->flags.remove;
	fs->flags.replace = true;
	fs->flags.resume = fs->flags.verify;
	int status = sync_ends(s, operands[0], operands[1], &from_id, &there, &to_id);
	if (status == CLI_OK)
		status = transfer_start(&s->x, fs, "sync", s->get ? get_job : put_job);
	if (status == CLI_OK) {
		sync_dir(s, from_id, there, to_id);
		atomic_store(&s->x.removed, s->removed);
		status = s->dry ? transfer_stop(&s->x) : transfer_finish(&s->x);
		if (s->dry)
			status = plan_end(s);
	}
	free(s);
	return status;
}

const struct fs_command fs_sync_commands[] = {
	{"sync", "make a tree like another one", "SOURCE TARGET",
	 "Makes the directory TARGET in the cluster like the local directory SOURCE; with --get\n"
	 "the local directory TARGET like SOURCE in the cluster. Files with the same size and\n"
	 "time are left, or with --verify those with the same bytes; others are transferred with\n"
	 "their attributes. What only TARGET has stays, unless --delete is given. -n prints what\n"
	 "would be done, and changes nothing.",
	 "YXGvqJTMebgB", 2, 2, run_sync, FS_REMOTE_NONE},
};
const size_t fs_sync_count = ARRAY_LEN(fs_sync_commands);
