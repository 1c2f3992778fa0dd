// SPDX-License-Identifier: Apache-2.0
#include "emu/decode.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static uint64_t size_of(const struct emu_decode *d, const struct emu_images *images)
{
	return images->pixels != 0 ? (uint64_t)d->width * d->height : d->file_bytes;
}

static bool fits(const struct emu_decode *d, const char *device, const char *decoder)
{
	return (device[0] == 0 || strcmp(d->device, device) == 0) &&
	       strcmp(d->decoder, decoder) == 0;
}

/* A line of the profile: one decoder on one device, one size of image. */
struct row {
	const struct emu_profile *p;
	const char *device, *decoder;
	const struct emu_images *images;
	uint64_t size;
};

static uint64_t between(uint64_t a, uint64_t b, double t)
{
	return (uint64_t)((double)a + ((double)b - (double)a) * t + 0.5);
}

static double part(uint64_t low, uint64_t at, uint64_t high)
{
	assert(low <= at && at <= high);
	return low == high ? 0 : (double)(at - low) / (double)(high - low);
}

/* Interpolates over the batch. Returns false if the row has no neighbours of it. */
static bool row_cost(const struct row *r, struct emu_decode_cost *out)
{
	const struct emu_decode *below = NULL, *above = NULL;
	for (size_t i = 0; i < r->p->decode_count; i++) {
		const struct emu_decode *d = &r->p->decodes[i];
		if (!fits(d, r->device, r->decoder) || size_of(d, r->images) != r->size)
			continue;
		if (d->batch <= r->images->batch && (below == NULL || d->batch > below->batch))
			below = d;
		if (d->batch >= r->images->batch && (above == NULL || d->batch < above->batch))
			above = d;
	}
	if (below == NULL || above == NULL)
		return false;
	double t = part(below->batch, r->images->batch, above->batch);
	*out = (struct emu_decode_cost){.device_ns = between(below->wall_ns, above->wall_ns, t),
					.host_ns = between(below->host_ns, above->host_ns, t),
					.held_bytes =
						between(below->held_bytes, above->held_bytes, t)};
	return true;
}

static int refuse(int rc, const struct row *r, uint64_t size, struct strbuf *err)
{
	strbuf_clear(err);
	if (rc == -ENOENT)
		(void)strbuf_printf(err, "the profile has no decoder \"%s\"%s%s", r->decoder,
				    r->device[0] != 0 ? " on " : "", r->device);
	else
		(void)strbuf_printf(err,
				    "decoder %s: %u images of %llu %s were not measured, and there "
				    "is no cost outside of what was",
				    r->decoder, r->images->batch, (unsigned long long)size,
				    r->images->pixels != 0 ? "pixels" : "bytes");
	return rc;
}

int emu_decode_at(const struct emu_profile *p, const char *device, const char *decoder,
		  const struct emu_images *images, struct emu_decode_cost *out, struct strbuf *err)
{
	assert(images->batch > 0 && (images->pixels != 0 || images->bytes != 0));
	uint64_t want = images->pixels != 0 ? images->pixels : images->bytes, low = 0,
		 high = UINT64_MAX;
	struct row r = {.p = p, .device = device, .decoder = decoder, .images = images};
	bool known = false;
	for (size_t i = 0; i < p->decode_count; i++) {
		if (!fits(&p->decodes[i], device, decoder))
			continue;
		uint64_t size = size_of(&p->decodes[i], images);
		known = true;
		if (size <= want && size > low)
			low = size;
		if (size >= want && size < high)
			high = size;
	}
	if (!known)
		return refuse(-ENOENT, &r, want, err);
	struct emu_decode_cost a, b;
	r.size = low;
	bool there = low != 0 && high != UINT64_MAX && row_cost(&r, &a);
	r.size = high;
	if (!there || !row_cost(&r, &b))
		return refuse(-ERANGE, &r, want, err);
	double t = part(low, want, high);
	*out = (struct emu_decode_cost){.device_ns = between(a.device_ns, b.device_ns, t),
					.host_ns = between(a.host_ns, b.host_ns, t),
					.held_bytes = between(a.held_bytes, b.held_bytes, t)};
	return 0;
}
