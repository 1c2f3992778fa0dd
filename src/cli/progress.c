// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/fs.h"

#define REDRAW_MS 100

void progress_begin(struct progress *p, const char *what, bool quiet)
{
	p->what = what;
	p->unit = "files";
	p->on = !quiet && isatty(STDERR_FILENO) == 1;
	p->start = fs_clock();
	atomic_init(&p->bytes, 0);
	atomic_init(&p->files, 0);
	atomic_init(&p->total_bytes, 0);
	atomic_init(&p->shown_ms, 0);
}

static void progress_draw(struct progress *p, double seconds)
{
	char done[FS_SIZE_TEXT], total[FS_SIZE_TEXT], rate[FS_SIZE_TEXT];
	double bytes = (double)atomic_load(&p->bytes);
	double all = (double)atomic_load(&p->total_bytes);
	double per_s = seconds > 0 ? bytes / seconds : 0;
	fprintf(stderr, "\r\033[K%s  %s", p->what, fs_size(done, bytes));
	if (all > 0)
		fprintf(stderr, " of %s  %.0f%%", fs_size(total, all),
			100 * (bytes < all ? bytes / all : 1));
	fprintf(stderr, "  %s/s", fs_size(rate, per_s));
	if (all > bytes && per_s > 0)
		fprintf(stderr, "  ETA %.0f s", (all - bytes) / per_s);
	fprintf(stderr, "  %llu %s", atomic_load(&p->files), p->unit);
	fflush(stderr);
}

static void progress_tick(struct progress *p)
{
	if (!p->on)
		return;
	double seconds = fs_clock() - p->start;
	unsigned long long now_ms = (unsigned long long)(seconds * 1000);
	unsigned long long shown_ms = atomic_load(&p->shown_ms);
	if (now_ms >= shown_ms + REDRAW_MS &&
	    atomic_compare_exchange_strong(&p->shown_ms, &shown_ms, now_ms))
		progress_draw(p, seconds);
}

void progress_add(struct progress *p, uint64_t bytes, uint64_t files)
{
	atomic_fetch_add(&p->bytes, bytes);
	atomic_fetch_add(&p->files, files);
	progress_tick(p);
}

void progress_set(struct progress *p, uint64_t bytes, uint64_t files)
{
	atomic_store(&p->bytes, bytes);
	atomic_store(&p->files, files);
	progress_tick(p);
}

void progress_hide(const struct progress *p)
{
	if (p->on)
		fputs("\r\033[K", stderr);
}

double progress_end(struct progress *p)
{
	progress_hide(p);
	return fs_clock() - p->start;
}
