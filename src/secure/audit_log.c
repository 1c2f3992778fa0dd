// SPDX-License-Identifier: Apache-2.0
#include "secure/audit_log.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/err.h"
#include "base/log.h"
#include "rt/file.h"
#include "rt/queue.h"
#include "rt/rt.h"

#define PATH_BYTES 1100
/* Pause after a write that failed, so that a full disk is not written to without end. */
#define FAILED_PAUSE_NS (1 * NS_PER_S)

struct audit_log {
	struct audit_log_options o;
	char *path;
	pthread_mutex_t lock; /* guards fill to stats */
	char *fill;           /* lines that wait for the writer */
	size_t fill_len;
	uint64_t fill_count;
	uint64_t missing;          /* records dropped since the last line that told of them */
	uint64_t second, refusals; /* records of refused logins in this second */
	struct audit_log_stats stats;
	char *writing; /* lines of the writer */
	struct rt_event added;
	struct rt_event_sub sub;
	struct rt_fiber *writer;
	struct rt_file *file; /* NULL: it could not be opened again */
	uint64_t size;
	bool failed; /* the last write failed, and was logged */
};

/* --- adding ---------------------------------------------------------------------------------------- */

/* Returns whether the line fits; with the lock. */
static bool append(struct audit_log *a, const struct audit_record *r)
{
	char line[AUDIT_LINE_MAX];
	size_t len = audit_format(r, line);
	if (a->fill_len + len > AUDIT_PENDING_BYTES)
		return false;
	memcpy(a->fill + a->fill_len, line, len);
	a->fill_len += len;
	a->fill_count++;
	return true;
}

/* Tells how many records are missing before the next one; with the lock. */
static bool append_missing(struct audit_log *a, uint64_t time_ms)
{
	char detail[64];
	if (a->missing == 0)
		return true;
	snprintf(detail, sizeof(detail), "%lu records", a->missing);
	if (!append(a, &(struct audit_record){
			       .time_ms = time_ms, .event = AUDIT_DROPPED, .detail = detail}))
		return false;
	a->missing = 0;
	return true;
}

/* Returns whether the record is one refused login too many in its second; with the lock. */
static bool too_many(struct audit_log *a, const struct audit_record *r)
{
	uint64_t second = r->time_ms / 1000;
	if (r->event != AUDIT_LOGIN_REFUSED)
		return false;
	if (a->second != second)
		a->refusals = 0;
	a->second = second;
	return a->refusals++ >= AUDIT_REFUSALS_PER_S;
}

void audit_log_add(struct audit_log *a, const struct audit_record *given)
{
	if (a == NULL)
		return;
	struct audit_record r = *given;
	r.time_ms = rt_wall_ns() / NS_PER_MS;
	pthread_mutex_lock(&a->lock);
	bool kept = !too_many(a, &r) && append_missing(a, r.time_ms) && append(a, &r);
	a->missing += !kept;
	a->stats.dropped += !kept;
	pthread_mutex_unlock(&a->lock);
	if (kept)
		rt_event_raise(&a->added);
}

/* --- the file -------------------------------------------------------------------------------------- */

static int open_file(struct audit_log *a)
{
	int rc = rt_file_open(&a->file, a->path, RT_WRITE | RT_CREATE);
	if (rc == 0)
		rc = rt_file_size(a->file, &a->size);
	if (rc == 0 && a->size == 0)
		rc = rt_name_sync(a->path);
	if (rc < 0 && a->file != NULL) {
		rt_file_close(a->file);
		a->file = NULL;
	}
	return rc;
}

/* Makes PATH PATH.1, PATH.1 PATH.2 and so on; the last is replaced. */
static int rotate(struct audit_log *a)
{
	char from[PATH_BYTES], to[PATH_BYTES];
	if (a->file != NULL) {
		(void)rt_file_sync(a->file);
		rt_file_close(a->file);
		a->file = NULL;
	}
	for (unsigned i = a->o.files - 1; i > 0; i--) {
		snprintf(to, sizeof(to), "%s.%u", a->path, i);
		if (i > 1)
			snprintf(from, sizeof(from), "%s.%u", a->path, i - 1);
		else
			snprintf(from, sizeof(from), "%s", a->path);
		int rc = rt_rename(from, to);
		if (rc < 0 && rc != -ENOENT)
			return rc;
	}
	if (a->o.files == 1)
		(void)rt_unlink(a->path);
	return open_file(a);
}

static int write_lines(struct audit_log *a, size_t len)
{
	int rc = 0;
	if (a->file == NULL)
		rc = open_file(a);
	if (rc == 0 && a->size > 0 && a->size + len > a->o.file_bytes)
		rc = rotate(a);
	if (rc == 0)
		rc = rt_file_write(a->file, a->writing, len, a->size);
	if (rc == 0)
		a->size += len;
	return rc;
}

/* Writes what is pending. */
static int write_pending(struct audit_log *a)
{
	pthread_mutex_lock(&a->lock);
	char *lines = a->fill;
	size_t len = a->fill_len;
	uint64_t count = a->fill_count;
	a->fill = a->writing;
	a->fill_len = 0;
	a->fill_count = 0;
	pthread_mutex_unlock(&a->lock);
	a->writing = lines;
	if (len == 0)
		return 0;
	int rc = write_lines(a, len);
	pthread_mutex_lock(&a->lock);
	a->stats.written += rc == 0 ? count : 0;
	a->stats.dropped += rc < 0 ? count : 0;
	a->missing += rc < 0 ? count : 0;
	a->stats.failures += rc < 0;
	pthread_mutex_unlock(&a->lock);
	if (rc < 0 && rc != -ECANCELED && !a->failed)
		log_error("audit_not_written", "file=%s err=%s records=%lu", a->path, err_name(rc),
			  count);
	a->failed = rc < 0;
	return rc;
}

static bool pending(struct audit_log *a)
{
	pthread_mutex_lock(&a->lock);
	bool any = a->fill_len > 0;
	pthread_mutex_unlock(&a->lock);
	return any;
}

static void writer_main(void *arg)
{
	struct audit_log *a = arg;
	int rc = 0;
	rt_background();
	while (rc == 0) {
		if (!pending(a)) {
			rc = rt_cond_wait(&a->sub.raised);
			continue;
		}
		rt_shield_enter(); /* lines that were taken are written also when the log closes */
		int wrote = write_pending(a);
		rt_shield_leave();
		if (wrote < 0)
			rc = rt_sleep_ns(FAILED_PAUSE_NS);
	}
}

/* --- open, close ----------------------------------------------------------------------------------- */

static void audit_free(struct audit_log *a)
{
	if (a->file != NULL)
		rt_file_close(a->file);
	pthread_mutex_destroy(&a->lock);
	rt_event_fini(&a->added);
	free(a->path);
	free(a->fill);
	free(a->writing);
	free(a);
}

int audit_log_open(struct audit_log **out, const struct audit_log_options *o)
{
	struct audit_log *a = calloc(1, sizeof(*a));
	*out = NULL;
	if (a == NULL)
		return -ENOMEM;
	a->o = *o;
	if (a->o.file_bytes == 0)
		a->o.file_bytes = AUDIT_FILE_BYTES;
	if (a->o.files == 0)
		a->o.files = AUDIT_FILES;
	pthread_mutex_init(&a->lock, NULL);
	rt_event_init(&a->added);
	a->path = strdup(o->path);
	a->fill = malloc(AUDIT_PENDING_BYTES);
	a->writing = malloc(AUDIT_PENDING_BYTES);
	int rc = a->path == NULL || a->fill == NULL || a->writing == NULL ? -ENOMEM : 0;
	if (rc == 0)
		rc = strlen(o->path) + 16 > PATH_BYTES ? -ENAMETOOLONG : open_file(a);
	if (rc < 0) {
		audit_free(a);
		return rc;
	}
	rt_event_subscribe(&a->added, &a->sub);
	rc = rt_spawn(&a->writer, "audit", writer_main, a);
	if (rc < 0) {
		rt_event_unsubscribe(&a->sub);
		audit_free(a);
		return rc;
	}
	*out = a;
	return 0;
}

void audit_log_close(struct audit_log *a)
{
	if (a == NULL)
		return;
	rt_cancel(a->writer);
	rt_shield_enter();
	rt_join(a->writer);
	(void)write_pending(a);
	if (a->file != NULL)
		(void)rt_file_sync(a->file);
	rt_event_unsubscribe(&a->sub);
	rt_shield_leave();
	audit_free(a);
}

/* --- numbers --------------------------------------------------------------------------------------- */

void audit_log_stats(struct audit_log *a, struct audit_log_stats *out)
{
	pthread_mutex_lock(&a->lock);
	*out = a->stats;
	pthread_mutex_unlock(&a->lock);
}

int audit_log_metrics(struct audit_log *a, struct strbuf *out)
{
	struct audit_log_stats s;
	if (a == NULL)
		return 0;
	audit_log_stats(a, &s);
	return strbuf_printf(
		out,
		"# HELP terrane_audit_records_total records of the audit log, by what became of "
		"them\n"
		"# TYPE terrane_audit_records_total counter\n"
		"terrane_audit_records_total{result=\"written\"} %lu\n"
		"terrane_audit_records_total{result=\"dropped\"} %lu\n",
		s.written, s.dropped);
}
