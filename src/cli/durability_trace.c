// SPDX-License-Identifier: Apache-2.0
/* terrane durability trace: generates a failure trace with bursts. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "analysis/trace.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/units.h"
#include "cli/durability.h"

struct request {
	double years, bursts;
	uint64_t disks, racks;
	double window_s, replace_s;
};

static const struct durability_option options[] = {
	{"years", "X", "length of the trace (1)"},
	{"bursts", "X", "bursts in a year (1)"},
	{"burst-disks", "N", "disks of a burst (10)"},
	{"burst-racks", "N", "racks of a burst, each with at least one failed disk (1)"},
	{"window", "TIME", "time within which the disks of a burst fail (10m)"},
	{"replace", "TIME", "time from a failure to the replacement of the disk (24h)"},
};

static int set_time(const char *name, const char *text, double *out, char *why, size_t why_size)
{
	uint64_t ns;
	if (units_parse_duration(text, &ns) != 0)
		return system_refuse(why, why_size, -EINVAL,
				     "--%s %.40s: must be a time such as 30m, 90s or 24h", name,
				     text);
	*out = (double)ns / (double)NS_PER_S;
	return 0;
}

static int set_option(void *mine, const char *name, const char *text, char *why, size_t why_size)
{
	struct request *r = mine;
	if (strcmp(name, "years") == 0)
		return system_read_number(name, text, (struct system_range){.min = 0, .max = 1000},
					  &r->years, why, why_size);
	if (strcmp(name, "bursts") == 0)
		return system_read_number(
			name, text, (struct system_range){.min = 0, .max = 1e6, .closed = true},
			&r->bursts, why, why_size);
	if (strcmp(name, "burst-disks") == 0)
		return system_read_count(name, text, 1, UINT32_MAX, &r->disks, why, why_size);
	if (strcmp(name, "burst-racks") == 0)
		return system_read_count(name, text, 1, UINT32_MAX, &r->racks, why, why_size);
	if (strcmp(name, "window") == 0)
		return set_time(name, text, &r->window_s, why, why_size);
	return set_time(name, text, &r->replace_s, why, why_size);
}

static int check(const struct durability *d, const struct request *r)
{
	const struct system_spec *s = &d->spec;
	unsigned long long rack_disks = (unsigned long long)s->enclosures * s->disks;
	char why[SYSTEM_WHY_MAX];
	if (r->racks > s->racks)
		snprintf(why, sizeof(why), "--burst-racks %llu: must be at most --racks %u",
			 (unsigned long long)r->racks, s->racks);
	else if (r->disks < r->racks)
		snprintf(
			why, sizeof(why),
			"--burst-disks %llu: must be at least --burst-racks %llu, because each has "
			"a failed disk",
			(unsigned long long)r->disks, (unsigned long long)r->racks);
	else if (r->disks > r->racks * rack_disks)
		snprintf(why, sizeof(why), "--burst-disks %llu: %llu racks have %llu disks",
			 (unsigned long long)r->disks, (unsigned long long)r->racks,
			 r->racks * rack_disks);
	else if (r->replace_s <= 0)
		snprintf(why, sizeof(why), "--replace: must be above 0");
	else if (rack_disks * s->racks > UINT32_MAX)
		snprintf(why, sizeof(why), "--racks x --enclosures x --disks is too large");
	else
		return CLI_OK;
	return durability_refuse(d, why);
}

static json_t *trace_json(const struct trace *t)
{
	json_t *events = json_array();
	for (size_t i = 0; events != NULL && i < t->n; i++) {
		const struct trace_event *e = &t->events[i];
		json_array_append_new(events,
				      json_pack("{s:f, s:I, s:s}", "time_s", e->time_s, "disk",
						(json_int_t)e->disk, "event",
						e->kind == TRACE_FAIL ? "fail" : "replace"));
	}
	return json_pack("{s:o}", "events", events);
}

static int write_out(const struct durability *d, const struct trace *t)
{
	if (!d->json)
		return trace_print(t, stdout);
	AUTO_JSON json_t *json = trace_json(t);
	return json == NULL ? -ENOMEM : json_emit(stdout, json);
}

int durability_trace(int argc, char **argv)
{
	static const struct durability_command command = {
		.name = "trace",
		.about = "Generates a failure trace as CSV (time_s,disk,event): single disks fail "
			 "at "
			 "--afr, and bursts\nfail several disks at once. Input for `terrane "
			 "durability nines --trace`.\n",
		.examples =
			"  terrane durability trace --bursts 4 --burst-disks 20 --burst-racks 2 "
			"> failures.csv\n",
		.options = options,
		.options_n = ARRAY_LEN(options),
		.set = set_option,
		.no_system = true,
	};
	struct durability d;
	struct request r = {1, 1, 10, 1, 600, 86400};
	int status = durability_read(&d, &command, &r, argc, argv);
	if (status == DURABILITY_GO)
		status = durability_no_plot(&d, "a trace");
	if (status == DURABILITY_GO)
		status = check(&d, &r) == CLI_OK ? DURABILITY_GO : CLI_USAGE;
	if (status != DURABILITY_GO)
		return status;
	struct trace_burst b = {
		.racks = d.spec.racks,
		.rack_disks = d.spec.enclosures * d.spec.disks,
		.seconds = r.years * SYSTEM_YEAR_S,
		.fail_rate = d.spec.afr / SYSTEM_YEAR_S,
		.burst_rate = r.bursts / SYSTEM_YEAR_S,
		.hit_racks = (uint32_t)r.racks,
		.hit_disks = (uint32_t)r.disks,
		.window_s = r.window_s,
		.replace_s = r.replace_s,
	};
	struct trace t;
	struct rng rng;
	rng_init(&rng, d.work.seed);
	int rc = trace_make(&t, &b, &rng);
	if (rc == 0)
		rc = write_out(&d, &t);
	trace_fini(&t);
	return rc == 0 ? CLI_OK : durability_fail(&d, rc, "cannot generate the trace");
}
