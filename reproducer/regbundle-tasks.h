// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Tasks beside the sampler: SCHED_OTHER, each on a CPU of its own while there
 * are enough, asleep between rounds.
 */
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#define MAX_TASKS	64
#define LINE		128	/* x86 fetches lines of 64 bytes in pairs */

struct task {
	_Alignas(LINE) volatile u64 done;	/* if sampled while it runs */
	u64 answer;		/* of its last work(), which says what */
	u64 found[8];		/* in the round, by index of counters[] */
	unsigned long index, cpu;
};

/*
 * Also for what changes between rounds: a static variable whose address
 * nobody takes gcc may keep in a register across syscall().
 */
static struct board {
	_Alignas(LINE) _Atomic uint32_t go, ended, order;
	_Alignas(LINE) volatile uint32_t stop;
	struct task tasks[MAX_TASKS];
} *board;

/* The sampler's CPU is the first. */
static unsigned long tasks, task_cpus, task_cpu[CPU_SETSIZE];
static bool anywhere;			/* each task on all of these CPUs */

/* Names made at run time; the first empty one ends the table counters[]. */
static char columns[MAX_TASKS + 5][40];
#define C4(i)	columns[i], columns[i + 1], columns[i + 2], columns[i + 3]
#define C16(i)	C4(i), C4(i + 4), C4(i + 8), C4(i + 12)
#define RECORDED_COLUMNS C16(0), C16(16), C16(32), C16(48), C4(64), columns[68]

/* A workload file defines it: what a task does when it is let go. */
static void work(struct task *task);

static long futex(_Atomic uint32_t *word, int op, uint32_t value, long second)
{
	return syscall(SYS_futex, word, op, value, second, word, *word);
}

/* The tasks begin; when. */
static u64 release_tasks(void)
{
	u64 begin;

	board->stop = board->ended = 0;
	begin = now_ns();
	board->go++;
	futex(&board->go, FUTEX_WAKE, INT_MAX, 0);
	return begin;
}

/*
 * Only the last to end wakes the sampler: no task is preempted by it. To move
 * the sleepers from a word to itself then says how many there are.
 */
static void await_tasks(void)
{
	for (uint32_t ended; (ended = board->ended) < tasks; )
		futex(&board->ended, FUTEX_WAIT, ended, 0);
	while (futex(&board->go, FUTEX_CMP_REQUEUE, 0, INT_MAX) != (long)tasks)
		usleep(50);
}

/* Out of what the sampler inherited: its CPU and its real-time priority. */
static void *live(void *argument)
{
	struct task *task = argument;
	cpu_set_t set;

	CPU_ZERO(&set);
	for (unsigned long i = 0; i < task_cpus; i++)
		if (anywhere || task_cpu[i] == task->cpu)
			CPU_SET(task_cpu[i], &set);
	if (sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 }) ||
	    sched_setaffinity(0, sizeof(set), &set))
		err(FAIL, "SCHED_OTHER on CPU %lu", task->cpu);
	for (uint32_t seen = 0; ; seen++) {
		if (++board->ended == tasks)
			futex(&board->ended, FUTEX_WAKE, 1, 0);
		while (board->go == seen)
			futex(&board->go, FUTEX_WAIT, seen, 0);
		work(task);
	}
	return NULL;
}

static void start_thread(struct task *task)
{
	pthread_t thread;

	errno = pthread_create(&thread, NULL, live, task);
	if (errno)
		err(FAIL, "thread of task %lu", task->index);
}

static void choose_cpus(unsigned long n, bool oversubscribe)
{
	unsigned long found = 1;

	task_cpu[0] = parameters[CPU].value;
	for (unsigned long i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &cpus) && i != task_cpu[0])
			task_cpu[found++] = i;
	if (n > found && !oversubscribe) {
		warnx("%lu tasks but %lu CPUs: fewer tasks, more CPUs, or "
		      "--oversubscribe 1", n, found);
		usage(stderr, USAGE);
	}
	tasks = n;
	task_cpus = MIN(n, found);
}

/* Then rehearses: first faults and lazy symbols are not left to a row. */
static void start_tasks(void (*start)(struct task *), const char *column)
{
	unsigned at = columns[0][0] ? 2 : 0;	/* the workload's own parts */

	strcpy(columns[at++], "tasks");
	strcpy(columns[at++], "task_cpus");
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (board == MAP_FAILED)
		err(FAIL, "mmap of %zu shared bytes", sizeof(*board));
	for (unsigned long i = 0; i < tasks; i++) {
		snprintf(columns[at++], sizeof(*columns), column, i);
		board->tasks[i].index = i;
		board->tasks[i].cpu = task_cpu[i % task_cpus];
		start(&board->tasks[i]);
	}
	await_tasks();
	run_round(&(struct row){ 0 });
}

/*
 * The canaries of the tasks' other CPUs; measure() reads the sampler's own.
 * What the journey itself costs is taken out of the row's usage.
 */
static void visit_cpus(struct row *row, int after)
{
	count(row, 1);
	for (unsigned long i = task_cpus; i-- > 0; ) {
		pin(task_cpu[i]);
		if (i > 0)
			canaries(&row->alu[after], &row->getppid[after]);
	}
	count(row, -1);
}

static void begin_round(struct row *row)
{
	for (unsigned long i = 0; i < tasks; i++)
		memset(&board->tasks[i], 0, offsetof(struct task, index));
	visit_cpus(row, 0);
}

/* Adds up what the tasks found; the recorded columns begin at `column`. */
static void end_round(struct row *row, unsigned column, const u64 *of_task)
{
	visit_cpus(row, 1);
	for (unsigned long i = 0; i < tasks; i++)
		for (unsigned c = 0; c < column && c < 8; c++)
			row->counters[c] += board->tasks[i].found[c];
	row->counters[column] = tasks;
	row->counters[column + 1] = task_cpus;
	memcpy(&row->counters[column + 2], of_task, tasks * sizeof(*of_task));
}
