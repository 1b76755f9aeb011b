// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * getpid in a loop: the price of entering and leaving the kernel.
 *
 * One op is one call of syscall(SYS_getpid). A round is one window.
 *
 * After it: each call returned the process id.
 *
 * Build: cc -O2 -o syscall-getpid syscall-getpid.c
 * Run:   ./syscall-getpid                (rows on stdout, see --help)
 */
#include "regbundle.h"

const char workload[] = "syscall-getpid";

/*
 * The default makes a round of about 7 ms: a disturbance in the middle of a
 * longer one is invisible to the canaries before and after it.
 */
struct parameter parameters[] = {
	COMMON_PARAMETERS,
	{ "--calls", 65536, 1024, 10000000 },
	{ NULL, 0, 0, 0 },
};

char counters[COLUMNS][NAME] = { "calls_ok" };

static void prepare(void)
{
}

static void run_round(struct row *row)
{
	unsigned long calls = parameters[OWN].value;
	long pid = getpid();
	u64 ok = 0, begin;

	begin = now_ns();
	for (unsigned long i = 0; i < calls; i++)
		ok += syscall(SYS_getpid) == pid;
	row->elapsed = now_ns() - begin;
	row->ops = calls;
	row->counters[0] = ok;
}
