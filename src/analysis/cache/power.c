// SPDX-License-Identifier: Apache-2.0
#include "analysis/cache/power.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/json.h"

#define NUMBER_MAX 1e30

struct reader {
	char *why;
	size_t why_size;
};

static int refuse(const struct reader *r, const char *where, const char *name, const char *rule)
{
	snprintf(r->why, r->why_size, "%s%s: %s", where, name, rule);
	return -EINVAL;
}

static int read_number(const struct reader *r, json_t *in, const char *where, const char *name,
		       double *out)
{
	json_t *v = json_object_get(in, name);
	double value = json_is_number(v) ? json_number_value(v) : 0;
	if (!(value > 0 && value <= NUMBER_MAX))
		return refuse(r, where, name, "must be a number above 0");
	*out = value;
	return 0;
}

static int check_fields(const struct reader *r, json_t *in, const char *where,
			const char *const *known)
{
	const char *key;
	json_t *v;
	json_object_foreach(in, key, v)
	{
		bool found = false;
		for (size_t i = 0; known[i] != NULL; i++)
			found = found || strcmp(known[i], key) == 0;
		if (!found) {
			char shown[40];
			snprintf(shown, sizeof(shown), "%s", key);
			return refuse(r, where, shown, "no such field");
		}
	}
	return 0;
}

static int read_server(const struct reader *r, json_t *root, const char *name,
		       struct power_server *out)
{
	static const char *const known[] = {"watts", "bytes", "bytes_s", NULL};
	char where[16];
	json_t *in = json_object_get(root, name);
	snprintf(where, sizeof(where), "%s.", name);
	if (!json_is_object(in))
		return refuse(r, "", name, "must be an object with watts, bytes and bytes_s");
	int rc = check_fields(r, in, where, known);
	if (rc == 0)
		rc = read_number(r, in, where, "watts", &out->watts);
	if (rc == 0)
		rc = read_number(r, in, where, "bytes", &out->bytes);
	return rc != 0 ? rc : read_number(r, in, where, "bytes_s", &out->bytes_s);
}

int power_parse(struct power_demand *d, const char *text, size_t len, char *why, size_t why_size)
{
	static const char *const known[] = {"storage_bytes", "read_bytes_s", "hdd",
					    "flash",         "flash_watts",  NULL};
	const struct reader r = {.why = why, .why_size = why_size};
	json_error_t error;
	AUTO_JSON json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
	*d = (struct power_demand){0};
	if (!json_is_object(root)) {
		snprintf(why, why_size, "line %d: %s", root == NULL ? error.line : 1,
			 root == NULL ? error.text : "must be an object");
		return -EINVAL;
	}
	int rc = check_fields(&r, root, "", known);
	if (rc == 0)
		rc = read_number(&r, root, "", "storage_bytes", &d->bytes);
	if (rc == 0)
		rc = read_number(&r, root, "", "read_bytes_s", &d->bytes_s);
	if (rc == 0)
		rc = read_server(&r, root, "hdd", &d->hdd);
	if (rc == 0)
		rc = read_server(&r, root, "flash", &d->flash);
	if (rc == 0 && json_object_get(root, "flash_watts") != NULL)
		rc = read_number(&r, root, "", "flash_watts", &d->flash_watts);
	return rc;
}

struct power power_of(const struct power_demand *d)
{
	struct power p = {
		.hdd_storage = d->bytes / d->hdd.bytes * d->hdd.watts,
		.hdd_reads = d->bytes_s / d->hdd.bytes_s * d->hdd.watts,
		.flash_storage = d->bytes / d->flash.bytes * d->flash.watts,
		.flash_reads = d->bytes_s / d->flash.bytes_s * d->flash.watts,
	};
	double left = fmax(1 - p.hdd_storage / p.hdd_reads, 0);
	p.hdd = fmax(p.hdd_storage, p.hdd_reads);
	p.flash = fmax(p.flash_storage, p.flash_reads);
	p.flash_tier = d->flash_watts > 0 ? d->flash_watts : p.flash_reads * left;
	p.composite = p.hdd_storage + p.flash_reads * left;
	/* Where disks have bandwidth to spare for what they store, nothing that is absorbed saves power. */
	p.neutral_share =
		p.flash_tier <= p.hdd - p.hdd_storage ? p.flash_tier / p.hdd_reads : INFINITY;
	return p;
}

double power_saved(const struct power *p, double absorbed_share)
{
	double disks = fmax(p->hdd_storage, p->hdd_reads * (1 - absorbed_share));
	return 1 - (disks + p->flash_tier) / p->hdd;
}
