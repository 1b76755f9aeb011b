// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The harness. Nothing of it but now_ns() runs inside a timed window. */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PASS = 0, FAIL = 1, SKIP = 4, USAGE = 64 };
#define WATCHDOG_S	30	/* a round takes milliseconds */
#define ALU_LAPS	55000	/* about 40 us at 3 GHz */
#define GETPPID_CALLS	256	/* about 25 us */
typedef unsigned long long u64;

struct parameter {
	const char *option;		/* NULL ends a table */
	unsigned long value, min, max;
};

/* The first parameters of every table; OWN is the workload's first. */
enum { CPU, WARMUP, ROUNDS, OWN };
#define COMMON_PARAMETERS \
	{ "--cpu", 0, 0, 1000000 }, { "--warmup", 3, 0, 100000 }, \
	{ "--rounds", 15, 1, 100000 }

#ifndef SCENARIOS
#define SCENARIOS	NULL	/* or words in quotes, the default first */
#endif
static const char *const scenarios[] = { SCENARIOS, NULL };
static unsigned scenario, given;	/* given: bit p when parameter p was */
static char more_help[160];		/* lines; a workload may define it */

#define COLUMNS	80	/* of a workload's own, the last one empty */
#define NAME	40	/* bytes of a column's */

struct row {				/* the columns, in their order */
	u64 ops, elapsed, cpu_begin, cpu_end;
	u64 nvcsw, nivcsw, minflt, run_delay_ns;
	u64 alu[2], getppid[2];		/* canaries before and after */
	u64 counters[COLUMNS];
};

/* A workload file defines these. */
extern const char workload[];
extern struct parameter parameters[];
extern char counters[COLUMNS][NAME];	/* what each must be: see write_row() */
static void prepare(void);		/* allocates and touches everything */
static void run_round(struct row *row);

static cpu_set_t cpus;			/* allowed at start */
static unsigned long used_cpu[CPU_SETSIZE];	/* the sampler's first */
static unsigned long used_cpus = 1;
static int schedstat;

static inline u64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* Memory that takes no page fault later; zeroed when of no file. */
static void *map(size_t size, int fd, off_t offset)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       flags | MAP_POPULATE, fd, offset);

	if (p == MAP_FAILED)
		err(FAIL, "mmap of %zu bytes", size);
	return p;
}

static void watchdog(int signal)
{
	dprintf(STDERR_FILENO, "watchdog: ended by signal %d\n", signal);
	quick_exit(FAIL);
}

static void pin(unsigned long cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (CPU_ISSET(cpu, &cpus) && !sched_setaffinity(0, sizeof(one), &one))
		return;
	fprintf(stderr, "%s: wanted CPU %lu, Cpus_allowed has", workload, cpu);
	for (unsigned long i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &cpus))
			fprintf(stderr, " %lu", i);
	fprintf(stderr, ": choose one of these or widen the cpuset\n");
	exit(SKIP);
}

/* Keeps the compiler from folding or merging the chains. */
#define KEEP(x) __asm__ volatile("" : "+r"(x))

/*
 * Eight independent chains and three loads fill the core, so that a busy SMT
 * sibling shows (x1.68). One operation per chain and lap: two had modes 10 %
 * apart. 32 untimed system calls warm the caches. The CPU worst off speaks.
 */
static void canaries(struct row *row, int after, unsigned long cpu)
{
	static volatile unsigned long loaded[3];
	unsigned long a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;
	u64 begin, alu, getppid;

	pin(cpu);
	begin = now_ns();
	for (unsigned long i = 0; i < ALU_LAPS; i++) {
		a += loaded[0]; c += loaded[1]; e += loaded[2];
		b ^= i; d ^= i; f ^= i; g += i; h ^= i;
		KEEP(a); KEEP(b); KEEP(c); KEEP(d);
		KEEP(e); KEEP(f); KEEP(g); KEEP(h);
	}
	alu = now_ns() - begin;
	for (int i = -32; i < GETPPID_CALLS; i++, syscall(SYS_getppid))
		if (i == 0)
			begin = now_ns();
	getppid = now_ns() - begin;
	row->alu[after] = MAX(row->alu[after], alu);
	row->getppid[after] = MAX(row->getppid[after], getppid);
}

/* With -1 before the round and 1 after it, leaves the differences. */
static void count(struct row *row, int sign)
{
	struct rusage usage;
	char text[80] = "";
	u64 delay = 0;

	if (pread(schedstat, text, sizeof(text) - 1, 0) > 0)
		sscanf(text, "%*u %llu", &delay);
	getrusage(RUSAGE_THREAD, &usage);
	row->run_delay_ns += sign * delay;
	row->nvcsw += sign * usage.ru_nvcsw;
	row->nivcsw += sign * usage.ru_nivcsw;
	row->minflt += sign * usage.ru_minflt;
}

static void measure(struct row *row)
{
	alarm(WATCHDOG_S);
	for (unsigned long i = used_cpus; i-- > 0; )
		canaries(row, 0, used_cpu[i]);
	count(row, -1);
	row->cpu_begin = sched_getcpu();
	run_round(row);
	row->cpu_end = sched_getcpu();
	count(row, 1);
	for (unsigned long i = used_cpus; i-- > 0; )
		canaries(row, 1, used_cpu[i]);
	alarm(0);
}

static bool write_row(const struct row *row)
{
	const u64 *cell = (const u64 *)row;	/* its members are columns */
	bool pass = row->cpu_begin == used_cpu[0] &&
		    row->cpu_end == used_cpu[0];

	while (cell < row->counters)
		printf("\t%llu", *cell++);
	for (const char *name = *counters; *name; name += NAME, cell++) {
		printf("\t%llu", *cell);
		/* Tasks and parts are recorded, whatever they are. */
		if (strncmp(name, "task", 4) && strncmp(name, "part_", 5))
			pass &= *cell == (strstr(name, "_ok") ? row->ops : 0);
	}
	printf("\t%s\n", pass ? "pass" : "fail");
	return pass;
}

static int by_ns_per_op(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	double d = (double)x->elapsed / x->ops - (double)y->elapsed / y->ops;

	return (d > 0) - (d < 0);
}

/* For the eye: no row is left out; an even number has its upper median. */
static void summarize(struct row *rows, unsigned long n)
{
	qsort(rows, n, sizeof(*rows), by_ns_per_op);
	fprintf(stderr, "median of %lu rows: %.1f ns/op\n", n,
		(double)rows[n / 2].elapsed / rows[n / 2].ops);
}

__attribute__((noreturn)) static void usage(FILE *to, int code)
{
	fprintf(to, "usage: %s [--step] [OPTION NUMBER]...\n", workload);
	for (int i = 0; scenarios[i]; i++)
		fprintf(to, "  --scenario %s\n", scenarios[i]);
	for (struct parameter *p = parameters; p->option; p++)
		fprintf(to, "  %s: %lu to %lu, default %lu\n", p->option,
			p->min, p->max, p->value);
	fprintf(to, "%s--step: a byte on stdin after each row, q ends\nexit: "
		"0 pass, 1 fail, 4 not on this machine, 64 usage\n",
		more_help);
	exit(code);
}

static void set(const char *option, const char *text)
{
	struct parameter *p = parameters;
	char *end = "";
	unsigned long n = text ? strtoul(text, &end, 10) : 0;

	if (text && !strcmp(option, "--scenario"))
		for (scenario = 0; scenarios[scenario]; scenario++)
			if (!strcmp(text, scenarios[scenario]))
				return;
	while (p->option && strcmp(p->option, option))
		p++;
	if (!p->option || !text || *text < '0' || *text > '9' || *end ||
	    n < p->min || n > p->max) {
		warnx("not accepted: %s %s", option, text ? text : "");
		usage(stderr, USAGE);
	}
	p->value = n, given |= 1U << (p - parameters);
}

int main(int argc, char **argv)
{
	bool step = !strcmp(getenv("REGBUNDLE_STEP") ?: "", "1"), passed = true;
	unsigned long rows = 0, warmup, all, fifo;
	struct row *samples;
	char byte;

	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		err(FAIL, "sched_getaffinity");
	for (unsigned long i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &cpus))
			parameters[CPU].value = i;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help"))
			usage(stdout, PASS);
		else if (!strcmp(argv[i], "--step"))
			step = true;
		else
			set(argv[i], argv[i + 1]), i++;
	}
	warmup = parameters[WARMUP].value;
	all = warmup + parameters[ROUNDS].value;
	used_cpu[0] = parameters[CPU].value;
	pin(used_cpu[0]);
	fifo = !sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ 1 });
	fprintf(stderr, "note: sched=%s\n", fifo ? "fifo1" :
		errno == EPERM ? "other (EPERM)" : "other");
	schedstat = open("/proc/thread-self/schedstat", O_RDONLY);
	if (schedstat < 0)
		fprintf(stderr, "note: no schedstat, run_delay_ns is 0\n");
	samples = map(all * sizeof(*samples), -1, 0);
	signal(SIGALRM, watchdog);
	alarm(WATCHDOG_S);
	prepare();

	printf("#regbundle-rows 1 %s%s%s standalone %s\n", workload,
	       *scenarios ? "/" : "", *scenarios ? scenarios[scenario] : "",
	       getenv("REGBUNDLE_CLOCK") ?: "ns");
	printf("phase\tround\tops\telapsed\tcpu_begin\tcpu_end\tnvcsw\tnivcsw\t"
	       "minflt\trun_delay_ns\tcanary_before\tcanary_after\t"
	       "canary_syscall_before\tcanary_syscall_after");
	for (const char *name = *counters; *name; name += NAME)
		printf("\t%s", name);
	printf("\tstatus\n");
	while (rows < all) {
		struct row *row = &samples[rows];
		u64 begin = now_ns();

		measure(row);
		if (rows < warmup)
			printf("warmup\t%lu", rows++);
		else
			printf("measured\t%lu", rows++ - warmup);
		passed &= write_row(row);
		if (step && (fflush(stdout) ||
			     read(STDIN_FILENO, &byte, 1) != 1 || byte == 'q'))
			break;
		/* Real-time tasks may use 95 % of a second: rest a ninth. */
		if (fifo)
			usleep((now_ns() - begin) / 8 / 1000);
	}
	if (printf("#end %lu\n", rows) < 0 || fflush(stdout))
		err(FAIL, "stdout");
	if (!step)
		summarize(samples + warmup, rows - warmup);
	return passed ? PASS : FAIL;
}
