// SPDX-License-Identifier: Apache-2.0
#include "cli/placement_outcomes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/cli.h"

#define PAGE 100
#define OUTCOMES_PREFIX "outcomes/"
#define OUTCOMES_LIMIT 1000000u
#define TENANTS_LIMIT 65536u

/* An outcome with its number, to sort by. */
struct numbered {
	uint64_t number;
	struct outcome *outcome;
};

struct loading {
	struct outcomes *out;
	struct numbered *all;
	size_t n;
};

static int add(struct loading *l, const struct meta_note *note)
{
	char *rest = NULL;
	if (l->n == OUTCOMES_LIMIT)
		return -E2BIG;
	struct numbered *more = realloc(l->all, (l->n + 1) * sizeof(*more));
	if (more == NULL)
		return -ENOMEM;
	l->all = more;
	struct outcome *o = malloc(sizeof(*o));
	if (o == NULL)
		return -ENOMEM;
	uint64_t number = strtoull(note->text, &rest, 10);
	if (*rest != ' ' || outcome_parse(o, rest + 1) < 0) {
		l->out->skipped++;
		free(o);
		return 0;
	}
	l->all[l->n++] = (struct numbered){number, o};
	return 0;
}

static int load_notes(struct admin *a, struct loading *l)
{
	struct meta_call m = {.client = a->client};
	char after[META_NOTE_NAME_MAX + 1] = "";
	bool end = false;
	int rc = 0;
	while (rc == 0 && !end) {
		struct meta_note notes[PAGE];
		struct arena arena;
		arena_init(&arena, 2 * MIB);
		int64_t n = meta_client_note_list(&m, OUTCOMES_PREFIX, after, &arena, notes, PAGE,
						  &end);
		rc = n < 0 ? (int)n : 0;
		for (int64_t i = 0; rc == 0 && i < n; i++)
			rc = add(l, &notes[i]);
		if (rc == 0 && n > 0)
			memcpy(after, notes[n - 1].name, sizeof(after));
		arena_fini(&arena);
	}
	return rc == 0 ? CLI_OK
		       : cli_fail("cannot read the outcomes of files: %s",
				  m.error[0] != 0 ? m.error : err_text(rc));
}

static int by_file(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;
	if (x->outcome->tenant != y->outcome->tenant)
		return x->outcome->tenant < y->outcome->tenant ? -1 : 1;
	if (x->outcome->file != y->outcome->file)
		return x->outcome->file < y->outcome->file ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static int by_number(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* Keeps the first outcome of each file, in order of their numbers. */
static int keep(struct loading *l)
{
	size_t kept = 0;
	if (l->n > 1)
		qsort(l->all, l->n, sizeof(*l->all), by_file);
	for (size_t i = 0; i < l->n; i++) {
		const struct outcome *o = l->all[i].outcome;
		const struct outcome *last = kept > 0 ? l->all[kept - 1].outcome : NULL;
		if (last != NULL && last->file == o->file && last->tenant == o->tenant)
			free(l->all[i].outcome);
		else
			l->all[kept++] = l->all[i];
	}
	l->n = kept;
	if (l->n > 1)
		qsort(l->all, l->n, sizeof(*l->all), by_number);
	l->out->list = calloc(l->n + 1, sizeof(*l->out->list));
	if (l->out->list == NULL)
		return cli_fail("out of memory");
	for (size_t i = 0; i < l->n; i++)
		l->out->list[i] = *l->all[i].outcome;
	l->out->n = l->n;
	return CLI_OK;
}

static int load_tenants(struct admin *a, struct outcomes *out)
{
	struct meta_call m = {.client = a->client};
	struct meta_tenant page[PAGE];
	int64_t n = PAGE;
	while (n == PAGE && out->tenants_n < TENANTS_LIMIT) {
		uint32_t after = out->tenants_n > 0 ? out->tenants[out->tenants_n - 1].id : 0;
		n = meta_client_tenant_list(&m, after, page, PAGE);
		if (n < 0)
			return cli_fail("cannot read the tenants: %s",
					m.error[0] != 0 ? m.error : err_text((int)n));
		struct meta_tenant *more =
			realloc(out->tenants, (out->tenants_n + (size_t)n + 1) * sizeof(*more));
		if (more == NULL)
			return cli_fail("out of memory");
		out->tenants = more;
		memcpy(more + out->tenants_n, page, (size_t)n * sizeof(*page));
		out->tenants_n += (size_t)n;
	}
	return CLI_OK;
}

int outcomes_load(struct admin *a, struct outcomes *out)
{
	struct loading l = {.out = out};
	int status = load_tenants(a, out);
	if (status == CLI_OK)
		status = load_notes(a, &l);
	if (status == CLI_OK)
		status = keep(&l);
	for (size_t i = 0; i < l.n; i++)
		free(l.all[i].outcome);
	free(l.all);
	return status;
}

void outcomes_fini(struct outcomes *o)
{
	free(o->list);
	free(o->tenants);
	*o = (struct outcomes){0};
}

const char *outcomes_tenant(const struct outcomes *o, uint32_t tenant)
{
	for (size_t i = 0; i < o->tenants_n; i++)
		if (o->tenants[i].id == tenant)
			return o->tenants[i].name;
	return "?";
}
