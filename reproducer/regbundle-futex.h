// SPDX-License-Identifier: GPL-2.0-only OR MIT
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
