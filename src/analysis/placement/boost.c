// SPDX-License-Identifier: Apache-2.0
#include "analysis/placement/boost.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xgboost/c_api.h>

#include "analysis/placement/boost_impl.h"
#include "base/base.h"

#define LIBRARY "libxgboost.so.0"

/* The functions of XGBoost that are used, with the types of its header. */
struct library {
	__typeof__(&XGBGetLastError) last_error;
	__typeof__(&XGDMatrixCreateFromMat) matrix;
	__typeof__(&XGDMatrixSetFloatInfo) matrix_info;
	__typeof__(&XGDMatrixFree) matrix_free;
	__typeof__(&XGBoosterCreate) create;
	__typeof__(&XGBoosterFree) free;
	__typeof__(&XGBoosterSetParam) set;
	__typeof__(&XGBoosterUpdateOneIter) update;
	__typeof__(&XGBoosterEvalOneIter) evaluate;
	__typeof__(&XGBoosterSaveModelToBuffer) save;
	__typeof__(&XGBoosterPredictFromDMatrix) predict;
};

struct symbol {
	const char *name;
	size_t offset;
};

#define SYMBOL(name, field)                            \
	{                                              \
#name, offsetof(struct library, field) \
	}

static const struct symbol symbols[] = {
	SYMBOL(XGBGetLastError, last_error),
	SYMBOL(XGDMatrixCreateFromMat, matrix),
	SYMBOL(XGDMatrixSetFloatInfo, matrix_info),
	SYMBOL(XGDMatrixFree, matrix_free),
	SYMBOL(XGBoosterCreate, create),
	SYMBOL(XGBoosterFree, free),
	SYMBOL(XGBoosterSetParam, set),
	SYMBOL(XGBoosterUpdateOneIter, update),
	SYMBOL(XGBoosterEvalOneIter, evaluate),
	SYMBOL(XGBoosterSaveModelToBuffer, save),
	SYMBOL(XGBoosterPredictFromDMatrix, predict),
};

struct boost {
	struct library lib;
	const struct boost_options *o;
	BoosterHandle booster;
	DMatrixHandle matrix[2]; /* training, validation */
	uint32_t matrices_n;
	struct boost_result *result;
};

/* The library stays loaded: its threads and thread-local data do not survive an unload. */
static int load(struct boost *b)
{
	void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; handle != NULL && i < ARRAY_LEN(symbols); i++) {
		void *at = dlsym(handle, symbols[i].name);
		if (at == NULL)
			handle = NULL;
		memcpy((char *)&b->lib + symbols[i].offset, &at, sizeof(at));
	}
	if (handle != NULL)
		return 0;
	snprintf(b->result->why, sizeof(b->result->why), "%s cannot be loaded; install libxgboost0",
		 LIBRARY);
	return -ENOENT;
}

static int check(struct boost *b, int rc)
{
	if (rc == 0)
		return 0;
	const char *text = b->lib.last_error();
	snprintf(b->result->why, sizeof(b->result->why), "XGBoost: %.*s", (int)strcspn(text, "\n"),
		 text);
	return -EIO;
}

static int add_matrix(struct boost *b, const struct boost_data *d)
{
	DMatrixHandle *m = &b->matrix[b->matrices_n];
	int rc = check(b, b->lib.matrix(d->values, d->rows, d->columns, NAN, m));
	if (rc != 0)
		return rc;
	b->matrices_n++;
	rc = check(b, b->lib.matrix_info(*m, "label", d->label, d->rows));
	return rc == 0 ? check(b, b->lib.matrix_info(*m, "weight", d->weight, d->rows)) : rc;
}

static int set_number(struct boost *b, const char *name, double value)
{
	char text[40];
	snprintf(text, sizeof(text), "%.9g", value);
	return check(b, b->lib.set(b->booster, name, text));
}

static int configure(struct boost *b)
{
	const struct boost_options *o = b->o;
	const struct {
		const char *name;
		double value;
	} numbers[] = {
		{"max_depth", o->depth},
		{"eta", o->rate},
		{"subsample", o->rows_share},
		{"colsample_bytree", o->columns_share},
		{"min_child_weight", o->leaf_weight},
		{"seed", o->seed},
		{"base_score", 0},
		{"max_bin", 64},
		{"nthread", 1},
		{"verbosity", 0},
	};
	int rc = check(b, b->lib.create(b->matrix, b->matrices_n, &b->booster));
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(numbers); i++)
		rc = set_number(b, numbers[i].name, numbers[i].value);
	if (rc == 0)
		rc = check(b, b->lib.set(b->booster, "tree_method", "hist"));
	if (rc == 0)
		rc = check(b, b->lib.set(b->booster, "objective",
					 o->classes > 0 ? "multi:softprob" : "reg:squarederror"));
	return rc == 0 && o->classes > 0 ? set_number(b, "num_class", o->classes) : rc;
}

/* Returns the metric of the validation after a round, or an error. */
static int evaluate(struct boost *b, int round, double *metric)
{
	const char *name = "valid", *text;
	int rc = check(b, b->lib.evaluate(b->booster, round, &b->matrix[1], &name, 1, &text));
	if (rc != 0)
		return rc;
	const char *colon = strrchr(text, ':');
	*metric = colon != NULL ? strtod(colon + 1, NULL) : NAN;
	return isfinite(*metric) ? 0 : -EIO;
}

static int run_rounds(struct boost *b)
{
	struct boost_result *r = b->result;
	for (uint32_t i = 0; i < b->o->rounds; i++) {
		double metric;
		int rc = check(b, b->lib.update(b->booster, (int)i, b->matrix[0]));
		if (rc != 0)
			return rc;
		if (b->matrices_n < 2) {
			r->rounds = i + 1;
			continue;
		}
		rc = evaluate(b, (int)i, &metric);
		if (rc != 0)
			return rc;
		if (i == 0 || metric < r->metric) {
			r->metric = metric;
			r->rounds = i + 1;
		} else if (i + 1 - r->rounds >= b->o->patience) {
			break;
		}
	}
	return 0;
}

/* Compares the outputs of our trees with those of XGBoost for all training rows. */
static int compare(struct boost *b, const struct boost_data *d, const struct trees *t)
{
	char config[160];
	const bst_ulong *shape;
	bst_ulong dim;
	const float *theirs;
	float ours[TREES_GROUPS_MAX];
	snprintf(config, sizeof(config),
		 "{\"type\": 1, \"training\": false, \"iteration_begin\": 0, \"iteration_end\": "
		 "%u, \"strict_shape\": true}",
		 b->result->rounds);
	int rc = check(b, b->lib.predict(b->booster, b->matrix[0], config, &shape, &dim, &theirs));
	if (rc != 0)
		return rc;
	bool same = dim == 2 && shape[0] == d->rows && shape[1] == t->groups;
	for (uint64_t i = 0; same && i < d->rows; i++) {
		trees_run(t, d->values + i * d->columns, ours);
		same = memcmp(ours, theirs + i * t->groups, t->groups * sizeof(float)) == 0;
	}
	if (same)
		return 0;
	snprintf(b->result->why, sizeof(b->result->why),
		 "the trees give other outputs than XGBoost; its version may be too new");
	return -EIO;
}

static int train(struct boost *b, const struct boost_data *data, struct trees *out)
{
	const char *json;
	bst_ulong len;
	int rc = configure(b);
	if (rc == 0)
		rc = run_rounds(b);
	if (rc == 0)
		rc = check(b, b->lib.save(b->booster, "{\"format\": \"json\"}", &len, &json));
	if (rc == 0)
		rc = boost_read(json, len, b->result->rounds, out);
	if (rc == 0)
		rc = compare(b, data, out);
	if (rc != 0)
		trees_fini(out);
	return rc;
}

int boost_train(const struct boost_data *data, const struct boost_data *valid,
		const struct boost_options *o, struct trees *out, struct boost_result *result)
{
	assert(data->rows > 0 && (valid == NULL || valid->rows > 0));
	*out = (struct trees){0};
	*result = (struct boost_result){.metric = NAN};
	struct boost b = {.o = o, .result = result};
	int rc = load(&b);
	if (rc == 0)
		rc = add_matrix(&b, data);
	if (rc == 0 && valid != NULL)
		rc = add_matrix(&b, valid);
	if (rc == 0)
		rc = train(&b, data, out);
	if (b.booster != NULL)
		b.lib.free(b.booster);
	for (uint32_t i = 0; i < b.matrices_n; i++)
		b.lib.matrix_free(b.matrix[i]);
	return rc;
}
