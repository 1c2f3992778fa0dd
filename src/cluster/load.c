// SPDX-License-Identifier: Apache-2.0
#include "cluster/load.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool is_name(const char *text)
{
	size_t len = strlen(text);
	bool printable = len <= CLUSTER_FIBER_MAX;
	for (size_t i = 0; i < len && printable; i++)
		printable = text[i] >= ' ' && text[i] <= '~';
	return printable;
}

int cluster_load_read(struct cluster_load *l, const Terrane__Cluster__Load *m)
{
	*l = (struct cluster_load){0};
	if (m == NULL)
		return 0;
	if (m->loops > CLUSTER_LOOPS_MAX || m->busiest_permille > 1000 ||
	    m->busy_permille > m->busiest_permille || !is_name(m->longest_fiber))
		return -EBADMSG;
	*l = (struct cluster_load){.loops = m->loops,
				   .busy_permille = m->busy_permille,
				   .busiest_permille = m->busiest_permille,
				   .longest_ns = m->longest_ns};
	memcpy(l->longest_fiber, m->longest_fiber, strlen(m->longest_fiber) + 1);
	return 0;
}

void cluster_load_write(Terrane__Cluster__Load *m, const struct cluster_load *l)
{
	terrane__cluster__load__init(m);
	m->loops = l->loops;
	m->busy_permille = l->busy_permille;
	m->busiest_permille = l->busiest_permille;
	m->longest_ns = l->longest_ns;
	m->longest_fiber = (char *)l->longest_fiber;
}
