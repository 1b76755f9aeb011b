// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * mprotect() of dirty shared memory, to read only and back, and a write to it.
 *
 * One op is one page of 4 KiB: protected, restored and written once. A window
 * is a cycle over --mib MiB of shared anonymous memory whose pages are all
 * dirty: PROT_READ, then PROT_READ | PROT_WRITE, then one byte to each page.
 *
 * After it: each page holds the byte of its cycle; no page is a huge one.
 * Before the first round a write under PROT_READ faulted, once. No counter can
 * see that a later mprotect() did nothing.
 *
 * Build: cc -O2 -o mprotect-shared-dirty mprotect-shared-dirty.c
 * Run:   ./mprotect-shared-dirty         (rows on stdout, see --help)
 */
#include "regbundle.h"
#include <setjmp.h>

#define PAGE		4096UL
#define READ_WRITE	(PROT_READ | PROT_WRITE)
#define PRESENT		(1ULL << 63)	/* of a word of /proc/self/pagemap */

const char workload[] = "mprotect-shared-dirty";

enum { MIB = OWN, CYCLES };

struct parameter parameters[] = {
	COMMON_PARAMETERS,
	{ "--mib", 64, 1, 1024 },
	{ "--cycles", 4, 1, 10000 },
	{ NULL, 0, 0, 0 },
};

enum { PAGES_OK, WRONG_VALUE, HUGE_PAGES, PROTECT, RESTORE, TOUCH };

char counters[COLUMNS][NAME] = {
	"pages_ok", "wrong_value", "huge_pages",
	"part_protect", "part_restore", "part_touch"
};

static volatile unsigned char *memory;
static size_t size;
static unsigned char value;		/* another in each cycle */
static u64 huge_kib;

static volatile sig_atomic_t faults;
static sigjmp_buf after_fault;

static void protect(int protection)
{
	if (mprotect((void *)memory, size, protection))
		err(FAIL, "mprotect of %zu bytes", size);
}

static void touch(void)
{
	for (size_t at = 0; at < size; at += PAGE)
		memory[at] = value;
}

static u64 pages_with_value(void)
{
	u64 pages = 0;

	for (size_t at = 0; at < size; at += PAGE)
		pages += memory[at] == value;
	return pages;
}

static void on_fault(int signal)
{
	(void)signal;
	faults++;
	siglongjmp(after_fault, 1);
}

static void try_write(size_t at)
{
	if (!sigsetjmp(after_fault, 1))
		memory[at] = value + 1;
}

/* An mprotect() that does nothing passes every later check, but not this. */
static void preflight_fault(size_t at)
{
	struct sigaction old, catch = { .sa_handler = on_fault };

	faults = 0;
	sigaction(SIGSEGV, &catch, &old);
	protect(PROT_READ);
	try_write(at);
	if (faults != 1 || memory[at] != value)
		errx(FAIL, "preflight: a write to byte %zu under PROT_READ: %d "
		     "faults, wanted 1: mprotect() does not protect here", at,
		     (int)faults);
	protect(READ_WRITE);
	try_write(at);
	if (faults != 1 || memory[at] == value)
		errx(FAIL, "preflight: a write to byte %zu after PROT_READ was "
		     "lifted: not done, or a fault", at);
	sigaction(SIGSEGV, &old, NULL);
	memory[at] = value;	/* not yet what the first cycle writes */
}

/* The first pages of 16 equal parts; the kernel says so to root at least. */
static void preflight_present(void)
{
	int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (file < 0 && geteuid()) {
		warn("note: no check that pages are present: pagemap");
		return;
	}
	for (size_t part = 0; part < 16; part++) {
		size_t at = part * (size / 16);
		u64 entry = 0, page = ((uintptr_t)memory + at) / PAGE;

		if (pread(file, &entry, sizeof(entry), page * sizeof(entry)) !=
		    sizeof(entry))
			err(FAIL, "/proc/self/pagemap");
		if (!(entry & PRESENT))
			errx(FAIL, "preflight: the page of byte %zu is not "
			     "present (swapped out?), pagemap has %llx", at,
			     entry);
	}
	close(file);
}

/* kB of huge pages that smaps shows in the mapping. */
static u64 read_huge_kib(void)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	bool inside = false, found = false;
	u64 sum = 0, from, to, kib;
	char line[512], key[64];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%llx-%llx ", &from, &to) == 2)
			inside = from < (uintptr_t)memory + size &&
				 to > (uintptr_t)memory;
		else if (inside && sscanf(line, "%63s %llu", key, &kib) == 2 &&
			 (!strcmp(key, "ShmemPmdMapped:") ||
			  !strcmp(key, "FilePmdMapped:") ||
			  !strcmp(key, "AnonHugePages:"))) {
			sum += kib;
			found |= *key == 'S';
		}
	}
	if (!found)
		errx(SKIP, "not on this kernel: /proc/self/smaps has no "
		     "ShmemPmdMapped of the mapping, needs Linux 4.8");
	fclose(file);
	return sum;
}

static void prepare(void)
{
	void *p;

	if (sysconf(_SC_PAGESIZE) != PAGE)
		errx(SKIP, "not on this kernel: pages of %ld bytes, wanted "
		     "%lu", sysconf(_SC_PAGESIZE), PAGE);
	size = parameters[MIB].value << 20;
	/* Not populated by mmap: the advice must come before the pages. */
	p = mmap(NULL, size, READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		err(FAIL, "mmap of %zu bytes", size);
	/* EINVAL: a kernel without huge pages. The count below decides. */
	if (madvise(p, size, MADV_NOHUGEPAGE) && errno != EINVAL)
		err(FAIL, "madvise(MADV_NOHUGEPAGE)");
	memory = p;
	value = 1;
	touch();
	preflight_fault(0);
	preflight_fault(size - PAGE);
	preflight_present();
	huge_kib = read_huge_kib();
}

/* The window. */
static void timed_cycle(u64 *clock)
{
	clock[0] = now_ns();
	protect(PROT_READ);
	clock[1] = now_ns();
	protect(READ_WRITE);
	clock[2] = now_ns();
	touch();
	clock[3] = now_ns();
}

static void run_round(struct row *row)
{
	u64 clock[4];

	for (unsigned long i = 0; i < parameters[CYCLES].value; i++) {
		u64 ok;

		if (i % 16 == 15)
			alarm(WATCHDOG_S);
		value++;
		timed_cycle(clock);
		ok = pages_with_value();
		row->ops += size / PAGE;
		row->elapsed += clock[3] - clock[0];
		row->counters[PAGES_OK] += ok;
		row->counters[WRONG_VALUE] += size / PAGE - ok;
		for (int part = 0; part < 3; part++)
			row->counters[PROTECT + part] +=
				clock[part + 1] - clock[part];
	}
	row->counters[HUGE_PAGES] = huge_kib;
}
