// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Tasks that work until they are stopped, sampled in a common window. With
 * more tasks than CPUs it must hold a time slice of each.
 */
#include <sys/prctl.h>

enum { AS_THREADS = MORE, MIB, WINDOW_MS };
#define WINDOW_PARAMETERS(window_ms) \
	TASK_PARAMETERS("--tasks", 1), { "--threads", 0, 0, 1 }, \
	{ "--mib", 128, 1, 4096 }, { "--window_ms", window_ms, 1, 10000 }

/* Of counters[]; what WRONG is, a workload says. */
enum { OPS_OK, FAILED_CALLS, WRONG, STUCK, OFF_CPU };

/* In one word, that both are read at once: ops, above them right ops. */
#define ONE_OP		1ULL
#define ONE_RIGHT	(1ULL << 32)

/* A workload file defines it: some ops, until told to stop. */
static void lap(struct task *task);

static void work(struct task *task)
{
	bool astray = sched_getcpu() != (int)task->cpu;

	while (!board->stop)
		lap(task);
	task->found[OFF_CPU] = astray || sched_getcpu() != (int)task->cpu;
}

static void start_task(struct task *task)
{
	pid_t sampler = getpid(), child;

	if (parameters[AS_THREADS].value) {
		start_thread(task);
		return;
	}
	signal(SIGCHLD, watchdog);	/* a task that dies ends the run */
	child = fork();
	if (child < 0)
		err(FAIL, "process of task %lu", task->index);
	if (child > 0)
		return;
	/* The sampler may have died before the kernel was told. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != sampler)
		_exit(FAIL);
	live(task);
}

/* The answer of a task: ops of the round that it found wrong afterwards. */
static void run_round(struct row *row)
{
	u64 ops[MAX_TASKS], ms = parameters[WINDOW_MS].value, begin;
	struct task *task = board->tasks;
	unsigned long i = 0;

	release_tasks();
	/* Each has done an op, or in 2 s has not: it will count as stuck. */
	for (int laps = 0; laps < 20000 && i < tasks; laps++, usleep(100))
		while (i < tasks && task[i].done)
			i++;
	begin = now_ns();
	for (i = 0; i < tasks; i++)
		ops[i] = task[i].done;
	usleep(ms * 1000);
	for (i = 0; i < tasks; i++)
		ops[i] = task[i].done - ops[i];
	row->elapsed = now_ns() - begin;
	board->stop = 1;
	await_tasks();
	for (i = 0; i < tasks; i++) {
		u64 right = ops[i] / ONE_RIGHT;

		task[i].found[OPS_OK] = right - MIN(right, task[i].answer);
		task[i].column = ops[i] % ONE_RIGHT;
		task[i].found[STUCK] = task[i].column == 0;
		row->ops += task[i].column;
	}
	end_round(row);
}
