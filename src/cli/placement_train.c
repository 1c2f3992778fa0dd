// SPDX-License-Identifier: Apache-2.0
/* terrane placement train: a model from a trace. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/placement/train.h"
#include "base/err.h"
#include "base/name_sync.h"
#include "cli/placement.h"

#define COMMAND "placement train"

struct train_order {
	const char *trace, *output;
	struct train_options options;
	struct cost_rates rates;
	bool json;
};

static int set_label(struct train_order *o, const char *text)
{
	if (strcmp(text, "worth") != 0 && strcmp(text, "density") != 0)
		return flags_refuse(COMMAND, "--label %.40s: must be worth or density", text);
	o->options.label = strcmp(text, "worth") == 0 ? TRAIN_WORTH : TRAIN_DENSITY;
	return 0;
}

/* Sets the groups of features that are left out. */
static int set_without(struct train_order *o, const char *text)
{
	static const char *const names[] = {
		[FEATURE_HISTORY] = "history",
		[FEATURE_NAMES] = "names",
		[FEATURE_RESOURCES] = "resources",
		[FEATURE_TIME] = "time",
	};
	for (uint32_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(text, names[i]) == 0) {
			o->options.without |= 1u << i;
			return 0;
		}
	return flags_refuse(COMMAND, "--without %.40s: must be history, names, resources or time",
			    text);
}

static int set_count(const char *name, const char *text, const uint64_t range[2], uint32_t *out)
{
	uint64_t v;
	int rc = flags_count(COMMAND, name, text, range, &v);
	if (rc == 0)
		*out = (uint32_t)v;
	return rc;
}

static int set_option(void *mine, const char *name, const char *text)
{
	struct train_order *o = mine;
	struct train_options *t = &o->options;
	if (name == NULL && o->trace != NULL)
		return flags_refuse(COMMAND, "\"%.60s\": only one trace is possible", text);
	if (name == NULL)
		o->trace = text;
	else if (strcmp(name, "output") == 0)
		o->output = text;
	else if (strcmp(name, "json") == 0)
		o->json = true;
	else if (strcmp(name, "label") == 0)
		return set_label(o, text);
	else if (strcmp(name, "without") == 0)
		return set_without(o, text);
	else if (strcmp(name, "rate") == 0)
		return placement_set_rate(COMMAND, &o->rates, text);
	else if (strcmp(name, "ratio") == 0)
		return flags_number(COMMAND, name, text, (double[]){1, 10}, &t->ratio);
	else if (strcmp(name, "categories") == 0)
		return set_count(name, text, (uint64_t[]){2, CATEGORY_MAX}, &t->categories);
	else if (strcmp(name, "rounds") == 0)
		return set_count(name, text, (uint64_t[]){1, 2000}, &t->rounds);
	else if (strcmp(name, "depth") == 0)
		return set_count(name, text, (uint64_t[]){1, 10}, &t->depth);
	else
		return set_count(name, text, (uint64_t[]){0, INT32_MAX}, &t->seed);
	return 0;
}

/* Writes the file under another name first, so that a reader finds the old model or the new one. */
static int save(const struct model *m, const char *path)
{
	char temporary[4096];
	AUTO_FREE uint8_t *bytes = NULL;
	size_t len;
	int n = snprintf(temporary, sizeof(temporary), "%s.new", path);
	if (n < 0 || (size_t)n >= sizeof(temporary))
		return -ENAMETOOLONG;
	int rc = model_write(m, &bytes, &len);
	FILE *f = rc == 0 ? fopen(temporary, "we") : NULL;
	if (rc != 0 || f == NULL)
		return rc != 0 ? rc : -errno;
	if (fwrite(bytes, 1, len, f) != len || fflush(f) != 0 || fsync(fileno(f)) != 0)
		rc = -errno;
	if (fclose(f) != 0 && rc == 0)
		rc = -errno;
	if (rc == 0 && rename(temporary, path) != 0)
		rc = -errno;
	if (rc != 0)
		unlink(temporary);
	return rc == 0 ? name_sync(path) : rc;
}

static int report(const struct train_order *o, const struct train_report *r)
{
	if (!o->json) {
		printf("%s: %zu jobs, %zu of them for validation; %u rounds, %u trees, %u nodes; "
		       "validation %.4f, right categories %.1f%%\n",
		       o->output, r->jobs, r->valid_jobs, r->rounds, r->trees, r->nodes, r->metric,
		       100 * r->accuracy);
		return CLI_OK;
	}
	json_t *auc = json_array();
	for (uint32_t c = 0; o->options.label == TRAIN_DENSITY && c < o->options.categories; c++)
		json_array_append_new(auc, isnan(r->auc[c]) ? json_null() : json_real(r->auc[c]));
	json_t *json = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o}", "model",
				 o->output, "jobs", (json_int_t)r->jobs, "validation_jobs",
				 (json_int_t)r->valid_jobs, "rounds", (json_int_t)r->rounds,
				 "trees", (json_int_t)r->trees, "nodes", (json_int_t)r->nodes,
				 "validation", r->metric, "accuracy", r->accuracy, "auc", auc);
	int rc = json == NULL ? -1 : json_dumpf(json, stdout, JSON_INDENT(2));
	json_decref(json);
	putchar('\n');
	return rc == 0 ? CLI_OK : CLI_FAILED;
}

static int train(const struct train_order *o)
{
	AUTO_JOBS struct jobs jobs = {0};
	AUTO_MODEL struct model model = {0};
	struct train_report r;
	int status = placement_load(COMMAND, o->trace, &jobs);
	if (status != 0)
		return status;
	int rc = train_model(&model, &jobs, &o->rates, &o->options, &r);
	if (rc == -ENODATA)
		return flags_fail(COMMAND,
				  "%s: has too few jobs; 50 to train and 50 to validate "
				  "are needed, the latter from the last fifth",
				  o->trace);
	if (rc != 0)
		return flags_fail(COMMAND, "%s: %s", o->trace,
				  r.why[0] != '\0' ? r.why : err_text(rc));
	rc = save(&model, o->output);
	return rc == 0 ? report(o, &r)
		       : flags_fail(COMMAND, "cannot write %s: %s", o->output, err_text(rc));
}

int placement_train(int argc, char **argv)
{
	static const struct flag flags[] = {
		{"output", "FILE", "the model file (-o)"},
		{"label", "worth|density", "what categories rank (worth)"},
		{"without", "GROUP",
		 "leave features out: history, names, resources or time; may be repeated"},
		{"categories", "N", "number of categories, with category 0 (15)"},
		{"ratio", "R",
		 "byte-seconds of a category by worth to those of the one above (1.7)"},
		{"rate", "NAME=VALUE", "a rate of the cost model, as in placement study"},
		{"rounds", "N", "most rounds of training (300)"},
		{"depth", "N", "most levels of a tree (6)"},
		{"seed", "N", "the same seed gives the same model (1)"},
		{"json", NULL, "print JSON"},
		{0},
	};
	static const struct flag_command command = {
		.command = COMMAND,
		.synopsis = "TRACE -o FILE [OPTIONS]",
		.about =
			"Trains a model that tells the category of a new file, on a trace of jobs. "
			"The last fifth of the\ntrace validates it. The file is replaced as a "
			"whole, also while programs use it. Needs the\nDebian package "
			"libxgboost0.\n",
		.examples = "  terrane placement train week1.csv -o model\n"
			    "  terrane placement study --train week1.csv --test week2.csv --method "
			    "model --model model\n",
		.flags = flags,
		.set = set_option,
	};
	struct train_order o = {.options = train_default, .rates = cost_default};
	int status = flags_read(&command, &o, argc, argv);
	if (status != CLI_GO_ON)
		return status;
	if (o.trace == NULL || o.output == NULL)
		return flags_refuse(COMMAND, "a trace and -o FILE are required; see --help");
	return train(&o);
}
