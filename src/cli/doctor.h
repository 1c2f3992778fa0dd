// SPDX-License-Identifier: Apache-2.0
/*
 * The findings of `terrane doctor`. Each names what was looked at, its state, and for anything but `ok` what to do. The
 * machine is looked at by doctor_machine.c, the settings and folders of processes by doctor_role.c, the cluster by
 * cmd_doctor.c.
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <stdbool.h>

#include "base/base.h"
#include "base/json.h"

enum doctor_state { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_ERROR };

struct doctor {
	json_t *findings; /* array of {check, object, state, text, remedy} */
	enum doctor_state worst;
};

struct doctor_finding {
	const char *check;  /* one word: clock, limits, disk, ... */
	const char *object; /* file, folder or address; "": the machine */
	enum doctor_state state;
	const char *remedy; /* NULL for DOCTOR_OK */
};

/* Adds a finding with this text. A finding that does not fit into memory is lost, and makes the worst state an error. */
void doctor_add(struct doctor *d, const struct doctor_finding *f, const char *fmt, ...)
	PRINTF(3, 4);

/* Kernel, limits, clock, memory. */
void doctor_machine(struct doctor *d);
/* The settings of one process: are they valid, are its folders and ports usable? */
void doctor_role(struct doctor *d, const char *path);

struct admin_where;
/* Whether a cluster is named, by an option, the environment or the working folder. */
bool doctor_knows_cluster(const struct admin_where *where);
/* Looks at the machine, the cluster and n files of settings; 0: those of the box, or in /etc/terrane. Returns an exit
 * status. */
int doctor_examine(struct doctor *d, const struct admin_where *where, char **files, int n);

#endif
