// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * mmap() and munmap() of an untouched area, by one task or several at once.
 *
 * One op is one mmap() of --mib MiB and its munmap(). Scenario anon: private
 * anonymous; file: shared, of a memfd of that size, one per task. A round is
 * one window of --window_ms that begins when each task has done an op; each
 * task is a process, or a thread (--threads 1) of one that shares the mm.
 *
 * After it: no call had failed, each address was aligned to a page and not
 * null, each task had done an op in the window and was on its own CPU.
 *
 * Build: cc -O2 -o mmap-munmap mmap-munmap.c   (glibc 2.34 or newer)
 * Run:   ./mmap-munmap                   (rows on stdout, see --help)
 */
#define SCENARIOS "anon", "file"
#include "regbundle.h"
#include "regbundle-tasks.h"
#include "regbundle-window.h"

const char workload[] = "mmap-munmap";

struct parameter parameters[] = {
	COMMON_PARAMETERS,
	WINDOW_PARAMETERS(10),
	{ NULL, 0, 0, 0 },
};

const char *const counters[] = {
	"ops_ok", "failed_calls", "bad_address", "stuck", "off_cpu",
	RECORDED_COLUMNS, NULL
};

static size_t size;
static uintptr_t in_page;		/* bits of an address */
static int files[MAX_TASKS];

static void work(struct task *task)
{
	const int flags = scenario ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
	const int file = scenario ? files[task->index] : -1;

	note_cpu(task);
	while (!board->stop) {
		void *area = mmap(NULL, size, PROT_READ | PROT_WRITE, flags,
				  file, 0);
		bool bad = !area || (area != MAP_FAILED &&
				     (uintptr_t)area & in_page);
		bool failed = area == MAP_FAILED || munmap(area, size);

		task->found[WRONG] += bad;
		task->found[FAILED_CALLS] += failed;
		task->done += bad || failed ? ONE_OP : ONE_OP + ONE_RIGHT;
	}
	note_cpu(task);
}

static void open_files(void)
{
	for (unsigned long i = 0; i < parameters[TASKS].value; i++) {
		files[i] = memfd_create("regbundle", MFD_CLOEXEC);
		if (files[i] < 0 || ftruncate(files[i], size))
			err(FAIL, "memfd of %zu bytes", size);
	}
}

static void prepare(void)
{
	choose_cpus(parameters[TASKS].value, parameters[OVERSUBSCRIBE].value);
	size = parameters[MIB].value << 20;
	in_page = sysconf(_SC_PAGESIZE) - 1;
	if (scenario)
		open_files();
	prepare_tasks();
}

static void run_round(struct row *row)
{
	sample_window(row);
}
