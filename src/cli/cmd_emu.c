// SPDX-License-Identifier: Apache-2.0
/* `terrane emu`: profiles of accelerators: which there are, what one says, and measuring one. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/emu_files.h"
#include "emu/profile.h"

#define SCRIPT "emu_profile/__main__.py"
#define UPWARDS 6 /* levels from the program to the root of the tree that it was built in */

static const char usage_text[] =
	"usage: terrane emu models [--profile FILE]... [--json]\n"
	"       terrane emu show MODEL [--device D] [--precision P] [--batch N]\n"
	"                        [--profile FILE]... [--json]\n"
	"       terrane emu profile --out DIR [ARGUMENTS]\n"
	"\n"
	"Profiles of accelerators, which `terrane train` emulates.\n"
	"\n"
	"  models   lists the models of the profiles: device, precision, batches\n"
	"  show     prints what a training step of a model costs, at every measured batch or at "
	"one\n"
	"  profile  measures the GPU of this machine with Python and torch; `terrane emu profile\n"
	"           --help` lists its arguments\n"
	"\n"
	"  --profile FILE   a CSV file of `terrane emu profile`, or GPEmu's numbers as a table; "
	"may\n"
	"                   be given several times. Default: the profiles in the program\n"
	"  --device D       the device, when a model was measured on several\n"
	"  --precision P    fp32 or bf16\n"
	"  --batch N        the cost at this batch, interpolated between measured ones\n"
	"  --json           print a JSON object\n"
	"\n"
	"EXAMPLES\n"
	"  terrane emu models\n"
	"  terrane emu show resnet50 --precision bf16 --batch 96\n";

struct emu_line {
	struct emu_profile profile;
	const char *device, *precision;
	const char *word[2];
	int words;
	uint32_t batch; /* 0: not given */
	bool json;
};

/* --- the command line --------------------------------------------------------------------------- */

static int read_batch(const char *text, uint32_t *out)
{
	char *end;
	errno = 0;
	unsigned long v = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end != 0 || errno != 0 || v == 0 ||
	    v > EMU_BATCH_MAX)
		return cli_usage("emu: --batch \"%s\" is not a number from 1 to %u", text,
				 EMU_BATCH_MAX);
	*out = (uint32_t)v;
	return CLI_GO_ON;
}

static int parse(int argc, char **argv, struct emu_line *line)
{
	static const struct option options[] = {{"profile", required_argument, NULL, 'p'},
						{"device", required_argument, NULL, 'd'},
						{"precision", required_argument, NULL, 'r'},
						{"batch", required_argument, NULL, 'b'},
						{"json", no_argument, NULL, 'j'},
						{"help", no_argument, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	int c, rc = CLI_GO_ON;
	bool files = false;
	optind = 1;
	while (rc == CLI_GO_ON && (c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'p') {
			files = true;
			rc = emu_files_add(&line->profile, optarg) == 0 ? CLI_GO_ON : CLI_FAILED;
		} else if (c == 'd') {
			line->device = optarg;
		} else if (c == 'r') {
			line->precision = optarg;
		} else if (c == 'b') {
			rc = read_batch(optarg, &line->batch);
		} else if (c == 'j') {
			line->json = true;
		} else if (c == 'h') {
			fputs(usage_text, stdout);
			return CLI_HELP_SHOWN;
		} else {
			return CLI_USAGE;
		}
	}
	for (int i = optind; rc == CLI_GO_ON && i < argc; i++) {
		if (line->words == 2)
			return cli_usage("emu: unexpected argument \"%s\"", argv[i]);
		line->word[line->words++] = argv[i];
	}
	if (rc == CLI_GO_ON && !files && emu_files_builtin(&line->profile) < 0)
		rc = CLI_FAILED;
	return rc;
}

/* --- models ------------------------------------------------------------------------------------- */

/* Counts the points with times, and finds the largest batch of them. */
static size_t measured(const struct emu_model *m, uint32_t *smallest, uint32_t *largest)
{
	size_t n = 0;
	*smallest = *largest = 0;
	for (size_t i = 0; i < m->count; i++) {
		if (m->points[i].status != EMU_OK)
			continue;
		*smallest = n == 0 ? m->points[i].cost.batch : *smallest;
		*largest = m->points[i].cost.batch;
		n++;
	}
	return n;
}

/* Returns by how many percent the interpolated step at a held-out point is longer than the measured one; NAN: none. */
static double interpolation_error(const struct emu_model *m, const struct emu_point *q)
{
	AUTO_STRBUF struct strbuf err;
	struct emu_cost cost;
	strbuf_init(&err, 4096);
	if (!q->held_out || q->status != EMU_OK ||
	    emu_cost_at(m, q->cost.batch, false, &cost, &err) < 0)
		return NAN;
	return 100 * ((double)cost.step_ns / (double)q->cost.step_ns - 1);
}

/* Finds the median and the largest error of the held-out points, without sign. Returns their count. */
static size_t interpolation_errors(const struct emu_model *m, double *median, double *worst)
{
	double errors[EMU_POINTS_MAX];
	size_t n = 0;
	for (size_t i = 0; i < m->count; i++) {
		double e = fabs(interpolation_error(m, &m->points[i]));
		if (isnan(e))
			continue;
		size_t at = n++;
		for (; at > 0 && errors[at - 1] > e; at--)
			errors[at] = errors[at - 1];
		errors[at] = e;
	}
	*median = n == 0 ? 0 : (errors[(n - 1) / 2] + errors[n / 2]) / 2;
	*worst = n == 0 ? 0 : errors[n - 1];
	return n;
}

static int print_models(const struct emu_line *line)
{
	AUTO_JSON json_t *root = json_pack("{s:[]}", "models");
	if (!line->json)
		printf("%-20s %-22s %-6s %-14s %7s %10s %s\n", "model", "device", "prec.", "input",
		       "points", "batches", "off by %, median and worst held-out batch");
	for (size_t i = 0; i < line->profile.model_count; i++) {
		const struct emu_model *m = &line->profile.models[i];
		uint32_t smallest, largest;
		size_t n = measured(m, &smallest, &largest);
		double median, worst;
		size_t held = interpolation_errors(m, &median, &worst);
		if (line->json)
			json_array_append_new(
				json_object_get(root, "models"),
				json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f}",
					  "model", m->name, "device", m->device, "precision",
					  m->precision, "input", m->input, "points", (json_int_t)n,
					  "batch_min", (json_int_t)smallest, "batch_max",
					  (json_int_t)largest, "held_out", (json_int_t)held,
					  "held_out_median_percent", median,
					  "held_out_worst_percent", worst));
		else
			printf("%-20s %-22s %-6s %-14s %7zu %4u-%-5u", m->name, m->device,
			       m->precision, m->input, n, smallest, largest);
		if (!line->json && held > 0)
			printf(" %.1f, %.1f of %zu", median, worst, held);
		if (!line->json)
			puts("");
	}
	return !line->json || json_emit(stdout, root) == 0 ? CLI_OK : CLI_FAILED;
}

/* --- show --------------------------------------------------------------------------------------- */

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static json_t *cost_json(const struct emu_cost *c, bool held_out)
{
	return json_pack("{s:I, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I}",
			 "batch", (json_int_t)c->batch, "held_out", held_out, "forward_ms",
			 ms(c->forward_ns), "backward_ms", ms(c->backward_ns), "optimizer_ms",
			 ms(c->optimizer_ns), "step_ms", ms(c->step_ns), "wall_ms", ms(c->wall_ns),
			 "launch_ms", ms(c->launch_ns), "busy_ms", ms(c->busy_ns), "peak_bytes",
			 (json_int_t)c->peak_bytes, "persistent_bytes",
			 (json_int_t)c->persistent_bytes, "reserved_bytes",
			 (json_int_t)c->reserved_bytes, "parameter_bytes",
			 (json_int_t)c->parameter_bytes, "input_bytes", (json_int_t)c->input_bytes);
}

/* off: percent by which the interpolated step is longer; NAN: not known. */
static void print_cost(const struct emu_cost *c, bool held_out, double off)
{
	printf("%7u%s %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f %10.1f %9.0f", c->batch,
	       held_out ? "*" : " ", ms(c->forward_ns), ms(c->backward_ns), ms(c->optimizer_ns),
	       ms(c->step_ns), ms(c->launch_ns), ms(c->busy_ns),
	       (double)c->reserved_bytes / (double)MIB, c->batch / ((double)c->step_ns / 1e9));
	if (!isnan(off))
		printf(" %+6.1f %%", off);
	puts("");
}

static int print_points(const struct emu_line *line, const struct emu_model *m,
			const struct emu_cost *one)
{
	AUTO_JSON json_t *root =
		json_pack("{s:s, s:s, s:s, s:s, s:[]}", "model", m->name, "device", m->device,
			  "precision", m->precision, "layout", m->layout, "batches");
	if (!line->json) {
		printf("%s on %s, %s %s, input %s; ms\n", m->name, m->device, m->precision,
		       m->layout, m->input);
		printf("%7s  %9s %9s %9s %9s %9s %9s %10s %9s\n", "batch", "forward", "backward",
		       "optimizer", "step", "launch", "busy", "MiB", "samples/s");
	}
	bool held = false;
	for (size_t i = 0; i < (one != NULL ? 1 : m->count); i++) {
		const struct emu_point *q = &m->points[i];
		const struct emu_cost *c = one != NULL ? one : &q->cost;
		bool out = one == NULL && q->held_out;
		held = held || out;
		if (one == NULL && q->status != EMU_OK) {
			if (!line->json)
				printf("%7u  %s\n", c->batch,
				       q->status == EMU_OOM
					       ? "does not fit into the device's memory"
					       : "not measured");
		} else if (line->json) {
			json_array_append_new(json_object_get(root, "batches"), cost_json(c, out));
		} else {
			print_cost(c, out, out ? interpolation_error(m, q) : NAN);
		}
	}
	if (held && !line->json)
		puts("* not used by the emulator: by how many percent the interpolated step is "
		     "longer");
	return !line->json || json_emit(stdout, root) == 0 ? CLI_OK : CLI_FAILED;
}

static int print_show(const struct emu_line *line)
{
	const struct emu_model *m;
	struct emu_cost one = {0};
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	int rc = emu_profile_find(&line->profile, line->device, line->word[1], line->precision, &m,
				  &err);
	if (rc == 0 && line->batch != 0)
		rc = emu_cost_at(m, line->batch, false, &one, &err);
	if (rc < 0)
		return cli_fail("%s", strbuf_text(&err));
	return print_points(line, m, line->batch != 0 ? &one : NULL);
}

/* --- profile ------------------------------------------------------------------------------------ */

/* Finds the script: installed beside the program, or in the tree that the program was built in. */
static bool find_script(char out[PATH_MAX])
{
	char at[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", at, sizeof(at) - 1);
	if (n < 0)
		return false;
	at[n] = 0;
	for (int level = 0; level < UPWARDS; level++) {
		char *slash = strrchr(at, '/');
		if (slash == NULL)
			return false;
		*slash = 0;
		static const char *const places[] = {"share/terrane", "scripts"};
		for (size_t i = 0; i < ARRAY_LEN(places); i++)
			if (snprintf(out, PATH_MAX, "%s/%s/" SCRIPT, at, places[i]) < PATH_MAX &&
			    access(out, R_OK) == 0)
				return true;
	}
	return false;
}

static int run_profile(int argc, char **argv)
{
	char script[PATH_MAX];
	char *args[64] = {(char *)"python3", script};
	if (argc > 60)
		return cli_usage("emu profile: more than 60 arguments");
	if (!find_script(script))
		return cli_fail("cannot find " SCRIPT
				" in share/terrane beside the program or in scripts/ above it");
	for (int i = 2; i < argc; i++)
		args[i] = argv[i];
	execvp("python3", args);
	return cli_fail("cannot execute python3: %s; install Python 3 and torch", err_text(-errno));
}

int cmd_emu(int argc, char **argv)
{
	if (argc >= 2 && strcmp(argv[1], "profile") == 0)
		return run_profile(argc, argv);
	struct emu_line line = {0};
	int rc = parse(argc, argv, &line);
	if (rc == CLI_HELP_SHOWN) {
		rc = CLI_OK;
	} else if (rc == CLI_GO_ON) {
		if (line.words == 1 && strcmp(line.word[0], "models") == 0)
			rc = print_models(&line);
		else if (line.words == 2 && strcmp(line.word[0], "show") == 0)
			rc = print_show(&line);
		else
			rc = cli_usage(
				"emu: say models, show MODEL or profile; --help explains them");
	}
	emu_profile_fini(&line.profile);
	return rc;
}
