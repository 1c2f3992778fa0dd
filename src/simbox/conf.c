// SPDX-License-Identifier: Apache-2.0
#include "simbox/conf.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"

#define RATE_MAX ((uint64_t)1 << 40)

static const char *const places[] = {"clustered", "declustered", NULL};
static const char *const drives[] = {"constant", "hdd", "sata", "nvme", NULL};
static const char *const methods[] = {"r_min", "r_hyb", "r_fco", "r_all", NULL};

#define C struct simbox_conf

const struct conf_key simbox_schema[] = {
	CONF_INT("virtual", "racks", C, racks, "6", 1, SIMBOX_RACKS_MAX, "racks of the cluster"),
	CONF_INT("virtual", "nodes", C, nodes, "1", 1, SIMBOX_NODES_MAX, "nodes of each rack"),
	CONF_INT("virtual", "disks", C, disks, "1", 1, SIMBOX_DISKS_MAX,
		 "disks of each node; with an mlec encoding each of them is a pool"),
	CONF_INT("virtual", "members", C, members, "0", 0, SIMBOX_MEMBERS_MAX,
		 "drives of a pool; 0: as many as a local stripe has chunks"),
	CONF_STRING("virtual", "encoding", C, encoding, "rs:4+2", 1, 40,
		    "code of the files: r3, rs:4+2, lrc:4+2+1, or mlec:2+1/4+1 for pools"),
	CONF_CHOICE("virtual", "network", C, network, "declustered", places,
		    "placement of a block's chunks on racks"),
	CONF_CHOICE("virtual", "local", C, local, "clustered", places,
		    "placement of a chunk's rows on the drives of a pool"),
	CONF_SIZE("virtual", "block", C, block_bytes, "16MiB", 64 * KIB, 64 * MIB,
		  "bytes of a block"),
	CONF_SIZE("virtual", "piece", C, piece_bytes, "64KiB", 4 * KIB, 16 * MIB,
		  "bytes of a chunk that lie in a row on one drive of a pool"),
	CONF_CHOICE("virtual", "drive", C, drive, "nvme", drives,
		    "the drives: constant (drive_rate and no seeks), or as hdd, sata or nvme"),
	CONF_SIZE("virtual", "drive_rate", C, drive_bytes_s, "0", 0, RATE_MAX,
		  "bytes per second of a drive; 0: the preset's (constant needs a number)"),
	CONF_SIZE("virtual", "rack_rate", C, rack_bytes_s, "0", 0, RATE_MAX,
		  "bytes per second of a rack's uplink, each way; 0: no cap"),
	CONF_SIZE(
		"virtual", "between_rate", C, between_bytes_s, "0", 0, RATE_MAX,
		"bytes per second between the storage and the training host, each way; 0: no cap"),
	CONF_SIZE("virtual", "client_rate", C, client_bytes_s, "0", 0, RATE_MAX,
		  "bytes per second of the training host's network card; 0: no cap"),
	CONF_INT("virtual", "file_samples", C, file_samples, "64", 1, 1000000,
		 "samples of each file of the data"),
	CONF_INT("virtual", "spread", C, spread_percent, "0", 0, 100,
		 "spread of the sizes of samples, which then have a file each: standard deviation "
		 "of the logarithm in percent (ImageNet: about 50); 0: all have data.sample bytes"),
	CONF_INT("virtual", "fail_members", C, fail_members, "0", 0, SIMBOX_MEMBERS_MAX,
		 "drives of the first pool that fail at the same time; 0: none"),
	CONF_DURATION("virtual", "fail_at", C, fail_ns, "0s", 0, 86400 * NS_PER_S,
		      "time after the begin of training at which they fail"),
	CONF_CHOICE("virtual", "repair", C, repair, "r_min", methods,
		    "how a pool that lost more than its code tolerates is repaired"),
	CONF_INT("virtual", "repair_percent", C, repair_percent, "20", 1, 100,
		 "percent of the bandwidth of drives and uplinks that repair may use"),
	CONF_DURATION("virtual", "round", C, round_ns, "5s", NS_PER_MS, 3600 * NS_PER_S,
		      "pause between two rounds of the janitor"),
	CONF_DURATION("virtual", "timeline", C, timeline_ns, "0s", 0, 3600 * NS_PER_S,
		      "count trained samples in intervals of this length (--json); 0: do not"),
	CONF_DURATION("virtual", "chunk_timeout", C, chunk_timeout_ns, "10s", NS_PER_MS,
		      3600 * NS_PER_S, "time that the read of a chunk may take"),
};
const size_t simbox_keys = ARRAY_LEN(simbox_schema);

static int refuse(struct strbuf *err, const char *fmt, ...) PRINTF(2, 3);
static int refuse(struct strbuf *err, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	(void)strbuf_puts(err, "[virtual] ");
	(void)strbuf_vprintf(err, fmt, args);
	va_end(args);
	return -EINVAL;
}

/* The columns of a block on two levels lie in racks of their own, and all chunks on disks of their own. */
static int room_check(const struct simbox_conf *c, struct strbuf *err)
{
	bool pools = simbox_pools(c);
	int64_t columns =
		pools ? c->code.mlec.net.k + c->code.mlec.net.p : encoding_total_chunks(&c->code);
	int64_t have = pools ? c->racks : c->racks * c->nodes * c->disks;
	if (columns > have)
		return refuse(err, "encoding = %s needs %lld %s; there are %lld", c->encoding,
			      (long long)columns, pools ? "racks" : "disks", (long long)have);
	return 0;
}

static int pool_check(struct simbox_conf *c, struct strbuf *err)
{
	int64_t width = c->code.mlec.local.k + c->code.mlec.local.p;
	if (c->members == 0)
		c->members = width;
	if (c->members < width)
		return refuse(err, "members = %lld: a local stripe of %s has %lld chunks",
			      (long long)c->members, c->encoding, (long long)width);
	if (c->local == 0 && c->members % width != 0)
		return refuse(
			err,
			"members = %lld: the drives of a clustered pool of %s are a multiple of "
			"%lld; set local = declustered",
			(long long)c->members, c->encoding, (long long)width);
	if (c->fail_members >= c->members)
		return refuse(err, "fail_members = %lld: the pool has %lld drives",
			      (long long)c->fail_members, (long long)c->members);
	return 0;
}

static int drive_check(struct simbox_conf *c, struct strbuf *err)
{
	static const struct drive_spec constant = {.name = "constant",
						   .size_bytes = (uint64_t)20 << 40,
						   .channels = 1,
						   .queue_depth = 32};
	const struct drive_spec *presets[] = {&constant, &drive_hdd, &drive_sata, &drive_nvme};
	c->spec = *presets[c->drive];
	if (c->drive == SIMBOX_CONSTANT && c->drive_bytes_s == 0)
		return refuse(err, "drive = constant needs drive_rate");
	if (c->drive_bytes_s != 0)
		c->spec.read_bytes_per_s = c->spec.write_bytes_per_s = c->drive_bytes_s;
	return 0;
}

int simbox_conf_check(struct simbox_conf *c, struct strbuf *err)
{
	char why[ENCODING_WHY_MAX];
	if (encoding_parse(c->encoding, &c->code, why, sizeof(why)) < 0)
		return refuse(err, "encoding: %s", why);
	if (c->racks * c->nodes > SIMBOX_NODES_MAX)
		return refuse(err, "%lld racks of %lld nodes are more than %d nodes",
			      (long long)c->racks, (long long)c->nodes, SIMBOX_NODES_MAX);
	int rc = room_check(c, err);
	if (rc < 0)
		return rc;
	if (simbox_pools(c)) {
		rc = pool_check(c, err);
		if (rc < 0)
			return rc;
	} else if (c->fail_members != 0 || c->members != 0) {
		return refuse(err, "members and fail_members need pools: an mlec encoding");
	}
	return drive_check(c, err);
}

void simbox_conf_free(struct simbox_conf *c)
{
	conf_free(simbox_schema, simbox_keys, c);
}
