// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Pools of one process that create threads and join them, at the same time.
 *
 * One op is one thread on a stack of its own: created, it marks that it ran
 * and ends, joined. A pool is a thread that creates --threads, joins all, and
 * again, --cycles times. A round is one window, to the end of the last pool.
 *
 * After it: each thread had run, no call had failed.
 *
 * Build: cc -O2 -o thread-pool thread-pool.c   (glibc 2.34 or newer)
 * Run:   ./thread-pool                   (rows on stdout, see --help)
 */
#include "regbundle.h"
#include "regbundle-tasks.h"

const char workload[] = "thread-pool";

enum { THREAD_COUNT = MORE, CYCLES, STACK_KIB };

/* A round of about 5 ms: what comes and goes inside it no canary sees. */
struct parameter parameters[] = {
	COMMON_PARAMETERS,
	TASK_PARAMETERS("--pools", 2),
	{ "--threads", 8, 1, 128 },
	{ "--cycles", 16, 1, 100000 },
	{ "--stack_kib", 16, 16, 8192 },
	{ NULL, 0, 0, 0 },
};

enum { THREADS_OK, NOT_RUN, FAILED_CALLS };

char counters[COLUMNS][NAME] = { "threads_ok", "not_run", "failed_calls" };

/* What one thread of a pool needs, again in each cycle. */
static struct member {
	_Alignas(LINE) u64 runs;
	pthread_attr_t attributes;
	pthread_t thread;
	bool created;
} *members;

#define members_of(pool) (&members[(pool) * parameters[THREAD_COUNT].value])

static void *mark(void *runs)
{
	++*(u64 *)runs;
	return NULL;
}

static void work(struct task *pool)
{
	struct member *first = members_of(pool->index), *m;
	struct member *end = first + parameters[THREAD_COUNT].value;

	for (unsigned long i = parameters[CYCLES].value; i; i--) {
		for (m = first; m < end; m++) {
			m->created = !pthread_create(&m->thread, &m->attributes,
						     mark, &m->runs);
			pool->found[FAILED_CALLS] += !m->created;
		}
		for (m = first; m < end; m++)
			if (m->created && pthread_join(m->thread, NULL))
				pool->found[FAILED_CALLS]++;
	}
	pool->answer = now_ns();	/* when it was done */
}

/* A stack that is there before the first window, and no guard to set up. */
static void prepare_member(struct member *member)
{
	size_t size = parameters[STACK_KIB].value << 10;

	pthread_attr_init(&member->attributes);
	errno = pthread_attr_setstack(&member->attributes, map(size, -1, 0),
				      size);
	if (errno)
		errx(SKIP, "--stack_kib %zu: not on this kernel, wanted %ld "
		     "bytes", size >> 10, sysconf(_SC_THREAD_STACK_MIN));
}

/* It and its threads may use the CPUs of all pools. */
static void start_pool(struct task *pool)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (unsigned long i = 0; i < used_cpus; i++)
		CPU_SET(used_cpu[i], &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		err(FAIL, "sched_setaffinity");
	start_thread(pool);
}

static void prepare(void)
{
	choose_cpus();
	members = map(tasks * parameters[THREAD_COUNT].value *
		      sizeof(*members), -1, 0);
	for (struct member *m = members; m < members_of(tasks); m++)
		prepare_member(m);
	start_tasks(start_pool, "task%lu_elapsed");
}

/* Each cycle runs a member once; fewer runs are threads that did not. */
static void check_members(struct row *row)
{
	u64 cycles = parameters[CYCLES].value;

	for (struct member *m = members; m < members_of(tasks); m++) {
		row->counters[THREADS_OK] += MIN(m->runs, cycles);
		row->counters[NOT_RUN] += llabs((long long)(m->runs - cycles));
		m->runs = 0;
	}
}

static void run_round(struct row *row)
{
	u64 begin = release_tasks();

	await_tasks();
	for (unsigned long i = 0; i < tasks; i++) {
		struct task *pool = &board->tasks[i];

		pool->column = pool->answer - begin;
		row->elapsed = MAX(row->elapsed, pool->column);
	}
	row->ops = tasks * parameters[THREAD_COUNT].value *
		   parameters[CYCLES].value;
	check_members(row);
	end_round(row);
}
