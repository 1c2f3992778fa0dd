// SPDX-License-Identifier: Apache-2.0
#include "roles/role_reload.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/log.h"
#include "rt/rt.h"

struct reload {
	const struct role_reload *role;
	struct strbuf err;
	int level; /* the level of the log in the file; negative: the error of reading it */
};

/* Reads the settings again, on a thread of the pool. */
static void load(void *arg)
{
	struct reload *l = arg;
	const struct role_reload *r = l->role;
	AUTO_FREE char *settings = calloc(1, r->size);
	assert(r->level + sizeof(int) <= r->size);
	l->level = settings == NULL ? -ENOMEM
				    : conf_load(r->config, r->schema, r->count, settings, &l->err);
	if (l->level < 0)
		return;
	l->level = *(const int *)(const void *)(settings + r->level);
	conf_free(r->schema, r->count, settings);
}

static void reload_main(void *arg)
{
	rt_background();
	while (rt_hangup_wait() == 0) {
		struct reload l = {.role = arg};
		strbuf_init(&l.err, 4096);
		if (rt_offload(load, &l) < 0)
			l.level = -ECANCELED;
		if (l.level >= 0) {
			log_set_level((enum log_level)l.level);
			log_info("settings_reloaded", "file=%s", LOG_QUOTE(l.role->config));
		} else if (l.level != -ECANCELED) {
			log_error(
				"settings_not_reloaded", "why=%s do=%s",
				LOG_QUOTE(l.err.len > 0 ? strbuf_text(&l.err) : err_text(l.level)),
				LOG_QUOTE("correct the file, then send SIGHUP again"));
		}
		strbuf_fini(&l.err);
	}
}

int role_reload_with(const struct role_reload *r, void (*role_main)(void *role), void *role)
{
	struct rt_fiber *fiber;
	int rc = rt_spawn(&fiber, "reload", reload_main, (void *)r);
	if (rc < 0)
		return rc;
	role_main(role);
	rt_cancel(fiber);
	rt_shield_enter();
	rt_join(fiber);
	rt_shield_leave();
	return 0;
}
