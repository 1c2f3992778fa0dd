// SPDX-License-Identifier: Apache-2.0
#include "base/base.h"
#include "janitor/impl.h"

int janitor_metrics(const struct janitor *j, struct strbuf *out)
{
	const struct janitor_stats *s = &j->stats;
	const struct {
		const char *name, *type, *help;
		uint64_t value;
	} all[] = {
		{"collect_rounds_total", "counter", "rounds of collection", s->rounds},
		{"epoch", "gauge", "epoch of the collection", j->epoch},
		{"rows_marked_total", "counter", "garbage seen first", s->marked},
		{"rows_collected_total", "counter", "garbage collected", s->collected},
		{"chunks_deleted_total", "counter", "dead chunks deleted", s->chunks_deleted},
		{"orphans_seen_total", "counter", "chunks no record wants", s->orphans_seen},
		{"orphans_deleted_total", "counter", "of them deleted", s->orphans_deleted},
		{"unlabelled_total", "counter", "chunks met without a label", s->unlabelled},
		{"repair_rounds_total", "counter", "rounds of repair", s->repair_rounds},
		{"repair_blocks_waiting", "gauge", "blocks to repair in this share",
		 s->blocks_waiting},
		{"chunks_repaired_total", "counter", "chunks made anew", s->chunks_repaired},
		{"chunks_moved_total", "counter", "chunks moved off draining disks",
		 s->chunks_moved},
		{"repair_read_bytes_total", "counter", "read for repair", s->repair_read_bytes},
		{"repair_written_bytes_total", "counter", "written by repair",
		 s->repair_written_bytes},
		{"repair_sources_bad_total", "counter", "sources that could not be read",
		 s->sources_bad},
		{"repair_no_room_total", "counter", "repairs without a disk to go to", s->no_room},
		{"repair_lost_total", "counter", "repairs with too little left", s->lost_blocks},
		{"repair_failed_total", "counter", "repairs that failed otherwise", s->failed},
		{"repair_overtaken_total", "counter", "blocks that changed meanwhile",
		 s->overtaken},
		{"pool_patches_total", "counter", "chunks of pools made whole", s->pool_patches},
		{"pool_patch_bytes_total", "counter", "brought to pools from other racks",
		 s->pool_patch_bytes},
		{"leases_lost_total", "counter", "leases another took over", s->leases_lost},
		{"scrubbed_chunks_total", "counter", "chunks verified", s->scrubbed_chunks},
		{"scrubbed_bytes_total", "counter", "bytes verified", s->scrubbed_bytes},
		{"damage_found_total", "counter", "damaged chunks found", s->damage_found},
		{"scrub_passes_total", "counter", "disks gone through", s->scrub_passes},
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
	return rc;
}
