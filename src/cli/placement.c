// SPDX-License-Identifier: Apache-2.0
#include "cli/placement.h"

#include <errno.h>
#include <string.h>

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

int placement_load_model(const char *command, const char *path, struct model *m)
{
	AUTO_FREE char *bytes = NULL;
	size_t len;
	*m = (struct model){0};
	int status = flags_load(command, path, MODEL_BYTES_MAX, &bytes, &len);
	if (status != 0)
		return status;
	int rc = model_parse(m, (const uint8_t *)bytes, len);
	if (rc == 0)
		return 0;
	return flags_fail(command, "%s: %s; train it again", path,
			  rc == -EPROTONOSUPPORT ? "is a model of another version"
			  : rc == -ENOMEM        ? err_text(rc)
						 : "is not a model or is damaged");
}

int placement_set_rate(const char *command, struct cost_rates *rates, const char *text)
{
	char name[40];
	const char *eq = strchr(text, '=');
	if (eq == NULL || (size_t)(eq - text) >= sizeof(name))
		return flags_refuse(command, "--rate %.40s: must be NAME=VALUE", text);
	snprintf(name, sizeof(name), "%.*s", (int)(eq - text), text);
	int rc = cost_set(rates, name, eq + 1);
	if (rc == -ENOENT)
		return flags_refuse(command, "--rate %s: no such rate; see placement study --help",
				    name);
	return rc == 0 ? 0 : flags_refuse(command, "--rate %.80s: the value is out of range", text);
}
