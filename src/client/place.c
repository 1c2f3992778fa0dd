// SPDX-License-Identifier: Apache-2.0
/*
 * Placement: the category of new files, and the media of their blocks by the decision of the metadata service.
 *
 * A file that is created with a category, a model or features is told to the metadata service when it begins. From then
 * on the service is asked for each block that has a category, unless the call names a media. A block that is admitted to
 * flash and finds no room there goes to disk, and the service is told. Where nothing answers, the block goes to disk: a
 * placement never fails a write.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "client/engine_impl.h"
#include "placement/outcome.h"

#define USED_TIMEOUT_NS NS_PER_S

static bool placed(const struct call *c)
{
	return c->placement != META_PLACEMENT_NONE;
}

/* Returns the category as it travels: 0: not known; c + 1: category c. */
static uint32_t category_tag(const struct call *c)
{
	assert(placed(c) && c->placement <= META_PLACEMENT_MAX);
	return c->placement - META_PLACEMENT_UNKNOWN;
}

/* --- features --------------------------------------------------------------------------------- */

static int feature_text(struct strbuf *out, const struct terrane_feature *f)
{
	const char *line = out->len > 0 ? "\n" : "";
	if (f->text != NULL)
		return f->text[0] == 0 ? 0 : strbuf_printf(out, "%s%s=%s", line, f->name, f->text);
	return isnan(f->number) ? 0 : strbuf_printf(out, "%s%s=%.9g", line, f->name, f->number);
}

/* Writes the features of a call as text (placement/outcome.h). Missing ones are left out. */
static int features_text(struct call *c, const struct terrane_options *o, struct strbuf *out)
{
	int rc = 0;
	if (o->feature_count > TERRANE_FEATURES_MAX ||
	    (o->feature_count > 0 && o->features == NULL))
		return call_fail(c, -EINVAL, "more than %d features", TERRANE_FEATURES_MAX);
	for (size_t i = 0; rc == 0 && i < o->feature_count; i++)
		rc = o->features[i].name == NULL
			     ? call_fail(c, -EINVAL, "feature %zu has no name", i)
			     : feature_text(out, &o->features[i]);
	if (rc == 0 && !outcome_features_valid(strbuf_text(out), out->len))
		return call_fail(c, -EINVAL,
				 "the features are invalid: names are n_NAME or s_NAME of a-z, 0-9 "
				 "and _, texts have no comma, quote or control character, and all "
				 "together at most %u bytes",
				 OUTCOME_FEATURES_BYTES);
	return rc;
}

/* --- files ------------------------------------------------------------------------------------ */

/* Makes the fiber carry a category. */
static int carry_category(uint32_t tag)
{
	struct context_tags tags = rt_context()->tags;
	const struct context *made;
	if (tags.placement_category == tag)
		return 0;
	tags.placement_category = tag;
	int rc = context_with_tags(&made, rt_context(), &tags);
	if (rc == 0) {
		rt_context_set(made);
		context_unref(made);
	}
	return rc;
}

int call_placement(struct call *c, const struct terrane_options *o)
{
	uint32_t tag = rt_context()->tags.placement_category;
	if (o != NULL && tag == 0 && o->placement_model != NULL) {
		double now_s = (double)rt_wall_ns() / NS_PER_S;
		int category = terrane_model_category(o->placement_model, now_s, o->features,
						      o->feature_count);
		if (category < 0)
			return call_fail(c, category, "the features for the model are invalid");
		tag = (uint32_t)category + 1;
	}
	if (tag > META_CATEGORIES_MAX)
		return call_fail(c, -EINVAL, "the placement category is invalid: at most %u",
				 META_CATEGORIES_MAX);
	/* Blocks on a media that the caller named stay there. */
	if (tag != 0 || (o != NULL && o->feature_count > 0))
		c->placement =
			META_PLACEMENT_UNKNOWN + (c->media == TERRANE_MEDIA_DEFAULT ? tag : 0);
	return carry_category(tag);
}

int call_placement_features(struct call *c, const struct terrane_options *o, struct strbuf *out)
{
	return placed(c) && o != NULL ? features_text(c, o, out) : 0;
}

void call_place_begin(struct call *c, uint64_t file, const struct strbuf *features)
{
	if (!placed(c))
		return;
	struct meta_call m = call_meta(c);
	/* Without it the file has no outcome, and nothing else is lost. */
	(void)meta_client_place_begin(&m, file, strbuf_text(features));
}

void call_file_used(struct call *c, uint64_t file, uint64_t reads, uint64_t bytes)
{
	struct meta_call m = call_meta(c);
	if (reads == 0)
		return;
	/* Closing a file must not wait long for a service that does not answer. */
	uint64_t before_ns = rt_deadline_narrow(rt_now_ns() + USED_TIMEOUT_NS);
	(void)meta_client_file_used(&m, file, reads, bytes);
	rt_deadline_set(before_ns);
}

/* --- blocks ----------------------------------------------------------------------------------- */

/* Returns whether the service decides on the media of the call's blocks: not if the caller named a media. */
static bool asks(const struct call *c)
{
	return placed(c) && category_tag(c) != 0;
}

enum terrane_media call_place(struct call *c, uint64_t bytes)
{
	if (!asks(c))
		return c->media;
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(rt_context());
	struct meta_call m = call_meta(c);
	bool flash = false;
	int rc = carry_category(category_tag(c));
	if (rc == 0)
		rc = meta_client_place(&m, bytes, &flash);
	return rc == 0 && flash ? TERRANE_MEDIA_FLASH_OR_DISK : TERRANE_MEDIA_DEFAULT;
}

void call_place_refused(struct call *c, uint64_t bytes)
{
	if (!asks(c))
		return;
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(rt_context());
	struct meta_call m = call_meta(c);
	if (carry_category(category_tag(c)) == 0)
		(void)meta_client_place_refused(&m, bytes);
}
