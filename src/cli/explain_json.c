// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "cli/explain.h"

static json_t *number(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *json_system(const struct explain *x)
{
	const struct layout *l = &x->layout;
	const struct layout_spec *s = &l->spec;
	return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I}", "racks", (int)s->racks,
			 "enclosures_per_rack", (int)s->enclosures, "disks_per_enclosure",
			 (int)s->disks, "disks", (int)l->disks, "pools", (int)l->pools,
			 "pool_disks", (int)l->pool_disks, "disk_bytes",
			 (json_int_t)x->system.disk_bytes, "chunk_bytes",
			 (json_int_t)x->system.chunk_bytes, "stripes", (json_int_t)l->stripes);
}

static json_t *json_stripe(const struct explain *x)
{
	const struct layout *l = &x->layout;
	json_t *chunks = json_array();
	for (uint32_t i = 0; chunks != NULL && i < l->columns * l->rows; i++) {
		struct layout_location at;
		if (layout_locate(l, 0, i / l->rows, i % l->rows, &at) != 0)
			break;
		json_t *chunk = json_pack("{s:i, s:i, s:s, s:i, s:i, s:i, s:I}", "column",
					  (int)(i / l->rows), "row", (int)(i % l->rows), "role",
					  chunk_role_name(encoding_role(&x->encoding, (int)i)),
					  "rack", (int)at.rack, "enclosure", (int)at.enclosure,
					  "disk", (int)at.bay, "slot", (json_int_t)at.slot);
		json_array_append_new(chunks, chunk);
	}
	return chunks;
}

static json_t *json_disk(const struct explain *x)
{
	bool known = x->no_speed == NULL && x->disk.bytes_per_s > 0;
	bool local = x->layout.rows > 1;
	double disk = (double)x->system.disk_bytes;
	double reads = x->reads_per_chunk > 0 ? x->reads_per_chunk : NAN;
	return json_pack("{s:o, s:o, s:o, s:o, s:s?}", "reads_per_chunk", number(reads),
			 "cross_rack_bytes", number(local ? 0 : disk * reads), "bytes_per_s",
			 known ? number(x->disk.bytes_per_s) : json_null(), "seconds",
			 known ? number(disk / x->disk.bytes_per_s) : json_null(), "reason",
			 x->no_speed);
}

static json_t *json_pool(const struct explain *x)
{
	if (x->encoding.kind != ENCODING_MLEC)
		return json_null();
	double chunk = (double)x->system.chunk_bytes;
	json_t *methods = json_array();
	for (int m = 0; methods != NULL && m < 4; m++) {
		const struct repair_estimate *e = &x->methods[m].cost;
		double rate = x->methods[m].network.bytes_per_s;
		json_array_append_new(
			methods,
			json_pack("{s:s, s:f, s:f, s:f, s:o, s:o}", "method",
				  repair_method_name((enum repair_method)m), "cross_rack_bytes",
				  (e->cross_reads + e->cross_writes) * chunk, "network_bytes",
				  e->net_writes * chunk, "local_bytes", e->local_writes * chunk,
				  "network_bytes_per_s", number(rate), "network_seconds",
				  number(e->net_writes * chunk / rate)));
	}
	return json_pack("{s:i, s:f, s:o}", "failed_disks", (int)x->pool_failures,
			 "catastrophic_probability", x->catastrophic, "methods", methods);
}

json_t *explain_json(const struct explain *x)
{
	const struct layout *l = &x->layout;
	const struct encoding *e = &x->encoding;
	int any = encoding_tolerance(e);
	int racks = l->columns == 1 ? 0 : any < l->spec.net.p ? any : l->spec.net.p;
	uint32_t overlap = l->spec.local_place == PLACE_OVERLAP ? l->local.base.overlap
			   : l->spec.net_place == PLACE_OVERLAP ? l->net.base.overlap
								: 0;
	return json_pack(
		"{s:s, s:s, s:{s:f, s:f, s:i, s:i}, s:{s:i, s:i}, s:o, s:o, s:i, s:o, s:o}",
		"encoding", x->text, "scheme", x->scheme, "overhead", "expansion",
		encoding_expansion(e), "redundant_share", encoding_redundant_share(e), "chunks",
		encoding_total_chunks(e), "data_chunks", encoding_data_chunks(e), "tolerance",
		"any_disks", any, "any_racks", racks, "system", json_system(x), "stripe",
		json_stripe(x), "stripe_set_overlap", (int)overlap, "disk_repair", json_disk(x),
		"pool_repair", json_pool(x));
}
