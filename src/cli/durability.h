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

#include "analysis/encode.h"
#include "analysis/sheet.h"
#include "analysis/svg.h"
#include "analysis/system.h"
#include "analysis/work.h"
#include "cli/cli.h"

#define DURABILITY_GO (-1)

/* An option of one command; argument NULL: it takes none. */
struct durability_option {
	const char *name, *argument, *help;
};

struct durability_command {
	const char *name;  /* "burst" */
	const char *about; /* for --help: one or more lines, each ended by a newline */
	const char *examples;
	const struct durability_option *options;
	size_t options_n;
	/*
	 * Sets one of them in the command's own struct; text is NULL for one without an argument.
	 * 0, or -errno with a reason that names the option and the rule.
	 */
	int (*set)(void *mine, const char *name, const char *text, char *why, size_t why_size);
	bool no_system; /* does not lay out the system: d->system is not set */
	bool all_codes; /* tries codes and schemes itself: --code and --scheme are refused */
};

struct durability {
	const char *name;
	struct system_spec spec;
	struct system system;
	struct work work; /* seed, threads, progress bar on a terminal */
	bool json, csv;
	const char *plot; /* file name or NULL */
	struct work_progress progress;
	bool bar_drawn;
};

/* DURABILITY_GO, or the exit status. */
int durability_read(struct durability *d, const struct durability_command *command, void *mine,
		    int argc, char **argv);

/* "terrane durability NAME: ..." on standard error; returns CLI_FAILED or CLI_USAGE. */
int durability_fail(const struct durability *d, int err, const char *what);
int durability_refuse(const struct durability *d, const char *why);

/* DURABILITY_GO; or refuses --plot where there is nothing to draw, before anything is computed. */
int durability_no_plot(const struct durability *d, const char *what);

/* Removes the bar, once the work is done. */
void durability_bar_end(struct durability *d);

/* What an answer consists of. */
struct durability_answer {
	json_t *json;              /* taken over; NULL is "out of memory" when JSON is asked for */
	const struct sheet *sheet; /* for CSV */
	/* For a person, when neither JSON nor CSV is asked for. */
	void (*print)(const void *arg, FILE *out);
	/* Draws into a new document; NULL: there is no plot for this. */
	void (*draw)(const void *arg, struct svg *doc);
	const void *arg;
};

/* Prints it as was asked, writes the plot, and returns the exit status. */
int durability_answer(struct durability *d, const struct durability_answer *a);

/* {"code", "scheme", "racks", ...}: what was studied. A new reference. */
json_t *durability_system_json(const struct system *sys);

/* Measuring encoding in processor time, with chunks of the system's size. */
struct encode_options durability_encode_options(const struct durability *d, double slice_s);

/* The commands. */
int durability_advise(int argc, char **argv);
int durability_burst(int argc, char **argv);
int durability_nines(int argc, char **argv);
int durability_compare(int argc, char **argv);
int durability_encode(int argc, char **argv);
int durability_repair(int argc, char **argv);
int durability_trace(int argc, char **argv);

#endif
