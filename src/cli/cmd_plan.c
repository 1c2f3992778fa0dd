// SPDX-License-Identifier: Apache-2.0
/*
 * terrane plan: the settings and credentials of a new cluster on several machines, a folder for each. It talks to no
 * machine: the operator copies each folder to /etc/terrane of its machine.
 */
#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "box/box.h"
#include "cli/cli.h"
#include "cluster/choose.h"
#include "cluster/cluster.h"

#define HOSTS_MAX 200
#define DISKS_MAX 60
#define JANITORS 2
#define PORT_DEFAULT 7700
#define PATH_BYTES 4096

static const char usage_text[] =
	"usage: terrane plan --out FOLDER [options] ADDRESS[=RACK]...\n"
	"\n"
	"Makes the settings and credentials of a new cluster: in FOLDER a folder for each host, "
	"to\n"
	"be copied to /etc/terrane there. Each host gets a storage node with the same disks, the\n"
	"first host also the metadata server, the first two a janitor. Hosts without a RACK are\n"
	"racks of their own. Connections are authenticated and encrypted. Nothing is started.\n"
	"\n"
	"  --disk PATH      folder of a disk of each host, a drive of its own; once for each disk\n"
	"                   (default /srv/terrane/disk1)\n"
	"  --kind KIND      hdd (default), ssd or nvme\n"
	"  --encoding CODE  encoding of files that name none (default: one that the hosts bear)\n"
	"  --tenant NAME    the first tenant (default: default)\n"
	"  --port PORT      of the metadata server; nodes use the next one (default 7700). "
	"Metrics\n"
	"                   are on loopback, 10 ports higher\n"
	"  --etc FOLDER     where the files will be on the hosts (default /etc/terrane)\n"
	"  --state FOLDER   folder of the metadata store (default /var/lib/terrane)\n"
	"\n"
	"FOLDER/keys has all keys of the cluster: keep it, away from the hosts. See deploy.md.\n";

struct plan {
	const char *out, *etc, *state, *tenant, *kind;
	char encoding[ENCODING_TEXT_MAX];
	char *disk[DISKS_MAX];
	size_t disks;
	struct {
		char address[128], rack[64];
	} host[HOSTS_MAX];
	size_t hosts;
	uint32_t rack_disks[HOSTS_MAX]; /* of each rack */
	size_t racks;
	long port;
	struct box box; /* its keys */
};

/* --- what the hosts bear ------------------------------------------------------------------------ */

/* Counts the disks of each rack. */
static void count_racks(struct plan *p)
{
	p->racks = 0;
	for (size_t i = 0; i < p->hosts; i++) {
		size_t rack = 0, first = 0;
		while (strcmp(p->host[first].rack, p->host[i].rack) != 0)
			first++;
		for (size_t k = 0; k < first; k++) {
			bool seen = false;
			for (size_t l = 0; l < k; l++)
				seen = seen || strcmp(p->host[l].rack, p->host[k].rack) == 0;
			rack += !seen;
		}
		if (first == i)
			p->rack_disks[p->racks++] = 0;
		p->rack_disks[rack] += (uint32_t)p->disks;
	}
	assert(p->racks >= 1 && p->racks <= p->hosts);
}

/* Returns the most chunks of a block in one rack; 0: the encoding does not survive the loss of a rack. */
static uint32_t most_in_rack(const struct plan *p, const struct encoding *e)
{
	struct cluster_spread s = {.width = cluster_width(e),
				   .tolerance = cluster_tolerance(e),
				   .racks = (uint32_t)p->racks};
	s.rack_most = cluster_rack_most(p->rack_disks, p->racks, s.width);
	return cluster_spread_accepted(&s) ? s.rack_most : 0;
}

static bool accepts(void *ctx, const struct encoding *e)
{
	return most_in_rack(ctx, e) > 0;
}

/* Whether each chunk of a block has a rack of its own: the loss of a rack is then the loss of one chunk. */
static bool accepts_alone(void *ctx, const struct encoding *e)
{
	return most_in_rack(ctx, e) == 1;
}

static int choose_encoding(struct plan *p)
{
	char fits[CLUSTER_FITTING_TEXT], why[ENCODING_WHY_MAX];
	struct encoding e;
	cluster_fitting(fits, accepts_alone, p);
	if (fits[0] == 0 || p->encoding[0] != 0)
		cluster_fitting(fits, accepts, p);
	if (p->encoding[0] == 0 && fits[0] == 0)
		return cli_fail("these hosts have too few disks for an encoding that survives the "
				"loss of one: add hosts or disks");
	if (p->encoding[0] == 0)
		snprintf(p->encoding, sizeof(p->encoding), "%.*s", (int)strcspn(fits, " "), fits);
	if (encoding_parse(p->encoding, &e, why, sizeof(why)) < 0)
		return cli_usage("plan --encoding %s: %s", p->encoding, why);
	if (!accepts(p, &e))
		return cli_fail("--encoding %s does not survive the loss of a rack with %zu disks "
				"in %zu racks; %s fits",
				p->encoding, p->hosts * p->disks, p->racks,
				fits[0] != 0 ? fits : "nothing");
	return CLI_OK;
}

/* --- files -------------------------------------------------------------------------------------- */

static FILE *file_new(const struct plan *p, size_t host, const char *name)
{
	char path[PATH_BYTES];
	int n = snprintf(path, sizeof(path), "%s/%s/%s", p->out, p->host[host].address, name);
	return n < 0 || (size_t)n >= sizeof(path) ? NULL : fopen(path, "wxe");
}

static int file_end(FILE *f)
{
	bool bad = ferror(f) != 0;
	return fclose(f) != 0 || bad ? -EIO : 0;
}

static void security(FILE *f, const struct plan *p, const char *role)
{
	fprintf(f, "[security]\ncredentials = %s/%s.key\ntls = on\n", p->etc, role);
}

static int write_meta(const struct plan *p)
{
	FILE *f = file_new(p, 0, "meta.ini");
	if (f == NULL)
		return -errno;
	fprintf(f, "[meta]\nlisten = %s:%ld\nmetrics = 127.0.0.1:%ld\nthreads = auto\n",
		p->host[0].address, p->port, p->port + 10);
	fprintf(f, "[cluster]\nformat = true\nid = %s\ntenant = %s\n", p->box.shape.cluster,
		p->tenant);
	fprintf(f, "[store]\nengine = rocksdb\ndir = %s/meta\n", p->state);
	security(f, p, "meta");
	fprintf(f, "identity = " BOX_ADMIN "\nidentity = janitor\n");
	for (size_t i = 0; i < p->hosts; i++)
		fprintf(f, "identity = node-%zu\n", i + 1);
	return file_end(f);
}

static int write_node(const struct plan *p, size_t host)
{
	char name[40];
	snprintf(name, sizeof(name), "node-%zu.ini", host + 1);
	FILE *f = file_new(p, host, name);
	if (f == NULL)
		return -errno;
	fprintf(f, "[node]\ncluster = %s\nid = %zu\nname = %s\nrack = %s\n", p->box.shape.cluster,
		host + 1, p->host[host].address, p->host[host].rack);
	fprintf(f, "listen = %s:%ld\nmetrics = 127.0.0.1:%ld\nmetadata = %s:%ld\nthreads = auto\n",
		p->host[host].address, p->port + 1, p->port + 11, p->host[0].address, p->port);
	fprintf(f, "[disks]\nkind = %s\n", p->kind);
	for (size_t d = 0; d < p->disks; d++)
		fprintf(f, "disk = %zu %s\n", (host + 1) * 1000 + d + 1, p->disk[d]);
	snprintf(name, sizeof(name), "node-%zu", host + 1);
	security(f, p, name);
	return file_end(f);
}

static int write_janitor(const struct plan *p, size_t host)
{
	FILE *f = file_new(p, host, "janitor.ini");
	if (f == NULL)
		return -errno;
	fprintf(f,
		"[janitor]\nmetadata = %s:%ld\nmetrics = 127.0.0.1:%ld\nrack = %s\nthreads = "
		"auto\n",
		p->host[0].address, p->port, p->port + 12, p->host[host].rack);
	security(f, p, "janitor");
	return file_end(f);
}

static int write_cluster(const struct plan *p, size_t host)
{
	FILE *f = file_new(p, host, "cluster.ini");
	if (f == NULL)
		return -errno;
	fprintf(f,
		"[cluster]\nid = %s\nmetadata = %s:%ld\ncredentials = %s/" BOX_ADMIN
		".key\ntls = on\n[client]\ntenant = %s\nencoding = %s\n",
		p->box.shape.cluster, p->host[0].address, p->port, p->etc, p->tenant, p->encoding);
	return file_end(f);
}

/* Copies the credentials of a role to the folder of a host, for its owner alone. */
static int copy_key(const struct plan *p, size_t host, const char *role)
{
	char from[PATH_BYTES], name[60], bytes[16384];
	int n = snprintf(from, sizeof(from), "%s/keys/%s.key", p->out, role);
	snprintf(name, sizeof(name), "%s.key", role);
	if (n < 0 || (size_t)n >= sizeof(from))
		return -ENAMETOOLONG;
	FILE *in = fopen(from, "re");
	if (in == NULL)
		return -errno;
	size_t len = fread(bytes, 1, sizeof(bytes), in);
	int rc = ferror(in) != 0 ? -EIO : len == sizeof(bytes) ? -EFBIG : 0;
	fclose(in);
	mode_t before = umask(0077);
	FILE *to = rc == 0 ? file_new(p, host, name) : NULL;
	if (rc == 0 && to == NULL)
		rc = -errno;
	umask(before);
	if (to != NULL && fwrite(bytes, 1, len, to) != len)
		rc = -EIO;
	if (to != NULL && file_end(to) < 0)
		rc = -EIO;
	explicit_bzero(bytes, sizeof(bytes));
	return rc;
}

static int write_host(const struct plan *p, size_t host)
{
	char path[PATH_BYTES], node[40];
	snprintf(node, sizeof(node), "node-%zu", host + 1);
	int n = snprintf(path, sizeof(path), "%s/%s", p->out, p->host[host].address);
	int rc = n < 0 || (size_t)n >= sizeof(path) ? -ENAMETOOLONG
		 : mkdir(path, 0700) < 0            ? -errno
						    : write_node(p, host);
	if (rc == 0)
		rc = copy_key(p, host, node);
	if (rc == 0 && host < JANITORS)
		rc = write_janitor(p, host);
	if (rc == 0 && host < JANITORS)
		rc = copy_key(p, host, "janitor");
	if (rc == 0 && host == 0)
		rc = write_meta(p);
	if (rc == 0 && host == 0)
		rc = copy_key(p, host, "meta");
	if (rc == 0 && host == 0)
		rc = write_cluster(p, host);
	return rc == 0 && host == 0 ? copy_key(p, host, BOX_ADMIN) : rc;
}

/* --- the command -------------------------------------------------------------------------------- */

static int make_keys(struct plan *p)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	uint64_t id[2];
	char text[33];
	if (getrandom(id, sizeof(id), 0) != (ssize_t)sizeof(id))
		return cli_fail("no random numbers: %s", err_text(-errno));
	snprintf(text, sizeof(text), "%016lx%016lx", id[0], id[1] | 1);
	p->box.shape.cluster = strdup(text);
	p->box.shape.nodes = p->box.shape.racks = (int64_t)p->hosts;
	p->box.shape.disks = (int64_t)p->disks;
	p->box.shape.security = p->box.shape.tls = BOX_SECURITY_ON;
	int rc = box_claim(&p->box, p->out, &err);
	if (rc == 0 && !box_may_make(&p->box))
		return cli_fail("%s is not empty: name a new folder", p->out);
	if (rc == 0)
		rc = box_keys_make(&p->box, &err);
	return rc < 0 ? cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc)) : CLI_OK;
}

static int make(struct plan *p)
{
	count_racks(p);
	int status = choose_encoding(p);
	if (status == CLI_OK)
		status = make_keys(p);
	if (status != CLI_OK)
		return status;
	for (size_t i = 0; i < p->hosts; i++) {
		int rc = write_host(p, i);
		if (rc < 0)
			return cli_fail("cannot write %s/%s: %s", p->out, p->host[i].address,
					err_text(rc));
	}
	printf("%zu hosts in %zu racks, %zu disks; files are stored as %s\n", p->hosts, p->racks,
	       p->hosts * p->disks, p->encoding);
	printf("copy %s/ADDRESS to %s of each host; then, as deploy.md tells:\n", p->out, p->etc);
	printf("  %s  systemctl enable --now terrane-meta\n", p->host[0].address);
	printf("  each host N  terrane node format --config %s/node-N.ini; systemctl enable --now "
	       "terrane-node@N\n",
	       p->etc);
	printf("  %s and the next  systemctl enable --now terrane-janitor\n", p->host[0].address);
	return CLI_OK;
}

static int add_host(struct plan *p, const char *word)
{
	const char *rack = strchr(word, '=');
	size_t len = rack != NULL ? (size_t)(rack - word) : strlen(word);
	if (p->hosts == HOSTS_MAX)
		return cli_usage("plan: more than %d hosts", HOSTS_MAX);
	if (len == 0 || len >= sizeof(p->host[0].address) || word[0] == '.' ||
	    strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") < len)
		return cli_usage("plan: \"%.*s\" is no name or IPv4 address of a host", (int)len,
				 word);
	if (rack != NULL && (rack[1] == 0 || strlen(rack + 1) >= sizeof(p->host[0].rack)))
		return cli_usage("plan: \"%s\" names no rack", word);
	for (size_t i = 0; i < p->hosts; i++)
		if (strlen(p->host[i].address) == len && memcmp(p->host[i].address, word, len) == 0)
			return cli_usage("plan: %s is named twice", p->host[i].address);
	snprintf(p->host[p->hosts].address, sizeof(p->host[0].address), "%.*s", (int)len, word);
	if (rack != NULL)
		snprintf(p->host[p->hosts].rack, sizeof(p->host[0].rack), "%s", rack + 1);
	else
		snprintf(p->host[p->hosts].rack, sizeof(p->host[0].rack), "rack-%zu", p->hosts + 1);
	p->hosts++;
	return CLI_OK;
}

static int option(struct plan *p, int c, char *value)
{
	static char *const kinds[] = {(char *)"hdd", (char *)"ssd", (char *)"nvme"};
	char *end;
	bool known = false;
	switch (c) {
	case 'o':
		p->out = value;
		return CLI_OK;
	case 'e':
		snprintf(p->encoding, sizeof(p->encoding), "%s", value);
		return CLI_OK;
	case 't':
		p->tenant = value;
		return CLI_OK;
	case 'E':
		p->etc = value;
		return CLI_OK;
	case 's':
		p->state = value;
		return CLI_OK;
	case 'd':
		if (p->disks == DISKS_MAX)
			return cli_usage("plan: more than %d disks", DISKS_MAX);
		p->disk[p->disks++] = value;
		return value[0] == '/' ? CLI_OK : cli_usage("plan --disk needs an absolute path");
	case 'k':
		for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
			known = known || strcmp(value, kinds[i]) == 0;
		p->kind = value;
		return known ? CLI_OK : cli_usage("plan --kind is hdd, ssd or nvme");
	default:
		p->port = strtol(value, &end, 10);
		return *end == 0 && p->port >= 1 && p->port <= 65000
			       ? CLI_OK
			       : cli_usage("plan --port needs a number from 1 to 65000");
	}
}

int cmd_plan(int argc, char **argv)
{
	static const struct option options[] = {
		{"out", required_argument, NULL, 'o'},
		{"disk", required_argument, NULL, 'd'},
		{"kind", required_argument, NULL, 'k'},
		{"encoding", required_argument, NULL, 'e'},
		{"tenant", required_argument, NULL, 't'},
		{"port", required_argument, NULL, 'p'},
		{"etc", required_argument, NULL, 'E'},
		{"state", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	AUTO_FREE struct plan *p = calloc(1, sizeof(*p));
	int c, status = CLI_OK;
	if (p == NULL)
		return cli_fail("out of memory");
	p->etc = "/etc/terrane";
	p->state = "/var/lib/terrane";
	p->tenant = "default";
	p->kind = "hdd";
	p->port = PORT_DEFAULT;
	while (status == CLI_OK && (c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'h')
			return fputs(usage_text, stdout) < 0 ? CLI_FAILED : CLI_OK;
		status = c == '?' ? CLI_USAGE : option(p, c, optarg);
	}
	for (int i = optind; status == CLI_OK && i < argc; i++)
		status = add_host(p, argv[i]);
	if (p->disks == 0)
		p->disk[p->disks++] = (char *)"/srv/terrane/disk1";
	if (status == CLI_OK && (p->out == NULL || p->hosts == 0))
		status = cli_usage("plan needs --out FOLDER and the addresses of hosts");
	if (status == CLI_OK)
		status = make(p);
	free(p->box.shape.cluster);
	return status;
}
