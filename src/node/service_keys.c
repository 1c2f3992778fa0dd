// SPDX-License-Identifier: Apache-2.0
/*
 * The keys of the disks' tokens: a fiber of the first loop asks for them until each disk has its own, then at an interval,
 * and soon when a token of an unknown generation arrives. Between two answers the node checks tokens alone.
 */
#include <errno.h>
#include <stdlib.h>

#include "auth/secret.h"
#include "base/err.h"
#include "base/log.h"
#include "node/service_impl.h"
#include "rt/rt.h"

#define LOOK_NS (500 * NS_PER_MS)
#define FOLLOW_NS (5 * NS_PER_S)

struct giving {
	struct node_part *part;
	const struct key_pair *pairs;
	size_t count;
	uint64_t skew_ms;
	bool all; /* every disk of the part has a key */
	int rc;
};

/* Gives the disks of a part their keys, on the loop of the part. */
static void give(void *arg)
{
	struct giving *g = arg;
	struct node_disks *disks = &g->part->disks;
	g->all = true;
	for (size_t i = 0; i < disks->count && g->rc == 0; i++) {
		struct node_disk *d = &disks->disks[i];
		for (size_t k = 0; k < g->count; k++)
			if (g->pairs[k].verifier == d->spec->disk &&
			    g->pairs[k].generation[0].number != 0)
				g->rc = access_keys(&d->access, &g->pairs[k], g->skew_ms);
		g->all = g->all && d->access.keyed;
	}
}

static int give_all(struct node *n, const struct key_pair *pairs, size_t count, bool *all)
{
	int rc = 0;
	*all = true;
	for (unsigned i = 0; rc == 0 && i < n->part_count; i++) {
		struct giving g = {.part = &n->parts[i],
				   .pairs = pairs,
				   .count = count,
				   .skew_ms = n->options->keys->skew_ms};
		rc = node_part_call(g.part, give, &g);
		rc = rc != 0 ? rc : g.rc;
		*all = *all && g.all;
	}
	return rc;
}

static int ask(struct node *n, bool *all)
{
	const struct node_disks_options *o = &n->options->disks;
	const struct node_key_source *from = n->options->keys;
	uint64_t disks[NODE_DISKS_MAX];
	size_t count = o->disk_count;
	if (count == 0)
		return 0;
	struct key_pair *pairs = secret_alloc(count * sizeof(*pairs));
	if (pairs == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		disks[i] = o->disks[i].disk;
		pairs[i] = (struct key_pair){.layer = TOKEN_CHUNK, .verifier = disks[i]};
	}
	int rc = from->get(from->ctx, pairs, count);
	if (rc == 0)
		rc = give_all(n, pairs, count, all);
	secret_free(pairs, count * sizeof(*pairs));
	return rc;
}

void node_keys_main(void *node)
{
	struct node *n = node;
	bool all = false;
	int told = 0;
	uint64_t asked_ns = 0;
	rt_background();
	do {
		if (all && rt_elapsed_ns(asked_ns) < FOLLOW_NS && !n->keys_wanted)
			continue;
		n->keys_wanted = false;
		asked_ns = rt_now_ns();
		int rc = ask(n, &all);
		if (rc < 0 && rc != -ECANCELED && rc != told)
			log_warn("token_keys_not_read", "err=%s", err_name(rc));
		told = rc;
	} while (rt_sleep_ns(LOOK_NS) == 0);
}

void node_keys_wanted(struct node *n)
{
	n->keys_wanted = true;
}
