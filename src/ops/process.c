// SPDX-License-Identifier: Apache-2.0
#include "ops/process.h"

#include "base/base.h"
#include "base/strbuf.h"
#include "rt/real.h"

int ops_process_metrics(struct strbuf *out)
{
	struct rt_real_usage u;
	rt_real_usage(&u);
	const struct {
		const char *name, *type, *help;
		double value;
	} all[] = {
		{"cpu_seconds_total", "counter", "processor time", u.cpu_s},
		{"start_time_seconds", "gauge", "wall clock of the start", u.start_s},
		{"resident_memory_bytes", "gauge", "memory in use", (double)u.resident_bytes},
		{"virtual_memory_bytes", "gauge", "address space", (double)u.virtual_bytes},
		{"open_fds", "gauge", "open files and sockets", (double)u.open_files},
		{"max_fds", "gauge", "limit of open files and sockets", (double)u.files_max},
		{"threads", "gauge", "threads", (double)u.threads},
	};
	int rc = strbuf_printf(out,
			       "# HELP terrane_build_info the version of the program; always 1\n"
			       "# TYPE terrane_build_info gauge\n"
			       "terrane_build_info{version=\"%s\"} 1\n",
			       TERRANE_VERSION);
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(all); i++)
		rc = strbuf_printf(out,
				   "# HELP process_%s %s\n# TYPE process_%s %s\nprocess_%s %.15g\n",
				   all[i].name, all[i].help, all[i].name, all[i].type, all[i].name,
				   all[i].value);
	return rc;
}
