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
#include "regbundle.h"
#include "regbundle-ring.h"
#include "regbundle-futex.h"

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
