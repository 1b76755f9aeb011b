// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * First writes of anonymous pages, by one task or several at once.
 *
 * One op is the first write of a 4 KiB page of a private anonymous mapping of
 * --mib MiB without huge pages. A lap maps, writes each page, unmaps. A round
 * is one window of --window_ms that begins when each task has written a page;
 * each task is a process, or a thread (--threads 1) of one that shares the mm.
 *
 * After it: in each lap, also the one cut short, the task's minor faults were
 * as many as the pages it wrote; no call had failed, each task had written in
 * the window and was on its own CPU.
 *
 * Build: cc -O2 -o page-fault page-fault.c     (glibc 2.34 or newer)
 * Run:   ./page-fault                    (rows on stdout, see --help)
 */
#include "regbundle.h"
#include "regbundle-tasks.h"
#include "regbundle-window.h"

#define PAGE	4096

const char workload[] = "page-fault";

struct parameter parameters[] = {
	COMMON_PARAMETERS,
	WINDOW_PARAMETERS(20),
	{ NULL, 0, 0, 0 },
};

char counters[COLUMNS][NAME] = {
	"ops_ok", "failed_calls", "faults_off", "stuck", "off_cpu"
};

static size_t size;

static long minor_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt;
}

/*
 * If the faults were not as many as the pages, none of these was right. A
 * sanitizer's look at its shadow of a page would be one fault more.
 */
__attribute__((no_sanitize_address)) static void lap(struct task *task)
{
	char *area = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long faults, pages = 0;

	if (area == MAP_FAILED) {
		task->found[FAILED_CALLS]++;
		return;
	}
	/* EINVAL: a kernel without huge pages. Others show in the faults. */
	if (madvise(area, size, MADV_NOHUGEPAGE) && errno != EINVAL)
		task->found[FAILED_CALLS]++;
	faults = minor_faults();
	for (; pages < (long)(size / PAGE) && !board->stop; pages++) {
		((volatile char *)area)[pages * PAGE] = 1;
		task->done += ONE_OP + ONE_RIGHT;
	}
	faults = minor_faults() - faults;
	task->found[FAILED_CALLS] += munmap(area, size) != 0;
	task->found[WRONG] += labs(faults - pages);
	if (faults != pages)
		task->answer += pages;
}

static void prepare(void)
{
	if (sysconf(_SC_PAGESIZE) != PAGE)
		errx(SKIP, "not on this kernel: pages are %ld bytes, wanted "
		     "%d", sysconf(_SC_PAGESIZE), PAGE);
	choose_cpus();
	size = parameters[MIB].value << 20;
	start_tasks(start_task, "task%lu_ops");
}
