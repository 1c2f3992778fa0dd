// SPDX-License-Identifier: Apache-2.0
/* The files of scripts/emu_profile. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/csv.h"
#include "emu/profile.h"

#define SECONDS_MAX 3600.0
#define BYTES_MAX ((double)(1ULL << 50))

static uint64_t ns_of(double seconds)
{
	return (uint64_t)(seconds * 1e9 + 0.5);
}

/* --- steps ------------------------------------------------------------------------------------ */

/* Columns of steps.csv with numbers, in the order of their names below. */
enum {
	S_BATCH,
	S_HELD,
	S_FORWARD,
	S_BACKWARD,
	S_OPTIMIZER,
	S_STEP,
	S_WALL,
	S_LAUNCH,
	S_BUSY,
	S_PEAK,
	S_PERSISTENT,
	S_RESERVED,
	S_PARAMETERS,
	S_INPUT,
	S_COUNT
};
static const char *const step_titles[S_COUNT] = {
	"batch",           "held_out",    "forward_s",        "backward_s",
	"optimizer_s",     "step_s",      "wall_s",           "launch_s",
	"busy_s",          "peak_bytes",  "persistent_bytes", "reserved_bytes",
	"parameter_bytes", "input_bytes",
};
enum { W_DEVICE, W_MODEL, W_INPUT, W_PRECISION, W_LAYOUT, W_STATUS, W_COUNT };
static const char *const step_words[W_COUNT] = {"device",    "model",  "input",
						"precision", "layout", "status"};

struct step_columns {
	size_t number[S_COUNT], word[W_COUNT], quantile[EMU_QUANTILES], ready[EMU_READY];
};

static int find_step_columns(struct csv *c, struct step_columns *at)
{
	char title[16];
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < S_COUNT; i++)
		rc = csv_find(c, step_titles[i], &at->number[i]);
	for (size_t i = 0; rc == 0 && i < W_COUNT; i++)
		rc = csv_find(c, step_words[i], &at->word[i]);
	for (size_t i = 0; rc == 0 && i < EMU_QUANTILES; i++) {
		(void)snprintf(title, sizeof(title), "q%zu_s", i);
		rc = csv_find(c, title, &at->quantile[i]);
	}
	for (size_t i = 0; rc == 0 && i < EMU_READY; i++) {
		(void)snprintf(title, sizeof(title), "ready%zu", i + 1);
		rc = csv_find(c, title, &at->ready[i]);
	}
	return rc;
}

static int read_status(struct csv *c, size_t column, enum emu_status *out)
{
	static const char *const words[] = {"ok", "oom", "slow", "error"};
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strcmp(c->field[column], words[i]) == 0) {
			*out = (enum emu_status)i;
			return 0;
		}
	}
	return csv_refuse(c, "status \"%.20s\" is not ok, oom, slow or error", c->field[column]);
}

/* Reads the quantiles of the step as multiples of its median, and the curve of ready gradients. */
static int read_curves(struct csv *c, const struct step_columns *at, double step_s,
		       struct emu_cost *cost)
{
	double v, last = 0;
	for (size_t i = 0; i < EMU_QUANTILES; i++) {
		int rc = csv_number(c, at->quantile[i], last, SECONDS_MAX, &v);
		if (rc < 0)
			return rc;
		last = v;
		cost->spread[i] = (float)(v / step_s);
	}
	last = 0;
	for (size_t i = 0; i < EMU_READY; i++) {
		/* A model without gradients has no curve: all are ready at the end. */
		v = i + 1 == EMU_READY ? 1 : 0;
		int rc = csv_blank(c, at->ready[i]) ? 0 : csv_number(c, at->ready[i], last, 1, &v);
		if (rc < 0)
			return rc;
		last = v;
		cost->ready[i] = (float)v;
	}
	return 0;
}

static int read_costs(struct csv *c, const struct step_columns *at, struct emu_cost *cost)
{
	double v[S_COUNT] = {0};
	for (size_t i = S_FORWARD; i < S_COUNT; i++) {
		bool time = i < S_PEAK;
		int rc = csv_number(c, at->number[i], i == S_STEP ? 1e-9 : 0,
				    time ? SECONDS_MAX : BYTES_MAX, &v[i]);
		if (rc < 0)
			return rc;
	}
	double sum = v[S_FORWARD] + v[S_BACKWARD] + v[S_OPTIMIZER];
	if (sum > 2 * v[S_STEP] + 0.001 || v[S_STEP] > 2 * sum + 0.001)
		return csv_refuse(
			c, "step_s is not about the sum of forward_s, backward_s and optimizer_s");
	if (v[S_PERSISTENT] > v[S_PEAK] || v[S_PEAK] > v[S_RESERVED])
		return csv_refuse(
			c,
			"persistent_bytes, peak_bytes and reserved_bytes must grow in this order");
	cost->forward_ns = ns_of(v[S_FORWARD]);
	cost->backward_ns = ns_of(v[S_BACKWARD]);
	cost->optimizer_ns = ns_of(v[S_OPTIMIZER]);
	cost->step_ns = ns_of(v[S_STEP]);
	cost->wall_ns = ns_of(v[S_WALL]);
	cost->launch_ns = ns_of(v[S_LAUNCH]);
	cost->busy_ns = ns_of(v[S_BUSY]);
	cost->peak_bytes = (uint64_t)v[S_PEAK];
	cost->persistent_bytes = (uint64_t)v[S_PERSISTENT];
	cost->reserved_bytes = (uint64_t)v[S_RESERVED];
	cost->parameter_bytes = (uint64_t)v[S_PARAMETERS];
	cost->input_bytes = (uint64_t)v[S_INPUT];
	return read_curves(c, at, v[S_STEP], cost);
}

static int read_step(struct csv *c, const struct step_columns *at, struct emu_model *names,
		     struct emu_point *q)
{
	double v = 0;
	int rc = csv_word(c, at->word[W_DEVICE], names->device, EMU_NAME_MAX);
	if (rc == 0)
		rc = csv_word(c, at->word[W_MODEL], names->name, EMU_NAME_MAX);
	if (rc == 0)
		rc = csv_word(c, at->word[W_INPUT], names->input, EMU_NAME_MAX);
	if (rc == 0)
		rc = csv_word(c, at->word[W_PRECISION], names->precision, EMU_NAME_MAX);
	if (rc == 0)
		rc = csv_word(c, at->word[W_LAYOUT], names->layout, EMU_NAME_MAX);
	if (rc == 0)
		rc = read_status(c, at->word[W_STATUS], &q->status);
	if (rc == 0)
		rc = csv_number(c, at->number[S_HELD], 0, 1, &v);
	if (rc == 0) {
		q->held_out = v > 0;
		rc = csv_number(c, at->number[S_BATCH], 1, EMU_BATCH_MAX, &v);
	}
	if (rc < 0)
		return rc;
	q->cost.batch = (uint32_t)v;
	if ((double)q->cost.batch != v)
		return csv_refuse(c, "batch is not a whole number");
	return q->status == EMU_OK ? read_costs(c, at, &q->cost) : 0;
}

/* Turns a failure to add a row into a message. */
static int add_failed(struct csv *c, int rc, size_t max)
{
	if (rc == -EEXIST)
		return csv_refuse(c, "the model has a row of this batch already");
	if (rc == -E2BIG)
		return csv_refuse(c, "too many rows (%zu models, %d batches of a model)", max,
				  EMU_POINTS_MAX);
	return rc;
}

int emu_profile_add_steps(struct emu_profile *p, const char *name, const char *text, size_t len,
			  struct strbuf *err)
{
	struct csv c;
	struct step_columns at = {0};
	int rc = csv_open(&c, name, text, len, err);
	if (rc == 0)
		rc = find_step_columns(&c, &at);
	while (rc == 0 && (rc = csv_next(&c)) == 1) {
		struct emu_model names = {0};
		struct emu_point q = {0};
		rc = read_step(&c, &at, &names, &q);
		if (rc == 0)
			rc = add_failed(&c, emu_profile_add_point(p, &names, &q), EMU_MODELS_MAX);
	}
	return rc;
}

/* --- copies ----------------------------------------------------------------------------------- */

static int read_copy(struct csv *c, const size_t at[6], struct emu_copy *out)
{
	double pinned = 0, bytes = 0, host_s = 0, device_s = 0;
	char direction[8] = "";
	int rc = csv_word(c, at[0], out->device, EMU_NAME_MAX);
	if (rc == 0)
		rc = csv_word(c, at[1], direction, sizeof(direction));
	if (rc == 0)
		rc = csv_number(c, at[2], 0, 1, &pinned);
	if (rc == 0)
		rc = csv_number(c, at[3], 1, BYTES_MAX, &bytes);
	if (rc == 0)
		rc = csv_number(c, at[4], 0, SECONDS_MAX, &host_s);
	if (rc == 0)
		rc = csv_number(c, at[5], 0, SECONDS_MAX, &device_s);
	if (rc < 0)
		return rc;
	if (strcmp(direction, "h2d") != 0 && strcmp(direction, "d2h") != 0)
		return csv_refuse(c, "direction \"%s\" is not h2d or d2h", direction);
	out->to_device = direction[0] == 'h';
	out->pinned = pinned > 0;
	out->bytes = (uint64_t)bytes;
	out->host_ns = ns_of(host_s);
	out->device_ns = ns_of(device_s);
	return 0;
}

/* Finds columns by their titles; at and titles have n elements. */
static int find_all(struct csv *c, const char *const *titles, size_t n, size_t *at)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = csv_find(c, titles[i], &at[i]);
	return rc;
}

int emu_profile_add_copies(struct emu_profile *p, const char *name, const char *text, size_t len,
			   struct strbuf *err)
{
	static const char *const titles[6] = {"device", "direction", "pinned",
					      "bytes",  "host_s",    "device_s"};
	struct csv c;
	size_t at[6] = {0};
	int rc = csv_open(&c, name, text, len, err);
	if (rc == 0)
		rc = find_all(&c, titles, 6, at);
	while (rc == 0 && (rc = csv_next(&c)) == 1) {
		struct emu_copy copy = {0};
		rc = read_copy(&c, at, &copy);
		if (rc == 0 && p->copy_count == EMU_COPIES_MAX)
			rc = csv_refuse(&c, "more than %d copies", EMU_COPIES_MAX);
		if (rc < 0)
			break;
		struct emu_copy *grown = realloc(p->copies, (p->copy_count + 1) * sizeof(*grown));
		if (grown == NULL)
			return -ENOMEM;
		p->copies = grown;
		grown[p->copy_count++] = copy;
	}
	return rc;
}

/* --- decodes ---------------------------------------------------------------------------------- */

static int read_decode(struct csv *c, const size_t at[9], struct emu_decode *out)
{
	double v[9] = {0};
	int rc = csv_word(c, at[0], out->device, EMU_NAME_MAX);
	if (rc == 0)
		rc = csv_word(c, at[1], out->decoder, EMU_NAME_MAX);
	for (size_t i = 2; rc == 0 && i < 9; i++) {
		bool time = i == 6 || i == 7, bytes = i == 5 || i == 8;
		rc = csv_number(c, at[i], i < 5 ? 1 : 0,
				time    ? SECONDS_MAX
				: bytes ? BYTES_MAX
					: EMU_BATCH_MAX,
				&v[i]);
	}
	if (rc < 0)
		return rc;
	out->width = (uint32_t)v[2];
	out->height = (uint32_t)v[3];
	out->batch = (uint32_t)v[4];
	out->file_bytes = (uint64_t)v[5];
	out->wall_ns = ns_of(v[6]);
	out->host_ns = ns_of(v[7]);
	out->held_bytes = (uint64_t)v[8];
	return 0;
}

int emu_profile_add_decodes(struct emu_profile *p, const char *name, const char *text, size_t len,
			    struct strbuf *err)
{
	static const char *const titles[9] = {"device", "decoder",    "width",
					      "height", "batch",      "file_bytes",
					      "wall_s", "host_cpu_s", "held_bytes"};
	struct csv c;
	size_t at[9] = {0};
	int rc = csv_open(&c, name, text, len, err);
	if (rc == 0)
		rc = find_all(&c, titles, 9, at);
	while (rc == 0 && (rc = csv_next(&c)) == 1) {
		struct emu_decode decode = {0};
		rc = read_decode(&c, at, &decode);
		if (rc == 0 && p->decode_count == EMU_DECODES_MAX)
			rc = csv_refuse(&c, "more than %d decodes", EMU_DECODES_MAX);
		if (rc < 0)
			break;
		struct emu_decode *grown =
			realloc(p->decodes, (p->decode_count + 1) * sizeof(*grown));
		if (grown == NULL)
			return -ENOMEM;
		p->decodes = grown;
		grown[p->decode_count++] = decode;
	}
	return rc;
}

/* --- about ------------------------------------------------------------------------------------ */

int emu_profile_add_about(struct emu_profile *p, const char *name, const char *text, size_t len,
			  struct strbuf *err)
{
	static const char *const titles[2] = {"what", "value"};
	struct csv c;
	size_t at[2] = {0};
	int rc = csv_open(&c, name, text, len, err);
	if (rc == 0)
		rc = find_all(&c, titles, 2, at);
	while (rc == 0 && (rc = csv_next(&c)) == 1) {
		double v = 0;
		rc = 0;
		bool memory = strcmp(c.field[at[0]], "memory_bytes") == 0;
		if (!memory && strcmp(c.field[at[0]], "context_bytes") != 0)
			continue;
		rc = csv_number(&c, at[1], memory ? 1 : 0, BYTES_MAX, &v);
		*(memory ? &p->memory_bytes : &p->context_bytes) = (uint64_t)v;
	}
	return rc;
}

/* --- any of them ------------------------------------------------------------------------------ */

int emu_profile_add(struct emu_profile *p, const char *name, const char *text, size_t len,
		    struct strbuf *err)
{
	static const struct {
		const char *title; /* a column that no other kind of file has */
		int (*add)(struct emu_profile *p, const char *name, const char *text, size_t len,
			   struct strbuf *err);
	} kinds[] = {{"backward_and_step_s", emu_profile_add_gpemu},
		     {"forward_s", emu_profile_add_steps},
		     {"direction", emu_profile_add_copies},
		     {"decoder", emu_profile_add_decodes},
		     {"what", emu_profile_add_about}};
	struct csv c;
	int rc = csv_open(&c, name, text, len, err);
	for (size_t k = 0; rc == 0 && k < ARRAY_LEN(kinds); k++)
		for (size_t i = 0; i < c.columns; i++)
			if (strcmp(c.title[i], kinds[k].title) == 0)
				return kinds[k].add(p, name, text, len, err);
	return rc < 0 ? rc
		      : csv_refuse(&c, "the header is none of a profile: see docs/emulation.md");
}
