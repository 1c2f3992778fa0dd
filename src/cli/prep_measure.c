// SPDX-License-Identifier: Apache-2.0
/* terrane prep measure: what the operations need for JPEG files on this machine. */
#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "cli/prep.h"
#include "cli/progress.h"
#include "prep/cut.h"
#include "prep/draw.h"
#include "prep/resize.h"

#define NAME "prep measure"
#define FILE_BYTES_MAX (256 * MIB)
#define PATHS_MAX 256

struct order {
	char *paths[PATHS_MAX + 1]; /* ends with NULL, as fts_open wants it */
	size_t paths_n;
	uint64_t size, seed, epoch;
	bool summary, quiet;
};

/* What was measured of a file: the values of its row, or sums of them. */
struct measured {
	double raw_bytes, cut_bytes, smallest_bytes;
	double decode_ms, crop_ms, cut_ms;
	uint64_t shrunk; /* files whose pixels are fewer bytes than the file */
};

struct totals {
	struct measured sum;
	uint64_t files, skipped;
	struct progress progress;
};

static double cpu_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Measures the operations on a file, whose size in pixels is known. */
static int measure_file(const struct order *o, struct prep_bytes file, const struct prep_rect *crop,
			struct measured *out)
{
	struct prep_image image = {0}, small = {0};
	struct prep_cut cut = {0};
	double start = cpu_ms();
	int rc = prep_jpeg_decode(file, &prep_limits_client, crop, &image);
	out->decode_ms = cpu_ms() - start;
	if (rc == 0) {
		start = cpu_ms();
		rc = prep_resize(&image, (uint32_t)o->size, (uint32_t)o->size, &small);
		out->crop_ms = cpu_ms() - start;
	}
	if (rc == 0) {
		start = cpu_ms();
		int cut_rc = prep_cut(file, &prep_limits_client, crop, &cut);
		out->cut_ms = cpu_ms() - start;
		out->cut_bytes = (double)(cut_rc == 0 ? cut.len : file.len);
		rc = cut_rc == -EOVERFLOW || cut_rc == -ENOTSUP ? 0 : cut_rc;
	}
	free(cut.data);
	prep_image_fini(&image);
	prep_image_fini(&small);
	double pixels = (double)(o->size * o->size * PREP_CHANNELS);
	out->raw_bytes = (double)file.len;
	out->shrunk = pixels < out->raw_bytes;
	out->smallest_bytes = out->cut_bytes < pixels ? out->cut_bytes : pixels;
	return rc;
}

static void add(struct measured *sum, const struct measured *m)
{
	sum->raw_bytes += m->raw_bytes;
	sum->cut_bytes += m->cut_bytes;
	sum->smallest_bytes += m->smallest_bytes;
	sum->decode_ms += m->decode_ms;
	sum->crop_ms += m->crop_ms;
	sum->cut_ms += m->cut_ms;
	sum->shrunk += m->shrunk;
}

/* Measures the file of a path and prints its row. Files that are no JPEG files of a known kind are counted. */
static int measure_path(const struct order *o, const char *path, struct totals *t)
{
	AUTO_FREE char *data = NULL;
	struct prep_bytes file = {0};
	int status = flags_load(NAME, path, FILE_BYTES_MAX, &data, &file.len);
	if (status != 0)
		return status;
	file.data = (const uint8_t *)data;
	struct prep_jpeg_info info;
	int rc = prep_jpeg_inspect(file, &prep_limits_client, &info);
	if (rc == 0) {
		struct prep_draw_key key = {o->seed, o->epoch, t->files};
		struct prep_drawn drawn =
			prep_draw(&prep_draw_default, &key, info.width, info.height);
		struct measured m = {0};
		rc = measure_file(o, file, &drawn.crop, &m);
		if (rc == 0) {
			add(&t->sum, &m);
			t->files++;
			if (!o->summary)
				printf("%.0f,%u,%u,%.4f,%.4f,%.4f,%.0f\n", m.raw_bytes, info.width,
				       info.height, m.decode_ms, m.crop_ms, m.cut_ms, m.cut_bytes);
		}
	}
	if (rc == -ENOMEM)
		return flags_fail(NAME, "%s: %s", path, err_text(rc));
	if (rc < 0) {
		progress_hide(&t->progress);
		fprintf(stderr, "terrane prep measure: %s: skipped: %s\n", path,
			rc == -EBADMSG ? "not a JPEG file or damaged" : err_text(rc));
		t->skipped++;
	}
	progress_add(&t->progress, file.len, 1);
	return 0;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int measure_all(struct order *o, struct totals *t)
{
	FTS *tree = fts_open(o->paths, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
	if (tree == NULL)
		return flags_fail(NAME, "%s", err_text(-errno));
	int status = 0;
	FTSENT *entry;
	while (status == 0 && (entry = fts_read(tree)) != NULL) {
		if (entry->fts_info == FTS_F)
			status = measure_path(o, entry->fts_path, t);
		else if (entry->fts_info == FTS_NS || entry->fts_info == FTS_DNR ||
			 entry->fts_info == FTS_ERR)
			status = flags_fail(NAME, "%s: %s", entry->fts_path,
					    err_text(-entry->fts_errno));
	}
	fts_close(tree);
	return status;
}

static void print_summary(const struct totals *t)
{
	const struct measured *m = &t->sum;
	double n = (double)t->files;
	printf("files      %llu\n"
	       "skipped    %llu\n"
	       "shrink     %.1f%% of the files are larger than their pixels\n"
	       "raw        %.0f bytes\n"
	       "cut        %.0f bytes  %.3f of raw\n"
	       "smallest   %.0f bytes  %.3f of raw: the smaller of the cut file and the pixels\n"
	       "decode     %.3f ms\n"
	       "crop       %.3f ms\n"
	       "cut        %.3f ms\n",
	       (unsigned long long)t->files, (unsigned long long)t->skipped,
	       100 * (double)m->shrunk / n, m->raw_bytes / n, m->cut_bytes / n,
	       m->cut_bytes / m->raw_bytes, m->smallest_bytes / n, m->smallest_bytes / m->raw_bytes,
	       m->decode_ms / n, m->crop_ms / n, m->cut_ms / n);
}

static const struct flag flags[] = {
	{"size", "PIXELS", "side of the resized crop (224)"},
	{"seed", "N", "seed of the crops (1)"},
	{"epoch", "N", "epoch of the crops (0)"},
	{"summary", NULL, "print means instead of a row for each file"},
	{"quiet", NULL, "draw no progress line"},
	{0},
};

static int set_option(void *mine, const char *name, const char *text)
{
	static const uint64_t sizes[] = {1, 4096}, seeds[] = {0, INT64_MAX};
	struct order *o = mine;
	if (name == NULL) {
		if (o->paths_n == PATHS_MAX)
			return flags_refuse(NAME, "more than %d paths: give their folder",
					    PATHS_MAX);
		o->paths[o->paths_n++] = (char *)text;
		return 0;
	}
	if (strcmp(name, "size") == 0)
		return flags_count(NAME, name, text, sizes, &o->size);
	if (strcmp(name, "seed") == 0)
		return flags_count(NAME, name, text, seeds, &o->seed);
	if (strcmp(name, "epoch") == 0)
		return flags_count(NAME, name, text, seeds, &o->epoch);
	if (strcmp(name, "summary") == 0)
		o->summary = true;
	else
		o->quiet = true;
	return 0;
}

int prep_measure(int argc, char **argv)
{
	static const struct flag_command command = {
		.command = NAME,
		.synopsis = "[OPTIONS] PATH...",
		.about = "Draws a random crop of each JPEG file, as training does, and prints a "
			 "row for 'terrane prep plan':\nbytes and size of the file, milliseconds "
			 "of one core to decode and to resize the crop and to cut\nthe file, and "
			 "the bytes of the cut file. A folder stands for all files in it.\n",
		.examples = "  terrane prep measure images > samples.csv\n"
			    "  terrane prep measure --summary images\n",
		.flags = flags,
		.set = set_option,
	};
	struct order o = {.size = PREP_OUT, .seed = 1};
	struct totals t = {0};
	int status = flags_read(&command, &o, argc, argv);
	if (status != CLI_GO_ON)
		return status;
	if (o.paths_n == 0)
		return flags_refuse(NAME, "no path is given; see --help");
	if (!o.summary)
		puts(PREP_COLUMNS);
	progress_begin(&t.progress, "measure", o.quiet);
	status = measure_all(&o, &t);
	progress_end(&t.progress);
	if (status == 0 && t.files == 0)
		return flags_fail(NAME, "no JPEG file was found");
	if (status == 0 && o.summary)
		print_summary(&t);
	return status == 0 && fflush(stdout) != 0 ? flags_fail(NAME, "%s", err_text(-errno))
						  : status;
}
