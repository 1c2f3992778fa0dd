// SPDX-License-Identifier: Apache-2.0
/* What the process uses, as Linux tells it in /proc. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rt/real.h"

#define STAT_TEXT 1024
/* Numbers of fields of /proc/self/stat, as proc(5) counts them; the state is field 3. */
#define STAT_STATE 3
#define STAT_USER 14
#define STAT_SYSTEM 15
#define STAT_THREADS 20
#define STAT_START 22
#define STAT_SIZE 23
#define STAT_RESIDENT 24

static bool stat_read(struct rt_real_usage *u, double *started_s)
{
	char text[STAT_TEXT], *save = NULL;
	uint64_t field[STAT_RESIDENT + 1] = {0};
	FILE *f = fopen("/proc/self/stat", "re");
	if (f == NULL)
		return false;
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	char *at = strrchr(text, ')'); /* the name may have any character */
	long ticks = sysconf(_SC_CLK_TCK), page = sysconf(_SC_PAGESIZE);
	if (at == NULL || ticks <= 0 || page <= 0)
		return false;
	at = strtok_r(at + 1, " ", &save);
	for (unsigned i = STAT_STATE; at != NULL && i <= STAT_RESIDENT; i++) {
		field[i] = strtoull(at, NULL, 10);
		at = strtok_r(NULL, " ", &save);
	}
	u->cpu_s = (double)(field[STAT_USER] + field[STAT_SYSTEM]) / (double)ticks;
	u->threads = field[STAT_THREADS];
	u->virtual_bytes = field[STAT_SIZE];
	u->resident_bytes = field[STAT_RESIDENT] * (uint64_t)page;
	*started_s = (double)field[STAT_START] / (double)ticks;
	return true;
}

/* Returns the wall clock of the machine's start, which is the time from which starts of processes are counted. */
static double boot_s(void)
{
	static const char key[] = "btime ";
	char line[256];
	double at = 0;
	FILE *f = fopen("/proc/stat", "re");
	if (f == NULL)
		return 0;
	while (at == 0 && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, key, sizeof(key) - 1) == 0)
			at = (double)strtoull(line + sizeof(key) - 1, NULL, 10);
	fclose(f);
	return at;
}

static uint64_t files_count(void)
{
	uint64_t n = 0;
	DIR *d = opendir("/proc/self/fd");
	if (d == NULL)
		return 0;
	// cppcheck-suppress readdirCalled ; the stream is this call's alone
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n > 3 ? n - 3 : 0; /* ".", ".." and the one that reads the folder */
}

void rt_real_usage(struct rt_real_usage *out)
{
	struct rlimit files;
	double started_s;
	*out = (struct rt_real_usage){0};
	if (stat_read(out, &started_s))
		out->start_s = boot_s() + started_s;
	out->open_files = files_count();
	if (getrlimit(RLIMIT_NOFILE, &files) == 0)
		out->files_max = files.rlim_cur;
}
