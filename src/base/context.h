// SPDX-License-Identifier: Apache-2.0
/*
 * The context of a request: the caller, its share of the disks, and what the bytes are for.
 *
 * A context is made where a request enters a process, and reaches every request that is sent on its
 * behalf and the store that serves it. It is immutable and reference-counted: fibers and queues
 * take references instead of copying its parts, and may keep them after the call has returned.
 *
 *     const struct context *c;
 *     int rc = context_new(&c, &(struct context){.tenant = "vision", .traffic_class = TRAFFIC_GOLD});
 *     ...
 *     context_unref(c);
 *
 * A fiber carries the context of the request that it works for (rt_context in rt/rt.h), so
 * functions do not take it as an argument.
 *
 * The struct has two uses. A struct that context_new returns has a reference count and owns its
 * bytes. A struct that a caller fills in is a template for context_new and must not be given to
 * context_ref or a fiber.
 */
#ifndef BASE_CONTEXT_H
#define BASE_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

/* Limits of the parts, in bytes without a NUL. */
#define CONTEXT_TENANT_MAX 64
#define CONTEXT_GROUP_MAX 255
#define CONTEXT_AUTHORIZATION_MAX 1024
#define CONTEXT_PATH_MAX 4096

#define CONTEXT_NO_DEADLINE UINT64_MAX

/* The order of service at a disk. TRAFFIC_NONE: the request has no class, and is served as silver.
 * The wire format contains the numbers. */
enum traffic_class { TRAFFIC_NONE, TRAFFIC_GOLD, TRAFFIC_SILVER, TRAFFIC_BRONZE };

/* Tags of a request, on which the policies of the tiers decide; 0 or empty: unknown. */
struct context_tags {
	uint64_t directory_id;
	const char *path;
	uint64_t job_id;
	uint32_t placement_category;
};

/* A context, or a template for one. Strings of a template may be NULL, which is the same as empty.
 * The strings of a counted context are never NULL. */
struct context {
	const char *tenant;
	const char *traffic_group;
	enum traffic_class traffic_class;
	const uint8_t *authorization;
	size_t authorization_len;
	/*
		 * deadline in ns on the clock of rt; CONTEXT_NO_DEADLINE or, in a template, 0: none
		 */
	uint64_t deadline_ns;
	struct context_tags tags;
};

/* Returns the context of work that belongs to no request; all its parts are empty. It is a
 * constant, and references to it are not counted. */
const struct context *context_empty(void);

/*
 * Copies the template into one allocation with one reference. *out is NULL after an error. -EINVAL: the class does
 * not exist, or authorization has a length and no bytes; -EMSGSIZE: a part is longer than its limit; -ENOMEM.
 */
int context_new(const struct context **out, const struct context *from);

/* Make a copy of a context with other tags or another deadline. Errors: those of context_new. */
int context_with_tags(const struct context **out, const struct context *from,
		      const struct context_tags *tags);

/* Takes one more reference and returns c. Any thread may take and drop references. */
const struct context *context_ref(const struct context *c);

/* Drops a reference; the last one frees the context. c may be NULL. */
void context_unref(const struct context *c);

/* A local declared AUTO_CONTEXT drops its reference when its scope ends. */
#define AUTO_CONTEXT __attribute__((cleanup(context_auto_unref)))

static inline void context_auto_unref(const struct context **slot)
{
	context_unref(*slot);
}

#endif
