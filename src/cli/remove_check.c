// SPDX-License-Identifier: Apache-2.0
#include "cli/remove_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/repair_left.h"

/* Returns whether a disk belongs to the disk, node or rack that is to be removed, and is not removed yet. */
static bool belongs_to(const struct cluster *c, const struct cluster_disk *d,
		       struct remove_what what)
{
	const struct cluster_node *n = cluster_node(c, d->node);
	if (cluster_disk_state(c, d) == CLUSTER_GONE)
		return false;
	if (what.disk != 0)
		return d->id == what.disk;
	return what.node != 0 ? d->node == what.node : n != NULL && n->rack == what.rack;
}

static int refuse(struct remove_what what, uint64_t chunks, enum cluster_state best)
{
	const char *kind = what.disk != 0 ? "disk" : what.node != 0 ? "node" : "rack";
	char name[CLUSTER_NAME_MAX + 1], remedy[CLUSTER_NAME_MAX + 128];
	if (what.rack_name != NULL)
		snprintf(name, sizeof(name), "%s", what.rack_name);
	else
		snprintf(name, sizeof(name), "%lu", what.disk != 0 ? what.disk : what.node);
	if (best <= CLUSTER_FULL)
		snprintf(remedy, sizeof(remedy), "drain it first (terrane %s drain %s)", kind,
			 name);
	else if (best == CLUSTER_DRAINING)
		snprintf(remedy, sizeof(remedy), "wait until its drain is complete");
	else
		snprintf(remedy, sizeof(remedy), "bring it back, or wait until they are rebuilt");
	return cli_fail(
		"cannot remove %s %s: it still holds %lu chunks, and a removal is for ever; "
		"%s. \"terrane repair status\" shows what is left. --force gives these "
		"chunks up",
		kind, name, chunks, remedy);
}

int remove_check(struct admin *a, struct remove_what what)
{
	struct cluster *c = admin_map(a);
	enum cluster_state best = CLUSTER_GONE;
	uint64_t chunks = 0;
	size_t n = 0;
	if (c == NULL)
		return CLI_FAILED;
	AUTO_FREE uint64_t *disks = malloc((map_count(&c->disks) + 1) * sizeof(*disks));
	if (disks == NULL)
		return cli_fail("out of memory");
	map_for_each(&c->disks, it) {
		const struct cluster_disk *d = it.value;
		if (!belongs_to(c, d, what))
			continue;
		disks[n++] = d->id;
		enum cluster_state state = cluster_disk_state(c, d);
		best = state < best ? state : best;
	}
	if (n > 0 && chunks_on(a, disks, n, &chunks) != CLI_OK)
		return CLI_FAILED;
	return chunks == 0 ? CLI_OK : refuse(what, chunks, best);
}
