/* SPDX-License-Identifier: MIT */
/*
 * Producers and consumers over one memory, killed at any time, reaped, and
 * replaced. Published items are delivered: in a queue to one consumer, and
 * again only if that one died before it released the item; in a broadcast to
 * each living consumer, without a gap. No participant waits long, and in the
 * end all slots are free.
 *
 * SECONDS in the environment says how long each mode is tried.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fail.h"
#include "shm/ring.h"
#include "tests/kit/tap.h"

enum { SLOTS = 3, WORKERS = 5, PRODUCERS = 3, WORDS = 16 };
#define IDS (1u << 28)   /* bytes, touched as they are used */
#define LIVES (1u << 16) /* of producers */
#define STALL_S 120

#define PATIENCE_NS 60000000000ull

/* What is known of an item. */
enum { BEGUN = 1, DONE = 2, DELIVERED = 4, RELEASED = 8 };

static struct board {
	_Atomic bool stop;
	_Atomic uint32_t faults;
	char fault[200];
	_Atomic uint32_t ids;
	_Atomic uint32_t again;
	uint64_t bytes[SLOTS][WORDS];
	_Atomic uint8_t items[];
} * board;

static void *memory;
static size_t size;
static bool broadcast;

static void fault(const char *what, uint64_t a, uint64_t b)
{
	if (atomic_fetch_add(&board->faults, 1) == 0)
		snprintf(board->fault, sizeof(board->fault),
			"%s: %llu, %llu: %s", what, (unsigned long long)a,
			(unsigned long long)b, tarn_fail_message());
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool stopped(void *arg)
{
	(void)arg;
	return board->stop;
}

static struct ring_wait a_while(void)
{
	return (struct ring_wait) {
		.deadline_ns = now_ns() + STALL_S * 1000000000ull,
		.interrupted = stopped};
}

/* 1, or the end of this worker. */
static int answered(int r, const char *what)
{
	if (r != 1 && r != -EINTR)
		fault(what, (uint64_t)-r, 0);
	return r;
}

static void produce(struct ring *ring, uint64_t life)
{
	for (uint64_t n = 1; !board->stop; n++) {
		struct ring_wait wait = a_while();
		struct ring_note note = {.bytes = 8, .tag_size = 4};
		uint32_t slot, id;

		if (answered(ring_wait_acquire(ring, &wait, &slot),
			    "acquire") != 1)
			return;
		id = atomic_fetch_add(&board->ids, 1);
		if (id >= IDS) {
			ring_abandon(ring, slot);
			return;
		}
		for (int w = 0; w < WORDS; w++)
			board->bytes[slot][w] = broadcast ? life << 32 | n : id;
		if (!broadcast && id % 16 == 7) {
			if (ring_abandon(ring, slot) < 0)
				fault("abandon", slot, id);
			continue;
		}
		board->items[id] = BEGUN;
		if (ring_publish(ring, slot, &note) < 0)
			fault("publish", slot, id);
		atomic_fetch_or(&board->items[id], DONE);
	}
}

static void check_queue(struct ring *ring, const struct ring_item *item)
{
	uint64_t id = board->bytes[item->slot][0];
	uint8_t was;

	if (id >= IDS) {
		fault("an id", id, item->slot);
		return;
	}
	was = atomic_fetch_or(&board->items[id], DELIVERED);
	if (!(was & BEGUN) || was & RELEASED ||
		(was & DELIVERED && !item->redelivered))
		fault("delivered", id, was);
	board->again += item->redelivered;
	if (ring_release(ring, item) < 0)
		fault("release", item->slot, id);
	else
		atomic_fetch_or(&board->items[id], RELEASED);
}

static void check_broadcast(
	struct ring *ring, const struct ring_item *item, uint32_t *last)
{
	uint64_t word = board->bytes[item->slot][0];
	uint32_t life = (uint32_t)(word >> 32) % LIVES, n = (uint32_t)word;

	if (last[life] && last[life] + 1 != n)
		fault("a gap", last[life], n);
	last[life] = n;
	board->again++;
	if (ring_release(ring, item) < 0)
		fault("release", item->slot, word);
}

static void consume(struct ring *ring)
{
	uint32_t *last = calloc(LIVES, sizeof(*last));

	while (last && !board->stop) {
		struct ring_wait wait = a_while();
		struct ring_item item;
		const uint64_t *at;

		if (answered(ring_wait_receive(ring, &wait, &item),
			    "receive") != 1)
			break;
		at = board->bytes[item.slot];
		for (int w = 1; w < WORDS; w++)
			if (at[w] != at[0])
				fault("torn", at[0], at[w]);
		if (broadcast)
			check_broadcast(ring, &item, last);
		else
			check_queue(ring, &item);
	}
	free(last);
}

static _Noreturn void work(unsigned int i, uint32_t owner)
{
	struct ring ring;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (ring_attach(&ring, memory, size) < 0 ||
		ring_join(&ring, i < PRODUCERS ? RING_PRODUCER : RING_CONSUMER,
			owner) < 0) {
		fault("join", i, owner);
		_exit(1);
	}
	ring.spin_max = owner % 3 ? 500 : 0;
	if (i < PRODUCERS)
		produce(&ring, owner);
	else
		consume(&ring);
	ring_leave(&ring);
	_exit(0);
}

static pid_t start(unsigned int i, uint32_t owner)
{
	pid_t pid = fork();

	if (pid < 0)
		bail("fork");
	if (pid == 0)
		work(i, owner);
	return pid;
}

static struct ring set_up(enum ring_mode mode)
{
	struct ring_geometry g = {mode, SLOTS, 64};
	struct ring ring;
	int fd = memfd_create("ring", MFD_CLOEXEC);

	if (ring_size(&g, &size) < 0 || fd < 0 ||
		ftruncate(fd, (off_t)size) < 0)
		bail("%s", tarn_fail_message());
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	board = mmap(NULL, sizeof(*board) + IDS, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED || board == MAP_FAILED)
		bail("no memory");
	if (ring_init(memory, size, &g) < 0 ||
		ring_attach(&ring, memory, size) < 0)
		bail("%s", tarn_fail_message());
	broadcast = mode == RING_BROADCAST;
	return ring;
}

/* A reaper that is killed too: whatever it did, we do it again. */
static void reap_twice(struct ring *ring, uint32_t owner, uint64_t random)
{
	pid_t pid = fork();

	if (pid == 0) {
		ring_reap_owner(ring, owner);
		_exit(0);
	}
	if (random % 2)
		usleep(random % 300);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ring_reap_owner(ring, owner);
}

static void drain(struct ring *ring, const char *what)
{
	struct ring_item item;
	uint64_t lost = 0, seen = 0;

	if (ring_join(ring, RING_CONSUMER, 1) < 0)
		bail("%s", tarn_fail_message());
	while (!broadcast && ring_receive(ring, &item) == 1)
		check_queue(ring, &item);
	for (uint32_t i = 0; !broadcast && i < board->ids && i < IDS; i++) {
		uint8_t s = board->items[i];

		lost += s & DONE && !(s & DELIVERED);
		seen += (s & DELIVERED) != 0;
	}
	if (!broadcast) /* there who lives finds gaps */
		is_int(0, (int64_t)lost, "%s: no item is lost", what);
	diag("%s: %u acquired, %llu delivered, %u %s", what, board->ids,
		(unsigned long long)seen, board->again,
		broadcast ? "in all" : "again");
}

/* A storm goes on until its time is over, some have died, and a reader has died
 * with an item in hand, which is chance; for PATIENCE_NS at most. */
static bool goes_on(uint64_t end, uint32_t deaths)
{
	uint64_t now = now_ns();

	return now < end ||
	       ((!deaths || !board->again) && now < end + PATIENCE_NS);
}

static void storm(enum ring_mode mode, double seconds, const char *what)
{
	struct ring ring = set_up(mode);
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	uint64_t random = (uint64_t)getpid() * 2654435761u + end;
	uint32_t owner = 2, deaths = 0;
	pid_t pids[WORKERS];
	uint32_t owners[WORKERS];
	struct ring_stat stat;

	diag("%s: seed %llu", what, (unsigned long long)random);
	for (unsigned int i = 0; i < WORKERS; i++)
		pids[i] = start(i, owners[i] = owner++);
	while (goes_on(end, deaths) && !board->faults && owner < LIVES - 8) {
		unsigned int i;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		usleep(200 + random % 4000);
		i = random / 4096 % WORKERS;
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
		if (random % 4 == 0)
			reap_twice(&ring, owners[i], random >> 20);
		else
			ring_reap_owner(&ring, owners[i]);
		deaths++;
		pids[i] = start(i, owners[i] = owner++);
	}
	board->stop = true;
	for (unsigned int i = 0; i < WORKERS; i++) {
		int status;

		waitpid(pids[i], &status, 0);
		ring_reap_owner(&ring, owners[i]);
	}
	drain(&ring, what);
	ring_stat(&ring, &stat);
	is_int(SLOTS, stat.free, "%s: no slot is lost", what);
	ok(board->faults == 0, "%s: no participant saw a fault: %s", what,
		board->faults ? board->fault : "delivered as promised");
	ok(deaths > 0 && board->again > 0,
		"%s: some participants died and items were delivered again",
		what);
	diag("%s: %u deaths", what, deaths);
	munmap(board, sizeof(*board) + IDS);
	munmap(memory, size);
}

int main(void)
{
	const char *text = getenv("SECONDS");
	double seconds = text ? atof(text) : 2;

	storm(RING_QUEUE, seconds, "queue");
	storm(RING_BROADCAST, seconds, "broadcast");
	return done(7);
}
