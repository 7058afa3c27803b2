/* SPDX-License-Identifier: MIT */
/*
 * The cost of sending a tensor through a channel:
 *
 *	bench/channel SOCKET
 *
 * Two processes, through the public library alone, there and back over two
 * channels; half of a round trip is printed. Two figures:
 *
 * - "handed over": one way from the call of tarn_slot_publish() by one to the
 *   tensor in the hands of the other, tarn_channel_receive() and
 *   tarn_item_tensor() returned. So each answers at once, with a slot that it
 *   has prepared (acquired, with a tensor made in it); after that, while the
 *   other is at it, it drops what it had received, prepares the next, and looks
 *   for the answer. Nothing else is between the one's publish and the other's.
 * - "whole cycle": one way with all that an item takes in a row, none of it
 *   beside what the other does: a slot is acquired, a tensor made in it and
 *   published; received, opened, and both dropped.
 *
 * Polling and waiting, for slots of several sizes; beside it, in the same
 * round, a cache line that the two write in turn, and two futexes that they
 * wake each other with. Then how many pass in a second, from one to one,
 * polling and waiting, and from four to two, waiting. Medians of turns, and of
 * short rounds.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "bench/pair.h"
#include "bench/times.h"

enum { ROUNDS = 11, POLLS = 4000, SLEEPS = 1000, FIRST = 100 };
enum { ITEMS = 100000, MANY = 6 };

static struct shared {
	struct line there, back;
	_Atomic uint32_t ready;
	double began[MANY], ended[MANY]; /* by each of many */
} * shared;

static const char *socket_path;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "bench/channel: %s: %s\n", what, tarn_error_message());
	exit(1);
}

/* ---- one hand-over ------------------------------------------------------- */

static tarn_channel *channel(const char *name, uint32_t slots, uint64_t bytes)
{
	const struct tarn_channel_options options = {
		.slots = slots, .slot_bytes = bytes};
	tarn_store *store;
	tarn_channel *c;

	if (tarn_store_open(socket_path, NULL, &store) < 0 ||
		tarn_channel_open(store, name, &options, &c) < 0)
		die("open");
	tarn_store_unref(store);
	return c;
}

static tarn_slot *prepare(tarn_channel *c, bool poll, int64_t bytes)
{
	tarn_slot *slot;
	tarn_tensor *t;
	int r;

	if (poll)
		while ((r = tarn_channel_acquire(c, 0, &slot)) == -ETIMEDOUT)
			continue;
	else
		r = tarn_channel_acquire(c, -1, &slot);
	if (r >= 0)
		r = tarn_slot_new_tensor(slot, TARN_U8, 1, &bytes, &t);
	if (r < 0)
		die("prepare");
	tarn_tensor_unref(t);
	return slot;
}

static void publish(tarn_slot *slot)
{
	if (tarn_slot_publish(slot) < 0)
		die("publish");
}

static tarn_item *take(tarn_channel *c, bool poll, tarn_tensor **ret)
{
	tarn_item *item;
	int r;

	if (poll)
		while ((r = tarn_channel_receive(c, 0, &item)) == -ETIMEDOUT)
			continue;
	else
		r = tarn_channel_receive(c, -1, &item);
	if (r >= 0)
		r = tarn_item_tensor(item, 0, ret);
	if (r < 0)
		die("take");
	return item;
}

static void drop(tarn_item *item, tarn_tensor *t)
{
	tarn_tensor_unref(t);
	tarn_item_unref(item);
}

/* All that there is to an item, in a row. */
static void put(tarn_channel *c, bool poll, int64_t bytes)
{
	publish(prepare(c, poll, bytes));
}

static void get(tarn_channel *c, bool poll)
{
	tarn_tensor *t;
	tarn_item *item = take(c, poll, &t);

	drop(item, t);
}

/* ---- there and back ---------------------------------------------------- */

enum way { LINE, HAND_POLL, POLL, FUTEX, HAND_WAIT, WAIT };

struct end {
	enum way way;
	bool first;
	uint64_t bytes;
	uint32_t turn;
	tarn_channel *out, *in;
	/* The sender: prepared, and received. */
	tarn_slot *slot;
	tarn_item *item;
	tarn_tensor *tensor;
};

static bool is_raw(const struct end *e)
{
	return e->way == LINE || e->way == FUTEX;
}

static bool polls(const struct end *e)
{
	return e->way == HAND_POLL || e->way == POLL;
}

static bool hands_over(const struct end *e)
{
	return e->way == HAND_POLL || e->way == HAND_WAIT;
}

static void open_end(struct end *e)
{
	if (is_raw(e))
		return;
	e->out = channel(e->first ? "there" : "back", 4, e->bytes);
	e->in = channel(e->first ? "back" : "there", 4, e->bytes);
	if (tarn_channel_join(e->out, TARN_CHANNEL_PRODUCER) < 0 ||
		tarn_channel_join(e->in, TARN_CHANNEL_CONSUMER) < 0)
		die("join");
	if (hands_over(e))
		e->slot = prepare(e->out, polls(e), (int64_t)e->bytes);
}

static void close_end(struct end *e)
{
	tarn_slot_abandon(e->slot);
	drop(e->item, e->tensor);
	tarn_channel_unref(e->out);
	tarn_channel_unref(e->in);
}

static void send(struct end *e)
{
	if (!hands_over(e)) {
		put(e->out, polls(e), (int64_t)e->bytes);
		return;
	}
	publish(e->slot);
	/* The other is at it by now. */
	drop(e->item, e->tensor);
	e->item = NULL;
	e->tensor = NULL;
	e->slot = prepare(e->out, polls(e), (int64_t)e->bytes);
}

static void receive(struct end *e)
{
	if (hands_over(e))
		e->item = take(e->in, polls(e), &e->tensor);
	else
		get(e->in, polls(e));
}

/* One turn: there and back. */
static void turn(struct end *e)
{
	struct line *to = e->first ? &shared->there : &shared->back,
		    *from = e->first ? &shared->back : &shared->there;

	for (int half = 0; half < 2; half++) {
		bool sends = (half == 0) == e->first;

		if (half == 0)
			e->turn++;
		if (sends && is_raw(e))
			line_send(to, e->way == FUTEX, e->turn);
		else if (sends)
			send(e);
		else if (is_raw(e))
			line_receive(from, e->way == FUTEX, e->turn);
		else
			receive(e);
	}
}

/* Nanoseconds one way: half of the median turn, so that what else the machine
 * does in between is not counted. The first turns find pages. */
static double one_way(enum way way, uint64_t bytes)
{
	static double times[POLLS];
	int turns = way < FUTEX ? POLLS : SLEEPS;
	struct end e = {.way = way, .bytes = bytes};
	pid_t pid;

	memset(shared, 0, sizeof(*shared));
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(1);
		open_end(&e);
		shared->ready = 1;
		for (int i = 0; i < FIRST + turns; i++)
			turn(&e);
		close_end(&e);
		_exit(0);
	}
	e.first = true;
	open_end(&e);
	while (!shared->ready)
		usleep(100);
	for (int i = 0; i < FIRST; i++)
		turn(&e);
	for (int i = 0; i < turns; i++) {
		double start = wall_ns();

		turn(&e);
		times[i] = wall_ns() - start;
	}
	waitpid(pid, NULL, 0);
	close_end(&e);
	return median(times, turns) / 2;
}

/* raw, and the two ways that come after it. */
static void compare(const char *what, enum way raw, uint64_t bytes)
{
	static const char *const names[] = {
		"raw", "handed over", "whole cycle"};
	double ns[3][ROUNDS], ratio[3][ROUNDS];

	for (int r = 0; r < ROUNDS; r++)
		for (int i = 0; i < 3; i++) {
			ns[i][r] = one_way(raw + (enum way)i, bytes);
			ratio[i][r] = ns[i][r] / ns[0][r];
		}
	printf("%-8s %8.0f KiB  raw %7.0f ns one way", what,
		(double)bytes / 1024, median(ns[0], ROUNDS));
	for (int i = 1; i < 3; i++)
		printf("; %s %7.0f ns, %.2f times", names[i],
			median(ns[i], ROUNDS), median(ratio[i], ROUNDS));
	printf("\n");
}

/* ---- how many ---------------------------------------------------------- */

static double many(int producers, int consumers, bool poll)
{
	int failed = 0, status;
	double begin, end;

	memset(shared, 0, sizeof(*shared));
	for (int i = 0; i < consumers + producers; i++) {
		tarn_channel *c;

		if (fork() != 0)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* Our own processor is not to be that of all. */
		pin(i % (int)sysconf(_SC_NPROCESSORS_ONLN));
		c = channel("many", 256, 4096);
		if (tarn_channel_join(c, i < consumers
						 ? TARN_CHANNEL_CONSUMER
						 : TARN_CHANNEL_PRODUCER) < 0)
			die("join");
		shared->ready++;
		while (shared->ready != (uint32_t)(consumers + producers))
			usleep(100);
		shared->began[i] = wall_ns();
		for (int n = 0; i >= consumers && n < ITEMS / producers; n++)
			put(c, poll, 256);
		for (int n = 0; i < consumers && n < ITEMS / consumers; n++)
			get(c, poll);
		shared->ended[i] = wall_ns();
		_exit(0);
	}
	for (int i = 0; i < consumers + producers; i++) {
		wait(&status);
		failed += status != 0;
	}
	if (failed)
		die("many");
	/* By their own clocks: we may be kept from looking at ours. */
	begin = shared->began[0];
	end = shared->ended[0];
	for (int i = 1; i < consumers + producers; i++) {
		begin = shared->began[i] < begin ? shared->began[i] : begin;
		end = shared->ended[i] > end ? shared->ended[i] : end;
	}
	return ITEMS / (end - begin) * 1e3;
}

static void count(const char *what, int producers, int consumers, bool poll)
{
	double v[ROUNDS];

	for (int r = 0; r < ROUNDS; r++)
		v[r] = many(producers, consumers, poll);
	printf("%-20s %6.2f million/s\n", what, median(v, ROUNDS));
}

int main(int argc, char **argv)
{
	const uint64_t sizes[] = {4 << 10, 1 << 20, 64 << 20};
	tarn_channel *kept[3];

	if (argc != 2) {
		fprintf(stderr, "usage: bench/channel SOCKET\n");
		return 2;
	}
	socket_path = argv[1];
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		die("mmap");
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		printf("channel: one processor; nothing to measure\n");
		return 0;
	}
	pin(0);
	kept[2] = channel("many", 256, 4096);
	for (int i = 0; i < 3; i++) {
		/* Made once: that is not what is measured. */
		kept[0] = channel("there", 4, sizes[i]);
		kept[1] = channel("back", 4, sizes[i]);
		compare("polling", LINE, sizes[i]);
		compare("waiting", FUTEX, sizes[i]);
		for (int j = 0; j < 2; j++) {
			/* The next of that name is another one. */
			if (tarn_channel_close(kept[j]) < 0)
				die("close");
			tarn_channel_unref(kept[j]);
		}
	}
	count("one to one, polling", 1, 1, true);
	count("one to one", 1, 1, false);
	count("four to two", 4, 2, false);
	tarn_channel_unref(kept[2]);
	return 0;
}
