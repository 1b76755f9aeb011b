// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* One io_uring by raw system calls. */
#include <linux/io_uring.h>

static struct ring {
	int fd;
	unsigned sq_tail, sq_mask, cq_mask;
	unsigned *k_sq_tail, *k_cq_head, *k_cq_tail, *k_sq_flags;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
	char *start; size_t size;	/* of the mapping of both queues */
} ring;
static struct io_uring_params ring_wanted;	/* zero: all by default */

__attribute__((noreturn)) static void ring_refused(int cause)
{
	FILE *f = fopen("/proc/sys/kernel/io_uring_disabled", "r");

	errx(cause == ENOSYS || cause == EPERM || cause == ENOMEM ? SKIP : FAIL,
	     "no io_uring here: io_uring_setup: %s (kernel.io_uring_disabled "
	     "is %c%s)", strerror(cause), f ? fgetc(f) : '-', cause == ENOMEM ?
	     "; before Linux 5.12, ulimit -l is its limit" : "");
}

static void ring_open(unsigned entries, int opcode, const char *name)
{
	struct io_uring_params p = ring_wanted;
	struct io_uring_probe *probe;

	ring.fd = syscall(__NR_io_uring_setup, entries, &p);
	if (ring.fd < 0)
		ring_refused(errno);
	probe = map(sizeof(*probe) + 256 * sizeof(*probe->ops), -1, 0);
	if (syscall(__NR_io_uring_register, ring.fd, IORING_REGISTER_PROBE,
		    probe, 256) < 0 || opcode > probe->last_op ||
	    !(probe->ops[opcode].flags & IO_URING_OP_SUPPORTED))
		errx(SKIP, "not on this kernel: %s", name);
	munmap(probe, sizeof(*probe) + 256 * sizeof(*probe->ops));
	/* Both queues in one mapping, as all kernels since 5.4 allow. */
	ring.size = MAX(p.sq_off.array + p.sq_entries * sizeof(unsigned),
			p.cq_off.cqes + p.cq_entries * sizeof(*ring.cqes));
	ring.start = map(ring.size, ring.fd, IORING_OFF_SQ_RING);
	ring.sqes = map(p.sq_entries * sizeof(*ring.sqes), ring.fd,
			IORING_OFF_SQES);
	ring.k_sq_tail = (unsigned *)(ring.start + p.sq_off.tail);
	ring.k_sq_flags = (unsigned *)(ring.start + p.sq_off.flags);
	ring.k_cq_head = (unsigned *)(ring.start + p.cq_off.head);
	ring.k_cq_tail = (unsigned *)(ring.start + p.cq_off.tail);
	ring.cqes = (struct io_uring_cqe *)(ring.start + p.cq_off.cqes);
	ring.sq_mask = p.sq_entries - 1;
	ring.cq_mask = p.cq_entries - 1;
	unsigned *array = (unsigned *)(ring.start + p.sq_off.array);
	for (unsigned i = 0; i < p.sq_entries; i++)
		array[i] = i;
}

static struct io_uring_sqe *ring_next_sqe(void)
{
	struct io_uring_sqe *sqe = &ring.sqes[ring.sq_tail++ & ring.sq_mask];

	return memset(sqe, 0, sizeof(*sqe));
}

/* One enter; more only after a signal or an SQE refused at submission. */
static void ring_enter(unsigned submit, unsigned wait)
{
	int done;

	__atomic_store_n(ring.k_sq_tail, ring.sq_tail, __ATOMIC_RELEASE);
	do {
		done = syscall(__NR_io_uring_enter, ring.fd, submit, wait,
			       wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
		if (done < 0 && errno != EINTR)
			err(FAIL, "io_uring_enter");
		submit -= done > 0 ? done : 0;
	} while (submit);
}

static unsigned ring_ready(void)
{
	return __atomic_load_n(ring.k_cq_tail, __ATOMIC_ACQUIRE) -
	       *ring.k_cq_head;
}

/* Copies the next `count` CQEs out, waiting for those not yet there. */
static void ring_reap(struct io_uring_cqe *out, unsigned count)
{
	unsigned head = *ring.k_cq_head;

	while (ring_ready() < count)
		ring_enter(0, count);
	for (unsigned i = 0; i < count; i++)
		out[i] = ring.cqes[(head + i) & ring.cq_mask];
	__atomic_store_n(ring.k_cq_head, head + count, __ATOMIC_RELEASE);
}
