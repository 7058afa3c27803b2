/* SPDX-License-Identifier: MIT */
/*
 * A worker of the soak: publishes its own names, looks at everybody's, loads
 * files, holds some tensors for long, and now and then forks a child that
 * holds them on.
 *
 * What ends with a clear error because a process was killed is tried again;
 * what is wrong is a fault.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/soak/soak.h"

struct held {
	tarn_tensor *tensor;
	unsigned row;
	uint64_t number;
};

struct work {
	struct soak_board *board;
	struct soak_worker *self;
	unsigned me;
	uint64_t random;
	tarn_store *store;
	struct held held[SOAK_HELD];
};

static void beat(struct work *w)
{
	atomic_store(&w->self->beat, soak_now_ms());
}

/* Is it what a call may end with when server or loader die under it? */
static void excuse(struct work *w, const char *what)
{
	atomic_fetch_add(&w->self->retries, 1);
	if (getenv("SOAK_VERBOSE"))
		fprintf(stderr, "worker %u: %s: %s\n", w->me, what,
			tarn_error_message());
}

static void open_store(struct work *w)
{
	uint64_t until = soak_now_ms() + SOAK_PATIENCE_MS;

	w->store = tarn_store_unref(w->store);
	while (tarn_store_open(w->board->socket, NULL, &w->store) < 0) {
		if (soak_now_ms() > until) {
			soak_fault(w->board, "worker %u cannot connect: %s",
				w->me, tarn_error_message());
			_exit(1);
		}
		usleep(5000);
	}
	beat(w);
	atomic_fetch_add(&w->self->opens, 1);
}

/* ---- publishing ------------------------------------------------------ */

/* A whole group at once; each of its rows has the same number. */
static int publish(struct work *w, unsigned group, uint64_t number)
{
	struct tarn_publish_item items[SOAK_SET] = {{0}};
	char names[SOAK_SET][32];
	int r = 0;

	for (unsigned i = 0; i < SOAK_SET && r >= 0; i++) {
		unsigned row = group * SOAK_SET + i;
		int64_t shape = (int64_t)soak_size(row, number);
		tarn_tensor *tensor = NULL;

		soak_name(row, names[i]);
		r = tarn_store_create(
			w->store, TARN_U64, 1, &shape, 0, &tensor);
		if (r < 0)
			break;
		soak_fill(
			tarn_tensor_data(tensor), (uint64_t)shape, row, number);
		items[i].name = names[i];
		items[i].tensor = tensor;
	}
	if (r >= 0)
		r = tarn_store_publish(w->store, items, SOAK_SET, NULL, NULL);
	for (unsigned i = 0; i < SOAK_SET; i++)
		tarn_tensor_unref(items[i].tensor);
	return r;
}

static int remove_set(struct work *w, unsigned group)
{
	char name[32];
	int r = 0;

	for (unsigned i = 0; i < SOAK_SET; i++) {
		soak_name(group * SOAK_SET + i, name);
		r = tarn_store_remove(w->store, name);
		if (r < 0 && r != -ENOENT)
			return r;
	}
	return 0;
}

static void set_rows(struct work *w, unsigned group, uint64_t number, bool done)
{
	for (unsigned i = 0; i < SOAK_SET; i++) {
		struct soak_row *row = &w->board->rows[group * SOAK_SET + i];

		atomic_store(done ? &row->done : &row->begun, number);
	}
}

/* The next number of a group. One that was begun by a predecessor who died is
 * done once more, under the next number. */
static void change(struct work *w, unsigned group)
{
	struct soak_row *row = &w->board->rows[group * SOAK_SET];
	uint64_t number = atomic_load(&row->begun) + 1;
	int r;

	set_rows(w, group, number, false);
	r = soak_is_removal(number) ? remove_set(w, group)
				    : publish(w, group, number);
	if (r < 0) {
		/* It may have happened or not; the next one is certain. */
		excuse(w, "publish");
		if (r == -ENOSPC || r == -ENOMEM)
			soak_fault(
				w->board, "publish: %s", tarn_error_message());
		open_store(w);
		return;
	}
	set_rows(w, group, number, true);
	atomic_fetch_add(&w->self->publishes, 1);
}

/* ---- holding --------------------------------------------------------- */

static void check_held(struct work *w, const struct held *held, const char *who)
{
	uint64_t number = 0;

	if (held->tensor && (soak_verify(held->tensor, held->row, &number) ||
				    number != held->number))
		soak_fault(w->board,
			"%s: number %llu of row %u has changed "
			"under its holder",
			who, (unsigned long long)held->number, held->row);
}

static void look(struct work *w)
{
	unsigned row = (unsigned)(soak_random(&w->random) % SOAK_NAMES);
	struct held *held = &w->held[soak_random(&w->random) % SOAK_HELD];

	check_held(w, held, "worker");
	held->tensor = tarn_tensor_unref(held->tensor);
	if (!soak_look(w->board, w->store, row, &held->tensor)) {
		excuse(w, "look-up");
		open_store(w);
		return;
	}
	atomic_fetch_add(&w->self->lookups, 1);
	held->row = row;
	if (held->tensor)
		soak_verify(held->tensor, row, &held->number);
}

/* A child that never calls the library again, and outlives many things. */
static void fork_holder(struct work *w)
{
	pid_t pid = fork();

	if (pid != 0)
		return;
	if (fork() != 0)
		_exit(0);
	for (int n = 0; n < 10 && !atomic_load(&w->board->stop); n++) {
		usleep(20000);
		for (unsigned i = 0; i < SOAK_HELD; i++)
			check_held(w, &w->held[i], "child");
	}
	_exit(0);
}

/* ---- loading --------------------------------------------------------- */

static void load(struct work *w)
{
	unsigned which = (unsigned)(soak_random(&w->random) % SOAK_FILES);
	char address[160];
	tarn_tensor *tensor = NULL;
	const uint64_t *words;
	int r;

	snprintf(address, sizeof(address), "%s:x", w->board->files[which]);
	r = tarn_store_get(w->store, address, NULL, &tensor);
	if (r < 0) {
		excuse(w, "load");
		if (r == -ENOSPC || r == -ENOENT)
			soak_fault(w->board, "load: %s", tarn_error_message());
		open_store(w);
		return;
	}
	words = tarn_tensor_data(tensor);
	for (int64_t i = 0; i < tarn_tensor_layout(tensor)->shape[0]; i += 61)
		if (words[i] != (uint64_t)i + which) {
			soak_fault(w->board, "%s: word %lld is wrong", address,
				(long long)i);
			break;
		}
	tarn_tensor_unref(tensor);
	atomic_fetch_add(&w->self->loads, 1);
}

void soak_work(struct soak_board *board, unsigned me, uint64_t seed)
{
	struct work w = {.board = board,
		.self = &board->workers[me],
		.me = me,
		.random = seed};

	open_store(&w);
	while (!atomic_load(&board->stop)) {
		uint64_t dice = soak_random(&w.random) % 100;

		beat(&w);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (dice < 30)
			change(&w, (unsigned)(me * SOAK_GROUPS +
					      soak_random(&w.random) %
						      SOAK_GROUPS));
		else if (dice < 94)
			look(&w);
		else if (dice < 98)
			load(&w);
		else if (dice < 99)
			open_store(&w); /* a new one; old tensors stay */
		else
			fork_holder(&w);
	}
	for (unsigned i = 0; i < SOAK_HELD; i++) {
		check_held(&w, &w.held[i], "worker");
		tarn_tensor_unref(w.held[i].tensor);
	}
	tarn_store_unref(w.store);
	_exit(0);
}
