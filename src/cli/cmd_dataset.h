// SPDX-License-Identifier: Apache-2.0
/* Private to terrane dataset: the command line, and the verbs that print. */
#ifndef CLI_CMD_DATASET_H
#define CLI_CMD_DATASET_H

#include "cli/cli.h"
#include "cli/fs.h"
#include "cli/progress.h"
#include "dataset/build.h"
#include "dataset/dataset.h"
#include "dataset/export.h"
#include "dataset/verify.h"

struct dataset_command {
	const char *cluster, *tenant, *source, *path, *temp;
	const char *kind;   /* of the source; NULL: as its names say */
	const char *folder; /* of an export */
	bool tar;           /* export tar files */
	uint64_t version;   /* 0: the latest, or all */
	uint64_t show;      /* samples to print */
	bool quiet, json;
	struct build_options build;
	struct terrane *t;
	struct terrane_options o;
	struct terrane_error error;
	struct progress progress;
};

/* Prints "terrane: WHAT PATH: why" and returns CLI_FAILED. */
int dataset_failed(const struct dataset_command *q, int64_t rc, const char *what);
/* Starts the progress line of some work; dataset_work_stop adds to it, and returns whether the user interrupted it. */
void dataset_work_begin(struct dataset_command *q, const char *what, uint64_t bytes);
bool dataset_work_stop(void *ctx, uint64_t bytes, uint64_t samples);

int dataset_run_list(struct dataset_command *q);
int dataset_run_show(struct dataset_command *q);

#endif
