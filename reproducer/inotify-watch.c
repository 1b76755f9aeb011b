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

#define PATH	128		/* bytes of a file's name */

const char workload[] = "inotify-watch";

enum { WORKERS = OWN, WATCHES, CYCLES, OVERSUBSCRIBE };

/* A round of about 4 ms: what comes and goes inside it no canary sees. */
struct parameter parameters[] = {
	COMMON_PARAMETERS,
	{ "--workers", 1, 1, MAX_TASKS },
	{ "--watches", 96, 1, 4096 },
	{ "--cycles", 32, 1, 10000 },
	{ "--oversubscribe", 0, 0, 1 },
	{ NULL, 0, 0, 0 },
};

/* The parts are there in scenario PAIR only. */
enum { WATCHES_OK, BAD_WD, NOT_IGNORED, OVERFLOW, PART_DISTINCT, PART_SHARED };
/* The scenarios; the workers are ordered one of the first two or CHECK. */
enum { DISTINCT, SHARED, PAIR, CHECK };

const char *const counters[] = {
	"watches_ok", "bad_wd", "not_ignored", "queue_overflow",
	RECORDED_COLUMNS, NULL
};

static unsigned long watches;		/* of a worker */
static struct worker {
	int fd;
	char *events;
	struct watch {
		int wd, not_removed;
		unsigned ignored;
	} *watches;
} workers[MAX_TASKS];
static size_t event_bytes;

static char folder[PATH - 24], (*files)[PATH];
static unsigned long n_files, made, rounds;

static void add_watches(const struct worker *worker, unsigned long first)
{
	for (unsigned long i = 0; i < watches; i++)
		worker->watches[i].wd =
			inotify_add_watch(worker->fd, files[first + i],
					  IN_MODIFY);
}

static void remove_watches(const struct worker *worker)
{
	for (unsigned long i = 0; i < watches; i++)
		worker->watches[i].not_removed =
			inotify_rm_watch(worker->fd, worker->watches[i].wd);
}

static int by_wd(const void *a, const void *b)
{
	const struct watch *x = a, *y = b;

	return (x->wd > y->wd) - (x->wd < y->wd);
}

static void note_event(const struct worker *worker, u64 *found,
		       const struct inotify_event *event)
{
	struct watch key = { .wd = event->wd };
	struct watch *watch = bsearch(&key, worker->watches, watches,
				      sizeof(key), by_wd);

	if (event->mask & IN_Q_OVERFLOW)
		found[OVERFLOW]++;
	else if (watch && event->mask == IN_IGNORED)
		watch->ignored++;
	else
		found[NOT_IGNORED]++;
}

/* The kernel queues IN_IGNORED before inotify_rm_watch() returns. */
static void drain(const struct worker *worker, u64 *found)
{
	const struct inotify_event *event;
	ssize_t n;

	while ((n = read(worker->fd, worker->events, event_bytes)) > 0)
		for (ssize_t i = 0; i < n; i += sizeof(*event) + event->len) {
			event = (const void *)(worker->events + i);
			note_event(worker, found, event);
		}
}

static void check_watches(const struct worker *worker, u64 *found)
{
	struct watch *first = worker->watches, *w;

	for (w = first; w < first + watches; w++)
		w->ignored = 0;
	qsort(first, watches, sizeof(*w), by_wd);
	drain(worker, found);
	for (w = first; w < first + watches; w++) {
		bool bad = w->wd < 1 || w->not_removed ||
			   (w > first && w[-1].wd == w->wd);
		bool lost = w->wd > 0 && w->ignored != 1;

		found[WATCHES_OK] += !bad && !lost;
		found[BAD_WD] += bad;
		found[NOT_IGNORED] += lost;
	}
}

/* Answers when the worker's part of a window was over. */
static void work(struct task *task)
{
	const struct worker *worker = &workers[task->index];
	const uint32_t order = board->order;

	if (order == CHECK) {
		check_watches(worker, task->found);
		return;
	}
	add_watches(worker, order == DISTINCT ? task->index * watches : 0);
	remove_watches(worker);
	task->answer = now_ns();
}

static void remove_folder(void)
{
	for (unsigned long i = 0; i < made; i++)
		unlink(files[i]);
	rmdir(folder);
}

static void remove_folder_and_die(int number)
{
	remove_folder();
	watchdog(number);
}

/* A folder in the first place that will do; a tmpfs has no disk's noise. */
static void make_folder(void)
{
	const char *places[] = { "/dev/shm", getenv("TMPDIR"), "/tmp" };

	for (unsigned i = 0; i < 3; i++) {
		if (!places[i])
			continue;
		if (snprintf(folder, sizeof(folder), "%s/regbundle-XXXXXX",
			     places[i]) < (int)sizeof(folder) &&
		    mkdtemp(folder)) {
			fprintf(stderr, "note: files in %s\n", places[i]);
			return;
		}
		warn("folder in %s", places[i]);
	}
	errx(FAIL, "no folder for files: tried /dev/shm, $TMPDIR and /tmp");
}

static void make_files(void)
{
	const int deadly[] = { SIGALRM, SIGHUP, SIGINT, SIGPIPE, SIGTERM };

	files = map(n_files * PATH, -1, 0);
	make_folder();
	atexit(remove_folder);
	for (unsigned i = 0; i < sizeof(deadly) / sizeof(*deadly); i++)
		signal(deadly[i], remove_folder_and_die);
	for (; made < n_files; made++) {
		int fd;

		snprintf(files[made], PATH, "%s/%06lu", folder, made);
		fd = open(files[made], O_CREAT | O_EXCL | O_WRONLY, 0600);
		if (fd < 0)
			err(FAIL, "%s", files[made]);
		close(fd);
	}
}

/* A limit of this machine, not a fault of the kernel. */
static void check_limit(int number, const char *name, u64 wanted)
{
	if (errno == number)
		errx(SKIP, "%s: fs.inotify.%s is too low, wanted %llu beside "
		     "what the user's other processes have: sysctl -w "
		     "fs.inotify.%s=NUMBER", strerror(errno), name, wanted,
		     name);
	if (errno)
		err(FAIL, "preparing %s", name);
}

/*
 * As many instances and watches at once as a window can have. The events of
 * the removals are read by the rehearsal.
 */
static void open_workers(void)
{
	struct worker *w;

	errno = 0;
	for (w = workers; w < workers + tasks && !errno; w++) {
		w->watches = map(watches * sizeof(*w->watches), -1, 0);
		w->events = map(event_bytes, -1, 0);
		w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	}
	check_limit(EMFILE, "max_user_instances", tasks);
	for (w = workers; w < workers + tasks; w++)
		add_watches(w, (w - workers) * watches % n_files);
	check_limit(ENOSPC, "max_user_watches", tasks * watches);
	for (w = workers; w < workers + tasks; w++)
		remove_watches(w);
}

static void prepare(void)
{
	choose_cpus(parameters[WORKERS].value,
		    parameters[OVERSUBSCRIBE].value);
	watches = parameters[WATCHES].value;
	n_files = scenario == SHARED ? watches : tasks * watches;
	/* A removal is one event; what else comes takes a second read. */
	event_bytes = (watches + 1) * sizeof(struct inotify_event);
	make_files();
	open_workers();
	if (scenario == PAIR) {
		strcpy(columns[0], "part_distinct");
		strcpy(columns[1], "part_shared");
	}
	start_tasks(start_thread, "task%lu_elapsed");
}

/* Gives the window: from the release to the end of the last worker. */
static u64 run_window(unsigned files_of, u64 *elapsed)
{
	u64 begin, longest = 0;

	board->order = files_of;
	begin = release_tasks();
	await_tasks();
	for (unsigned long i = 0; i < tasks; i++) {
		u64 own = board->tasks[i].answer - begin;

		elapsed[i] += own;
		longest = MAX(longest, own);
	}
	board->order = CHECK;
	release_tasks();
	await_tasks();
	return longest;
}

static void run_round(struct row *row)
{
	u64 elapsed[MAX_TASKS] = { 0 }, part[2] = { 0 };

	begin_round(row);
	for (unsigned long i = 0; i < parameters[CYCLES].value; i++) {
		unsigned first = scenario == PAIR ? (rounds + i) % 2 : scenario;

		part[first] += run_window(first, elapsed);
		row->ops += tasks * watches;
		if (scenario != PAIR)
			continue;
		part[!first] += run_window(!first, elapsed);
		row->ops += tasks * watches;
	}
	rounds++;
	row->elapsed = part[DISTINCT] + part[SHARED];
	if (scenario == PAIR) {
		row->counters[PART_DISTINCT] = part[DISTINCT];
		row->counters[PART_SHARED] = part[SHARED];
	}
	end_round(row, scenario == PAIR ? PART_SHARED + 1 : OVERFLOW + 1,
		  elapsed);
}
