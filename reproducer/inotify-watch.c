// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * inotify watches added and removed, by one worker or several at once.
 *
 * One op is one inotify_add_watch() of a file, IN_MODIFY, and the
 * inotify_rm_watch() of it. A window is a cycle: the workers, each a thread
 * with an inotify instance of its own, are released together; each adds
 * --watches watches, then removes them; the last one's end closes the window.
 * Scenario distinct: each worker has files of its own; shared: all watch the
 * same; pair: each cycle is one window of both, in alternating order.
 *
 * After it: each descriptor was positive and new, each removal succeeded and
 * gave exactly one IN_IGNORED (read outside the window), no queue overflowed.
 *
 * Build: cc -O2 -o inotify-watch inotify-watch.c   (glibc 2.34 or newer)
 * Run:   ./inotify-watch                 (rows on stdout, see --help)
 */
#define SCENARIOS "distinct", "shared", "pair"
#include "regbundle.h"
#include "regbundle-tasks.h"
#include <sys/inotify.h>

#define MAX_WATCHES	4096
#define PATH		128		/* bytes of a file's name */

const char workload[] = "inotify-watch";

enum { WATCHES = MORE, CYCLES };

/* A round of about 4 ms: what comes and goes inside it no canary sees. */
struct parameter parameters[] = {
	COMMON_PARAMETERS, TASK_PARAMETERS("--workers", 1),
	{ "--watches", 96, 1, MAX_WATCHES },
	{ "--cycles", 32, 1, 10000 },
	{ NULL, 0, 0, 0 },
};

enum { WATCHES_OK, BAD_WD, NOT_IGNORED, OVERFLOW, PARTS };
/* The scenarios; the workers are ordered one of the first two or CHECK. */
enum { DISTINCT, SHARED, PAIR, CHECK };

char counters[COLUMNS][NAME] = {
	"watches_ok", "bad_wd", "not_ignored", "queue_overflow"
};

static unsigned long watches;		/* of a worker */
static struct worker {
	int fd, wd[MAX_WATCHES], not_removed[MAX_WATCHES];
	unsigned ignored[MAX_WATCHES];
	/* A removal is one event, of 16 bytes; what else comes is read last. */
	struct inotify_event events[MAX_WATCHES + 1];
} workers[MAX_TASKS];

static char folder[PATH - 24], files[MAX_TASKS * MAX_WATCHES][PATH];
static unsigned long n_files, rounds;
static volatile unsigned order;

static void add_watches(struct worker *worker, unsigned long first)
{
	for (unsigned long i = 0; i < watches; i++)
		worker->wd[i] = inotify_add_watch(worker->fd, files[first + i],
						  IN_MODIFY);
}

static void remove_watches(struct worker *worker)
{
	for (unsigned long i = 0; i < watches; i++)
		worker->not_removed[i] = inotify_rm_watch(worker->fd,
							  worker->wd[i]);
}

/* The first of the worker's watches that has this descriptor. */
static unsigned long find(const struct worker *worker, int wd)
{
	unsigned long i = 0;

	while (i < watches && worker->wd[i] != wd)
		i++;
	return i;
}

static void note_event(struct worker *worker, u64 *found,
		       const struct inotify_event *event)
{
	unsigned long i = find(worker, event->wd);

	if (event->mask & IN_Q_OVERFLOW)
		found[OVERFLOW]++;
	else if (i < watches && event->mask == IN_IGNORED)
		worker->ignored[i]++;
	else
		found[NOT_IGNORED]++;
}

/* The kernel queues IN_IGNORED before inotify_rm_watch() returns. */
static void check_watches(struct worker *worker, u64 *found)
{
	struct inotify_event *events = worker->events;
	ssize_t n;

	memset(worker->ignored, 0, watches * sizeof(*worker->ignored));
	while ((n = read(worker->fd, events, sizeof(worker->events))) > 0)
		for (size_t i = 0; i < n / sizeof(*events); i++)
			note_event(worker, found, &events[i]);
	for (unsigned long i = 0; i < watches; i++) {
		int wd = worker->wd[i];
		bool bad = wd < 1 || worker->not_removed[i] ||
			   find(worker, wd) != i;
		bool lost = wd > 0 && worker->ignored[i] != 1;

		found[WATCHES_OK] += !bad && !lost;
		found[BAD_WD] += bad;
		found[NOT_IGNORED] += lost;
	}
}

/* Answers when the worker's part of a window was over. */
static void work(struct task *task)
{
	struct worker *worker = &workers[task->index];
	const unsigned files_of = order;

	if (files_of == CHECK) {
		check_watches(worker, task->found);
		return;
	}
	add_watches(worker, files_of == DISTINCT ? task->index * watches : 0);
	remove_watches(worker);
	task->answer = now_ns();
}

static void remove_folder(void)
{
	for (unsigned long i = 0; i < n_files; i++)
		unlink(files[i]);
	rmdir(folder);
}

static bool make_folder(const char *place)
{
	snprintf(folder, sizeof(folder), "%s/regbundle-XXXXXX", place);
	if (!mkdtemp(folder)) {
		warn("folder in %s", place);
		return false;
	}
	fprintf(stderr, "note: files in %s\n", place);
	return true;
}

/* In the first place that will do; a tmpfs has no disk's noise. */
static void make_files(void)
{
	const char *chosen = getenv("TMPDIR");

	if (!make_folder("/dev/shm") && !(chosen && make_folder(chosen)) &&
	    !make_folder("/tmp"))
		errx(FAIL, "no folder for files: tried /dev/shm, $TMPDIR and "
		     "/tmp");
	atexit(remove_folder);
	at_quick_exit(remove_folder);
	/* All that would end the program and can be caught. */
	for (int deadly = SIGHUP; deadly <= SIGTERM; deadly++)
		signal(deadly, watchdog);
	for (unsigned long i = 0; i < n_files; i++) {
		int fd;

		snprintf(files[i], PATH, "%s/%06lu", folder, i);
		fd = open(files[i], O_CREAT | O_EXCL | O_WRONLY, 0600);
		if (fd < 0)
			err(FAIL, "%s", files[i]);
		close(fd);
	}
}

/* What is too low is a limit of this machine, no fault of the kernel. */
static void check_limit(int got, const char *name, u64 wanted)
{
	if (got >= 0)
		return;
	if (errno != EMFILE && errno != ENOSPC)
		err(FAIL, "preparing %s", name);
	errx(SKIP, "%s: fs.inotify.%s is too low, wanted %llu beside what the "
	     "user's other processes have: sysctl -w fs.inotify.%s=NUMBER",
	     strerror(errno), name, wanted, name);
}

/* As many instances and watches at once as a window can have. */
static void open_workers(void)
{
	struct worker *end = workers + tasks, *w;

	for (w = workers; w < end; w++) {
		w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
		check_limit(w->fd, "max_user_instances", tasks);
		add_watches(w, (w - workers) * watches % n_files);
		check_limit(w->wd[watches - 1], "max_user_watches",
			    tasks * watches);
	}
	for (w = workers; w < end; w++)
		remove_watches(w);	/* the rehearsal reads the events */
}

static void prepare(void)
{
	choose_cpus();
	watches = parameters[WATCHES].value;
	n_files = scenario == SHARED ? watches : tasks * watches;
	make_files();
	open_workers();
	if (scenario == PAIR) {
		strcpy(counters[PARTS + DISTINCT], "part_distinct");
		strcpy(counters[PARTS + SHARED], "part_shared");
	}
	start_tasks(start_thread, "task%lu_elapsed");
}

/* Gives the window: from the release to the end of the last worker. */
static u64 run_window(unsigned files_of)
{
	u64 begin, longest = 0;

	order = files_of;
	begin = release_tasks();
	await_tasks();
	for (unsigned long i = 0; i < tasks; i++) {
		u64 own = board->tasks[i].answer - begin;

		board->tasks[i].column += own;
		longest = MAX(longest, own);
	}
	order = CHECK;
	release_tasks();
	await_tasks();
	return longest;
}

/* A cycle of a pair is two windows; which is first alternates. */
static void run_round(struct row *row)
{
	u64 windows = parameters[CYCLES].value * (scenario == PAIR ? 2 : 1);
	u64 part[2] = { 0 };

	for (u64 i = 0; i < windows; i++) {
		unsigned files_of = scenario == PAIR ?
				    (rounds + i + i / 2) % 2 : scenario;

		part[files_of] += run_window(files_of);
	}
	rounds++;
	row->ops = windows * tasks * watches;
	row->elapsed = part[DISTINCT] + part[SHARED];
	memcpy(&row->counters[PARTS], part, sizeof(part));
	end_round(row);		/* without parts, its columns replace them */
}
