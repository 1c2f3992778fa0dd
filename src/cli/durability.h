// SPDX-License-Identifier: Apache-2.0
/*
 * What the commands under `terrane durability` share: the options of the studied system and of the
 * output, a progress bar, and writing an answer as text, JSON, CSV and a plot.
 *
 * A command is a function run(argc, argv) in a file of its own:
 *
 *   struct durability d;
 *   int status = durability_read(&d, &command, &mine, argc, argv);
 *   if (status != DURABILITY_GO)
 *           return status;                      --help, or a refusal that has been printed
 *   ... compute with d.system and &d.work ...
 *   return durability_answer(&d, json, &sheet, draw, arg);
 */
#ifndef CLI_DURABILITY_H
#define CLI_DURABILITY_H

#include <stdio.h>

#include "analysis/encode.h"
#include "analysis/sheet.h"
#include "analysis/svg.h"
#include "analysis/system.h"
#include "analysis/work.h"
#include "cli/cli.h"

#define DURABILITY_GO (-1)

/* An option of one command; argument is NULL if the option takes no argument. */
struct durability_option {
	const char *name, *argument, *help;
};

struct durability_command {
	const char *name;  /* name of the command, such as "burst" */
	const char *about; /* for --help: one or more lines, each ended by a newline */
	const char *examples;
	const struct durability_option *options;
	size_t options_n;
	/*
	 * Sets an option in the command's own struct; text is NULL for an option without an
	 * argument. Returns 0, or -errno with a reason that names the option and the rule.
	 */
	int (*set)(void *mine, const char *name, const char *text, char *why, size_t why_size);
	bool no_system; /* the command does not need d->system, which is not set */
	bool all_codes; /* the command tries codes and schemes itself: --code and --scheme are refused */
};

#define DURABILITY_CODES_MAX 8

/* What --cluster found. */
struct durability_cluster {
	const char *file; /* NULL: the option is not given */
	/* the code of the cluster file, then those of the policies */
	struct encoding codes[DURABILITY_CODES_MAX];
	size_t codes_n;
	uint64_t failures, repairs; /* failed disks; rebuilt disks that were reported */
	double disk_years;
	bool afr_observed;  /* the failures are enough for a rate */
	double repair_rate; /* bytes a second at which disks were rebuilt; 0: not known */
	bool irregular;     /* racks or nodes differ, and the study has their means */
};

struct durability {
	const char *name;
	struct system_spec spec;
	struct system system;
	struct work work; /* seed, threads, progress bar on a terminal */
	bool json, csv;
	const char *plot; /* file name of --plot, or NULL */
	struct durability_cluster cluster;
	bool code_given; /* --code */
	struct work_progress progress;
	bool bar_drawn;
};

/* Parses the options. Returns DURABILITY_GO, or the exit status of the program. */
int durability_read(struct durability *d, const struct durability_command *command, void *mine,
		    int argc, char **argv);

/* Print "terrane durability NAME: ..." on standard error; return CLI_FAILED or CLI_USAGE. */
int durability_fail(const struct durability *d, int err, const char *what);
int durability_refuse(const struct durability *d, const char *why);

/* Checks the name of a plot, which is written as SVG. Returns 0, or -EINVAL with a reason and what to do. */
int durability_plot_name(const char *file, char *why, size_t why_size);

/* Refuses --plot before anything is computed, when no plot exists for `what`. Else DURABILITY_GO. */
int durability_no_plot(const struct durability *d, const char *what);

/* Removes the progress bar when the work is done. */
void durability_bar_end(struct durability *d);

/* The result of a command in each of its output forms. */
struct durability_answer {
	/* result for --json; durability_answer takes over the reference; NULL: out of memory */
	json_t *json;
	const struct sheet *sheet; /* result for --csv */
	/* Prints the result as text, without --json and --csv. */
	void (*print)(const void *arg, FILE *out);
	/* Draws the plot into a new document; NULL when no plot exists. */
	void (*draw)(const void *arg, struct svg *doc);
	const void *arg;
};

/* Prints the result in the chosen form, writes the plot, and returns the exit status. */
int durability_answer(struct durability *d, const struct durability_answer *a);

/* Returns the studied system as JSON, {"code", "scheme", "racks", ...}: a new reference. */
json_t *durability_system_json(const struct system *sys);

/* Returns options to measure encoding in processor time, with chunks of the system's size. */
struct encode_options durability_encode_options(const struct durability *d, double slice_s);

/* Sets d->spec and d->cluster from the cluster of a cluster file or folder. Returns DURABILITY_GO, or the exit status after
 * it printed an error. */
int durability_cluster_read(struct durability *d, const char *file);
/* Scales the bandwidths of a system so that it rebuilds a disk as fast as the cluster was seen to. */
void durability_cluster_speed(const struct durability *d, struct system_spec *spec);
/* Print what --cluster found; nothing without it. */
void durability_cluster_print(const struct durability *d, FILE *out);
json_t *durability_cluster_json(const struct durability *d);

/* Run the commands `terrane durability advise`, `burst` and so on. Return the exit status. */
int durability_advise(int argc, char **argv);
int durability_burst(int argc, char **argv);
int durability_nines(int argc, char **argv);
int durability_compare(int argc, char **argv);
int durability_encode(int argc, char **argv);
int durability_repair(int argc, char **argv);
int durability_trace(int argc, char **argv);

#endif
