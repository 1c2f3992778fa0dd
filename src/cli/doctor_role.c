// SPDX-License-Identifier: Apache-2.0
/* The settings of one process, and what they name on this machine. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/doctor.h"
#include "cli/fs.h"
#include "cli/role_conf.h"

#define SPACE_MIN 0.1 /* share of a filesystem that should be free */
#define DISKS_MAX 512

struct looked {
	struct doctor *d;
	const struct role_conf *c;
	dev_t devices[DISKS_MAX]; /* of the disks looked at so far */
	size_t device_count;
};

/* --- folders ------------------------------------------------------------------------------------ */

static void space(struct doctor *d, const char *check, const char *dir)
{
	char size[FS_SIZE_TEXT];
	struct statvfs v;
	if (statvfs(dir, &v) < 0 || v.f_blocks == 0)
		return;
	double part = (double)v.f_bavail / (double)v.f_blocks;
	doctor_add(d,
		   &(struct doctor_finding){
			   check, dir, part < SPACE_MIN ? DOCTOR_WARNING : DOCTOR_OK,
			   "free space or add disks; terrane gc status tells what is deleted and "
			   "still takes space"},
		   "%s free, %.0f%%", fs_size(size, (double)v.f_bavail * (double)v.f_frsize),
		   100 * part);
}

/* Looks at a folder of a process. Returns whether it can be used. */
static bool folder(struct doctor *d, const char *check, const char *dir, struct stat *st)
{
	bool there = stat(dir, st) == 0;
	const char *why = err_text(-errno);
	if (!there || !S_ISDIR(st->st_mode)) {
		doctor_add(
			d,
			&(struct doctor_finding){
				check, dir, DOCTOR_ERROR,
				"mount the drive, or make the folder for the user of the service"},
			"cannot be used: %s", there ? "it is not a folder" : why);
		return false;
	}
	if (access(dir, R_OK | W_OK | X_OK) < 0) {
		doctor_add(
			d,
			&(struct doctor_finding){check, dir, DOCTOR_ERROR,
						 "run terrane doctor as the user of the service, "
						 "or chown the folder to it"},
			"this user may not write there");
		return false;
	}
	return true;
}

/* Looks at the folder of a disk: "NUMBER PATH" in the settings, and options behind. */
static void disk(struct looked *l, const char *line)
{
	char path[1100];
	struct stat st;
	if (sscanf(line, "%*s %1099s", path) != 1 || !folder(l->d, "disk", path, &st))
		return;
	bool shared = false;
	for (size_t i = 0; i < l->device_count; i++)
		shared = shared || l->devices[i] == st.st_dev;
	assert(l->device_count <= DISKS_MAX);
	if (l->device_count < DISKS_MAX)
		l->devices[l->device_count++] = st.st_dev;
	if (shared)
		doctor_add(l->d,
			   &(struct doctor_finding){
				   "disk", path, DOCTOR_WARNING,
				   "give each disk a drive of its own: two disks on one drive are "
				   "lost together, and Terrane does not know"},
			   "shares its drive with another disk of this node");
	space(l->d, "disk", path);
}

static void disks(struct looked *l)
{
	const json_t *key = json_object_get(json_object_get(l->c->all, "disks"), "disk");
	const char *text = json_string_value(json_object_get(key, "text"));
	char *copy = strdup(text != NULL ? text : ""), *save = NULL;
	for (char *line = copy == NULL ? NULL : strtok_r(copy, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save))
		disk(l, line);
	const json_t *values = json_object_get(key, "value");
	size_t n = json_is_array(values) ? json_array_size(values) : 0;
	for (size_t i = 0; l->device_count == 0 && i < n; i++)
		disk(l, json_string_value(json_array_get(values, i)));
	free(copy);
}

/* --- addresses ---------------------------------------------------------------------------------- */

/* Returns 0 if a socket can be bound to the address, else -errno. */
static int try_bind(const char *addr)
{
	char host[300];
	const char *colon = strrchr(addr, ':');
	struct addrinfo *a = NULL, hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	if (colon == NULL || (size_t)(colon - addr) >= sizeof(host))
		return -EINVAL;
	bool v6 = addr[0] == '[' && colon > addr && colon[-1] == ']';
	snprintf(host, sizeof(host), "%.*s", (int)(colon - addr - (v6 ? 2 : 0)),
		 addr + (v6 ? 1 : 0));
	if (getaddrinfo(host, colon + 1, &hints, &a) != 0)
		return -EADDRNOTAVAIL;
	int on = 1, rc = 0, s = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
	if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(s, a->ai_addr, a->ai_addrlen) < 0)
		rc = -errno;
	if (s >= 0)
		close(s);
	freeaddrinfo(a);
	return rc;
}

static void port(struct looked *l, const char *key)
{
	const char *addr = role_conf_text(l->c, l->c->kind->name, key);
	if (addr[0] == 0 || strncmp(addr, "unix:", 5) == 0)
		return;
	int rc = try_bind(addr);
	struct doctor_finding f = {"port", addr, DOCTOR_OK, NULL};
	if (rc == 0) {
		doctor_add(l->d, &f, "free: the %s does not run", l->c->kind->name);
	} else if (rc == -EADDRINUSE) {
		doctor_add(l->d, &f, "in use: by the %s, if it runs", l->c->kind->name);
	} else {
		f.state = DOCTOR_ERROR;
		f.remedy = rc == -EACCES ? "choose a port from 1024 on"
					 : "choose an address of this machine";
		doctor_add(l->d, &f, "%s of the %s cannot be used: %s", key, l->c->kind->name,
			   err_text(rc));
	}
}

/* --- all of a role ------------------------------------------------------------------------------ */

static void secrets(struct looked *l)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	int rc = role_conf_security(l->c, &err);
	bool plain = role_conf_text(l->c, "security", "credentials")[0] == 0;
	doctor_add(
		l->d,
		&(struct doctor_finding){
			"credentials", l->c->path,
			rc < 0 || plain ? DOCTOR_WARNING + (rc < 0) : DOCTOR_OK,
			rc < 0 ? "security.md tells how credentials and certificates are made "
				 "and replaced"
			       : "set credentials in [security]: whoever reaches this process may "
				 "do everything"},
		"%s",
		rc < 0  ? err.len > 0 ? strbuf_text(&err) : err_text(rc)
		 : plain ? "none, so nobody is authenticated"
			: "credentials and certificates are valid");
}

void doctor_role(struct doctor *d, const char *path)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	struct role_conf c;
	struct stat st;
	int rc = role_conf_load(path, &c, &err);
	if (rc < 0) {
		doctor_add(d,
			   &(struct doctor_finding){"settings", path, DOCTOR_ERROR,
						    "correct the file; terrane config show ROLE "
						    "explains every key"},
			   "%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
		role_conf_free(&c);
		return;
	}
	struct looked l = {.d = d, .c = &c};
	doctor_add(d, &(struct doctor_finding){"settings", path, DOCTOR_OK, NULL},
		   "settings of a %s, valid", c.kind->name);
	secrets(&l);
	port(&l, "listen");
	port(&l, "metrics");
	disks(&l);
	const char *store = role_conf_text(&c, "store", "dir");
	if (store[0] != 0 && folder(d, "store", store, &st))
		space(d, "store", store);
	role_conf_free(&c);
}
