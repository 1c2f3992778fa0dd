// SPDX-License-Identifier: Apache-2.0
/*
 * Scrub: verifies every chunk of the cluster once within a period.
 *
 * A pass walks all chunks of a disk. The node reads each chunk past its caches and lists the damaged
 * ranges; a damaged chunk is reported to its block's record, and so repaired. At the end of a pass the
 * records that name the disk are walked, for chunks that are missing and for chunks whose label is
 * unreadable (missing.c).
 *
 * A pass runs at the rate at which a full disk takes half of the period, and the next pass begins half a
 * period after the last one began. So at most the period passes between two reads of a chunk:
 *
 *     period 7 days   begin | pass, at most 3.5 days | begin | pass ...
 *                           ^ a chunk at the start            ^ at most 7 days after a chunk at the end
 *
 * The rate never exceeds that of repair: a disk that is too large for the period at that rate takes longer,
 * and the age of the oldest verification shows it.
 *
 * The position of a pass is kept in the note "scrub/DISK": the next janitor that scrubs the disk, after a
 * restart or on another machine, continues there. Its times are wall clocks: a wrong clock makes a pass
 * come early or late and has no other effect.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "janitor/impl.h"
#include "janitor/notes.h"
#include "meta_api/note.h"
#include "node/label.h"
#include "rt/rt.h"

#define SCRUB_FIBERS 32 /* number of disks that are scrubbed at the same time */
#define SCRUB_PAGE 16
#define SAVE_NS (5 * NS_PER_S)
#define SCAN_TIMEOUT_NS (120 * NS_PER_S)

/* --- position --------------------------------------------------------------------------- */

static void note_name(uint64_t disk, char out[META_NOTE_NAME_MAX + 1])
{
	snprintf(out, META_NOTE_NAME_MAX + 1, "scrub/%016" PRIx64, disk);
}

static int pass_save(struct disk_page *s, struct pass *p)
{
	assert(p == map_get(&s->j->passes, s->disk));
	char text[PASS_TEXT_MAX];
	struct meta_note note = {.turn = p->turn, .text = text};
	note_name(s->disk, note.name);
	pass_print(p, text);
	struct meta_call m = tenant_call_meta(s->j, &s->request);
	int rc = meta_client_note_put(&m, &note);
	p->saved_ns = rt_now_ns();
	if (rc == 0)
		p->turn = note.turn;
	return rc == -ESTALE ? -EBUSY : rc; /* -ESTALE: another janitor scrubs the disk */
}

static struct pass *pass_of(struct janitor *j, uint64_t disk)
{
	struct pass *p = map_get(&j->passes, disk);
	if (p != NULL)
		return p;
	p = calloc(1, sizeof(*p));
	if (p != NULL && map_put(&j->passes, disk, p) < 0) {
		free(p);
		p = NULL;
	}
	return p;
}

/* Loads the scrub positions of all disks from their notes, including disks that other janitors
 * scrub, because the metrics show them. */
static int passes_load(struct janitor *j)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	AUTO_FREE struct meta_note *notes = calloc(META_NOTES_MAX, sizeof(*notes));
	char after[META_NOTE_NAME_MAX + 1] = "";
	bool end = false;
	int rc = notes == NULL ? -ENOMEM : 0;
	while (rc == 0 && !end) {
		struct arena a;
		arena_init(&a, 2 * MIB);
		int64_t n =
			meta_client_note_list(&m, "scrub/", after, &a, notes, META_NOTES_MAX, &end);
		rc = n < 0 ? (int)n : 0;
		for (int64_t i = 0; rc == 0 && i < n; i++) {
			uint64_t disk;
			memcpy(after, notes[i].name, sizeof(after));
			if (!note_number(notes[i].name, "scrub/", &disk))
				continue;
			struct pass *p = pass_of(j, disk);
			rc = p == NULL ? -ENOMEM : 0;
			if (rc == 0) {
				pass_read(p, notes[i].text, rt_wall_ns());
				p->turn = notes[i].turn;
			}
		}
		arena_fini(&a);
	}
	return rc;
}

static void scrub_age(struct janitor *j)
{
	uint64_t now_ns = rt_wall_ns(), oldest_ns = 0;
	map_for_each(&j->passes, it) {
		const struct pass *p = it.value;
		const struct cluster_disk *d = cluster_disk(j->fabric.map, it.key);
		uint64_t from_ns = p->done_ns != 0 ? p->done_ns : p->since_ns;
		if (d != NULL && cluster_disk_state(j->fabric.map, d) < CLUSTER_FAILED &&
		    from_ns < now_ns)
			oldest_ns = max_u64(oldest_ns, now_ns - from_ns);
	}
	j->stats.scrub_oldest_ns = oldest_ns;
}

/* --- chunks ------------------------------------------------------------------------------------ */

static bool is_pool(const struct disk_page *s)
{
	const struct cluster_disk *d = cluster_disk(s->j->fabric.map, s->disk);
	return d != NULL && d->pool;
}

static int scrub_chunk(struct disk_page *s, size_t i, bool *bad)
{
	assert(i < DISK_PAGE_MAX && !*bad);
	struct store_range ranges[16];
	struct disk_use u;
	int64_t n = disk_begin(&s->request.call, s->disk, &u);
	if (n < 0)
		return (int)n;
	u.node.timeout_ns = SCAN_TIMEOUT_NS;
	n = node_scan(&u.node, s->disk, s->ids[i], ranges, ARRAY_LEN(ranges));
	disk_end(&s->request.call, &u, n < 0 ? (int)n : 0, 0);
	*bad = n > 0 || n == -EBADMSG || n == -ENODATA;
	if (n != -EIO || !is_pool(s))
		return n == -ENOENT || n >= 0 || *bad ? 0 : (int)n;
	/*
	 * The scan of this chunk failed; continue with the next one. A pool with missing members
	 * may be unable to read this chunk and still able to read others.
	 */
	log_warn("scrub", "disk=%016lx chunk=%016lx.%u rc=%ld", s->disk, s->ids[i].block,
		 s->ids[i].index, n);
	return 0;
}

static int scrub_page(struct disk_page *s, size_t n, struct pacer *pace, uint64_t bytes_per_s)
{
	assert(n > 0 && n <= DISK_PAGE_MAX);
	int rc = page_stat(s, n);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		bool bad = false;
		uint64_t len = s->rcs[i] < 0 ? 0 : s->stat[i].len;
		if (s->rcs[i] == -ENOENT)
			continue;
		if (bytes_per_s > 0)
			rc = pacer_wait(pace, len, bytes_per_s);
		if (rc == 0)
			rc = pace_local(s->j, s->disk, len);
		if (rc == 0)
			rc = scrub_chunk(s, i, &bad);
		if (rc < 0)
			return rc;
		s->j->stats.scrubbed_chunks++;
		s->j->stats.scrubbed_bytes += len;
		uint32_t tenant;
		uint64_t block;
		/* A chunk whose label is unreadable is reported later, when the records of the
		 * disk are walked (missing.c). */
		if (bad && s->rcs[i] == 0 && label_read(s->stat[i].label, &tenant, &block) == 0) {
			s->j->stats.damage_found++;
			(void)chunk_report(s, tenant, block, s->ids[i]);
		} else if (bad && s->rcs[i] == 0) {
			blanks_add(s, s->ids[i]);
		}
		rc = lease_keep(s->j, s->lease);
	}
	return rc;
}

/* --- passes ------------------------------------------------------------------------------------ */

static uint64_t scrub_rate(const struct disk_page *s, uint64_t pass_ns)
{
	const struct map *disks = &s->j->fabric.map->disks;
	const struct cluster_disk *d = cluster_disk(s->j->fabric.map, s->disk);
	uint64_t all = d == NULL ? GIB : max_u64(d->capacity_bytes, GIB);
	/* If there are more disks than SCRUB_FIBERS, the disks take turns and each gets a part
	 * of the time. */
	uint64_t turns = (map_count(disks) + SCRUB_FIBERS - 1) / SCRUB_FIBERS;
	return pass_ns == 0 ? 0
			    : (uint64_t)((double)all * (double)turns / ((double)pass_ns / 2e9)) + 1;
}

static int scrub_disk(struct disk_page *s, uint64_t pass_ns)
{
	struct pass *p = pass_of(s->j, s->disk);
	struct pacer pace = {0};
	uint64_t rate = scrub_rate(s, pass_ns), now_ns = rt_wall_ns();
	if (p == NULL)
		return -ENOMEM;
	if (p->since_ns == 0)
		p->since_ns = now_ns;
	if (p->begun_ns == 0) {
		if (pass_ns > 0 && p->done_ns != 0 && now_ns - p->done_ns < pass_ns / 2)
			return 0;
		p->begun_ns = now_ns;
		p->at = (struct store_cursor){0};
	}
	s->at = p->at;
	int rc = 0;
	int64_t n = 1;
	uint64_t missing = 0;
	while (rc == 0 && n > 0) {
		n = page_list(s, SCRUB_PAGE);
		rc = n <= 0 ? (int)n : scrub_page(s, (size_t)n, &pace, rate);
		if (rc == 0)
			p->at = s->at;
		if (rc == 0 && n > 0 && rt_now_ns() - p->saved_ns >= SAVE_NS)
			rc = pass_save(s, p);
		scrub_age(s->j);
	}
	if (rc == 0)
		rc = missing_look(s, &missing);
	if (rc < 0)
		return rc;
	p->done_ns = p->begun_ns;
	p->begun_ns = 0;
	p->at = (struct store_cursor){0};
	s->j->stats.scrub_passes++;
	rc = pass_save(s, p);
	scrub_age(s->j);
	return rc;
}

int janitor_scrub(struct janitor *j, uint64_t pass_ns)
{
	int rc = passes_load(j);
	if (rc == 0)
		rc = each_disk(j, "scrub", SCRUB_FIBERS, scrub_disk, pass_ns);
	if (rc == 0)
		scrub_age(j);
	return rc;
}
