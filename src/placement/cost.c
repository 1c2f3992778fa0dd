// SPDX-License-Identifier: Apache-2.0
#include "placement/cost.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/base.h"

#define MONTH_S (365.25 * 86400 / 12)
#define TB 1e12

/*
 * Where the defaults come from. A disk: 20 TB, 200 MB/s, 8 ms for a random request, 300 USD in five years; its share
 * of a server with 36 disks is another 4.60 USD a month. Space on disk with power: 0.60 USD for a TB and month. Flash:
 * 2.40 USD for a TB and month (80 USD a TB in five years, power, spare space), and 80 USD for 1,825 TB written (one
 * drive write a day); files that are deleted as a whole cause no write amplification. A flash server of 12,000 USD moves 5 GB/s for four years.
 */
const struct cost_rates cost_default = {
	.position_s = 0.008,
	.disk_bytes_per_s = 200e6,
	.group_bytes = (double)MIB,
	.dram_s = 120,
	.dram_share = 0.8,
	.disk_byte_usd = 0.60 / TB / MONTH_S,
	.flash_byte_usd = 2.40 / TB / MONTH_S,
	.network_byte_usd = 2e-14,
	.disk_server_usd = 4.60 / MONTH_S,
	.disk_device_usd = 5.00 / MONTH_S,
	.flash_server_usd = 1.9e-14,
	.flash_wear_usd = 80.0 / (1825 * TB),
};

struct rate {
	const char *name;
	size_t offset;
	bool divisor; /* the model divides by it, so it must be above 0 */
};

#define RATE(name, field, divisor)                                \
	{                                                         \
		name, offsetof(struct cost_rates, field), divisor \
	}

static const struct rate rates_list[] = {
	RATE("position-s", position_s, false),
	RATE("disk-bytes-per-s", disk_bytes_per_s, true),
	RATE("group-bytes", group_bytes, true),
	RATE("dram-s", dram_s, false),
	RATE("dram-share", dram_share, false),
	RATE("disk-byte-usd", disk_byte_usd, false),
	RATE("flash-byte-usd", flash_byte_usd, true),
	RATE("network-byte-usd", network_byte_usd, false),
	RATE("disk-server-usd", disk_server_usd, false),
	RATE("disk-device-usd", disk_device_usd, false),
	RATE("flash-server-usd", flash_server_usd, false),
	RATE("flash-wear-usd", flash_wear_usd, false),
};

static double *rate_at(struct cost_rates *rates, const struct rate *r)
{
	return (double *)(void *)((char *)rates + r->offset);
}

int cost_set(struct cost_rates *rates, const char *name, const char *text)
{
	const struct rate *r = NULL;
	for (size_t i = 0; i < ARRAY_LEN(rates_list); i++)
		if (strcmp(rates_list[i].name, name) == 0)
			r = &rates_list[i];
	if (r == NULL)
		return -ENOENT;
	char *end;
	bool factor = text[0] == '*';
	double value = strtod(text + factor, &end);
	if (end == text + factor || *end != '\0')
		return -EINVAL;
	if (factor)
		value *= *rate_at(rates, r);
	if (!isfinite(value) || value < 0 || (r->divisor && value <= 0))
		return -EINVAL;
	if (r->offset == offsetof(struct cost_rates, dram_share) && value > 1)
		return -EINVAL;
	*rate_at(rates, r) = value;
	return 0;
}

const char *cost_rate(const struct cost_rates *rates, size_t i, double *value)
{
	if (i >= ARRAY_LEN(rates_list))
		return NULL;
	struct cost_rates copy = *rates;
	*value = *rate_at(&copy, &rates_list[i]);
	return rates_list[i].name;
}

static double disk_seconds(const struct cost_rates *r, const struct job_io *job)
{
	double d = job_seconds(job);
	double missed = 1 - r->dram_share * (r->dram_s < d ? r->dram_s / d : 1);
	double groups = ceil((double)job->written_bytes / r->group_bytes);
	double positions = (double)job->reads * missed +
			   (groups < (double)job->writes ? groups : (double)job->writes);
	double bytes = (double)job->read_bytes * missed + (double)job->written_bytes;
	return positions * r->position_s + bytes / r->disk_bytes_per_s;
}

struct cost cost_of(const struct cost_rates *r, const struct job_io *job)
{
	assert(job->end_s > job->start_s && job->size_bytes > 0);
	assert(r->dram_share >= 0 && r->dram_share <= 1);
	double held = job_byte_seconds(job);
	double io = (double)job->read_bytes + (double)job->written_bytes;
	struct cost c = {.disk_s = disk_seconds(r, job)};
	c.disk_usd = r->disk_byte_usd * held + r->network_byte_usd * io +
		     (r->disk_server_usd + r->disk_device_usd) * c.disk_s;
	c.flash_usd = r->flash_byte_usd * held + r->network_byte_usd * io +
		      r->flash_server_usd * io + r->flash_wear_usd * (double)job->written_bytes;
	assert(c.disk_s >= 0 && c.disk_usd >= 0 && c.flash_usd >= 0);
	return c;
}

double cost_density(const struct job_io *job)
{
	assert(job->size_bytes > 0);
	return ((double)job->read_bytes + (double)job->written_bytes) / (double)job->size_bytes;
}

double cost_worth(const struct cost_rates *rates, const struct job_io *job, const struct cost *c)
{
	double held = job_byte_seconds(job);
	assert(held > 0 && rates->flash_byte_usd > 0);
	return cost_savings(c) / held / rates->flash_byte_usd;
}
