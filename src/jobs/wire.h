// SPDX-License-Identifier: Apache-2.0
/*
 * Conversion between jobs and their messages (jobs.proto), for the store, the service and clients. The functions that read
 * a message check it: -EINVAL for a value that no correct program writes.
 */
#ifndef JOBS_WIRE_H
#define JOBS_WIRE_H

#include "jobs/jobs.pb-c.h"
#include "jobs/spec.h"

struct arena;

/* Makes a message in the arena whose texts are those of the spec. NULL: out of memory. */
Terrane__Job__Spec *job_spec_message(struct arena *a, const struct job_spec *s);
/* Reads a spec; its lists are in the arena, its texts point into the message. -EINVAL, -ENOMEM. */
int job_spec_read(struct arena *a, const Terrane__Job__Spec *m, struct job_spec *out);

void job_progress_message(Terrane__Job__Progress *m, const struct job_progress *p);
int job_progress_read(const Terrane__Job__Progress *m, struct job_progress *out);

void job_verdict_message(Terrane__Job__Verdict *m, const struct job_verdict *v);
int job_verdict_read(const Terrane__Job__Verdict *m, struct job_verdict *out);

/* Makes a message in the arena; the owner points into the state. NULL: out of memory. */
Terrane__Job__State *job_state_message(struct arena *a, const struct job_state *st);
int job_state_read(const Terrane__Job__State *m, struct job_state *out);

#endif
