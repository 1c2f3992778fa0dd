// SPDX-License-Identifier: Apache-2.0
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static int missed;
static bool as_json;

void table_json(void)
{
	as_json = true;
}

static void cpu_model(char *out, size_t size)
{
	char line[256];
	snprintf(out, size, "unknown CPU");
	FILE *f = fopen("/proc/cpuinfo", "r");
	if (f == NULL)
		return;
	while (fgets(line, sizeof(line), f) != NULL) {
		char *colon = strchr(line, ':');
		if (strncmp(line, "model name", 10) != 0 || colon == NULL)
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(out, size, "%s", colon + 2);
		break;
	}
	fclose(f);
}

void table_begin(const char *title)
{
	char cpu[256];
	struct utsname u;
	cpu_model(cpu, sizeof(cpu));
	uname(&u);
	missed = 0;
	if (as_json) {
		printf("{\"bench\": \"%s\", \"cpu\": \"%s\", \"cores\": %ld, \"kernel\": \"%s\"}\n",
		       title, cpu, sysconf(_SC_NPROCESSORS_ONLN), u.release);
		return;
	}
	printf("%s on %s, %ld cores, Linux %s\n\n", title, cpu, sysconf(_SC_NPROCESSORS_ONLN),
	       u.release);
	printf("| what | measured | target | ratio | |\n|---|---:|---:|---:|---|\n");
}

void table_row(const char *what, double value, const char *unit, double target, bool less_is_better,
	       const char *against)
{
	double reach = target <= 0 ? 0 : less_is_better ? target / value : value / target;
	if (as_json) {
		missed += target > 0 && reach < 1;
		printf("{\"what\": \"%s\", \"value\": %g, \"unit\": \"%s\", \"target\": %g, "
		       "\"ratio\": %.3f, \"note\": \"%s\"}\n",
		       what, value, unit, target, reach, against);
		fflush(stdout);
		return;
	}
	int digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
	printf("| %s | %.*f %s | ", what, digits, value, unit);
	if (target > 0) {
		bool reached = reach >= 1;
		missed += !reached;
		printf("%s %g %s | %.2f %s", less_is_better ? "at most" : "at least", target, unit,
		       reach, reached ? "" : "(missed)");
	} else {
		printf("| ");
	}
	printf(" | %s |\n", against);
	fflush(stdout);
}

int table_end(void)
{
	return missed > 0;
}

int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;
	return (x > y) - (x < y);
}

double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), compare_doubles);
	return v[n / 2];
}
