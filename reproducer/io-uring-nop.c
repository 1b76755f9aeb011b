// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * io_uring NOP round trips on one ring: the floor of the io_uring workloads.
 *
 * One op is one IORING_OP_NOP: prepare one SQE, one io_uring_enter() that
 * submits it and waits for its CQE, reap. A round is one window.
 *
 * After it: each CQE had the user_data of its SQE and gave 0; no CQE
 * overflowed, none was left over.
 *
 * Build: cc -O2 -o io-uring-nop io-uring-nop.c
 * Run:   ./io-uring-nop                  (rows on stdout, see --help)
 */
#include "regbundle.h"
#include "regbundle-ring.h"

#define CQ_OVERFLOW	2	/* IORING_SQ_CQ_OVERFLOW of the 5.8 headers */

const char workload[] = "io-uring-nop";

/* A round of about 7 ms: what comes and goes inside it no canary sees. */
struct parameter parameters[] = {
	COMMON_PARAMETERS,
	{ "--ops", 32768, 64, 1000000 },
	{ NULL, 0, 0, 0 },
};

enum { COMPLETIONS, STRAY, OVERFLOW };

char counters[COLUMNS][NAME] = { "completions_ok", "stray", "overflow" };

static u64 tag;				/* never reused, so a late CQE shows */

static void prepare(void)
{
	ring_open(1, IORING_OP_NOP, "IORING_OP_NOP");
}

static void run_round(struct row *row)
{
	unsigned long ops = parameters[OWN].value;
	u64 ok = 0, stray = 0, begin;

	begin = now_ns();
	for (unsigned long i = 0; i < ops; i++) {
		struct io_uring_sqe *sqe = ring_next_sqe();
		struct io_uring_cqe cqe;

		sqe->opcode = IORING_OP_NOP;
		sqe->user_data = ++tag;
		ring_enter(1, 1);
		ring_reap(&cqe, 1);
		stray += cqe.user_data != tag;
		ok += cqe.user_data == tag && cqe.res == 0;
	}
	row->elapsed = now_ns() - begin;
	row->ops = ops;
	row->counters[COMPLETIONS] = ok;
	row->counters[STRAY] = stray + ring_ready();
	row->counters[OVERFLOW] = !!(*ring.k_sq_flags & CQ_OVERFLOW);
}
