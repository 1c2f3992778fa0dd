// SPDX-License-Identifier: Apache-2.0
/*
 * terrane support: an archive of what helps to find a fault. Files of keys are never read into it, and every text passes
 * redact_line, which removes words that look like key material: so a secret that a log or a setting has by mistake stays
 * here.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <glob.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/doctor.h"
#include "cli/redact.h"
#include "cli/role_conf.h"
#include "cli/status.h"

#define BLOCK 512
#define OCTAL_11 0x1fffffffful /* what eleven octal digits hold */
#define LOG_TAIL_BYTES (512 * KIB)

static const char usage_text[] =
	"usage: terrane support ARCHIVE.tar [-c FILE | --dir BOX]\n"
	"\n"
	"Collects what helps to find a fault into an archive that you can look through and send:\n"
	"the findings of terrane doctor, settings, the cluster map, the last 512 KiB of each log,\n"
	"facts about the machine. Keys, credentials and tokens are not in it: their files are not\n"
	"read, and words that look like keys are removed from all texts. Names of hosts, users,\n"
	"tenants and paths are in it.\n"
	"\n"
	"  -c, --cluster FILE  the cluster file (default: $TERRANE_CLUSTER, else ./cluster.ini)\n"
	"  --dir BOX           the cluster in this folder, its settings and logs (default: those "
	"in\n"
	"                      /etc/terrane and /var/log/terrane)\n";

struct archive {
	FILE *out;
	int rc; /* first error */
	unsigned files;
};

/* --- the archive: ustar ------------------------------------------------------------------------- */

static void pad(struct archive *a, size_t len)
{
	static const char zeros[BLOCK];
	size_t rest = len % BLOCK;
	if (rest > 0 && fwrite(zeros, BLOCK - rest, 1, a->out) != 1)
		a->rc = -errno;
}

static void add_text(struct archive *a, const char *name, const char *text, size_t len)
{
	char h[BLOCK] = {0};
	unsigned sum = 8 * ' '; /* the checksum counts as blanks */
	if (a->rc != 0)
		return;
	snprintf(h, 100, "terrane-support/%s", name);
	memcpy(h + 100, "0000600", 8);
	memcpy(h + 108, "0000000", 8);
	memcpy(h + 116, "0000000", 8);
	snprintf(h + 124, 12, "%011lo", (unsigned long)len & OCTAL_11);
	snprintf(h + 136, 12, "%011lo", (unsigned long)time(NULL) & OCTAL_11);
	h[156] = '0';
	memcpy(h + 257, "ustar", 6);
	h[263] = h[264] = '0';
	for (size_t i = 0; i < BLOCK; i++)
		sum += (unsigned char)h[i];
	snprintf(h + 148, 8, "%06o", sum);
	if (fwrite(h, BLOCK, 1, a->out) != 1 || (len > 0 && fwrite(text, len, 1, a->out) != 1))
		a->rc = -errno;
	pad(a, len);
	a->files++;
}

/* Adds a text without what looks like a key. Lines are changed in place. */
static void add(struct archive *a, const char *name, char *text)
{
	for (char *line = text; *line != 0;) {
		char *end = strchrnul(line, '\n');
		redact_line(line, (size_t)(end - line));
		line = *end == 0 ? end : end + 1;
	}
	add_text(a, name, text, strlen(text));
}

static void add_json(struct archive *a, const char *name, const json_t *o)
{
	AUTO_FREE char *text = o == NULL ? NULL : json_dumps(o, JSON_INDENT(1));
	if (text != NULL)
		add(a, name, text);
}

/* Adds the last bytes of a file, from a begin of a line on. A file that cannot be read is left out. */
static void add_file(struct archive *a, const char *name, const char *path)
{
	FILE *f = fopen(path, "re");
	struct stat st;
	if (f == NULL)
		return;
	AUTO_FREE char *text = malloc(LOG_TAIL_BYTES + 1);
	bool tail = fstat(fileno(f), &st) == 0 && st.st_size > (off_t)LOG_TAIL_BYTES &&
		    fseek(f, -(long)LOG_TAIL_BYTES, SEEK_END) == 0;
	size_t n = text == NULL ? 0 : fread(text, 1, LOG_TAIL_BYTES, f);
	fclose(f);
	if (text == NULL)
		return;
	text[n] = 0;
	for (size_t i = 0; i < n; i++)
		if (text[i] == 0)
			text[i] = '?';
	const char *begin = tail ? strchr(text, '\n') : NULL;
	add(a, name, begin == NULL ? text : text + (begin + 1 - text));
}

/* --- what goes in ------------------------------------------------------------------------------- */

static void add_machine(struct archive *a)
{
	struct utsname u = {0};
	char text[1000];
	(void)uname(&u);
	snprintf(text, sizeof(text), "terrane %s\n%s %s %s %s\n%ld processors\n", TERRANE_VERSION,
		 u.sysname, u.release, u.version, u.machine, sysconf(_SC_NPROCESSORS_ONLN));
	add(a, "machine.txt", text);
	add_file(a, "meminfo.txt", "/proc/meminfo");
	add_file(a, "limits.txt", "/proc/self/limits");
	add_file(a, "mounts.txt", "/proc/mounts");
	add_file(a, "os-release.txt", "/etc/os-release");
}

static void add_settings(struct archive *a, const char *pattern)
{
	glob_t found = {0};
	if (glob(pattern, 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++) {
			char name[80];
			struct role_conf c;
			AUTO_STRBUF struct strbuf err;
			strbuf_init(&err, 4096);
			snprintf(name, sizeof(name), "settings/%.60s", basename(found.gl_pathv[i]));
			if (role_conf_load(found.gl_pathv[i], &c, &err) == 0)
				add_json(a, name, c.all);
			role_conf_free(&c);
		}
	globfree(&found);
}

static void add_logs(struct archive *a, const char *pattern)
{
	glob_t found = {0};
	if (glob(pattern, 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++) {
			char name[80];
			snprintf(name, sizeof(name), "logs/%.60s", basename(found.gl_pathv[i]));
			add_file(a, name, found.gl_pathv[i]);
		}
	globfree(&found);
}

static int add_cluster(struct admin *a)
{
	struct archive *to = a->ctx;
	struct cluster *map = admin_map(a);
	size_t n = 0;
	AUTO_JSON json_t *all_nodes = json_array();
	AUTO_JSON json_t *all_disks = json_array();
	if (map == NULL)
		return CLI_OK;
	AUTO_FREE const struct cluster_node **nodes = admin_nodes(map, &n);
	for (size_t i = 0; nodes != NULL && i < n; i++)
		json_array_append_new(all_nodes, status_node_json(map, nodes[i]));
	AUTO_FREE const struct cluster_disk **disks = admin_disks(map, &n);
	for (size_t i = 0; disks != NULL && i < n; i++)
		json_array_append_new(all_disks, status_disk_json(map, disks[i]));
	add_json(to, "nodes.json", all_nodes);
	add_json(to, "disks.json", all_disks);
	return CLI_OK;
}

static void collect(struct archive *a, const struct admin_where *where)
{
	AUTO_JSON json_t *findings = json_array();
	struct doctor d = {.findings = findings};
	add_machine(a);
	if (doctor_knows_cluster(where))
		(void)admin_run(where, add_cluster, a);
	(void)doctor_examine(&d, where, NULL, 0); /* changes the working folder to that of a box */
	add_json(a, "doctor.json", findings);
	add_settings(a, where->dir != NULL ? "conf/*.ini" : "/etc/terrane/*.ini");
	add_logs(a, where->dir != NULL ? "log/*.log" : "/var/log/terrane/*.log");
}

static int write_archive(const char *path, const struct admin_where *where)
{
	static const char end[2 * BLOCK];
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct archive a = {.out = fd < 0 ? NULL : fdopen(fd, "w")};
	if (a.out == NULL)
		return cli_fail("cannot make %s: %s", path, err_text(-errno));
	collect(&a, where);
	if (fwrite(end, sizeof(end), 1, a.out) != 1 || fflush(a.out) != 0)
		a.rc = a.rc != 0 ? a.rc : -errno;
	if (fclose(a.out) != 0 && a.rc == 0)
		a.rc = -errno;
	if (a.rc != 0)
		return cli_fail("cannot write %s: %s", path, err_text(a.rc));
	printf("%u files in %s; look through it before you send it\n", a.files, path);
	return CLI_OK;
}

int cmd_support(int argc, char **argv)
{
	static const struct option options[] = {
		{"cluster", required_argument, NULL, 'c'},
		{"dir", required_argument, NULL, 'd'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct admin_where where = {0};
	int c;
	while ((c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (c == 'c')
			where.file = optarg;
		else if (c == 'd')
			where.dir = optarg;
		else if (c == 'h')
			return fputs(usage_text, stdout) < 0 ? CLI_FAILED : CLI_OK;
		else
			return CLI_USAGE;
	}
	if (argc - optind != 1)
		return cli_usage("support needs the name of the archive to make");
	return write_archive(argv[optind], &where);
}
