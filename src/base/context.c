// SPDX-License-Identifier: Apache-2.0
#include "base/context.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* A context that context_new allocated, with its reference count. The bytes of its strings and of
 * the authorization follow the struct. */
struct counted {
	atomic_uint refs;
	struct context context;
	char bytes[];
};

static const struct context nothing = {
	.tenant = "",
	.traffic_group = "",
	.deadline_ns = CONTEXT_NO_DEADLINE,
	.tags = {.path = ""},
};

const struct context *context_empty(void)
{
	return &nothing;
}

static const char *text_of(const char *s)
{
	return s != NULL ? s : "";
}

/* Returns the length of the string with its NUL; 0 if it is longer than max. */
static size_t text_bytes(const char *s, size_t max)
{
	size_t len = strnlen(text_of(s), max + 1);
	return len > max ? 0 : len + 1;
}

static void *bytes_copy(char **at, const void *from, size_t len)
{
	char *to = *at;
	if (len > 0)
		memcpy(to, from, len);
	*at += len;
	return to;
}

int context_new(const struct context **out, const struct context *from)
{
	*out = NULL;
	if ((unsigned)from->traffic_class > TRAFFIC_BRONZE ||
	    (from->authorization == NULL && from->authorization_len > 0))
		return -EINVAL;
	size_t tenant = text_bytes(from->tenant, CONTEXT_TENANT_MAX);
	size_t group = text_bytes(from->traffic_group, CONTEXT_GROUP_MAX);
	size_t path = text_bytes(from->tags.path, CONTEXT_PATH_MAX);
	if (tenant == 0 || group == 0 || path == 0 ||
	    from->authorization_len > CONTEXT_AUTHORIZATION_MAX)
		return -EMSGSIZE;
	size_t len = tenant + group + path + from->authorization_len;
	struct counted *n = malloc(sizeof(*n) + len);
	if (n == NULL)
		return -ENOMEM;
	char *at = n->bytes;
	atomic_init(&n->refs, 1);
	n->context = *from;
	n->context.tenant = bytes_copy(&at, text_of(from->tenant), tenant);
	n->context.traffic_group = bytes_copy(&at, text_of(from->traffic_group), group);
	n->context.tags.path = bytes_copy(&at, text_of(from->tags.path), path);
	n->context.authorization = bytes_copy(&at, from->authorization, from->authorization_len);
	if (from->deadline_ns == 0)
		n->context.deadline_ns = CONTEXT_NO_DEADLINE;
	assert(at == n->bytes + len);
	*out = &n->context;
	return 0;
}

int context_with_tags(const struct context **out, const struct context *from,
		      const struct context_tags *tags)
{
	struct context other = *from;
	other.tags = *tags;
	return context_new(out, &other);
}

static struct counted *counted_of(const struct context *c)
{
	return container_of((struct context *)c, struct counted, context);
}

const struct context *context_ref(const struct context *c)
{
	if (c == &nothing)
		return c;
	unsigned before = atomic_fetch_add_explicit(&counted_of(c)->refs, 1, memory_order_relaxed);
	assert(before > 0 && before < UINT32_MAX);
	(void)before;
	return c;
}

void context_unref(const struct context *c)
{
	if (c == NULL || c == &nothing)
		return;
	struct counted *n = counted_of(c);
	unsigned before = atomic_fetch_sub_explicit(&n->refs, 1, memory_order_acq_rel);
	assert(before > 0);
	if (before == 1)
		free(n);
}
