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

char counters[COLUMNS][NAME] = {
	"ops_ok", "failed_calls", "bad_address", "stuck", "off_cpu"
};

static size_t size;
static uintptr_t in_page;		/* bits of an address */
static int files[MAX_TASKS];		/* anon: not looked at */

static void lap(struct task *task)
{
	const int flags = scenario ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
	void *area = mmap(NULL, size, PROT_READ | PROT_WRITE, flags,
			  files[task->index], 0);
	bool bad = !area || (area != MAP_FAILED && (uintptr_t)area & in_page);
	bool failed = area == MAP_FAILED || munmap(area, size);

	task->found[WRONG] += bad;
	task->found[FAILED_CALLS] += failed;
	task->done += bad || failed ? ONE_OP : ONE_OP + ONE_RIGHT;
}

static void open_files(void)
{
	for (unsigned long i = 0; i < tasks; i++) {
		files[i] = memfd_create("regbundle", MFD_CLOEXEC);
		if (files[i] < 0 || ftruncate(files[i], size))
			err(FAIL, "memfd of %zu bytes", size);
	}
}

/*
 * The kernel keeps areas and gaps in leaves of 16. An area that comes to a
 * full one splits it, and joins the halves as it goes, at 1.7 times the price
 * (6.18: five nodes allocated for an op, not two): by how many areas libc and
 * this program happen to have. So the gap it finds first, the highest, lies
 * among 64 areas, whose leaves are not full.
 */
static void make_room(void)
{
	const size_t page = in_page + 1, edge = 32 * page;
	const size_t room = tasks * (size + (4 << 20));
	char *at = mmap(NULL, edge + room + edge, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED || munmap(at + edge, room))
		err(FAIL, "address space of %zu bytes", room);
	/* Every other page, because neighbours that are alike are one area. */
	for (size_t i = 0; i < edge; i += 2 * page)
		if (mprotect(at + i, page, PROT_READ) ||
		    mprotect(at + edge + room + i, page, PROT_READ))
			err(FAIL, "mprotect");
}

static void prepare(void)
{
	choose_cpus();
	size = parameters[MIB].value << 20;
	in_page = sysconf(_SC_PAGESIZE) - 1;
	if (scenario)
		open_files();
	make_room();
	start_tasks(start_task, "task%lu_ops");
}
