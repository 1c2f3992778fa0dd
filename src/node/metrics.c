// SPDX-License-Identifier: Apache-2.0
/* The metrics of a node, as Prometheus text. The format requires all series of a name to be
 * adjacent. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "node/service_impl.h"
#include "ops/prom.h"
#include "rpc/counters.h"
#include "store/flash.h"

#define LABELS_MAX (SCHED_NAME_MAX + 64)
#define METRICS_BYTES ((size_t)(16 * MIB)) /* most text of a part */

/* --- disks ------------------------------------------------------------------------------------ */

struct disk_gauge {
	const char *name;
	const char *type;
	const char *help;
	uint64_t (*value)(const struct store_info *info);
};

static uint64_t value_total(const struct store_info *i)
{
	return i->total_bytes;
}

static uint64_t value_free(const struct store_info *i)
{
	return i->free_bytes;
}

static uint64_t value_reserved(const struct store_info *i)
{
	return i->reserved_bytes;
}

static uint64_t value_io_errors(const struct store_info *i)
{
	return i->io_errors;
}

static uint64_t value_checksum_errors(const struct store_info *i)
{
	return i->checksum_errors;
}

static uint64_t value_rolled_back(const struct store_info *i)
{
	return i->rolled_back;
}

static const struct disk_gauge gauges[] = {
	{"terrane_disk_size_bytes", "gauge", "size of the disk in bytes", value_total},
	{"terrane_disk_free_bytes", "gauge", "free space in bytes", value_free},
	{"terrane_disk_reserved_bytes", "gauge", "space held by reservations in bytes",
	 value_reserved},
	{"terrane_disk_io_errors_total", "counter",
	 "calls that failed with an I/O error of the device", value_io_errors},
	{"terrane_disk_checksum_errors_total", "counter", "reads that found damaged bytes",
	 value_checksum_errors},
	{"terrane_disk_rolled_back_total", "counter", "appends torn by a crash and rolled back",
	 value_rolled_back},
};

static int head(struct strbuf *out, const char *name, const char *type, const char *help)
{
	return strbuf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static int print_gauges(const struct node_disks *set, const struct store_info *infos,
			struct strbuf *out)
{
	int rc = 0;
	for (size_t g = 0; g < ARRAY_LEN(gauges) && rc == 0; g++) {
		rc = head(out, gauges[g].name, gauges[g].type, gauges[g].help);
		for (size_t i = 0; i < set->count && rc == 0; i++)
			rc = strbuf_printf(out, "%s{disk=\"%" PRIu64 "\"} %" PRIu64 "\n",
					   gauges[g].name, set->disks[i].spec->disk,
					   gauges[g].value(&infos[i]));
	}
	return rc;
}

static int print_states(const struct node_disks *set, const struct store_info *infos,
			struct strbuf *out)
{
	int rc = head(out, "terrane_disk_state", "gauge", "1 for the current state of the disk");
	for (size_t i = 0; i < set->count; i++)
		for (int s = STORE_ONLINE; s <= STORE_FAILED && rc == 0; s++)
			rc = strbuf_printf(
				out, "terrane_disk_state{disk=\"%" PRIu64 "\",state=\"%s\"} %d\n",
				set->disks[i].spec->disk, store_state_name((enum store_state)s),
				infos[i].state == (enum store_state)s);
	return rc;
}

/* --- pools ------------------------------------------------------------------------------------ */

static int print_pools(const struct node_disks *set, struct strbuf *out)
{
	static const struct {
		const char *name;
		const char *type;
		const char *help;
	} names[] = {
		{"terrane_pool_rebuilding", "gauge", "1 while a rebuild runs"},
		{"terrane_pool_rebuilt_rows_total", "counter", "rows that rebuilds have written"},
		{"terrane_pool_rebuilt_bytes_total", "counter", "bytes that rebuilds have written"},
		{"terrane_pool_rebuild_chunks", "gauge",
		 "chunks that the running or last rebuild has checked"},
		{"terrane_pool_lost_chunks", "gauge",
		 "chunks with more lost rows than the code tolerates"},
		{"terrane_pool_rebuild_failed_rows", "gauge",
		 "rows that the running or last rebuild could not write"},
		{"terrane_pool_overdrawn", "gauge",
		 "1 while more members are out than the code tolerates and the pool waits for "
		 "them"},
	};
	int rc = 0;
	for (size_t k = 0; k < ARRAY_LEN(names) && rc == 0; k++) {
		rc = head(out, names[k].name, names[k].type, names[k].help);
		for (size_t i = 0; i < set->count && rc == 0; i++) {
			const struct node_disk *d = &set->disks[i];
			const struct node_rebuild *b = &d->rebuild;
			const struct store_pool_progress *p = &b->progress;
			uint64_t values[] = {b->running,
					     b->rows + (b->running ? p->rebuilt : 0),
					     b->bytes + (b->running ? p->bytes : 0),
					     p->chunks,
					     p->lost,
					     p->failed,
					     d->overdrawn};
			if (d->spec->pool)
				rc = strbuf_printf(out, "%s{disk=\"%" PRIu64 "\"} %" PRIu64 "\n",
						   names[k].name, d->spec->disk, values[k]);
		}
	}
	return rc;
}

static int print_caches(const struct node_disks *set, struct strbuf *out)
{
	static const struct {
		const char *name;
		const char *type;
		const char *help;
	} names[] = {
		{"terrane_flash_hits_total", "counter", "reads served by the flash cache"},
		{"terrane_flash_hit_bytes_total", "counter", "bytes served by the flash cache"},
		{"terrane_flash_misses_total", "counter",
		 "reads served by the disk behind the cache"},
		{"terrane_flash_filled_bytes_total", "counter",
		 "bytes of segments read from the disk into the cache"},
		{"terrane_flash_written_bytes_total", "counter",
		 "bytes written to the flash device, with footers"},
		{"terrane_flash_evicted_total", "counter", "regions of flash freed to make room"},
		{"terrane_flash_over_budget_total", "counter",
		 "reads not cached because of the flash write budget"},
		{"terrane_flash_failures_total", "counter",
		 "failed calls of the flash device, and segments with other bytes than were "
		 "written"},
		{"terrane_flash_used_bytes", "gauge", "bytes in the flash cache"},
	};
	int rc = 0;
	for (size_t k = 0; k < ARRAY_LEN(names) && rc == 0; k++) {
		rc = head(out, names[k].name, names[k].type, names[k].help);
		for (size_t i = 0; i < set->count && rc == 0; i++) {
			const struct node_disk *d = &set->disks[i];
			struct store_flash_stats st;
			if (d->cache == NULL)
				continue;
			assert(d->cache == d->store);
			store_flash_stats(d->cache, &st);
			uint64_t values[] = {st.hits,        st.hit_bytes,     st.misses,
					     st.fill_bytes,  st.written_bytes, st.evicted,
					     st.over_budget, st.failures,      st.used_bytes};
			rc = strbuf_printf(out, "%s{disk=\"%" PRIu64 "\"} %" PRIu64 "\n",
					   names[k].name, d->spec->disk, values[k]);
		}
	}
	return rc;
}

/* --- traffic ---------------------------------------------------------------------------------- */

/* Formats the labels of a series. Group names come from clients, so characters that would break
 * the text become '_'. */
static void labels_of(char out[LABELS_MAX], uint64_t disk, const char *group, const char *class)
{
	char safe[SCHED_NAME_MAX + 1];
	size_t i = 0;
	for (; i < SCHED_NAME_MAX && group[i] != 0; i++) {
		unsigned char c = (unsigned char)group[i];
		safe[i] = (char)(c < 0x20 || c == 0x7f || c == '"' || c == '\\' ? '_' : c);
	}
	safe[i] = 0;
	snprintf(out, LABELS_MAX, "disk=\"%" PRIu64 "\",group=\"%s\",class=\"%s\"", disk, safe,
		 class);
}

/* Calls print for each group and class with requests, on each disk. */
static int each_stats(const struct node_disks *set,
		      int (*print)(struct strbuf *out, const char *labels,
				   const struct sched_stats *st, const void *arg),
		      struct strbuf *out, const void *arg)
{
	int rc = 0;
	for (size_t i = 0; i < set->count; i++) {
		const struct node_disk *d = &set->disks[i];
		struct sched_group_stats g;
		for (uint32_t k = 0; sched_group_stats(d->sched, k, &g); k++) {
			for (int c = 0; c < SCHED_CLASSES && rc == 0; c++) {
				const struct sched_stats *st = &g.classes[c];
				char labels[LABELS_MAX];
				if (st->requests + st->refused + st->gave_up + st->queued +
					    st->at_disk ==
				    0)
					continue;
				labels_of(labels, d->spec->disk, g.name,
					  sched_class_name((enum sched_class)c));
				rc = print(out, labels, st, arg);
			}
		}
	}
	return rc;
}

struct counter {
	const char *name;
	const char *type;
	const char *help;
	size_t offset;
	bool small;   /* the type of the field is uint32_t; false: uint64_t */
	bool seconds; /* the field is in ns and is printed in seconds */
};

#define AT(field) offsetof(struct sched_stats, field)

static const struct counter counters[] = {
	{"terrane_disk_requests_total", "counter", "ended requests that were at the disk",
	 AT(requests), false, false},
	{"terrane_disk_request_errors_total", "counter",
	 "requests that ended with an error at the disk", AT(errors), false, false},
	{"terrane_disk_refused_total", "counter", "requests refused because the queue was full",
	 AT(refused), false, false},
	{"terrane_disk_gave_up_total", "counter",
	 "requests cancelled or past their deadline while they waited", AT(gave_up), false, false},
	{"terrane_disk_bytes_total", "counter", "bytes read and written", AT(bytes), false, false},
	{"terrane_disk_time_seconds_total", "counter", "disk time used in seconds", AT(disk_ns),
	 false, true},
	{"terrane_disk_queued", "gauge", "requests waiting for their turn", AT(queued), true,
	 false},
	{"terrane_disk_at_disk", "gauge", "requests at the disk", AT(at_disk), true, false},
};

static int print_counter(struct strbuf *out, const char *labels, const struct sched_stats *st,
			 const void *arg)
{
	const struct counter *c = arg;
	assert(c->offset < sizeof(*st));
	const void *field = (const char *)st + c->offset;
	uint64_t value = c->small ? *(const uint32_t *)field : *(const uint64_t *)field;
	if (c->seconds)
		return strbuf_printf(out, "%s{%s} %.9f\n", c->name, labels, (double)value / 1e9);
	return strbuf_printf(out, "%s{%s} %" PRIu64 "\n", c->name, labels, value);
}

static int print_wait(struct strbuf *out, const char *labels, const struct sched_stats *st,
		      const void *arg)
{
	return hist_prometheus(&st->wait, arg, labels, out);
}

static int print_service(struct strbuf *out, const char *labels, const struct sched_stats *st,
			 const void *arg)
{
	return hist_prometheus(&st->service, arg, labels, out);
}

static int print_traffic(const struct node_disks *set, struct strbuf *out)
{
	int rc = 0;
	for (size_t i = 0; i < ARRAY_LEN(counters) && rc == 0; i++) {
		rc = head(out, counters[i].name, counters[i].type, counters[i].help);
		if (rc == 0)
			rc = each_stats(set, print_counter, out, &counters[i]);
	}
	if (rc == 0)
		rc = head(out, "terrane_disk_wait_seconds", "histogram",
			  "time that requests waited for their turns");
	if (rc == 0)
		rc = each_stats(set, print_wait, out, "terrane_disk_wait_seconds");
	if (rc == 0)
		rc = head(out, "terrane_disk_service_seconds", "histogram",
			  "time that requests were at the disk");
	if (rc == 0)
		rc = each_stats(set, print_service, out, "terrane_disk_service_seconds");
	return rc;
}

/* --- the process ------------------------------------------------------------------------------ */

/* Sums over the servers of all parts. */
struct rpc_sum {
	struct rpc_server_stats stats;
	struct rpc_counters counters;
};

static int print_process(struct node *n, const struct rpc_sum *sum, struct strbuf *out)
{
	struct buf_stats mem;
	buf_pool_stats(&n->pool.bufs, &mem);
	const struct {
		const char *name;
		const char *help;
		uint64_t value;
	} rows[] = {
		{"terrane_node_payload_bytes", "memory held by payloads in bytes",
		 mem.in_use_bytes},
		{"terrane_node_payload_limit_bytes", "limit of the memory for payloads in bytes",
		 mem.limit_bytes},
		{"terrane_node_connections", "connections of clients", sum->stats.connections},
		{"terrane_node_in_flight", "requests in progress", sum->stats.in_flight},
	};
	int rc = 0;
	for (size_t i = 0; i < ARRAY_LEN(rows) && rc == 0; i++) {
		rc = head(out, rows[i].name, "gauge", rows[i].help);
		if (rc == 0)
			rc = strbuf_printf(out, "%s %" PRIu64 "\n", rows[i].name, rows[i].value);
	}
	return rc;
}

static int print_loops(struct node *n, struct strbuf *out)
{
	struct rt_loop *loops[RT_TEAM_MAX];
	assert(n->part_count <= RT_TEAM_MAX);
	for (unsigned i = 0; i < n->part_count; i++)
		loops[i] = n->branches[i].port.loop;
	return prom_loops(out, loops, n->part_count);
}

/* --- the parts, each on its loop -------------------------------------------------------------- */

struct part_report {
	struct node_part *part;
	struct rpc_sum rpc;
	struct strbuf text;
	int rc;
};

static int print_disks(struct node_disks *set, struct strbuf *out)
{
	AUTO_FREE struct store_info *infos = calloc(set->count + 1, sizeof(*infos));
	if (infos == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < set->count; i++)
		node_disk_info(&set->disks[i], &infos[i]);
	int rc = print_states(set, infos, out);
	if (rc == 0)
		rc = print_gauges(set, infos, out);
	if (rc == 0)
		rc = print_pools(set, out);
	if (rc == 0)
		rc = print_caches(set, out);
	return rc == 0 ? print_traffic(set, out) : rc;
}

static void report_part(void *arg)
{
	struct part_report *p = arg;
	struct rpc_server *s = p->part->branch->server;
	if (s != NULL) {
		rpc_server_stats(s, &p->rpc.stats);
		p->rpc.counters = *rpc_server_counters(s);
	}
	p->rc = print_disks(&p->part->disks, &p->text);
}

/* Collects the reports of all parts, and adds them up in sum and out. */
static int report_all(struct node *n, struct part_report *reports, const char **texts,
		      struct rpc_sum *sum, struct strbuf *out)
{
	for (unsigned i = 0; i < n->part_count; i++) {
		struct part_report *p = &reports[i];
		p->part = &n->parts[i];
		int rc = node_part_call(p->part, report_part, p);
		rc = rc != 0 ? rc : p->rc;
		if (rc != 0)
			return rc;
		texts[i] = strbuf_text(&p->text);
		sum->stats.connections += p->rpc.stats.connections;
		sum->stats.in_flight += p->rpc.stats.in_flight;
		rpc_counters_add(&sum->counters, &p->rpc.counters);
	}
	return prom_merge(out, texts, n->part_count);
}

int node_metrics(struct node *n, struct strbuf *out)
{
	struct rpc_sum sum = {0};
	AUTO_FREE struct part_report *reports = calloc(n->part_count, sizeof(*reports));
	AUTO_FREE const char **texts = calloc(n->part_count, sizeof(*texts));
	if (reports == NULL || texts == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < n->part_count; i++)
		strbuf_init(&reports[i].text, METRICS_BYTES);
	int rc = report_all(n, reports, texts, &sum, out);
	for (unsigned i = 0; i < n->part_count; i++)
		strbuf_fini(&reports[i].text);
	if (rc == 0)
		rc = print_process(n, &sum, out);
	if (rc == 0)
		rc = node_prep_print(&n->prep, out);
	if (rc == 0)
		rc = print_loops(n, out);
	return rc != 0 ? rc : rpc_counters_print(&sum.counters, "node", out);
}

/* --- health ----------------------------------------------------------------------------------- */

struct health {
	struct node_part *part;
	size_t serving;
};

static void health_part(void *arg)
{
	struct health *h = arg;
	for (size_t i = 0; i < h->part->disks.count; i++) {
		struct store_info info;
		node_disk_info(&h->part->disks.disks[i], &info);
		h->serving += info.state != STORE_FAILED;
	}
}

void node_health(struct node *n, size_t *serving, size_t *all)
{
	*serving = 0;
	*all = n->options->disks.disk_count;
	for (unsigned i = 0; i < n->part_count; i++) {
		struct health h = {.part = &n->parts[i]};
		if (node_part_call(h.part, health_part, &h) == 0)
			*serving += h.serving;
	}
}
