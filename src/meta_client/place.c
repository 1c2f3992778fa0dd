// SPDX-License-Identifier: Apache-2.0
/* Client stubs of the requests for placement on flash or disk. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "meta_api/placement.h"
#include "meta_client/impl.h"
#include "rt/rt.h"

int meta_client_place_begin(struct meta_call *c, uint64_t file, const char *features)
{
	Terrane__Meta__PlaceRequest q = TERRANE__META__PLACE_REQUEST__INIT;
	assert(file != 0 && features != NULL);
	q.file = file;
	q.features = (char *)features;
	return mc_call_status(c, &meta_type_place, &q.base);
}

int meta_client_place(struct meta_call *c, uint64_t bytes, bool *flash)
{
	Terrane__Meta__PlaceRequest q = TERRANE__META__PLACE_REQUEST__INIT;
	AUTO_REPLY struct rpc_reply reply;
	q.bytes = bytes;
	int rc = mc_call(c, &meta_type_place, &q.base, &reply);
	*flash = rc == 0 && ((const Terrane__Meta__PlaceResponse *)reply.message)->flash;
	return rc;
}

int meta_client_place_refused(struct meta_call *c, uint64_t bytes)
{
	Terrane__Meta__PlaceRequest q = TERRANE__META__PLACE_REQUEST__INIT;
	q.bytes = bytes;
	q.refused = true;
	return mc_call_status(c, &meta_type_place, &q.base);
}

int meta_client_file_used(struct meta_call *c, uint64_t file, uint64_t reads, uint64_t bytes)
{
	Terrane__Meta__FileUsedRequest q = TERRANE__META__FILE_USED_REQUEST__INIT;
	q.file = file;
	q.reads = reads;
	q.bytes = bytes;
	q.report = rt_random_u64() | 1;
	return mc_call_status(c, &meta_type_file_used, &q.base);
}

static int classes_get(const Terrane__Meta__PlacementResponse *p, struct arena *a,
		       struct meta_placement *out)
{
	out->classes = arena_alloc(a, (p->n_classes + 1) * sizeof(*out->classes));
	if (out->classes == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_classes; i++) {
		const Terrane__Meta__PlacementClass *m = p->classes[i];
		if (m->category > META_CATEGORIES_MAX || !isfinite(m->worth) ||
		    !(m->life_max_s > 0) || !isfinite(m->jobs) || !isfinite(m->counts))
			return -EINVAL;
		out->classes[out->class_count++] =
			(struct meta_placement_class){.tenant = m->tenant,
						      .category = m->category,
						      .jobs = m->jobs,
						      .worth = m->worth,
						      .counts = m->counts,
						      .life_max_s = m->life_max_s};
	}
	return 0;
}

int meta_client_placement(struct meta_call *c, struct arena *a, struct meta_placement *out)
{
	Terrane__Meta__PlacementRequest q = TERRANE__META__PLACEMENT_REQUEST__INIT;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_placement, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__PlacementResponse *p = reply.message;
	*out = (struct meta_placement){
		.level = p->level,
		.goal = p->goal,
		.span = p->span,
		.capacity = p->capacity,
		.used = p->used,
		.promised = p->promised,
		.spill = p->spill,
		.placed = p->placed,
		.admitted = p->admitted,
		.spilled = p->spilled,
		.outcomes = p->outcomes,
		.now_s = p->now_s,
	};
	if (!isfinite(p->level) || !isfinite(p->goal) || !isfinite(p->span) ||
	    !isfinite(p->capacity) || !isfinite(p->used) || !isfinite(p->promised) ||
	    !isfinite(p->spill))
		return mc_response_error(c, -EINVAL);
	rc = classes_get(p, a, out);
	return rc < 0 ? mc_response_error(c, rc) : 0;
}

double meta_placement_life_s(const struct meta_placement *p, uint32_t tenant, uint32_t category)
{
	for (size_t i = 0; i < p->class_count; i++)
		if (p->classes[i].tenant == tenant && p->classes[i].category == category)
			return p->classes[i].life_max_s;
	return META_PLACEMENT_LIFE_S;
}
