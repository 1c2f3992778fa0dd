// SPDX-License-Identifier: Apache-2.0
#include "base/base.h"
#include "janitor/impl.h"

/* Appends the counts of the last survey of the whole cluster; every janitor exports the same
 * counts. */
static int cluster_metrics(const struct janitor *j, struct strbuf *out)
{
	const struct stats *s = &j->sums;
	const struct stats_balance *balance = stats_worst(j->balance);
	double mean = balance->mean;
	const struct {
		const char *name, *help;
		double value;
	} all[] = {
		{"blocks", "sealed blocks", (double)s->blocks},
		{"open_blocks", "blocks under append", (double)s->open_blocks},
		{"pending_blocks", "blocks being written", (double)s->pending_blocks},
		{"block_bytes", "bytes in sealed blocks", (double)s->bytes},
		{"owned_bytes", "of them in files", (double)s->owned},
		{"stored_bytes", "with redundancy", (double)s->stored},
		{"missing_chunks", "chunks that are nowhere", (double)s->missing_chunks},
		{"damaged_chunks", "chunks reported as bad", (double)s->damaged_chunks},
		{"degraded_blocks", "blocks that lack chunks and can be read",
		 (double)s->degraded_blocks},
		{"unreachable_blocks", "blocks that can be read once offline nodes return",
		 (double)s->unreachable_blocks},
		{"lost_blocks", "blocks with too few chunks left to read them",
		 (double)s->lost_blocks},
		{"crowded_blocks", "blocks not spread over as many racks as possible",
		 (double)s->crowded},
		{"copysets", "distinct sets of disks that hold a block, about", stats_copysets(s)},
		{"imbalance_ratio",
		 "standard deviation of how full disks of one media are, of the mean",
		 balance->deviation},
		{"fullest_ratio", "the fullest disk, of the mean",
		 mean > 0 ? balance->most / mean : 0},
		{"emptiest_ratio", "the emptiest disk, of the mean",
		 mean > 0 ? balance->least / mean : 0},
	};
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(all); i++)
		rc = strbuf_printf(out,
				   "# HELP terrane_cluster_%s %s\n"
				   "# TYPE terrane_cluster_%s gauge\nterrane_cluster_%s %.10g\n",
				   all[i].name, all[i].help, all[i].name, all[i].name,
				   all[i].value);
	return rc;
}

/* Appends for each running and recent repair: blocks done, and bytes that crossed racks with
 * their prediction by the repair plans. */
static int metrics_repairs(const struct janitor *j, struct strbuf *out)
{
	static const char *const names[] = {"blocks", "blocks_done", "cross_bytes",
					    "predicted_bytes"};
	struct janitor_repair all[JANITOR_REPAIRS_MAX];
	size_t n = janitor_repairs(j, all);
	int rc = 0;
	for (size_t m = 0; rc == 0 && m < ARRAY_LEN(names); m++) {
		rc = strbuf_printf(out,
				   "# HELP terrane_janitor_repair_%s of a repair by this janitor\n"
				   "# TYPE terrane_janitor_repair_%s gauge\n",
				   names[m], names[m]);
		for (size_t i = 0; rc == 0 && i < n; i++) {
			const struct janitor_repair *r = &all[i];
			uint64_t values[] = {r->total, r->done, r->cross_bytes, r->predicted_bytes};
			rc = strbuf_printf(
				out, "terrane_janitor_repair_%s{disk=\"%lu\",method=\"%s\"} %lu\n",
				names[m], r->disk,
				r->pool ? janitor_method_name(r->method) : "disk", values[m]);
		}
	}
	return rc;
}

/* Appends a label value with quotes, backslashes and newlines escaped. */
static int label_add(struct strbuf *out, const char *text)
{
	int rc = 0;
	for (; rc == 0 && *text != 0; text++) {
		if (*text == '"' || *text == '\\')
			rc = strbuf_printf(out, "\\%c", *text);
		else if (*text == '\n')
			rc = strbuf_printf(out, "\\n");
		else
			rc = strbuf_add(out, text, 1);
	}
	return rc;
}

static int tenant_metrics(const struct janitor *j, struct strbuf *out)
{
	static const struct {
		const char *name, *help;
	} all[] = {
		{"used_bytes", "bytes of committed blocks, without redundancy"},
		{"quota_bytes", "quota of the tenant; 0: no limit"},
		{"files", "files in its tree at the last count"},
		{"file_bytes", "bytes of them"},
	};
	int rc = 0;
	for (size_t k = 0; rc == 0 && k < ARRAY_LEN(all); k++) {
		rc = strbuf_printf(out,
				   "# HELP terrane_tenant_%s %s\n# TYPE terrane_tenant_%s gauge\n",
				   all[k].name, all[k].help, all[k].name);
		for (size_t i = 0; rc == 0 && i < j->tenant_count; i++) {
			const struct tenant_use *t = &j->tenants[i];
			const uint64_t values[] = {t->tenant.used_bytes, t->tenant.quota_bytes,
						   t->usage.files, t->usage.bytes};
			rc = strbuf_printf(out, "terrane_tenant_%s{tenant=\"", all[k].name);
			if (rc == 0)
				rc = label_add(out, t->tenant.name);
			if (rc == 0)
				rc = strbuf_printf(out, "\"} %lu\n", values[k]);
		}
	}
	return rc;
}

int janitor_metrics(const struct janitor *j, struct strbuf *out)
{
	const struct janitor_stats *s = &j->stats;
	const struct {
		const char *name, *type, *help;
		uint64_t value;
	} all[] = {
		{"collect_rounds_total", "counter", "rounds of collection", s->rounds},
		{"epoch", "gauge", "epoch of the collection", j->epoch},
		{"held", "gauge", "1: collection is held until terrane gc resume", s->held},
		{"rows_marked_total", "counter", "metadata rows marked as garbage", s->marked},
		{"rows_collected_total", "counter", "metadata rows collected", s->collected},
		{"chunks_deleted_total", "counter", "dead chunks deleted", s->chunks_deleted},
		{"dead_chunks_stuck", "gauge", "dead chunks that online disks cannot delete",
		 s->stuck_dead},
		{"orphans_seen_total", "counter", "chunks seen that no record names",
		 s->orphans_seen},
		{"orphans_deleted_total", "counter", "orphans deleted", s->orphans_deleted},
		{"unlabelled_total", "counter", "chunks seen without a label", s->unlabelled},
		{"repair_rounds_total", "counter", "rounds of repair", s->repair_rounds},
		{"repair_blocks_waiting", "gauge", "degraded blocks queued in this round",
		 s->blocks_waiting},
		{"chunks_repaired_total", "counter", "chunks rebuilt", s->chunks_repaired},
		{"chunks_moved_total", "counter", "chunks moved off draining disks",
		 s->chunks_moved},
		{"repair_read_bytes_total", "counter", "read for repair", s->repair_read_bytes},
		{"repair_written_bytes_total", "counter", "written by repair",
		 s->repair_written_bytes},
		{"repair_cross_bytes_total", "counter", "moved across racks by repair",
		 s->repair_cross_bytes},
		{"repair_sources_bad_total", "counter", "sources that could not be read",
		 s->sources_bad},
		{"repair_no_room_total", "counter", "repairs that found no disk for a chunk",
		 s->no_room},
		{"repair_lost_total", "counter", "repairs with too few chunks left",
		 s->lost_blocks},
		{"repair_failed_total", "counter", "repairs that failed otherwise", s->failed},
		{"repair_overtaken_total", "counter", "blocks that changed during their repair",
		 s->overtaken},
		{"pool_patches_total", "counter", "chunks of pools patched", s->pool_patches},
		{"pool_patch_bytes_total", "counter", "bytes sent to pools for patches",
		 s->pool_patch_bytes},
		{"surveys_total", "counter", "counts of all blocks", s->surveys},
		{"chunks_balanced_total", "counter", "chunks moved from full disks to empty ones",
		 s->chunks_balanced},
		{"balanced_bytes_total", "counter", "bytes of them", s->balanced_bytes},
		{"blocks_compacted_total", "counter", "mostly dead blocks that were emptied",
		 s->blocks_compacted},
		{"compacted_bytes_total", "counter", "bytes that files owned of them",
		 s->compacted_bytes},
		{"compact_overtaken_total", "counter", "extents that changed during compaction",
		 s->compact_overtaken},
		{"blocks_reencoded_total", "counter", "blocks that a policy gave another encoding",
		 s->blocks_reencoded},
		{"reencoded_bytes_total", "counter", "bytes of them", s->reencoded_bytes},
		{"blocks_demoted_total", "counter",
		 "blocks moved from flash to disk because they outlived their class",
		 s->blocks_demoted},
		{"demoted_bytes_total", "counter", "bytes of them", s->demoted_bytes},
		{"flash_verdicts_total", "counter",
		 "verdicts of the flash manager that were written to jobs", s->flash_verdicts},
		{"janitors", "gauge", "live janitors", 1 + j->others},
		{"leases_lost_total", "counter", "leases that another janitor took over",
		 s->leases_lost},
		{"scrubbed_chunks_total", "counter", "chunks verified", s->scrubbed_chunks},
		{"scrubbed_bytes_total", "counter", "bytes verified", s->scrubbed_bytes},
		{"damage_found_total", "counter", "damaged chunks found", s->damage_found},
		{"scrub_passes_total", "counter", "complete passes over a disk", s->scrub_passes},
		{"scrub_oldest_seconds", "gauge", "age of the oldest unverified chunk, at most",
		 s->scrub_oldest_ns / NS_PER_S},
	};
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(all); i++)
		rc = strbuf_printf(out,
				   "# HELP terrane_janitor_%s %s\n# TYPE terrane_janitor_%s %s\n"
				   "terrane_janitor_%s %lu\n",
				   all[i].name, all[i].help, all[i].name, all[i].type, all[i].name,
				   all[i].value);
	if (rc == 0)
		rc = metrics_repairs(j, out);
	if (rc == 0)
		rc = cluster_metrics(j, out);
	return rc == 0 ? tenant_metrics(j, out) : rc;
}
