// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include "auth/secret.h"
#include "base/err.h"
#include "base/log.h"
#include "cachenode/impl.h"
#include "rt/rt.h"
#include "secure/session.h"

#define LOOK_NS (500 * NS_PER_MS) /* between questions until there are keys */
#define FOLLOW_NS (5 * NS_PER_S)  /* after that */

static int token_says(struct cachenode *n, const Terrane__Shift__GetRequest *q)
{
	struct token_need need = {.rights = TOKEN_READ,
				  .traffic_class = TRAFFIC_BRONZE,
				  .tenant = q->tenant,
				  .chunk = TOKEN_ALL_CHUNKS,
				  .object = q->block,
				  .first = q->offset,
				  .count = q->length};
	if (q->token.len == 0)
		return -EACCES;
	if (!n->keyed)
		return -EAGAIN;
	int rc = token_check(&n->keys, q->token.data, q->token.len, &need, rt_wall_ns() / NS_PER_MS,
			     NULL);
	return rc == -ESTALE ? -EKEYEXPIRED : rc;
}

int cachenode_may_read(struct cachenode *n, struct rpc_request *r,
		       const Terrane__Shift__GetRequest *q)
{
	const struct session *s = rpc_session(r);
	if (s == NULL || session_may(s, OP_CHUNK_READ))
		return 0;
	int rc = token_says(n, q);
	n->refused_tokens += rc < 0;
	return rc;
}

static int ask(struct cachenode *n)
{
	struct key_pair *pair = secret_alloc(sizeof(*pair));
	if (pair == NULL)
		return -ENOMEM;
	*pair = (struct key_pair){.layer = TOKEN_CHUNK, .verifier = TOKEN_CACHE_NODES};
	int rc = n->o->keys(n->o->keys_ctx, pair, 1);
	if (rc == 0 && pair->generation[0].number != 0)
		rc = n->keyed ? token_keys_update(&n->keys, pair)
			      : token_keys_init(&n->keys, pair, n->o->skew_ms);
	if (rc == 0 && pair->generation[0].number != 0)
		n->keyed = true;
	secret_free(pair, sizeof(*pair));
	return rc;
}

void cachenode_keys_main(void *node)
{
	struct cachenode *n = node;
	int told = 0;
	rt_background();
	do {
		int rc = ask(n);
		if (rc < 0 && rc != -ECANCELED && rc != told)
			log_warn("token_keys_not_read", "err=%s", err_name(rc));
		told = rc;
	} while (rt_sleep_ns(n->keyed ? FOLLOW_NS : LOOK_NS) == 0);
}
