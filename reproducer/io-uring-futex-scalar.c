// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * io_uring futex WAIT -> WAKE on one ring: the control of the WAITV workload.
 *
 * One op is a pair: one IORING_OP_FUTEX_WAIT on one private word and the
 * IORING_OP_FUTEX_WAKE that completes it. Ring, words, counts and windows are
 * those of io-uring-futex-waitv; only the wait's opcode differs.
 *
 * After it: each WAIT gave 0 and each WAKE gave 1, matched by user_data; no
 * CQE overflowed, none was stray; a wake of every word found no waiter.
 *
 * Build: cc -O2 -o io-uring-futex-scalar io-uring-futex-scalar.c
 * Run:   ./io-uring-futex-scalar         (rows on stdout, see --help)
 */
#include "regbundle.h"
#include "regbundle-ring.h"
#include "regbundle-futex.h"

const char workload[] = "io-uring-futex-scalar";

static void prepare_wait(struct io_uring_sqe *sqe, unsigned v, unsigned w)
{
	sqe->opcode = OP_FUTEX_WAIT;
	sqe->fd = FUTEX_FLAGS;
	sqe->addr = (uintptr_t)word(v, w);
	sqe->off = 0;			/* the value the word must hold */
	ADDR3(sqe) = FUTEX_ANY;
}

static void prepare(void)
{
	prepare_pairs(OP_FUTEX_WAIT, "IORING_OP_FUTEX_WAIT");
}

static void run_round(struct row *row)
{
	/* No word is skipped: a scalar wait leaves none behind. */
	run_cycles(row, 0, -1U);
}
