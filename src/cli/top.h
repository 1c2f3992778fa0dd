// SPDX-License-Identifier: Apache-2.0
/* What `terrane top` knows of the servers, and the rates that it shows. */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include <stdlib.h>

#include "meta_client/meta_client.h"
#include "node/node_client.h"

#define TOP_GROUP_MAX 160

/* Sums since a server began. */
enum top_sum { TOP_IOS, TOP_BYTES, TOP_DISK_NS, TOP_QUERIES, TOP_META_NS, TOP_REFUSED, TOP_SUMS };

struct top_use {
	char group[TOP_GROUP_MAX];
	uint64_t sums[TOP_SUMS];
	double waiting;
	double throttled; /* requests per second */
};

struct top_answer {
	uint64_t ns; /* when the server answered; 0: it was not asked */
	int rc;
	size_t count;
	struct top_use *uses;
};

static inline void top_answer_free(struct top_answer *a)
{
	free(a->uses);
	*a = (struct top_answer){0};
}

/* A metadata server or a node. */
struct top_server {
	struct meta_client *client;  /* NULL: a node */
	struct rpc_channel *channel; /* NULL: a metadata server */
	struct top_answer before, after;
};

struct top_rate {
	char group[TOP_GROUP_MAX];
	double per_s[TOP_SUMS];
	double waiting;
	double throttled; /* requests per second, at clients, disks and servers */
};

struct top_rates {
	size_t silent;  /* servers without two answers */
	size_t servers; /* all servers */
	size_t count;
	struct top_rate *list; /* the group that uses most disk time first */
};

/* Computes the rates between the two answers of each server. -ENOMEM. */
int top_rates(const struct top_server *servers, size_t n, struct top_rates *out);
void top_rates_free(struct top_rates *r);

/* Print. -EIO. */
int top_tell(const struct top_rates *r);
int top_tell_json(const struct top_rates *r);

#endif
