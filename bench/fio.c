// SPDX-License-Identifier: Apache-2.0
#include "fio.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGS_MAX 48

static void run_fio(const char *const *args, int out_fd)
{
	const char *all[ARGS_MAX] = {"fio",        "--name=bench",        "--output-format=json",
				     "--direct=1", "--ioengine=io_uring", "--group_reporting"};
	int n = 6;

	while (*args != NULL && n < ARGS_MAX - 1)
		all[n++] = *args++;
	all[n] = NULL;
	dup2(out_fd, STDOUT_FILENO);
	execvp("fio", (char *const *)(uintptr_t)all);
	_exit(127);
}

double fio_bytes_per_s(const char *const *args, bool write)
{
	int out[2];

	if (pipe(out) != 0)
		return 0;
	pid_t pid = fork();
	if (pid == 0)
		run_fio(args, out[1]);
	close(out[1]);
	FILE *f = fdopen(out[0], "r");
	json_t *root = f != NULL ? json_loadf(f, 0, NULL) : NULL;
	if (f != NULL)
		fclose(f);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	json_t *job = json_array_get(json_object_get(root, "jobs"), 0);
	json_t *side = json_object_get(job, write ? "write" : "read");
	double rate = json_number_value(json_object_get(side, "bw_bytes"));
	json_decref(root);
	return rate;
}
