// SPDX-License-Identifier: Apache-2.0
#include "cli/placement.h"

#include "base/err.h"

#define TRACE_BYTES_MAX (4 * GIB)

int placement_load(const char *command, const char *path, struct jobs *jobs)
{
	char why[JOBS_WHY_MAX] = "";
	AUTO_FREE char *text = NULL;
	size_t len;
	*jobs = (struct jobs){0};
	int status = flags_load(command, path, TRACE_BYTES_MAX, &text, &len);
	if (status != 0)
		return status;
	int rc = jobs_parse(jobs, text, len, why, sizeof(why));
	if (rc != 0)
		return flags_fail(command, "%s: %s", path, why[0] != '\0' ? why : err_text(rc));
	return 0;
}
