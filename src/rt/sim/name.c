// SPDX-License-Identifier: Apache-2.0
/*
 * The tree of names of a disk, and its journal.
 *
 * There is one tree, which all calls see. Each operation on names adds an entry to the journal, with the data to
 * undo it. A sync of a directory removes the entries up to the last one of that directory: they are durable, and
 * so are all earlier ones, because a journal has one order. A power loss cuts the journal at a random entry and
 * undoes the later ones, newest first. So a prefix of the operations survives, and a rename is all or nothing.
 *
 * An inode exists as long as a name, an open file or a journal entry refers to it.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "rt/sim/disk.h"

/* Above this limit the oldest entries become durable without a sync. */
#define JOURNAL_MAX 4096

enum name_op_kind { NAME_ADDED, NAME_REMOVED, NAME_MOVED };

struct name_op {
	struct list link; /* element of disk.journal */
	enum name_op_kind kind;
	uint64_t seq;
	struct inode *dir;
	struct inode *inode;
	struct inode *to_dir;   /* NAME_MOVED: the new directory */
	struct inode *replaced; /* NAME_MOVED: the inode that the rename replaced, or NULL */
	size_t len;
	size_t to_len;
	char text[]; /* the name; for NAME_MOVED the old name and then the new one */
};

static uint64_t name_key(const struct inode *dir, const char *name, size_t len)
{
	return mix_u64(dir->id * 0x9e3779b97f4a7c15ULL + crc32c(0, name, len));
}

static struct dentry *dentry_find(const struct inode *dir, const char *name, size_t len)
{
	struct dentry *e = map_get(&dir->disk->names, name_key(dir, name, len));

	while (e != NULL && (e->dir != dir || e->len != len || memcmp(e->name, name, len) != 0))
		e = e->chain;
	return e;
}

static void dentry_add(struct inode *dir, const char *name, size_t len, struct inode *i)
{
	struct map *names = &dir->disk->names;
	struct dentry *e = sim_need(calloc(1, sizeof(*e) + len + 1));

	e->dir = dir;
	e->inode = i;
	e->len = len;
	memcpy(e->name, name, len);
	e->key = name_key(dir, name, len);
	e->chain = map_remove(names, e->key);
	if (map_put(names, e->key, e) != 0)
		sim_need(NULL);
	list_push_back(&dir->entries, &e->link);
	dir->entry_count++;
	assert(dir->is_dir && i->names == 0);
	i->names++;
	if (i->is_dir)
		i->parent = dir;
	inode_settle_refs(i);
}

/* Removes the name and returns its inode; the caller calls inode_settle_refs. */
static struct inode *dentry_remove(struct inode *dir, const char *name, size_t len)
{
	struct map *names = &dir->disk->names;
	struct dentry *e = dentry_find(dir, name, len);

	assert(e != NULL);
	struct dentry *first = map_remove(names, e->key);
	if (first == e) {
		first = e->chain;
	} else {
		struct dentry *before = first;
		while (before->chain != e)
			before = before->chain;
		before->chain = e->chain;
	}
	if (first != NULL && map_put(names, e->key, first) != 0)
		sim_need(NULL);
	list_remove(&e->link);
	dir->entry_count--;
	struct inode *i = e->inode;
	assert(i->names == 1);
	i->names--;
	free(e);
	return i;
}

/* --- the journal ------------------------------------------------------------------------------- */

static void op_unref(struct inode *i)
{
	if (i == NULL)
		return;
	assert(i->undo_refs > 0);
	i->undo_refs--;
	inode_settle_refs(i);
}

static void op_free(struct sim_disk *d, struct name_op *op)
{
	assert(d->journal_count > 0);
	list_remove(&op->link);
	d->journal_count--;
	op_unref(op->inode);
	op_unref(op->replaced);
	op_unref(op->to_dir);
	op_unref(op->dir);
	free(op);
}

static struct name_op *op_first(const struct sim_disk *d)
{
	struct list *l = list_first(&d->journal);
	return l == NULL ? NULL : list_entry(l, struct name_op, link);
}

static void op_log(enum name_op_kind kind, const struct place *from, const struct place *to)
{
	struct sim_disk *d = from->dir->disk;
	size_t to_len = to == NULL ? 0 : to->len;
	struct name_op *op = sim_need(calloc(1, sizeof(*op) + from->len + to_len));

	op->kind = kind;
	op->seq = ++d->journal_seq;
	op->dir = from->dir;
	op->inode = from->inode;
	op->len = from->len;
	memcpy(op->text, from->name, from->len);
	if (to != NULL) {
		op->to_dir = to->dir;
		op->replaced = to->inode;
		op->to_len = to_len;
		memcpy(op->text + from->len, to->name, to_len);
		op->to_dir->undo_refs++;
		if (op->replaced != NULL)
			op->replaced->undo_refs++;
	}
	op->dir->undo_refs++;
	op->inode->undo_refs++;
	list_push_back(&d->journal, &op->link);
	if (++d->journal_count > JOURNAL_MAX)
		op_free(d, op_first(d));
}

void name_add(struct inode *dir, const char *name, size_t len, struct inode *i)
{
	struct place p = {.dir = dir, .name = name, .len = len, .inode = i};

	dentry_add(dir, name, len, i);
	op_log(NAME_ADDED, &p, NULL);
}

void name_remove(struct inode *dir, const char *name, size_t len)
{
	struct place p = {.dir = dir, .name = name, .len = len};

	p.inode = dentry_remove(dir, name, len);
	op_log(NAME_REMOVED, &p, NULL);
	inode_settle_refs(p.inode);
}

void name_move(const struct place *from, const struct place *to)
{
	if (to->inode != NULL)
		dentry_remove(to->dir, to->name, to->len);
	dentry_remove(from->dir, from->name, from->len);
	dentry_add(to->dir, to->name, to->len, from->inode);
	op_log(NAME_MOVED, from, to);
	if (to->inode != NULL)
		inode_settle_refs(to->inode);
}

uint64_t name_last(const struct sim_disk *d, const struct inode *dir)
{
	for (struct list *l = d->journal.prev; l != &d->journal; l = l->prev) {
		const struct name_op *op = list_entry(l, struct name_op, link);
		if (op->dir == dir || op->to_dir == dir)
			return op->seq;
	}
	return 0;
}

void name_commit(struct sim_disk *d, uint64_t seq)
{
	for (struct name_op *op = op_first(d); op != NULL && op->seq <= seq; op = op_first(d))
		op_free(d, op);
}

static void op_undo(struct name_op *op)
{
	const char *to_name = op->text + op->len;

	switch (op->kind) {
	case NAME_ADDED:
		dentry_remove(op->dir, op->text, op->len);
		break;
	case NAME_REMOVED:
		dentry_add(op->dir, op->text, op->len, op->inode);
		break;
	case NAME_MOVED:
		dentry_remove(op->to_dir, to_name, op->to_len);
		dentry_add(op->dir, op->text, op->len, op->inode);
		if (op->replaced != NULL)
			dentry_add(op->to_dir, to_name, op->to_len, op->replaced);
		break;
	}
}

void name_power_loss(struct sim_disk *d)
{
	struct name_op *op;
	uint64_t kept = 0;

	list_for_each_entry(op, &d->journal, link) {
		if (sim_roll(d->node->sim, SIM_WRITE_LOST, d->node))
			break;
		kept = op->seq;
	}
	for (struct list *l = list_last(&d->journal); l != NULL; l = list_last(&d->journal)) {
		op = list_entry(l, struct name_op, link);
		if (op->seq > kept)
			op_undo(op);
		op_free(d, op);
	}
}

void name_wipe(struct sim_disk *d)
{
	struct inode *i;

	name_commit(d, UINT64_MAX);
	list_for_each_entry(i, &d->inodes, link) {
		struct list *l;
		while ((l = list_pop_front(&i->entries)) != NULL) {
			struct dentry *e = list_entry(l, struct dentry, link);
			e->inode->names--;
			free(e);
		}
		i->entry_count = 0;
	}
	map_clear(&d->names);
}

/* --- paths ------------------------------------------------------------------------------------- */

static const char *skip_slashes(const char *s)
{
	while (*s == '/')
		s++;
	return s;
}

static struct sim_disk *disk_named(struct sim_node *n, const char *name, size_t len)
{
	struct sim_disk *d;

	list_for_each_entry(d, &n->disks, node_link) {
		if (strlen(d->name) == len && memcmp(d->name, name, len) == 0)
			return d;
	}
	return NULL;
}

struct sim_disk *name_disk(struct sim_node *n, const char *path)
{
	if (path[0] != '/')
		return NULL;
	path = skip_slashes(path);
	return disk_named(n, path, strcspn(path, "/"));
}

/* Resolves one name of a path in the directory p->inode. */
static int place_step(struct place *p, const char *name, size_t len)
{
	if (len > DISK_NAME_MAX)
		return -ENAMETOOLONG;
	if (p->inode == NULL)
		return -ENOENT;
	if (!p->inode->is_dir)
		return -ENOTDIR;
	p->dir = p->inode;
	p->name = name;
	p->len = len;
	if (len == 1 && name[0] == '.')
		return 0;
	if (len == 2 && name[0] == '.' && name[1] == '.') {
		p->inode = p->dir->parent;
		return 0;
	}
	struct dentry *e = dentry_find(p->dir, name, len);
	p->inode = e == NULL ? NULL : e->inode;
	return 0;
}

int name_find(struct sim_node *n, const char *path, struct place *p)
{
	*p = (struct place){0};
	if (strnlen(path, DISK_PATH_MAX) >= DISK_PATH_MAX)
		return -ENAMETOOLONG;
	p->disk = name_disk(n, path);
	if (p->disk == NULL)
		return -ENOENT;
	if (p->disk->lost)
		return -ENODEV;
	p->inode = p->disk->root;
	const char *at = skip_slashes(path);
	at += strcspn(at, "/");
	while (*(at = skip_slashes(at)) != '\0') {
		size_t len = strcspn(at, "/");
		int rc = place_step(p, at, len);
		if (rc != 0)
			return rc;
		at += len;
		p->must_be_dir = *at == '/';
	}
	if (p->must_be_dir && p->inode != NULL && !p->inode->is_dir)
		return -ENOTDIR;
	return 0;
}
