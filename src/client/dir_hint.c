// SPDX-License-Identifier: Apache-2.0
#include "client/dir_hint.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static size_t place_of(struct meta_name path)
{
	return hash64(path.text, path.len, 0) % DIR_HINTS;
}

static bool place_has(const struct dir_hint *p, struct meta_name path)
{
	return p->dir != 0 && p->len == path.len && memcmp(p->path, path.text, path.len) == 0;
}

static void place_clear(struct dir_hint *p)
{
	free(p->path);
	*p = (struct dir_hint){0};
}

void dir_hints_fini(struct dir_hints *h)
{
	for (size_t i = 0; i < DIR_HINTS; i++)
		place_clear(&h->places[i]);
}

uint64_t dir_hint_get(const struct dir_hints *h, struct meta_name path)
{
	const struct dir_hint *p = &h->places[place_of(path)];
	return place_has(p, path) ? p->dir : 0;
}

void dir_hint_put(struct dir_hints *h, struct meta_name path, uint64_t dir)
{
	assert(dir != 0 && path.len > 0);
	struct dir_hint *p = &h->places[place_of(path)];
	if (place_has(p, path)) {
		p->dir = dir;
		return;
	}
	char *copy = path.len <= DIR_HINT_PATH_MAX ? malloc(path.len) : NULL;
	if (copy == NULL)
		return;
	memcpy(copy, path.text, path.len);
	place_clear(p);
	*p = (struct dir_hint){.dir = dir, .len = path.len, .path = copy};
}

void dir_hint_drop(struct dir_hints *h, struct meta_name path)
{
	struct dir_hint *p = &h->places[place_of(path)];
	if (place_has(p, path))
		place_clear(p);
}
