// SPDX-License-Identifier: Apache-2.0
/* The source "folder": a tree of files, visited in the order of names. */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "dataset/catalog.h"

#define DEPTH_MAX 64

struct walk {
	struct catalog *c;
	char path[CATALOG_PATH_MAX];
	size_t len, root_len;
	int32_t label;
	struct catalog_sample sample;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int catalog_list(struct catalog *c, const char *path, struct strbuf *text, const char ***out,
		 size_t *n)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int rc = d != NULL ? 0 : -errno;
	*n = 0;
	*out = NULL;
	// cppcheck-suppress readdirCalled ; a stream of our own
	while (d != NULL && rc == 0 && (errno = 0, e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		rc = strbuf_add(text, e->d_name, strlen(e->d_name) + 1);
		*n += rc == 0;
	}
	if (rc == 0 && errno != 0)
		rc = -errno;
	if (d != NULL)
		closedir(d);
	if (rc < 0)
		return catalog_fail(c, rc, "cannot list %.400s: %s", path,
				    rc == -EMSGSIZE
					    ? "its names need more than 256 MiB; make more folders"
					    : strerror(-rc));
	const char **names = malloc((*n + 1) * sizeof(*names));
	if (names == NULL)
		return catalog_fail(c, -ENOMEM, "out of memory for the names of %.400s", path);
	size_t at = 0;
	for (size_t i = 0; i < *n; i++) {
		names[i] = text->text + at;
		at += strlen(names[i]) + 1;
	}
	qsort(names, *n, sizeof(*names), by_name);
	*out = names;
	return 0;
}

/* The number of the part's name; a data set with too many of them has the rest of the name in the key. */
static int64_t part_name(struct catalog *c, const char *part)
{
	int64_t rc = names_add(&c->parts, part, strlen(part));
	if (rc == -E2BIG)
		rc = names_find(&c->parts, "", 0);
	return rc;
}

static int add_file(struct walk *w, const struct stat *st)
{
	const char *name = w->path + w->root_len + 1, *part;
	size_t key_len;
	struct catalog_sample *s = &w->sample;
	if (!catalog_text_ok(name, strlen(name)))
		return catalog_fail(w->c, -EILSEQ, "the name of %.400s is not UTF-8; rename it",
				    w->path);
	catalog_split(name, &key_len, &part);
	int64_t number = part_name(w->c, part);
	if (number < 0)
		return catalog_fail(w->c, (int)number, "cannot add %.400s: %s", w->path,
				    number == -ENOMEM ? "out of memory"
						      : "the files have more than 255 endings");
	if (w->c->parts.text[number][0] == 0)
		key_len = strlen(name);
	if (key_len > KEY_MAX)
		return catalog_fail(w->c, -ENAMETOOLONG,
				    "the name of %.400s is longer than %u bytes", w->path, KEY_MAX);
	memcpy(s->key, name, key_len);
	s->key[key_len] = 0;
	s->key_len = (uint32_t)key_len;
	s->label = w->label;
	s->parts = 1;
	s->part[0] = (struct catalog_part){
		.name = (uint8_t)number, .file = CATALOG_BY_KEY, .size = (uint64_t)st->st_size};
	catalog_mix(w->c, (uint64_t)st->st_mtim.tv_sec);
	catalog_mix(w->c, (uint64_t)st->st_mtim.tv_nsec);
	return catalog_add(w->c, s);
}

static int walk_folder(struct walk *w, int depth);

static int add_folder(struct walk *w, const char *name, int depth)
{
	if (depth >= DEPTH_MAX)
		return catalog_fail(w->c, -ELOOP, "%.400s is deeper than %d folders", w->path,
				    DEPTH_MAX);
	if (depth == 0) {
		int64_t label = strlen(name) <= LABEL_BYTES_MAX
					? names_add(&w->c->labels, name, strlen(name))
					: -ENAMETOOLONG;
		if (label < 0)
			return catalog_fail(w->c, (int)label, "cannot add the label %.200s: %s",
					    name,
					    label == -E2BIG ? "there are more than 1,048,576 labels"
							    : strerror((int)-label));
		w->label = (int32_t)label;
	}
	int rc = walk_folder(w, depth + 1);
	if (depth == 0)
		w->label = -1;
	return rc;
}

static int add_name(struct walk *w, const char *name, int depth)
{
	struct stat st;
	size_t before = w->len, len = strlen(name);
	if (w->len + 1 + len >= sizeof(w->path))
		return catalog_fail(w->c, -ENAMETOOLONG, "the path of %.200s is too long", name);
	w->path[w->len] = '/';
	memcpy(w->path + w->len + 1, name, len + 1);
	w->len += 1 + len;
	int rc = stat(w->path, &st) < 0 ? -errno : 0;
	if (rc < 0)
		rc = catalog_fail(w->c, rc, "cannot look at %.400s: %s", w->path, strerror(-rc));
	else if (S_ISDIR(st.st_mode))
		rc = add_folder(w, name, depth);
	else if (S_ISREG(st.st_mode))
		rc = add_file(w, &st);
	w->len = before;
	w->path[before] = 0;
	return rc;
}

static int walk_folder(struct walk *w, int depth)
{
	AUTO_STRBUF struct strbuf text;
	AUTO_FREE const char **names = NULL;
	size_t n;
	strbuf_init(&text, CATALOG_NAMES_BYTES_MAX);
	int rc = catalog_list(w->c, w->path, &text, &names, &n);
	for (size_t i = 0; rc == 0 && names != NULL && i < n; i++)
		rc = add_name(w, names[i], depth);
	return rc;
}

int catalog_folder(struct catalog *c, const char *root)
{
	AUTO_FREE struct walk *w = calloc(1, sizeof(*w));
	size_t len = strlen(root);
	if (w == NULL)
		return catalog_fail(c, -ENOMEM, "out of memory");
	while (len > 1 && root[len - 1] == '/')
		len--;
	if (len >= sizeof(c->root))
		return catalog_fail(c, -ENAMETOOLONG, "the path of the source is too long");
	memcpy(c->root, root, len);
	c->root[len] = 0;
	*w = (struct walk){.c = c, .len = len, .root_len = len, .label = -1};
	memcpy(w->path, c->root, len + 1);
	int rc = walk_folder(w, 0);
	return rc < 0 ? rc : catalog_seal(c);
}
