// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * io_uring futex WAITV -> WAKE on one ring, one thread.
 *
 * One op is a pair: an IORING_OP_FUTEX_WAITV on a vector of private words and
 * the IORING_OP_FUTEX_WAKE of one of them. A window is a cycle: arm all
 * vectors (one enter), wake a word of each and wait for all (one enter), reap.
 *
 * After it: each WAITV gave the index woken, each WAKE 1, by user_data; no
 * CQE overflowed or was stray; no other word had a waiter. Before the first
 * round each index of each vector was woken once and reported itself.
 *
 * Build: cc -O2 -o io-uring-futex-waitv io-uring-futex-waitv.c
 * Run:   ./io-uring-futex-waitv          (rows on stdout, see --help)
 */
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
/* One io_uring by raw system calls. */
#include <linux/io_uring.h>

static struct ring {
	int fd;
	unsigned sq_tail, sq_mask, cq_mask;
	unsigned *k_sq_tail, *k_cq_head, *k_cq_tail, *k_sq_flags;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
	char *start; size_t size;	/* of the mapping of both queues */
} ring;
static struct io_uring_params ring_wanted;	/* zero: all by default */

__attribute__((noreturn)) static void ring_refused(int cause)
{
	FILE *f = fopen("/proc/sys/kernel/io_uring_disabled", "r");

	errx(cause == ENOSYS || cause == EPERM || cause == ENOMEM ? SKIP : FAIL,
	     "no io_uring here: io_uring_setup: %s (kernel.io_uring_disabled "
	     "is %c%s)", strerror(cause), f ? fgetc(f) : '-', cause == ENOMEM ?
	     "; before Linux 5.12, ulimit -l is its limit" : "");
}

static void ring_open(unsigned entries, int opcode, const char *name)
{
	struct io_uring_params p = ring_wanted;
	struct io_uring_probe *probe;

	ring.fd = syscall(__NR_io_uring_setup, entries, &p);
	if (ring.fd < 0)
		ring_refused(errno);
	probe = map(sizeof(*probe) + 256 * sizeof(*probe->ops), -1, 0);
	if (syscall(__NR_io_uring_register, ring.fd, IORING_REGISTER_PROBE,
		    probe, 256) < 0 || opcode > probe->last_op ||
	    !(probe->ops[opcode].flags & IO_URING_OP_SUPPORTED))
		errx(SKIP, "not on this kernel: %s", name);
	munmap(probe, sizeof(*probe) + 256 * sizeof(*probe->ops));
	/* Both queues in one mapping, as all kernels since 5.4 allow. */
	ring.size = MAX(p.sq_off.array + p.sq_entries * sizeof(unsigned),
			p.cq_off.cqes + p.cq_entries * sizeof(*ring.cqes));
	ring.start = map(ring.size, ring.fd, IORING_OFF_SQ_RING);
	ring.sqes = map(p.sq_entries * sizeof(*ring.sqes), ring.fd,
			IORING_OFF_SQES);
	ring.k_sq_tail = (unsigned *)(ring.start + p.sq_off.tail);
	ring.k_sq_flags = (unsigned *)(ring.start + p.sq_off.flags);
	ring.k_cq_head = (unsigned *)(ring.start + p.cq_off.head);
	ring.k_cq_tail = (unsigned *)(ring.start + p.cq_off.tail);
	ring.cqes = (struct io_uring_cqe *)(ring.start + p.cq_off.cqes);
	ring.sq_mask = p.sq_entries - 1;
	ring.cq_mask = p.cq_entries - 1;
	unsigned *array = (unsigned *)(ring.start + p.sq_off.array);
	for (unsigned i = 0; i < p.sq_entries; i++)
		array[i] = i;
}

static struct io_uring_sqe *ring_next_sqe(void)
{
	struct io_uring_sqe *sqe = &ring.sqes[ring.sq_tail++ & ring.sq_mask];

	return memset(sqe, 0, sizeof(*sqe));
}

/* One enter; more only after a signal or an SQE refused at submission. */
static void ring_enter(unsigned submit, unsigned wait)
{
	int done;

	__atomic_store_n(ring.k_sq_tail, ring.sq_tail, __ATOMIC_RELEASE);
	do {
		done = syscall(__NR_io_uring_enter, ring.fd, submit, wait,
			       wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
		if (done < 0 && errno != EINTR)
			err(FAIL, "io_uring_enter");
		submit -= done > 0 ? done : 0;
	} while (submit);
}

static unsigned ring_ready(void)
{
	return __atomic_load_n(ring.k_cq_tail, __ATOMIC_ACQUIRE) -
	       *ring.k_cq_head;
}

/* Copies the next `count` CQEs out, waiting for those not yet there. */
static void ring_reap(struct io_uring_cqe *out, unsigned count)
{
	unsigned head = *ring.k_cq_head;

	while (ring_ready() < count)
		ring_enter(0, count);
	for (unsigned i = 0; i < count; i++)
		out[i] = ring.cqes[(head + i) & ring.cq_mask];
	__atomic_store_n(ring.k_cq_head, head + count, __ATOMIC_RELEASE);
}
/*
 * Cycles of wait and wake pairs on one ring. Target and control share this
 * text; the prepare_wait() each defines is all that differs in a window.
 */
#define OP_FUTEX_WAIT	51	/* values of the 6.7 headers */
#define OP_FUTEX_WAKE	52
#define OP_FUTEX_WAITV	53
#define FUTEX_FLAGS	0x82	/* u32, private; waker and waiter */
#define FUTEX_ANY	0xffffffff
#define CQ_OVERFLOW	2	/* IORING_SQ_CQ_OVERFLOW */
#define MAX_VECTORS	64
#define WORD_STRIDE	16	/* one word to a 64-byte cache line */
#define ADDR3(sqe)	(((__u64 *)(sqe))[6])	/* named in 5.19 */

enum { VECTORS = OWN, WORDS, WAKE, CYCLES };

struct parameter parameters[] = {
	COMMON_PARAMETERS, { "--vectors", 8, 1, MAX_VECTORS },
	{ "--words", 8, 1, 128 },		/* of each vector */
	{ "--wake", 3, 0, 127 },		/* index of the word woken */
	{ "--cycles", 512, 1, 65536 }, { NULL, 0, 0, 0 },
};

/* The counters; the first two and the last also tag the SQEs. */
enum { WAITS, WAKES, BAD_RESULT, STRAY, OVERFLOW, RESIDUAL };

char counters[COLUMNS][NAME] = {
	"waits_ok", "wakes_ok", "bad_result", "stray", "overflow", "residual"
};

static struct io_uring_cqe cqes[2 * MAX_VECTORS];
static uint32_t *words;
static unsigned vectors, per_vector;
static u64 cycle;			/* never reused, so a late CQE shows */

static void prepare_wait(struct io_uring_sqe *sqe, unsigned v, unsigned w);

static uint32_t *word(unsigned v, unsigned w)
{
	return &words[(v * per_vector + w) * WORD_STRIDE];
}

static void push(unsigned tag, unsigned v, unsigned w)
{
	struct io_uring_sqe *sqe = ring_next_sqe();

	if (tag == WAITS) {
		prepare_wait(sqe, v, w);
	} else {
		sqe->opcode = OP_FUTEX_WAKE;
		sqe->fd = FUTEX_FLAGS;
		sqe->addr = (uintptr_t)word(v, w);
		sqe->off = 1;		/* waiters to wake at most */
		ADDR3(sqe) = FUTEX_ANY;
	}
	sqe->user_data = cycle << 16 | tag << 8 | v;
}

/* The window: arm all waits, wake word `w` of each, reap both CQEs. */
static u64 timed_cycle(unsigned w)
{
	u64 begin = now_ns();

	for (unsigned v = 0; v < vectors; v++)
		push(WAITS, v, w);
	ring_enter(vectors, 0);
	for (unsigned v = 0; v < vectors; v++)
		push(WAKES, v, w);
	ring_enter(vectors, 2 * vectors);
	ring_reap(cqes, 2 * vectors);
	return now_ns() - begin;
}

/* Each wait and each wake of this cycle once, with the result it must have. */
static void check_cycle(struct row *row, int wait_result)
{
	bool seen[2][MAX_VECTORS] = { 0 };

	for (unsigned i = 0; i < 2 * vectors; i++) {
		unsigned tag = cqes[i].user_data >> 8 & 0xff;
		unsigned v = cqes[i].user_data & 0xff;

		if (cqes[i].user_data >> 16 != cycle || tag > WAKES ||
		    v >= vectors || seen[tag][v]) {
			row->counters[STRAY]++;
			continue;
		}
		seen[tag][v] = true;
		if (cqes[i].res != (tag == WAITS ? wait_result : 1))
			tag = BAD_RESULT;
		row->counters[tag]++;
	}
	row->counters[STRAY] += ring_ready();
	row->counters[OVERFLOW] += !!(*ring.k_sq_flags & CQ_OVERFLOW);
}

/*
 * Wakes all words but `skip`; nobody may wait there. Only after the waits'
 * CQEs: until then a claimed vector is still queued on its other words.
 */
static void check_residual(struct row *row, unsigned skip)
{
	unsigned count = 0;
	struct io_uring_cqe cqe;

	for (unsigned i = 0; i < vectors * per_vector; i++)
		if (i % per_vector != skip && ++count)
			push(RESIDUAL, i / per_vector, i % per_vector);
	ring_enter(count, count);
	while (count--) {
		ring_reap(&cqe, 1);
		row->counters[RESIDUAL] += cqe.res != 0;
		row->counters[STRAY] += (cqe.user_data >> 8 & 0xff) != RESIDUAL;
	}
}

/* A round is the sum of its windows; the checks run between them. */
static void run_cycles(struct row *row, int wait_result, unsigned skip)
{
	row->ops = parameters[CYCLES].value * vectors;
	for (unsigned long i = 0; i < parameters[CYCLES].value; i++) {
		if (i % 1024 == 1023)
			alarm(WATCHDOG_S);
		cycle++;
		row->elapsed += timed_cycle(parameters[WAKE].value);
		check_cycle(row, wait_result);
		check_residual(row, skip);
	}
}

static void prepare_pairs(int opcode, const char *name)
{
	vectors = parameters[VECTORS].value;
	per_vector = parameters[WORDS].value;
	if (parameters[WAKE].value >= per_vector)
		errx(USAGE, "--wake is %lu, wanted below --words, %u",
		     parameters[WAKE].value, per_vector);
	words = map(vectors * per_vector * WORD_STRIDE * sizeof(*words), -1, 0);
	ring_open(vectors * per_vector, opcode, name);
}

const char workload[] = "io-uring-futex-waitv";

/* struct futex_waitv of <linux/futex.h> (5.16) */
static struct waitv {
	uint64_t value, address;
	uint32_t flags, reserved;
} *waits;

static void prepare_wait(struct io_uring_sqe *sqe, unsigned v, unsigned w)
{
	(void)w;			/* the wait is on all of them */
	sqe->opcode = OP_FUTEX_WAITV;
	sqe->addr = (uintptr_t)&waits[v * per_vector];
	sqe->len = per_vector;
}

/* A vector too short or aliased passes every later check, but not this. */
static void preflight(void)
{
	for (unsigned w = 0; w < per_vector; w++) {
		struct row row = { 0 };

		cycle++;
		timed_cycle(w);
		check_cycle(&row, w);
		if (row.counters[WAITS] != vectors ||
		    row.counters[WAKES] != vectors)
			errx(FAIL, "preflight: word %u not reported", w);
	}
}

static void prepare(void)
{
	prepare_pairs(OP_FUTEX_WAITV, "IORING_OP_FUTEX_WAITV");
	waits = map(vectors * per_vector * sizeof(*waits), -1, 0);
	for (unsigned i = 0; i < vectors * per_vector; i++) {
		waits[i].address = (uintptr_t)word(0, i);
		waits[i].flags = FUTEX_FLAGS;
	}
	preflight();
}

static void run_round(struct row *row)
{
	run_cycles(row, parameters[WAKE].value, parameters[WAKE].value);
}
