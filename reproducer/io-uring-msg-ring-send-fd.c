// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * io_uring MSG_RING SEND_FD: files sent into the sparse table of a second ring.
 *
 * An install is one IORING_OP_MSG_RING with IORING_MSG_SEND_FD: slot i of the
 * target gets file i % --sources of the source ring. A batch of them is one
 * enter that waits for their CQEs, which are reaped in the window.
 *
 * first-fill: one op is an install; a window fills --slots of a new target.
 * warm-refill: the same on one target, just emptied.
 * remove-refill: one op, and window, is that removal of all by one
 *   IORING_REGISTER_FILES_UPDATE, and the fill.
 * register-fill: one op, and window, is the registration of the sparse table
 *   by IORING_REGISTER_FILES2, and the fill.
 * register-install: the same with the first --installs slots only.
 *
 * After it: each source CQE gave 0, by user_data; the target has a CQE of each
 * install, once; no CQE overflowed or was stray. After the last cycle of a
 * round each slot holds the file of its source, by device and inode.
 *
 * Build: cc -O2 -o io-uring-msg-ring-send-fd io-uring-msg-ring-send-fd.c
 * Run:   ./io-uring-msg-ring-send-fd     (rows on stdout, see --help)
 */
#define SCENARIOS	"first-fill", "remove-refill", "register-fill", \
			"register-install", "warm-refill"
#include "regbundle.h"
#include "regbundle-ring.h"
#include <sys/stat.h>

#define OP_MSG_RING		40	/* values of the 6.8 headers */
#define OP_FIXED_FD_INSTALL	54
#define MSG_SEND_FD		1
#define TABLE_SPARSE		1	/* IORING_RSRC_REGISTER_SPARSE */
#define CQ_OVERFLOW		2	/* IORING_SQ_CQ_OVERFLOW */
#define ADDR3(sqe)		(((__u64 *)(sqe))[6])
#define FILE_INDEX(sqe)		(((__u32 *)(sqe))[11])

#define MAX_SLOTS	16384	/* 14 bits of a user_data */
#define MAX_SOURCES	1024
#define PREFLIGHT_SLOTS	64
#define OTHER_FDS	64	/* of this process: standard ones, inherited */
#define NEEDED		"IORING_OP_FIXED_FD_INSTALL, needs Linux 6.8"

const char workload[] = "io-uring-msg-ring-send-fd";

enum { FIRST_FILL, REMOVE_REFILL, REGISTER_FILL, REGISTER_INSTALL,
       WARM_REFILL };
enum { SLOTS = OWN, BATCH, SOURCES, INSTALLS, CYCLES };

struct parameter parameters[] = {
	COMMON_PARAMETERS, { "--slots", 4096, PREFLIGHT_SLOTS, MAX_SLOTS },
	{ "--batch", 128, 1, 4096 }, { "--sources", 64, 1, MAX_SOURCES },
	{ "--installs", 64, 1, MAX_SLOTS },
	{ "--cycles", 8, 1, 100000 }, { NULL, 0, 0, 0 },
};

static char more_help[160] =
	"register-install: --installs is its own, --cycles by default 256\n";

enum { OPS_OK, BAD_RESULT, STRAY, MISSING, WRONG_FILE, OVERFLOW,
       PART_BEFORE_FILL, PART_FILL };

char counters[COLUMNS][NAME] = {
	"ops_ok", "bad_result", "stray", "missing", "wrong_file", "overflow",
	"part_register", "part_fill"
};

/* Who a CQE is for; in its user_data between slot and cycle. */
enum { SENT, ARRIVED, INSTALLED };

/* What the CQEs and the check of a cycle said of a slot. */
static struct slot {
	bool right, wrong_file;
	unsigned answers, arrivals;
} seen[MAX_SLOTS];

static struct stat files[MAX_SOURCES];
static unsigned slots, batch, sources, installs;
static struct io_uring_cqe *cqes;
static int no_files[MAX_SLOTS];		/* -1 for each */
static struct ring *targets;		/* one; in first-fill one per cycle */
static void (*timed)(int target);	/* before the fill; or NULL */
static u64 cycle;			/* never reused, so a late CQE shows */

static u64 user_data(unsigned who, unsigned slot)
{
	return cycle << 16 | who << 14 | slot;
}

static void register_table(int target)
{
	struct io_uring_rsrc_register table = { slots, TABLE_SPARSE, 0, 0, 0 };

	/* The last argument is the size of the struct, not of the table. */
	if (syscall(__NR_io_uring_register, target, IORING_REGISTER_FILES2,
		    &table, sizeof(table)))
		err(FAIL, "IORING_REGISTER_FILES2 of %u slots", slots);
}

static void unregister_table(int target)
{
	if (syscall(__NR_io_uring_register, target, IORING_UNREGISTER_FILES,
		    NULL, 0))
		err(FAIL, "IORING_UNREGISTER_FILES");
}

static void remove_all(int target)
{
	struct io_uring_files_update update = { .fds = (uintptr_t)no_files };
	long done = syscall(__NR_io_uring_register, target,
			    IORING_REGISTER_FILES_UPDATE, &update, slots);

	/* After an error in the middle it is the count done so far. */
	if (done != slots)
		errx(FAIL, "IORING_REGISTER_FILES_UPDATE: %ld slots emptied, "
		     "wanted %u", done, slots);
}

static void push(int target, unsigned slot)
{
	struct io_uring_sqe *sqe = ring_next_sqe();

	sqe->opcode = OP_MSG_RING;
	sqe->fd = target;
	sqe->addr = MSG_SEND_FD;
	ADDR3(sqe) = slot % sources;
	FILE_INDEX(sqe) = slot + 1;	/* 0 is for no slot */
	sqe->off = user_data(ARRIVED, slot);
	sqe->user_data = user_data(SENT, slot);
}

static void fill(int target, unsigned count)
{
	for (unsigned done = 0; done < count; done += batch) {
		unsigned n = MIN(batch, count - done);

		for (unsigned i = 0; i < n; i++)
			push(target, done + i);
		ring_enter(n, n);
		ring_reap(&cqes[done], n);
	}
}

/* The window: removal or registration where timed, then the installs. */
static void timed_cycle(struct row *row, int target)
{
	u64 begin = now_ns(), middle = begin, end;

	if (timed) {
		timed(target);
		middle = now_ns();
	}
	fill(target, installs);
	end = now_ns();
	row->elapsed += end - begin;
	row->counters[PART_BEFORE_FILL] += middle - begin;
	row->counters[PART_FILL] += end - middle;
}

/* The slot of a CQE; NULL for one that this cycle did not ask for. */
static struct slot *slot_of(u64 data, unsigned who, unsigned count)
{
	unsigned i = data & (MAX_SLOTS - 1);

	return i < count && data == user_data(who, i) ? &seen[i] : NULL;
}

static void take_sent(struct row *row, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct slot *slot = slot_of(cqes[i].user_data, SENT, count);

		if (!slot || slot->answers++) {
			row->counters[STRAY]++;
			continue;
		}
		slot->right = cqes[i].res == 0;
		row->counters[BAD_RESULT] += !slot->right;
	}
	row->counters[STRAY] += ring_ready();
	row->counters[OVERFLOW] += !!(*ring.k_sq_flags & CQ_OVERFLOW);
}

/* `ring` is the target here; so it is below up to check_cycle(). */
static void take_arrived(struct row *row, unsigned count)
{
	struct io_uring_cqe cqe;
	struct slot *slot;

	row->counters[OVERFLOW] += !!(*ring.k_sq_flags & CQ_OVERFLOW);
	for (unsigned left = ring_ready(); left; left--) {
		ring_reap(&cqe, 1);
		slot = slot_of(cqe.user_data, ARRIVED, count);
		if (!slot || cqe.res || slot->arrivals++)
			row->counters[STRAY]++;
	}
	for (unsigned i = 0; i < count; i++)
		row->counters[MISSING] += seen[i].arrivals != 1;
}

/* Gives the file of a slot a number in the process and looks at it. */
static bool has_its_file(struct row *row, unsigned slot)
{
	struct io_uring_sqe *sqe = ring_next_sqe();
	struct stat found, *wanted = &files[slot % sources];
	struct io_uring_cqe cqe;

	sqe->opcode = OP_FIXED_FD_INSTALL;
	sqe->fd = slot;
	sqe->flags = IOSQE_FIXED_FILE;
	sqe->user_data = user_data(INSTALLED, slot);
	ring_enter(1, 1);
	while (ring_reap(&cqe, 1), cqe.user_data != user_data(INSTALLED, slot))
		row->counters[STRAY]++;	/* one that had overflowed */
	if (cqe.res < 0)
		return false;
	if (fstat(cqe.res, &found) || close(cqe.res))
		err(FAIL, "fstat of an installed file");
	return found.st_dev == wanted->st_dev && found.st_ino == wanted->st_ino;
}

/* Counts what is wrong; returns how many installs were right. */
static u64 check_cycle(struct row *row, struct ring *target, unsigned count,
		       bool every_file)
{
	struct ring source = ring;
	u64 right = 0;

	memset(seen, 0, count * sizeof(*seen));
	take_sent(row, count);
	ring = *target;
	take_arrived(row, count);
	for (unsigned i = 0; every_file && i < count; i++) {
		seen[i].wrong_file = !has_its_file(row, i);
		row->counters[WRONG_FILE] += seen[i].wrong_file;
	}
	*target = ring;
	ring = source;
	for (unsigned i = 0; i < count; i++)
		right += seen[i].right && seen[i].arrivals == 1 &&
			 !seen[i].wrong_file;
	return right;
}

static void open_source(void)
{
	int fds[MAX_SOURCES];

	ring_open(batch, OP_FIXED_FD_INSTALL, NEEDED);
	for (unsigned i = 0; i < sources; i++) {
		fds[i] = memfd_create("regbundle", MFD_CLOEXEC);
		if (fds[i] < 0 || fstat(fds[i], &files[i]))
			err(FAIL, "memfd_create");
	}
	if (syscall(__NR_io_uring_register, ring.fd, IORING_REGISTER_FILES,
		    fds, sources))
		err(FAIL, "IORING_REGISTER_FILES of %u files", sources);
}

/* With its sparse table, and room for the CQEs of two fills. */
static void open_target(struct ring *target)
{
	struct ring source = ring;

	ring_wanted.flags = IORING_SETUP_CQSIZE;
	ring_wanted.cq_entries = 2 * slots;
	memset(&ring, 0, sizeof(ring));
	ring_open(1, OP_FIXED_FD_INSTALL, NEEDED);
	*target = ring;
	ring = source;
	register_table(target->fd);
}

static void close_target(struct ring *target)
{
	munmap(target->sqes, (target->sq_mask + 1) * sizeof(*target->sqes));
	munmap(target->start, target->size);
	close(target->fd);
}

/* Both a process's files and a ring's table may have so many. */
static void raise_limit(void)
{
	u64 rings = scenario == FIRST_FILL ? parameters[CYCLES].value : 1;
	u64 wanted = MAX(slots, rings + sources + OTHER_FDS);
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_max < wanted)
		errx(SKIP, "not on this machine: the hard limit of open files "
		     "is %llu, wanted %llu: raise it (ulimit -Hn) or ask for "
		     "less", (u64)limit.rlim_max, wanted);
	limit.rlim_cur = MAX(limit.rlim_cur, wanted);
	if (setrlimit(RLIMIT_NOFILE, &limit))
		err(FAIL, "setrlimit of %llu open files", wanted);
}

static void checked_fill(struct ring *target, unsigned count)
{
	struct row row = { 0 };
	u64 right;

	cycle++;
	fill(target->fd, count);
	right = check_cycle(&row, target, count, true);
	for (int i = BAD_RESULT; i <= OVERFLOW; i++)
		if (row.counters[i] || right != count)
			errx(FAIL, "preflight: %llu of %u installs right, "
			     "%s is %llu", right, count, counters[i],
			     row.counters[i]);
}

/* No row can see whether a slot was empty when it was filled. */
static void checked_removal(struct ring *target)
{
	struct row row = { 0 };

	remove_all(target->fd);
	check_cycle(&row, target, PREFLIGHT_SLOTS, true);
	if (row.counters[WRONG_FILE] != PREFLIGHT_SLOTS)
		errx(FAIL, "preflight: %llu of %u slots empty after removal",
		     row.counters[WRONG_FILE], PREFLIGHT_SLOTS);
}

static void take_parameters(void)
{
	slots = parameters[SLOTS].value;
	batch = parameters[BATCH].value;
	sources = parameters[SOURCES].value;
	installs = slots;
	if (scenario == REMOVE_REFILL)
		timed = remove_all;
	if (scenario == REGISTER_FILL || scenario == REGISTER_INSTALL)
		timed = register_table;
	if (scenario == REMOVE_REFILL || scenario == WARM_REFILL)
		strcpy(counters[PART_BEFORE_FILL], "part_remove");
	if (scenario != REGISTER_INSTALL)
		return;
	installs = parameters[INSTALLS].value;
	if (installs > slots)
		errx(USAGE, "--installs is %u, wanted at most --slots, %u",
		     installs, slots);
	if (!(given & 1U << CYCLES))	/* short windows: a round of 4 ms */
		parameters[CYCLES].value *= 32;
}

/* Leaves the target as a cycle does: full, or with no table, or none. */
static void prepare(void)
{
	take_parameters();
	raise_limit();
	cqes = map(slots * sizeof(*cqes), -1, 0);
	memset(no_files, -1, sizeof(no_files));
	targets = map(parameters[CYCLES].value * sizeof(*targets), -1, 0);
	open_source();
	open_target(targets);
	checked_fill(targets, PREFLIGHT_SLOTS);
	checked_removal(targets);
	if (scenario == FIRST_FILL)
		close_target(targets);
	else if (timed == register_table)
		unregister_table(targets->fd);
	else
		checked_fill(targets, slots);
}

static void run_cycle(struct row *row, struct ring *target, bool last)
{
	u64 *counter = row->counters, right;
	u64 before = counter[STRAY] + counter[OVERFLOW];

	cycle++;
	if (scenario == WARM_REFILL)
		remove_all(target->fd);
	timed_cycle(row, target->fd);
	right = check_cycle(row, target, installs, last);
	if (timed == register_table)
		unregister_table(target->fd);
	if (timed)			/* one op, right as a whole */
		right = right == installs &&
			counter[STRAY] + counter[OVERFLOW] == before;
	counter[OPS_OK] += right;
}

static void run_round(struct row *row)
{
	unsigned long cycles = parameters[CYCLES].value;
	bool fresh = scenario == FIRST_FILL;

	row->ops = cycles * (timed ? 1 : installs);
	for (unsigned long i = 0; fresh && i < cycles; i++)
		open_target(&targets[i]);
	for (unsigned long i = 0; i < cycles; i++) {
		if (i % 64 == 63)
			alarm(WATCHDOG_S);
		run_cycle(row, &targets[fresh ? i : 0], i + 1 == cycles);
	}
	for (unsigned long i = 0; fresh && i < cycles; i++)
		close_target(&targets[i]);
}
