// SPDX-License-Identifier: Apache-2.0
/* terrane doctor: what is wrong with this machine, its settings and the cluster, and what to do about it. */
#include <errno.h>
#include <getopt.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/doctor.h"
#include "cluster/cluster.h"
#include "rt/rt.h"

#define SETTINGS "/etc/terrane/*.ini"
#define TEXT_MAX 1000

static const char usage_text[] =
	"usage: terrane doctor [FILE...] [-c FILE | --dir BOX] [--json]\n"
	"\n"
	"Looks for what keeps Terrane from working on this machine: kernel, limits, clock,\n"
	"memory; for each FILE with settings of a process its folders, space, ports, credentials\n"
	"and certificates; and the cluster, if there is one. Changes nothing. Run it as the user\n"
	"of the services.\n"
	"\n"
	"  FILE                settings of processes (default: /etc/terrane/*.ini; with --dir all\n"
	"                      of the box)\n"
	"  -c, --cluster FILE  the cluster file (default: $TERRANE_CLUSTER, else ./cluster.ini)\n"
	"  --dir BOX           the cluster in this folder\n"
	"  --json              print JSON\n"
	"\n"
	"Each finding that is not ok has its remedy. Ends with 1 if one is an error.\n";

static const char *const states[] = {"ok", "warning", "error"};

void doctor_add(struct doctor *d, const struct doctor_finding *f, const char *fmt, ...)
{
	char text[TEXT_MAX];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	const char *remedy = f->state != DOCTOR_OK && f->remedy != NULL ? f->remedy : "";
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s}", "check", f->check, "object", f->object,
			      "state", states[f->state], "text", text, "remedy", remedy);
	bool lost = o == NULL || json_array_append_new(d->findings, o) < 0;
	if (lost || f->state > d->worst)
		d->worst = lost ? DOCTOR_ERROR : f->state;
}

/* --- the cluster -------------------------------------------------------------------------------- */

static void nodes(struct doctor *d, const struct cluster *c)
{
	unsigned bad = 0, all = 0;
	map_for_each(&c->nodes, it) {
		const struct cluster_node *n = it.value;
		enum cluster_state state = cluster_node_state(n);
		all += state != CLUSTER_GONE;
		if (state != CLUSTER_SUSPECT && state != CLUSTER_FAILED)
			continue;
		bad++;
		doctor_add(d,
			   &(struct doctor_finding){"node", n->name, DOCTOR_ERROR,
						    "start it: systemctl start terrane-node@N on "
						    "its machine; its log tells why it ended"},
			   "sends no heartbeats");
	}
	if (bad == 0)
		doctor_add(d, &(struct doctor_finding){"node", "", DOCTOR_OK, NULL},
			   "all %u nodes are online", all);
	map_for_each(&c->disks, at) {
		const struct cluster_disk *k = at.value;
		enum cluster_state state = cluster_disk_state(c, k);
		char name[24];
		snprintf(name, sizeof(name), "%lu", k->id);
		if (state == CLUSTER_FULL || (state == CLUSTER_FAILED && k->wanted != CLUSTER_GONE))
			doctor_add(d,
				   &(struct doctor_finding){
					   "disk", name, DOCTOR_ERROR,
					   state == CLUSTER_FULL ? "add disks, or delete files"
								 : "operations.md, Replace a disk"},
				   "%s", state == CLUSTER_FULL ? "full" : "failed");
	}
}

static int look_at_cluster(struct admin *a)
{
	struct doctor *d = a->ctx;
	struct meta_call c = {.client = a->client};
	struct meta_gc_state gc;
	struct cluster *map = NULL;
	rt_deadline_set(rt_now_ns() + 10 * NS_PER_S);
	int rc = meta_client_gc_state(&c, &gc);
	if (rc == 0)
		rc = meta_client_map(&c, 0, &map);
	if (rc < 0) {
		doctor_add(d,
			   &(struct doctor_finding){
				   "metadata", "", DOCTOR_ERROR,
				   "start the metadata server: systemctl start terrane-meta; if it "
				   "runs, compare its address with the cluster file"},
			   "does not answer: %s", c.error[0] != 0 ? c.error : err_text(rc));
		return CLI_OK;
	}
	doctor_add(d, &(struct doctor_finding){"metadata", "", DOCTOR_OK, NULL}, "answers");
	if (gc.held)
		doctor_add(d,
			   &(struct doctor_finding){"collection", "", DOCTOR_WARNING,
						    "terrane gc resume, when its reason is over"},
			   "held: %s", gc.why);
	nodes(d, map);
	return CLI_OK;
}

/* --- output ------------------------------------------------------------------------------------- */

static const char *field(const json_t *finding, const char *key)
{
	const char *text = json_string_value(json_object_get(finding, key));
	return text != NULL ? text : "";
}

static void tell(const struct doctor *d)
{
	size_t n = json_array_size(d->findings);
	for (size_t i = 0; i < n; i++) {
		const json_t *f = json_array_get(d->findings, i);
		const char *object = field(f, "object");
		printf("%-8s %-11s %s%s%s\n", field(f, "state"), field(f, "check"), object,
		       object[0] != 0 ? ": " : "", field(f, "text"));
		if (field(f, "remedy")[0] != 0)
			printf("%21s-> %s\n", "", field(f, "remedy"));
	}
}

static void settings(struct doctor *d, const char *pattern)
{
	glob_t found = {0};
	if (glob(pattern, 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++)
			if (strstr(found.gl_pathv[i], "cluster.ini") == NULL)
				doctor_role(d, found.gl_pathv[i]);
	globfree(&found);
}

bool doctor_knows_cluster(const struct admin_where *where)
{
	return where->file != NULL || where->dir != NULL || getenv("TERRANE_CLUSTER") != NULL ||
	       access("cluster.ini", R_OK) == 0;
}

int doctor_examine(struct doctor *d, const struct admin_where *where, char **files, int n)
{
	doctor_machine(d);
	for (int i = 0; i < n; i++)
		doctor_role(d, files[i]);
	int status = doctor_knows_cluster(where) ? admin_run(where, look_at_cluster, d) : CLI_OK;
	if (n == 0 && where->dir == NULL)
		settings(d, SETTINGS);
	/* Paths in the settings of a box are relative to its folder. */
	if (n == 0 && where->dir != NULL && chdir(where->dir) == 0)
		settings(d, "conf/*.ini");
	return status;
}

int cmd_doctor(int argc, char **argv)
{
	static const struct option options[] = {
		{"cluster", required_argument, NULL, 'c'},
		{"dir", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct admin_where where = {0};
	bool json = false;
	int c;
	while ((c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (c == 'c')
			where.file = optarg;
		else if (c == 'd')
			where.dir = optarg;
		else if (c == 'j')
			json = true;
		else if (c == 'h')
			return fputs(usage_text, stdout) < 0 ? CLI_FAILED : CLI_OK;
		else
			return CLI_USAGE;
	}
	AUTO_JSON json_t *findings = json_array();
	struct doctor d = {.findings = findings};
	int status = doctor_examine(&d, &where, argv + optind, argc - optind);
	if (json && json_emit(stdout, findings) < 0)
		return cli_fail("cannot write the output");
	if (!json)
		tell(&d);
	return d.worst == DOCTOR_ERROR ? CLI_FAILED : status;
}
