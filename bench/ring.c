/* SPDX-License-Identifier: MIT */
/*
 * ring: how long a descriptor takes from one process to another. Half of what
 * it takes there and back, over two rings, polling and asleep; beside it a
 * cache line that two processes write in turn, and two futexes that they wake
 * each other with; p50 of batches so short that few are disturbed. Then how
 * many pass in a second, from one to one, and from four to two. In short rounds
 * that take turns; medians. And the cost of an attempt when no slot is free.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "bench/pair.h"
#include "bench/times.h"
#include "shm/ring.h"

enum { ROUNDS = 15, POLLS = 4800, SLEEPS = 960, ITEMS = 150000 };
/* There and back: several, so that looking at the clock costs nothing. */
enum { BATCH = 16, TRIES = 2048 };

static struct shared {
	struct line there, back;
	_Atomic uint32_t ready;
} * shared;

static void *memory[2];
static size_t size;
static const struct ring_wait forever = {.deadline_ns = UINT64_MAX};

static _Noreturn void fail(void)
{
	fprintf(stderr, "ring: %s\n", tarn_fail_message());
	exit(1);
}

static void new_rings(enum ring_mode mode, uint32_t slots)
{
	struct ring_geometry g = {mode, slots, 4096};

	for (int i = 0; i < 2; i++) {
		if (memory[i])
			munmap(memory[i], size);
		if (ring_size(&g, &size) < 0)
			fail();
		memory[i] = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (memory[i] == MAP_FAILED ||
			ring_init(memory[i], size, &g) < 0)
			fail();
	}
}

static struct ring joined(int i, unsigned int kind)
{
	struct ring ring;

	if (ring_attach(&ring, memory[i], size) < 0 ||
		ring_join(&ring, kind, 1) < 0)
		fail();
	return ring;
}

/* ---- there and back ---------------------------------------------------- */

static void put(struct ring *ring, bool asleep)
{
	const struct ring_note note = {.bytes = 256, .tensors = 1};
	uint32_t slot;
	int r;

	if (asleep)
		r = ring_wait_acquire(ring, &forever, &slot);
	else
		while ((r = ring_acquire(ring, &slot)) == 0)
			continue;
	if (r != 1 || ring_publish(ring, slot, &note) < 0)
		fail();
}

static void get(struct ring *ring, bool asleep)
{
	struct ring_item item;
	int r;

	if (asleep)
		r = ring_wait_receive(ring, &forever, &item);
	else
		while ((r = ring_receive(ring, &item)) == 0)
			continue;
	if (r != 1 || ring_release(ring, &item) < 0)
		fail();
}

enum way { LINE, RING, FUTEX, RING_ASLEEP };

/* ret_batch: the time of each batch, for the side that begins. */
static void side(enum way way, bool first, int turns, double *ret_batch)
{
	bool asleep = way == RING_ASLEEP, raw = way == LINE || way == FUTEX;
	struct ring out = {0}, in = {0};
	double start;

	if (!raw) {
		out = joined(first, RING_PRODUCER);
		in = joined(!first, RING_CONSUMER);
		if (asleep)
			out.spin_max = in.spin_max = 0;
	}
	start = wall_ns();
	for (uint32_t i = 1; i <= (uint32_t)turns; i++) {
		for (int half = 0; half < 2; half++) {
			bool send = (half == 0) == first;
			struct line *line =
				half == 0 ? &shared->there : &shared->back;

			if (raw && send)
				line_send(line, way == FUTEX, i);
			else if (raw)
				line_receive(line, way == FUTEX, i);
			else if (send)
				put(&out, asleep);
			else
				get(&in, asleep);
		}
		if (ret_batch && i % BATCH == 0) {
			double end = wall_ns();

			ret_batch[i / BATCH - 1] = end - start;
			start = end;
		}
	}
}

/* Nanoseconds one way. */
static double one_way(enum way way)
{
	int turns = way == LINE || way == RING ? POLLS : SLEEPS;
	static double batches[POLLS / BATCH];
	pid_t pid;

	memset(shared, 0, sizeof(*shared));
	new_rings(RING_QUEUE, 8);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(1);
		shared->ready = 1;
		side(way, false, turns, NULL);
		_exit(0);
	}
	while (!shared->ready)
		usleep(100);
	side(way, true, turns, batches);
	waitpid(pid, NULL, 0);
	return median(batches, turns / BATCH) / BATCH / 2;
}

/* ---- how many ---------------------------------------------------------- */

static double many(int producers, int consumers, bool asleep)
{
	double start;
	struct ring ring;
	int status, failed = 0;

	new_rings(RING_QUEUE, 256);
	ring = joined(0, RING_PRODUCER);
	for (int i = 0; i < consumers + producers; i++) {
		if (fork() != 0)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ring = joined(0, i < consumers ? RING_CONSUMER : RING_PRODUCER);
		if (!asleep)
			pin(i < consumers);
		for (int n = 0; i >= consumers && n < ITEMS / producers; n++)
			put(&ring, asleep);
		for (int n = 0; i < consumers && n < ITEMS / consumers; n++)
			get(&ring, asleep);
		_exit(0);
	}
	start = wall_ns();
	for (int i = 0; i < consumers + producers; i++) {
		wait(&status);
		failed += status != 0;
	}
	if (failed)
		fail();
	return ITEMS / (wall_ns() - start) * 1e3;
}

/* An attempt that finds no free slot, in the largest ring. */
static double in_vain(enum ring_mode mode)
{
	double best = 1e18;
	struct ring ring;
	uint32_t slot;

	new_rings(mode, RING_SLOTS_MAX);
	ring = joined(0, RING_PRODUCER);
	while (ring_acquire(&ring, &slot) == 1)
		continue;
	for (int r = 0; r < ROUNDS; r++) {
		double start = wall_ns();

		for (int i = 0; i < TRIES; i++)
			ring_acquire(&ring, &slot);
		start = (wall_ns() - start) / TRIES;
		best = start < best ? start : best;
	}
	return best;
}

static void compare(const char *what, enum way raw, enum way ours, double most)
{
	double a[ROUNDS], b[ROUNDS], ratio[ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		a[r] = one_way(raw);
		b[r] = one_way(ours);
		ratio[r] = b[r] / a[r];
	}
	printf("%-9s ring %8.0f ns, raw %8.0f ns one way; %.2f times "
	       "(at most %.2f)\n",
		what, median(b, ROUNDS), median(a, ROUNDS),
		median(ratio, ROUNDS), most);
}

static void count(const char *what, int producers, int consumers, bool asleep)
{
	double v[ROUNDS];

	for (int r = 0; r < ROUNDS; r++)
		v[r] = many(producers, consumers, asleep);
	printf("%-24s %6.2f million/s\n", what, median(v, ROUNDS));
}

int main(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fail();
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		printf("ring: one processor; nothing to measure\n");
		return 0;
	}
	pin(0);
	printf("%-24s %6.0f ns\n", "a try in vain", in_vain(RING_QUEUE));
	printf("%-24s %6.0f ns\n", "the same, broadcast",
		in_vain(RING_BROADCAST));
	compare("polling", LINE, RING, 1.5);
	compare("asleep", FUTEX, RING_ASLEEP, 1.25);
	count("one to one, polling", 1, 1, false);
	count("one to one, waiting", 1, 1, true);
	count("four to two, waiting", 4, 2, true);
	return 0;
}
