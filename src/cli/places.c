// SPDX-License-Identifier: Apache-2.0
#include "cli/places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"

/* Returns the number that a text is; 0: it is none. */
static uint64_t number_of(const char *text)
{
	int64_t number;
	return units_parse_int(text, &number) == 0 && number > 0 ? (uint64_t)number : 0;
}

const struct cluster_rack *place_rack_find(const struct cluster *c, const char *text)
{
	const struct cluster_rack *r = cluster_rack_named(c, text);
	uint64_t id = number_of(text);
	if (r == NULL && id != 0 && id <= UINT32_MAX)
		r = cluster_rack(c, (uint32_t)id);
	if (r == NULL)
		cli_fail("no rack %s in the cluster; \"terrane rack list\" lists them", text);
	return r;
}

static const struct cluster_node *node_of(const struct cluster *c, const char *text, size_t len)
{
	char name[CLUSTER_NAME_MAX + 1];
	if (len > CLUSTER_NAME_MAX)
		return NULL;
	memcpy(name, text, len);
	name[len] = 0;
	map_for_each(&c->nodes, it) {
		const struct cluster_node *n = it.value;
		if (strcmp(n->name, name) == 0 && n->wanted != CLUSTER_GONE)
			return n;
	}
	uint64_t id = number_of(name);
	return id != 0 ? cluster_node(c, id) : NULL;
}

const struct cluster_node *place_node_find(const struct cluster *c, const char *text)
{
	const struct cluster_node *n = node_of(c, text, strlen(text));
	if (n == NULL)
		cli_fail("no node %s in the cluster; \"terrane node list\" lists them", text);
	return n;
}

unsigned place_disk_number(const struct cluster *c, const struct cluster_disk *d)
{
	unsigned before = 0;
	map_for_each(&c->disks, it) {
		const struct cluster_disk *other = it.value;
		before += other->node == d->node && other->id < d->id;
	}
	return before + 1;
}

const struct cluster_disk *place_disk_find(const struct cluster *c, const char *text)
{
	const char *slash = strrchr(text, '/');
	const struct cluster_disk *found = NULL;
	uint64_t id = number_of(slash != NULL ? slash + 1 : text);
	const struct cluster_node *n =
		slash != NULL ? node_of(c, text, (size_t)(slash - text)) : NULL;
	if (slash == NULL && id != 0)
		found = cluster_disk(c, id);
	if (n != NULL)
		map_for_each(&c->disks, it) {
			const struct cluster_disk *d = it.value;
			if (d->node == n->id && place_disk_number(c, d) == id)
				found = d;
		}
	if (found == NULL)
		cli_fail("no disk %s in the cluster; \"terrane disk list\" lists them", text);
	return found;
}
