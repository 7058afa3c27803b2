/* SPDX-License-Identifier: MIT */
/*
 * The soak of channels: producers and consumers of a queue and of a broadcast
 * that are killed anywhere, under a server that is killed now and then. In the
 * end every item that was published has come as its mode promises, no slot is
 * lost, and the memory is back. TARN_SOAK_SECONDS, or --seconds N.
 *
 * A board in memory that all share has three bytes for each item: how far its
 * producer got (begun before he publishes, done after), how often it came for
 * the first time, and how often at all. One that is done must have come; none
 * may come twice but as redelivered, or twice to one listener. Every eighth
 * item keeps a tensor of the pool, whose name goes at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/channel_kit.h"
#include "tests/restart_kit.h"
#include "tests/tap.h"

#define ITEMS (8u << 20)
#define SLOTS 8
#define BYTES 20000
#define HELD 3 /* items that a consumer has in hand at most */
#define SHORT_MS 100
#define END_MS 60000
#define WEIGHTS 1000

enum { BEGUN = 1, DONE = 2 };

enum role { QUEUE_OUT, QUEUE_IN, CAST_OUT, CAST_IN, CAST_STAY, ROLES };

static const struct {
	const char *name, *channel;
	int n;
	bool killed;
} roles[ROLES] = {
	[QUEUE_OUT] = {"producer", "queue", 2, true},
	[QUEUE_IN] = {"consumer", "queue", 2, true},
	[CAST_OUT] = {"sender", "cast", 1, true},
	[CAST_IN] = {"listener", "cast", 1, true},
	[CAST_STAY] = {"witness", "cast", 1, false},
};
#define CHILDREN 7

struct board {
	char socket[108];
	atomic_bool stop;
	atomic_uint next; /* item */
	atomic_uint faults, again, kept;
	char fault[300]; /* the first */
	/* The mode is known by the number: odd ones are broadcast. */
	atomic_uchar published[ITEMS], first[ITEMS], seen[ITEMS];
};

static struct board *board;
static const char *self;

static __attribute__((__format__(printf, 1, 2))) void fault(
	const char *fmt, ...)
{
	va_list ap;

	if (atomic_fetch_add(&board->faults, 1))
		return;
	va_start(ap, fmt);
	vsnprintf(board->fault, sizeof(board->fault), fmt, ap);
	va_end(ap);
}

static uint64_t rng;

static uint32_t below(uint32_t n)
{
	rng = rng * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((rng >> 33) % n);
}

static void nap_us(uint32_t us)
{
	const struct timespec t = {
		.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

	nanosleep(&t, NULL);
}

/* ---- items
 * ------------------------------------------------------------------- */

static int add_number(tarn_slot *slot, uint32_t item)
{
	const int64_t one = 1;
	tarn_tensor *t;
	int r = tarn_slot_empty(slot, TARN_U32, 1, &one, &t);

	if (r < 0)
		return r;
	*(uint32_t *)tarn_tensor_data(t) = item;
	tarn_tensor_unref(t);
	return 0;
}

static int add_bytes(tarn_slot *slot, uint32_t item)
{
	int64_t n = 1 + item * 7919ll % BYTES;
	tarn_tensor *t;
	int r = tarn_slot_empty(slot, TARN_U8, 1, &n, &t);

	if (r < 0)
		return r;
	memset(tarn_tensor_data(t), (int)(item & 255), (size_t)n);
	tarn_tensor_unref(t);
	return 0;
}

/* Only the item keeps it. A server that dies in a publication may leave it
 * open whether it was done: then the item does without. */
static int add_kept(tarn_store *store, tarn_slot *slot, uint32_t item)
{
	struct tarn_publish_item w = {0};
	const int64_t n = WEIGHTS;
	char name[30];
	int r;

	snprintf(name, sizeof(name), "w/%u", item);
	w.name = name;
	r = tarn_store_create(store, TARN_U32, 1, &n, 0, &w.tensor);
	if (r < 0)
		return r;
	for (int i = 0; i < WEIGHTS; i++)
		((uint32_t *)tarn_tensor_data(w.tensor))[i] = item;
	r = tarn_store_publish(store, &w, 1, NULL, NULL);
	tarn_tensor_unref(w.tensor);
	w.tensor = NULL;
	if (r < 0)
		return 0;
	r = tarn_store_lookup(store, name, &w.tensor);
	if (r >= 0)
		r = tarn_slot_add(slot, w.tensor);
	if (r < 0)
		fault("%s: %s", name, tarn_error_message());
	tarn_tensor_unref(w.tensor);
	tarn_store_remove(store, name);
	return r;
}

/* False: no more. */
static bool produce(tarn_store *store, tarn_channel *c, bool cast)
{
	uint32_t item;
	tarn_slot *slot;
	int r = tarn_channel_acquire(c, SHORT_MS, &slot);

	if (r == -ETIMEDOUT || r == -EINTR)
		return !board->stop;
	if (r < 0) {
		fault("acquire: %s", tarn_error_message());
		return false;
	}
	item = atomic_fetch_add(&board->next, 1) * 2 + cast;
	if (board->stop || item >= ITEMS || below(20) == 0) {
		tarn_slot_abandon(slot);
		return !board->stop && item < ITEMS;
	}
	r = add_number(slot, item);
	if (r >= 0)
		r = add_bytes(slot, item);
	if (r >= 0 && item / 2 % 8 == 0)
		r = add_kept(store, slot, item);
	if (r < 0) {
		fault("item %u: %s", item, tarn_error_message());
		tarn_slot_abandon(slot);
		return false;
	}
	board->published[item] = BEGUN;
	r = tarn_slot_publish(slot);
	if (r < 0)
		fault("publish %u: %s", item, tarn_error_message());
	else
		board->published[item] = DONE;
	return r >= 0;
}

static bool check_tensor(tarn_item *item, uint32_t i, uint32_t number)
{
	tarn_tensor *t;
	bool good = true;

	if (tarn_item_tensor(item, i, &t) < 0) {
		fault("item %u: %s", number, tarn_error_message());
		return false;
	}
	if (i == 1) {
		const unsigned char *p = tarn_tensor_data(t);
		int64_t n = tarn_tensor_layout(t)->shape[0];

		for (int64_t k = 0; k < n; k++)
			good = good && p[k] == (number & 255);
		good = good && n == 1 + number * 7919ll % BYTES;
	} else {
		const uint32_t *p = tarn_tensor_data(t);

		for (int k = 0; k < (i ? WEIGHTS : 1); k++)
			good = good && p[k] == number;
	}
	tarn_tensor_unref(t);
	if (!good)
		fault("item %u: tensor %u has wrong bytes", number, i);
	return good;
}

static void check_item(tarn_item *item, bool cast, bool stay)
{
	uint32_t n = tarn_item_count(item), number;
	tarn_tensor *t;

	if (n < 2 || n > 3 || tarn_item_tensor(item, 0, &t) < 0) {
		fault("an item of %u tensors", n);
		return;
	}
	number = *(const uint32_t *)tarn_tensor_data(t);
	tarn_tensor_unref(t);
	if (number >= ITEMS || number % 2 != cast ||
		!board->published[number]) {
		fault("item %u was never published there", number);
		return;
	}
	for (uint32_t i = 1; i < n; i++)
		if (!check_tensor(item, i, number))
			return;
	if (n == 3)
		board->kept++;
	if (cast && !stay)
		return;
	/* Saturated: a hundred deaths with one item in hand would be news. */
	if (atomic_fetch_add(&board->seen[number], 1) > 100)
		fault("item %u comes again and again", number);
	if (tarn_item_redelivered(item))
		board->again++;
	else if (atomic_fetch_add(&board->first[number], 1) > 0)
		fault("item %u came twice", number);
}

static void consume(tarn_channel *c, bool cast, bool stay)
{
	tarn_item *held[HELD] = {0}, *item;
	uint64_t next = 0;
	bool begun = false;
	int r;

	for (;;) {
		uint32_t at = below(HELD);

		held[at] = tarn_item_unref(held[at]);
		r = tarn_channel_receive(c, SHORT_MS, &item);
		if (r == -ETIMEDOUT || r == -EINTR)
			continue;
		if (r < 0)
			break;
		if (cast && begun && tarn_item_position(item) != next)
			fault("a listener has missed %lld items",
				(long long)(tarn_item_position(item) - next));
		next = tarn_item_position(item) + 1;
		begun = true;
		check_item(item, cast, stay);
		held[at] = item;
		if (below(8) == 0)
			nap_us(below(300));
	}
	if (r != -EPIPE)
		fault("receive: %s", tarn_error_message());
	for (int i = 0; i < HELD; i++)
		tarn_item_unref(held[i]);
}

/* ---- children
 * ------------------------------------------------------------------- */

static int child(int role, int fd, uint64_t seed)
{
	tarn_store *store = NULL;
	tarn_channel *c;
	int r = -ECONNRESET;

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED,
		fd, 0);
	if (board == MAP_FAILED)
		return 1;
	rng = seed;
	/* A server may die under each of three tries. */
	for (int i = 0; i < 5 && r == -ECONNRESET; i++)
		r = tarn_store_open(board->socket, &store);
	if (r >= 0)
		r = tarn_channel_open(store, roles[role].channel, NULL, &c);
	if (r < 0) {
		fault("%s: %s", roles[role].name, tarn_error_message());
		return 1;
	}
	if (role == QUEUE_OUT || role == CAST_OUT)
		while (produce(store, c, role == CAST_OUT))
			continue;
	else
		consume(c, role != QUEUE_IN, role == CAST_STAY);
	tarn_channel_unref(c);
	tarn_store_unref(store);
	return 0;
}

struct kid {
	pid_t pid;
	int role;
};

static void start(struct kid *kid, int fd)
{
	char args[3][24];

	snprintf(args[0], sizeof(args[0]), "%d", kid->role);
	snprintf(args[1], sizeof(args[1]), "%d", fd);
	snprintf(args[2], sizeof(args[2]), "%u", below(1u << 30));
	kid->pid = fork();
	if (kid->pid < 0)
		bail("fork: %m");
	if (kid->pid > 0)
		return;
	execl(self, self, "child", args[0], args[1], args[2], NULL);
	_exit(9);
}

static void stop_all(void *arg)
{
	struct kid *kids = arg;

	for (int i = 0; i < CHILDREN; i++)
		if (kids[i].pid > 0)
			kill(kids[i].pid, SIGKILL);
}

/* Those of a role end by themselves. */
static int await_role(struct kid *kids, int role)
{
	int left = 0;

	for (int i = 0; i < CHILDREN; i++) {
		int status = -1;

		if (kids[i].role != role)
			continue;
		for (int ms = 0; ms < END_MS; ms += 10) {
			if (waitpid(kids[i].pid, &status, WNOHANG) != 0)
				break;
			nap_us(10000);
		}
		if (status == -1)
			kill(kids[i].pid, SIGKILL);
		left += status != 0;
		kids[i].pid = 0;
	}
	return left;
}

/* ---- the whole
 * --------------------------------------------------------------------- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int soak(struct kid *kids, struct daemon *daemon, double seconds, int fd)
{
	double end = now() + seconds, server_at = now() + 0.7;
	int kills = 0;

	while (now() < end && !board->faults) {
		struct kid *kid = &kids[below(CHILDREN)];

		nap_us(2000 + below(30000));
		if (roles[kid->role].killed) {
			kill(kid->pid, SIGKILL);
			waitpid(kid->pid, NULL, 0);
			start(kid, fd);
			kills++;
		}
		if (now() > server_at) {
			server_kill(daemon);
			server_at = now() + 0.7;
		}
	}
	return kills;
}

static uint64_t used(tarn_store *store)
{
	struct tarn_store_status s;

	if (tarn_store_get_status(store, &s) < 0)
		bail("%s", tarn_error_message());
	return s.used;
}

static void judge(void)
{
	uint32_t done_ = 0, lost = 0;
	uint32_t end = MIN((uint32_t)board->next * 2 + 2, ITEMS);

	for (uint32_t i = 0; i < end; i++) {
		done_ += board->published[i] == DONE;
		lost += board->published[i] == DONE && !board->seen[i];
	}
	ok(done_ > 0, "%u items were published, %u of them came again", done_,
		board->again);
	is_int(0, lost, "and all of them came");
	ok(board->kept > 0, "%u with a tensor of the pool", board->kept);
	is_int(0, board->faults, "nothing else went wrong%s%s",
		board->faults ? ": " : "", board->fault);
}

static bool all_free(void *arg)
{
	struct tarn_channel_info info = kit_info(arg);

	return info.free == SLOTS && info.consumers == 0 && info.producers == 0;
}

int main(int argc, char **argv)
{
	const char *text = getenv("TARN_SOAK_SECONDS");
	double seconds = text ? atof(text) : 3;
	struct tarn_channel_options options = {
		.slots = SLOTS, .slot_bytes = 32768, .tensors = 3};
	const struct tarn_publish_options below_w = {.replace = "w/"};
	tarn_channel *channels[2];
	struct kid kids[CHILDREN];
	struct tarn_check *check;
	struct daemon daemon;
	uint64_t before;
	tarn_store *store;
	int fd, n = 0, kills;

	self = "/proc/self/exe";
	if (argc == 5)
		return child(atoi(argv[2]), atoi(argv[3]),
			strtoull(argv[4], NULL, 10));
	if (argc == 3)
		seconds = atof(argv[2]);
	rng = (uint64_t)getpid();
	fd = memfd_create("board", 0); /* the children have it, too */
	if (fd < 0 || ftruncate(fd, sizeof(*board)) < 0)
		bail("memfd: %m");
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED,
		fd, 0);
	if (board == MAP_FAILED)
		bail("mmap: %m");
	daemon_start(&daemon, "soak.sock", (const char *[]) {NULL});
	memcpy(board->socket, daemon.socket, sizeof(board->socket));
	store = kit_store(daemon.socket);
	before = used(store);
	channels[0] = kit_open(store, "queue", &options);
	options.mode = TARN_CHANNEL_BROADCAST;
	channels[1] = kit_open(store, "cast", &options);
	for (int role = ROLES - 1; role >= 0; role--)
		for (int i = 0; i < roles[role].n; i++)
			kids[n++] = (struct kid) {.role = role};
	at_bail(stop_all, kids);
	for (int i = 0; i < n; i++) {
		start(&kids[i], fd);
		/* The witness hears all from the first on. */
		while (i == 0 && kit_info(channels[1]).consumers == 0 &&
			!board->faults)
			nap_us(1000);
	}
	kills = soak(kids, &daemon, seconds, fd);
	diag("%d killed in %g seconds", kills, seconds);
	board->stop = true;
	is_int(0, await_role(kids, QUEUE_OUT), "producers end");
	is_int(0, await_role(kids, CAST_OUT), "senders end");
	tarn_channel_close(channels[0]);
	tarn_channel_close(channels[1]);
	is_int(0, await_role(kids, QUEUE_IN), "consumers come to the end");
	is_int(0, await_role(kids, CAST_IN), "so do listeners");
	is_int(0, await_role(kids, CAST_STAY), "and the witness");
	judge();
	for (int i = 0; i < 2; i++) {
		ok(kit_comes_true(all_free, channels[i]),
			"%s: no slot is lost, and nobody is left",
			tarn_channel_name(channels[i]));
		tarn_store_remove(store, tarn_channel_name(channels[i]));
		tarn_channel_unref(channels[i]);
	}
	/* Names that the dead had no time to remove. */
	if (tarn_store_publish(store, NULL, 0, &below_w, NULL) < 0)
		bail("%s", tarn_error_message());
	ok(used_becomes(store, before), "the memory is back");
	if (tarn_store_check(store, &check) < 0)
		bail("%s", tarn_error_message());
	is_int(0, check->n_faults, "the books are right");
	tarn_check_free(check);
	tarn_store_unref(store);
	close(fd);
	is_int(0, daemon_stop(&daemon), "the daemon ends");
	return done();
}
