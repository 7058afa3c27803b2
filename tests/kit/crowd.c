/* SPDX-License-Identifier: MIT */
/* See crowd.h; the numbers are those of <linux/io_uring.h> and <linux/futex.h>,
 * where these are older. */
#include "tests/kit/crowd.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/kit/tap.h"

#define OP_FUTEX_WAIT 51 /* Linux 6.7 */
#define FUTEX_U32 2
#define ANY_BIT UINT32_MAX
#define PATIENCE_S 60.0
#define NAP_US 5000

static void put(struct io_uring_sqe *sqe, const _Atomic uint32_t *word)
{
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = OP_FUTEX_WAIT;
	sqe->fd = FUTEX_U32;
	sqe->addr = (uint64_t)(uintptr_t)word;
	sqe->addr2 = atomic_load(word);
	/* addr3, which older headers lack. */
	((uint64_t *)sqe)[6] = ANY_BIT;
}

static void map(struct crowd *crowd, const struct io_uring_params *p)
{
	char *ring;

	crowd->size = p->sq_off.array + p->sq_entries * sizeof(uint32_t);
	if (crowd->size < p->cq_off.cqes + p->cq_entries * 16ul)
		crowd->size = p->cq_off.cqes + p->cq_entries * 16ul;
	ring = mmap(NULL, crowd->size, PROT_READ | PROT_WRITE, MAP_SHARED,
		crowd->fd, IORING_OFF_SQ_RING);
	if (ring == MAP_FAILED)
		bail("the queues of an io_uring: %m");
	crowd->ring = ring;
	crowd->head = (void *)(ring + p->cq_off.head);
	crowd->tail = (void *)(ring + p->cq_off.tail);
}

static void submit(struct crowd *crowd, const struct io_uring_params *p,
	const _Atomic uint32_t *word, unsigned n)
{
	size_t size = p->sq_entries * sizeof(struct io_uring_sqe);
	struct io_uring_sqe *sqes = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_SHARED, crowd->fd, IORING_OFF_SQES);
	uint32_t *array = (void *)((char *)crowd->ring + p->sq_off.array);
	_Atomic uint32_t *tail = (void *)((char *)crowd->ring + p->sq_off.tail);

	if (sqes == MAP_FAILED)
		bail("the entries of an io_uring: %m");
	for (unsigned i = 0; i < n; i++) {
		put(&sqes[i], word);
		array[i] = i;
	}
	atomic_store(tail, n);
	for (unsigned given = 0; given < n;) {
		long r = syscall(SYS_io_uring_enter, crowd->fd, n - given, 0, 0,
			NULL, 0);

		if (r <= 0)
			bail("io_uring_enter: %m");
		given += (unsigned)r;
	}
	munmap(sqes, size);
}

const char *crowd_begin(
	struct crowd *crowd, const _Atomic uint32_t *word, unsigned n)
{
	struct io_uring_params p = {0};
	static char why[100];

	*crowd = (struct crowd) {0};
	crowd->fd = (int)syscall(SYS_io_uring_setup, CROWD_MAX, &p);
	if (crowd->fd < 0) {
		snprintf(why, sizeof(why), "io_uring_setup: %s",
			strerror(errno));
		return why;
	}
	map(crowd, &p);
	submit(crowd, &p, word, n);
	if (!crowd_woken(crowd))
		return NULL;
	crowd_end(crowd);
	return "io_uring cannot wait on a futex here (Linux 6.7 can)";
}

unsigned crowd_woken(struct crowd *crowd)
{
	uint32_t tail;

	/* Completions come when this thread returns from the kernel. */
	syscall(SYS_io_uring_enter, crowd->fd, 0, 0, IORING_ENTER_GETEVENTS,
		NULL, 0);
	tail = atomic_load(crowd->tail);
	crowd->woken += tail - atomic_load(crowd->head);
	atomic_store(crowd->head, tail);
	return crowd->woken;
}

bool crowd_is_woken(struct crowd *crowd, unsigned n)
{
	double end = seconds() + PATIENCE_S;

	while (crowd_woken(crowd) < n && seconds() < end)
		usleep(NAP_US);
	return crowd->woken >= n;
}

void crowd_end(struct crowd *crowd)
{
	munmap(crowd->ring, crowd->size);
	close(crowd->fd);
}
