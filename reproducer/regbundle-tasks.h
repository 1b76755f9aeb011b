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

/* Such a workload's first parameters of its own; MORE is the next. */
enum { TASKS = OWN, OVERSUBSCRIBE, MORE };
#define TASK_PARAMETERS(option, tasks) \
	{ option, tasks, 1, MAX_TASKS }, { "--oversubscribe", 0, 0, 1 }

struct task {
	_Alignas(LINE) volatile u64 done;	/* if sampled while it runs */
	u64 answer;		/* of work(), which says what */
	u64 column;		/* what the row records of it */
	u64 found[8];		/* in the round, by index of counters[] */
	unsigned long index, cpu;
};

static struct board {
	_Alignas(LINE) _Atomic uint32_t go, ended;
	_Alignas(LINE) volatile uint32_t stop;
	struct task tasks[MAX_TASKS];
} *board;

static unsigned long tasks;
static unsigned recorded;		/* columns after the counters */

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

	board->stop = 0;
	board->ended = 0;
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

/* What it inherited of the sampler but its CPU is its real-time priority. */
static void *live(void *argument)
{
	struct task *task = argument;

	if (sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 }))
		err(FAIL, "SCHED_OTHER of task %lu", task->index);
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

static void choose_cpus(void)
{
	unsigned long found = 1;

	for (unsigned long i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &cpus) && i != used_cpu[0])
			used_cpu[found++] = i;
	tasks = parameters[TASKS].value;
	used_cpus = MIN(tasks, found);
	if (tasks > found && !parameters[OVERSUBSCRIBE].value) {
		warnx("%lu tasks but %lu CPUs: fewer tasks, more CPUs, or "
		      "--oversubscribe 1", tasks, found);
		usage(stderr, USAGE);
	}
}

/* Then rehearses: first faults and lazy symbols are not left to a row. */
static void start_tasks(void (*start)(struct task *), const char *column)
{
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (board == MAP_FAILED)
		err(FAIL, "mmap of %zu shared bytes", sizeof(*board));
	while (*counters[recorded])
		recorded++;
	strcpy(counters[recorded], "tasks");
	strcpy(counters[recorded + 1], "task_cpus");
	for (unsigned long i = 0; i < tasks; i++) {
		struct task *task = &board->tasks[i];

		snprintf(counters[recorded + 2 + i], NAME, column, i);
		task->index = i;
		task->cpu = used_cpu[i % used_cpus];
		pin(task->cpu);		/* the task inherits it */
		start(task);
	}
	pin(used_cpu[0]);
	await_tasks();
	run_round(&(struct row){ 0 });
}

/* Writes what the tasks found, and clears it. */
static void end_round(struct row *row)
{
	for (unsigned long i = 0; i < tasks; i++) {
		struct task *task = &board->tasks[i];

		for (unsigned c = 0; c < MIN(recorded, 8); c++)
			row->counters[c] += task->found[c];
		row->counters[recorded + 2 + i] = task->column;
		memset(task, 0, offsetof(struct task, index));
	}
	row->counters[recorded] = tasks;
	row->counters[recorded + 1] = used_cpus;
}
