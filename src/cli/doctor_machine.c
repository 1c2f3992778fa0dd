// SPDX-License-Identifier: Apache-2.0
/* The machine itself: what a process of Terrane needs of it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/doctor.h"
#include "cli/fs.h"
#include "rt/real.h"

#define FILES_MIN 65536
#define MEMORY_MIN ((uint64_t)2 * GIB)
#define CLOCK_MAX_US 1000000 /* largest error of a clock that is synchronized well enough */
#define KERNEL_MIN_MAJOR 5
#define KERNEL_MIN_MINOR 15

static void kernel(struct doctor *d)
{
	struct utsname u = {0};
	char *end = u.release;
	bool known = uname(&u) == 0;
	unsigned long major = strtoul(u.release, &end, 10);
	unsigned long minor = known && *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
	bool old = known && (major < KERNEL_MIN_MAJOR ||
			     (major == KERNEL_MIN_MAJOR && minor < KERNEL_MIN_MINOR));
	doctor_add(d,
		   &(struct doctor_finding){
			   "kernel", "", old ? DOCTOR_WARNING : DOCTOR_OK,
			   "install a newer kernel; this one lacks parts of io_uring"},
		   "Linux %s", u.release);
	/* Without parameters the call fails with EFAULT if io_uring exists and is allowed. */
	int rc = (int)syscall(SYS_io_uring_setup, 1, NULL);
	bool usable = rc >= 0 || errno == EFAULT || errno == EINVAL;
	const char *why = err_text(-errno);
	if (rc >= 0)
		close(rc);
	doctor_add(d,
		   &(struct doctor_finding){
			   "io_uring", "", usable ? DOCTOR_OK : DOCTOR_ERROR,
			   "allow it: sysctl kernel.io_uring_disabled=0; in a container allow the "
			   "system calls io_uring_setup, io_uring_enter and io_uring_register"},
		   usable ? "usable" : "not usable: %s", why);
}

static void limits(struct doctor *d)
{
	struct rlimit files = {0};
	(void)getrlimit(RLIMIT_NOFILE, &files);
	bool low = files.rlim_max < FILES_MIN;
	doctor_add(d,
		   &(struct doctor_finding){
			   "limits", "", low ? DOCTOR_WARNING : DOCTOR_OK,
			   "raise the limit of open files to 65536 or more: LimitNOFILE= in the "
			   "unit, or /etc/security/limits.conf. The units of the packages have it"},
		   "up to %lu open files (hard limit of this shell)",
		   (unsigned long)files.rlim_max);
}

static void clock_state(struct doctor *d)
{
	struct timex t = {0};
	int state = adjtimex(&t);
	bool synced = state >= 0 && state != TIME_ERROR && (t.status & STA_UNSYNC) == 0;
	bool good = synced && t.maxerror <= CLOCK_MAX_US;
	doctor_add(
		d,
		&(struct doctor_finding){
			"clock", "", good ? DOCTOR_OK : DOCTOR_WARNING,
			"synchronize it: install chrony or systemd-timesyncd. Tokens are refused "
			"by nodes whose clock is wrong by more than [security] clock_skew (5 min)"},
		state < 0 ? "its state is unknown"
		: good    ? "synchronized, error at most %ld ms"
			  : "not synchronized, error up to %ld ms",
		t.maxerror / 1000);
}

static void memory(struct doctor *d)
{
	char size[FS_SIZE_TEXT];
	uint64_t bytes = rt_real_memory_bytes();
	doctor_add(d,
		   &(struct doctor_finding){
			   "memory", "", bytes < MEMORY_MIN ? DOCTOR_WARNING : DOCTOR_OK,
			   "lower memory and cache in the settings, or add memory: a node takes "
			   "512MiB for requests by default, metadata an eighth of the machine"},
		   "%s", fs_size(size, (double)bytes));
}

void doctor_machine(struct doctor *d)
{
	kernel(d);
	limits(d);
	clock_state(d);
	memory(d);
}
