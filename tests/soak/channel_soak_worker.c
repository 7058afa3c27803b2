/* SPDX-License-Identifier: MIT */
/*
 * The children of the soak of channels: a producer writes on the board what it
 * does; a receiver checks all bytes and writes what came.
 *
 * Every eighth item keeps a tensor of the pool, whose name goes at once.
 */
#include "tests/kit/must.h"
#include "tests/soak/channel_soak.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <tarn/tarn.h>

#include "lib/store/store.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"

#define BYTES 20000
#define HELD 3 /* items that a consumer has in hand at most */
#define SHORT_MS 100
#define WEIGHTS 1000
#define NONE UINT32_MAX

struct soak_board *soak_board;
uint64_t soak_rng;

const struct soak_role soak_roles[ROLES] = {
	[QUEUE_OUT] = {"producer", "queue", 2, true},
	[QUEUE_IN] = {"consumer", "queue", 2, true},
	[CAST_OUT] = {"sender", "cast", 1, true},
	[CAST_IN] = {"listener", "cast", 1, true},
	[CAST_STAY] = {"witness", "cast", 1, false},
};

void soak_map_board(int fd)
{
	soak_board = mmap(NULL, sizeof(*soak_board), PROT_READ | PROT_WRITE,
		MAP_SHARED, fd, 0);
	if (soak_board == MAP_FAILED)
		bail("the board: %m");
}

void soak_fault(const char *fmt, ...)
{
	va_list ap;

	if (atomic_fetch_add(&soak_board->faults, 1))
		return;
	va_start(ap, fmt);
	vsnprintf(soak_board->fault, sizeof(soak_board->fault), fmt, ap);
	va_end(ap);
}

uint32_t soak_below(uint32_t n)
{
	soak_rng = soak_rng * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((soak_rng >> 33) % n);
}

void soak_nap_us(uint32_t us)
{
	const struct timespec t = {
		.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

	nanosleep(&t, NULL);
}

/* ---- items ------------------------------------------------------------- */

static int add_number(tarn_slot *slot, uint32_t item)
{
	const int64_t one = 1;
	tarn_tensor *t;
	int r = tarn_slot_new_tensor(slot, TARN_U32, 1, &one, &t);

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
	int r = tarn_slot_new_tensor(slot, TARN_U8, 1, &n, &t);

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
	r = CALL_AGAIN(tarn_store_create(store, TARN_U32, 1, &n, 0, &w.tensor));
	if (r < 0)
		return r;
	for (int i = 0; i < WEIGHTS; i++)
		((uint32_t *)tarn_tensor_data(w.tensor))[i] = item;
	r = tarn_store_publish(store, &w, 1, NULL, NULL);
	tarn_tensor_unref(w.tensor);
	w.tensor = NULL;
	if (r < 0)
		return 0;
	r = CALL_AGAIN(tarn_store_lookup(store, name, &w.tensor));
	if (r >= 0)
		r = tarn_slot_add(slot, w.tensor);
	if (r < 0)
		soak_fault("%s: %s", name, tarn_error_message());
	tarn_tensor_unref(w.tensor);
	may_fail(tarn_store_remove(store, name));
	return r;
}

/* False: no more. */
static bool produce(tarn_store *store, tarn_channel *c, bool cast)
{
	uint32_t item;
	tarn_slot *slot;
	int r = CALL_AGAIN(tarn_channel_acquire(c, SHORT_MS, &slot));

	if (r == -ETIMEDOUT || r == -EINTR)
		return !soak_board->stop;
	if (r < 0) {
		soak_fault("acquire: %s", tarn_error_message());
		return false;
	}
	item = atomic_fetch_add(&soak_board->next, 1) * 2 + cast;
	if (soak_board->stop || item >= SOAK_ITEMS || soak_below(20) == 0) {
		tarn_slot_abandon(slot);
		return !soak_board->stop && item < SOAK_ITEMS;
	}
	r = add_number(slot, item);
	if (r >= 0)
		r = add_bytes(slot, item);
	if (r >= 0 && item / 2 % 8 == 0)
		r = add_kept(store, slot, item);
	if (r < 0) {
		soak_fault("item %u: %s", item, tarn_error_message());
		tarn_slot_abandon(slot);
		return false;
	}
	soak_board->published[item] = BEGUN;
	r = tarn_slot_publish(slot);
	if (r < 0) {
		soak_fault("publish %u: %s", item, tarn_error_message());
	} else {
		soak_board->published[item] = DONE;
		soak_board->done++;
	}
	return r >= 0;
}

static bool check_tensor(tarn_item *item, uint32_t i, uint32_t number)
{
	tarn_tensor *t;
	bool good = true;

	if (CALL_AGAIN(tarn_item_tensor(item, i, &t)) < 0) {
		soak_fault("item %u: %s", number, tarn_error_message());
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
		soak_fault("item %u: tensor %u has wrong bytes", number, i);
	return good;
}

/* Its number, if it is one that must not be lost; or NONE. */
static uint32_t check_item(tarn_item *item, bool cast, bool stay)
{
	uint32_t n = tarn_item_count(item), number;
	tarn_tensor *t;

	if (n < 2 || n > 3 || CALL_AGAIN(tarn_item_tensor(item, 0, &t)) < 0) {
		soak_fault("an item of %u tensors", n);
		return NONE;
	}
	number = *(const uint32_t *)tarn_tensor_data(t);
	tarn_tensor_unref(t);
	if (number >= SOAK_ITEMS || number % 2 != cast ||
		!soak_board->published[number]) {
		soak_fault("item %u was never published there", number);
		return NONE;
	}
	for (uint32_t i = 1; i < n; i++)
		if (!check_tensor(item, i, number))
			return NONE;
	if (n == 3)
		soak_board->kept++;
	if (cast && !stay)
		return NONE;
	/* Saturated: a hundred deaths with one item in hand would be news. */
	if (atomic_fetch_add(&soak_board->seen[number], 1) > 100)
		soak_fault("item %u comes again and again", number);
	if (tarn_item_redelivered(item))
		soak_board->again++;
	else if (atomic_fetch_add(&soak_board->first[number], 1) > 0)
		soak_fault("item %u came twice", number);
	return number;
}

struct in_hand {
	tarn_item *item;
	uint32_t number;
};

/* A worker that dies just before has it delivered again. */
static void put_down(struct in_hand *h)
{
	if (h->item && h->number != NONE)
		soak_board->through[h->number] = 1;
	h->item = tarn_item_unref(h->item);
}

static void consume(tarn_channel *c, bool cast, bool stay)
{
	struct in_hand held[HELD] = {0};
	tarn_item *item;
	uint64_t next = 0;
	bool begun = false;
	int r;

	for (;;) {
		uint32_t at = soak_below(HELD);

		put_down(&held[at]);
		r = CALL_AGAIN(tarn_channel_receive(c, SHORT_MS, &item));
		if (r == -ETIMEDOUT || r == -EINTR)
			continue;
		if (r < 0)
			break;
		if (cast && begun && tarn_item_position(item) != next)
			soak_fault("a listener has missed %lld items",
				(long long)(tarn_item_position(item) - next));
		next = tarn_item_position(item) + 1;
		begun = true;
		held[at] = (struct in_hand) {
			.item = item, .number = check_item(item, cast, stay)};
		if (soak_below(8) == 0)
			soak_nap_us(soak_below(300));
	}
	if (r != -EPIPE)
		soak_fault("receive: %s", tarn_error_message());
	for (int i = 0; i < HELD; i++)
		put_down(&held[i]);
}

/* ---- a life ------------------------------------------------------------ */

/* Waits long for every answer: many servers die, and a busy machine takes its
 * time to begin the next. */
static int open_store(tarn_store **ret)
{
	double end = seconds() + SOAK_PATIENCE_S;
	int r;

	do
		r = tarn_store_open(soak_board->socket, NULL, ret);
	while ((r == -ECONNRESET || r == -ETIMEDOUT) && seconds() < end);
	if (r >= 0)
		(*ret)->connection.timeout_ms = SOAK_PATIENCE_S * 1000;
	return r;
}

int soak_child(int role, int fd, uint64_t seed)
{
	tarn_store *store = NULL;
	tarn_channel *c;
	int r;

	soak_map_board(fd);
	soak_rng = seed;
	r = open_store(&store);
	if (r >= 0)
		r = CALL_AGAIN(tarn_channel_open(
			store, soak_roles[role].channel, NULL, &c));
	/* The last worker to start may find that it is over. */
	if (r == -ENOENT && soak_board->stop)
		return 0;
	if (r < 0) {
		soak_fault(
			"%s: %s", soak_roles[role].name, tarn_error_message());
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
