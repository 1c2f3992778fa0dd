// SPDX-License-Identifier: Apache-2.0
/* The outcomes of files that a cluster keeps (meta/placed.h), and its tenants. */
#ifndef CLI_PLACEMENT_OUTCOMES_H
#define CLI_PLACEMENT_OUTCOMES_H

#include "cli/admin.h"
#include "placement/outcome.h"

struct outcomes {
	struct outcome *list; /* in the order in which they were stored, one for each file */
	size_t n;
	struct meta_tenant *tenants;
	size_t tenants_n;
	size_t skipped; /* notes that are not outcomes */
};

/* Reads them. Returns CLI_OK, or CLI_FAILED after a message. */
int outcomes_load(struct admin *a, struct outcomes *out);
void outcomes_fini(struct outcomes *o);

/* Returns the name of a tenant; "?" if it is not known. */
const char *outcomes_tenant(const struct outcomes *o, uint32_t tenant);

#define AUTO_OUTCOMES __attribute__((cleanup(outcomes_fini)))

#endif
