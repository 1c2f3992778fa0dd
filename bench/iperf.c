// SPDX-License-Identifier: Apache-2.0
#include "iperf.h"

#include <jansson.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define IPERF_PORT "15201"

static pid_t run_iperf3(const char *const *args, int out_fd)
{
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	dup2(out_fd, STDOUT_FILENO);
	dup2(out_fd, STDERR_FILENO);
	execvp("iperf3", (char *const *)(uintptr_t)args);
	_exit(127);
}

static double client_bytes_per_s(void)
{
	static const char *const args[] = {"iperf3", "-c", "127.0.0.1", "-p", IPERF_PORT, "-t",
					   "2",      "-J", "-l",        "1M", NULL};
	int out[2];
	if (pipe(out) != 0)
		return 0;
	pid_t client = run_iperf3(args, out[1]);
	close(out[1]);
	FILE *f = fdopen(out[0], "r");
	json_t *root = f != NULL ? json_loadf(f, 0, NULL) : NULL;
	if (f != NULL)
		fclose(f);
	if (client > 0)
		waitpid(client, NULL, 0);
	json_t *sum = json_object_get(json_object_get(root, "end"), "sum_received");
	double bits = json_number_value(json_object_get(sum, "bits_per_second"));
	json_decref(root);
	return bits / 8;
}

double iperf3_bytes_per_s(void)
{
	static const char *const args[] = {"iperf3",   "-s",           "-1", "-p",
					   IPERF_PORT, "--forceflush", NULL};
	int out[2];
	char line[256];
	double rate = 0;
	if (pipe(out) != 0)
		return 0;
	pid_t server = run_iperf3(args, out[1]);
	close(out[1]);
	/* The server says that it listens before a client may come. */
	if (server > 0 && read(out[0], line, sizeof(line)) > 0)
		rate = client_bytes_per_s();
	if (server > 0) {
		kill(server, SIGTERM);
		waitpid(server, NULL, 0);
	}
	close(out[0]);
	return rate;
}
