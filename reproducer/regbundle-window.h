// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Tasks that work until they are stopped, sampled in a common window. With
 * more tasks than CPUs it must hold a time slice of each.
 */
#include <sys/prctl.h>

enum { TASKS = OWN, AS_THREADS, MIB, WINDOW_MS, OVERSUBSCRIBE };
#define WINDOW_PARAMETERS(window_ms) \
	{ "--tasks", 1, 1, MAX_TASKS }, { "--threads", 0, 0, 1 }, \
	{ "--mib", 128, 1, 4096 }, { "--window_ms", window_ms, 1, 10000 }, \
	{ "--oversubscribe", 0, 0, 1 }

/* Of counters[]; what WRONG is, a workload says. */
enum { OPS_OK, FAILED_CALLS, WRONG, STUCK, OFF_CPU, RECORDED };

/* In one word, that both are read at once: ops, above them right ops. */
#define ONE_OP		1ULL
#define ONE_RIGHT	(1ULL << 32)

static void note_cpu(struct task *task)
{
	if ((unsigned long)sched_getcpu() != task->cpu)
		task->found[OFF_CPU] = 1;
}

static void start_process(struct task *task)
{
	pid_t sampler = getpid(), child;

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

static void prepare_tasks(void)
{
	start_tasks(parameters[AS_THREADS].value ? start_thread :
		    start_process, "task%lu_ops");
}

static void sample_window(struct row *row)
{
	u64 before[MAX_TASKS], ops[MAX_TASKS], ms = parameters[WINDOW_MS].value;
	struct timespec window = { ms / 1000, ms % 1000 * 1000000 };
	unsigned long i = 0;
	u64 begin;

	begin_round(row);
	release_tasks();
	/* Each has done an op, or in 2 s has not: it will count as stuck. */
	for (int laps = 0; laps < 20000 && i < tasks; laps++, usleep(100))
		while (i < tasks && board->tasks[i].done)
			i++;
	begin = now_ns();
	for (i = 0; i < tasks; i++)
		before[i] = board->tasks[i].done;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &window, NULL);
	for (i = 0; i < tasks; i++)
		ops[i] = board->tasks[i].done - before[i];
	row->elapsed = now_ns() - begin;
	board->stop = 1;
	await_tasks();
	for (i = 0; i < tasks; i++) {
		row->counters[OPS_OK] += ops[i] / ONE_RIGHT;
		ops[i] %= ONE_RIGHT;
		row->ops += ops[i];
		row->counters[STUCK] += ops[i] == 0;
	}
	end_round(row, RECORDED, ops);
}
