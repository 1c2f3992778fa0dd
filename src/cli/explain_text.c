// SPDX-License-Identifier: Apache-2.0
#include "base/base.h"
#include "cli/explain.h"

#define SHOW_COLUMNS 12 /* columns shown of a stripe; the middle of a wider one is left out */
#define SHOW_ROWS 20

struct text {
	char s[32];
};

static struct text bytes_text(double bytes)
{
	static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
	struct text t;
	size_t u = 0;
	for (; bytes >= 1000 && u + 1 < ARRAY_LEN(units); u++)
		bytes /= 1000;
	snprintf(t.s, sizeof(t.s), "%.3g %s", bytes, units[u]);
	return t;
}

static struct text time_text(double seconds)
{
	struct text t;
	if (seconds < 3600)
		snprintf(t.s, sizeof(t.s), "%.1f min", seconds / 60);
	else if (seconds < 72 * 3600)
		snprintf(t.s, sizeof(t.s), "%.1f h", seconds / 3600);
	else
		snprintf(t.s, sizeof(t.s), "%.1f days", seconds / 86400);
	return t;
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void print_overhead(const struct explain *x, FILE *out)
{
	const struct encoding *e = &x->encoding;
	fprintf(out,
		"\nOverhead\n"
		"  %.3f bytes stored for each byte of data: %.1f%% of the stored bytes are "
		"redundant\n"
		"  %d chunk%s in a stripe, %d of them data\n",
		encoding_expansion(e), 100 * encoding_redundant_share(e), encoding_total_chunks(e),
		plural((uint64_t)encoding_total_chunks(e)), encoding_data_chunks(e));
}

static void print_tolerance(const struct explain *x, FILE *out)
{
	const struct layout_spec *s = &x->layout.spec;
	int any = encoding_tolerance(&x->encoding);
	int racks = any < s->net.p ? any : s->net.p;
	if (any == 0) {
		fprintf(out, "\nTolerance\n  none: the loss of any disk loses data\n");
		return;
	}
	fprintf(out, "\nTolerance\n  any %d disk%s", any, plural((uint64_t)any));
	if (x->layout.columns > 1)
		fprintf(out, ", any %d rack%s\n", racks, plural((uint64_t)racks));
	else
		fprintf(out, ", no rack and no enclosure\n");
	if (x->encoding.kind != ENCODING_MLEC)
		return;
	fprintf(out,
		"  a local stripe with %d lost chunk%s is repaired in its pool; with %d it is lost "
		"and its pool is catastrophic\n"
		"  a network stripe survives %d lost local stripe%s, and more if they lost "
		"different "
		"rows\n",
		s->local.p, plural((uint64_t)s->local.p), s->local.p + 1, s->net.p,
		plural((uint64_t)s->net.p));
}

static void print_system(const struct explain *x, FILE *out)
{
	const struct layout *l = &x->layout;
	const struct layout_spec *s = &l->spec;
	fprintf(out,
		"\nSystem\n"
		"  %u rack%s x %u enclosure%s x %u disk%s of %s = %u disk%s; chunks of %s\n",
		s->racks, plural(s->racks), s->enclosures, plural(s->enclosures), s->disks,
		plural(s->disks), bytes_text((double)x->system.disk_bytes).s, l->disks,
		plural(l->disks), bytes_text((double)x->system.chunk_bytes).s);
	if (l->columns > 1)
		fprintf(out, "  columns over racks: %s\n", l->net.ops->name);
	if (l->rows > 1)
		fprintf(out, "  rows over disks: %s, %u pool%s of %u disks\n", l->local.ops->name,
			l->pools, plural(l->pools), l->pool_disks);
	if (l->rows > 1 && s->local_place == PLACE_OVERLAP)
		fprintf(out, "  two stripe sets share at most %u disk%s\n", l->local.base.overlap,
			plural(l->local.base.overlap));
	if (l->columns > 1 && s->net_place == PLACE_OVERLAP)
		fprintf(out, "  two stripe sets share at most %u disk%s\n", l->net.base.overlap,
			plural(l->net.base.overlap));
	fprintf(out, "  %llu stripe%s\n", (unsigned long long)l->stripes, plural(l->stripes));
}

static char role_letter(enum chunk_role role)
{
	switch (role) {
	case CHUNK_DATA:
	case CHUNK_COPY:
		return 'D';
	case CHUNK_LOCAL_PARITY:
		return 'L';
	case CHUNK_GLOBAL_PARITY:
		return 'P';
	case CHUNK_DOUBLE_PARITY:
		return 'X';
	}
	return '?';
}

/* Returns which of n lines is shown as line i of at most `most` lines: first lines from the beginning, then lines from
 * the end. */
static uint32_t shown(uint32_t i, uint32_t n, uint32_t most)
{
	return n <= most || i < most - 3 ? i : n - most + i;
}

static bool gap_before(uint32_t i, uint32_t n, uint32_t most)
{
	return n > most && i == most - 3;
}

static void print_row(const struct explain *x, uint32_t columns, uint32_t row, FILE *out)
{
	const struct layout *l = &x->layout;
	fprintf(out, "  %-7s", "");
	for (uint32_t i = 0; i < columns; i++) {
		uint32_t c = shown(i, l->columns, columns);
		struct layout_location at;
		if (layout_locate(l, 0, c, row, &at) != 0)
			return;
		int chunk = (int)(c * l->rows + row);
		fprintf(out, "%s%c%-5u", gap_before(i, l->columns, columns) ? "...  " : "",
			role_letter(encoding_role(&x->encoding, chunk)), at.bay);
	}
	fprintf(out, "\n");
}

static void print_column_heads(const struct explain *x, uint32_t columns, FILE *out)
{
	const struct layout *l = &x->layout;
	for (int line = 0; line < 2; line++) {
		fprintf(out, "  %-7s", line == 0 ? "rack" : "encl.");
		for (uint32_t i = 0; i < columns; i++) {
			struct layout_location at;
			if (layout_locate(l, 0, shown(i, l->columns, columns), 0, &at) != 0)
				return;
			fprintf(out, "%s%-6u", gap_before(i, l->columns, columns) ? "...  " : "",
				line == 0 ? at.rack : at.enclosure);
		}
		fprintf(out, "\n");
	}
}

static const char *const legend[] = {
	[ENCODING_REPLICATED] = "D a replica of the data",
	[ENCODING_RS] = "D data, P parity",
	[ENCODING_LRC] = "D data, L parity of a group, P parity of all data",
	[ENCODING_MLEC] =
		"D data, L local parity, P network parity, X local parity of network parity",
};

static void print_stripe(const struct explain *x, FILE *out)
{
	const struct layout *l = &x->layout;
	uint32_t columns = (uint32_t)min_u64(l->columns, SHOW_COLUMNS);
	uint32_t rows = (uint32_t)min_u64(l->rows, SHOW_ROWS);
	fprintf(out, "\nStripe 0: role of each chunk and its disk in the enclosure\n  %s\n",
		legend[x->encoding.kind]);
	print_column_heads(x, columns, out);
	for (uint32_t i = 0; i < rows; i++) {
		if (gap_before(i, l->rows, rows))
			fprintf(out, "  %-7s...\n", "");
		print_row(x, columns, shown(i, l->rows, rows), out);
	}
}

static void print_disk_repair(const struct explain *x, FILE *out)
{
	double disk = (double)x->system.disk_bytes;
	bool local = x->layout.rows > 1;
	if (x->reads_per_chunk == 0) {
		fprintf(out, "\nRepair of one disk\n  none: %s\n", x->no_speed);
		return;
	}
	fprintf(out, "\nRepair of one disk\n  reads %.4g chunk%s for each one lost, %s\n",
		x->reads_per_chunk, x->reads_per_chunk > 1 ? "s" : "",
		local ? "none of them across racks" : "all across racks");
	if (!local)
		fprintf(out, "  %s cross racks\n", bytes_text(disk * x->reads_per_chunk).s);
	if (x->no_speed == NULL && x->disk.bytes_per_s > 0)
		fprintf(out, "  %.1f MB/s, limited by %s: %s\n", x->disk.bytes_per_s / 1e6,
			x->disk.disk_limit <= x->disk.rack_limit ? "disks" : "racks",
			time_text(disk / x->disk.bytes_per_s).s);
	if (x->no_speed != NULL)
		fprintf(out, "  speed unknown: %s\n", x->no_speed);
}

static void print_pool_repair(const struct explain *x, FILE *out)
{
	if (x->encoding.kind != ENCODING_MLEC)
		return;
	double chunk = (double)x->system.chunk_bytes;
	fprintf(out,
		"\nRepair of a pool after %u of its disks failed at once\n"
		"  probability %.3g that the pool is catastrophic; means of these cases, decoded "
		"in "
		"the rack of the rebuilt chunk:\n"
		"  method  across racks  rebuilt from network  rebuilt inside  network part "
		"takes\n",
		x->pool_failures, x->catastrophic);
	for (int m = 0; m < 4; m++) {
		const struct repair_estimate *e = &x->methods[m].cost;
		double rate = x->methods[m].network.bytes_per_s;
		fprintf(out, "  %-6s  %12s  %20s  %14s  %s at %.0f MB/s\n",
			repair_method_name((enum repair_method)m),
			bytes_text((e->cross_reads + e->cross_writes) * chunk).s,
			bytes_text(e->net_writes * chunk).s, bytes_text(e->local_writes * chunk).s,
			time_text(e->net_writes * chunk / rate).s, rate / 1e6);
	}
}

void explain_print(const struct explain *x, FILE *out)
{
	fprintf(out, "%s, scheme %s\n", x->text, x->scheme);
	print_overhead(x, out);
	print_tolerance(x, out);
	print_system(x, out);
	print_stripe(x, out);
	print_disk_repair(x, out);
	print_pool_repair(x, out);
}
