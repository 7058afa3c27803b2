/* SPDX-License-Identifier: MIT */
/*
 * Others at the name of a loader that processes share: those of another
 * configuration are refused, and leave nothing behind; what is no batch is ignored,
 * whatever is wrong with it; neither slow writers nor closed channels stop a rank.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "lib/data/loader.h"
#include "tests/data/datasets.h"
#include "tests/data/ranks.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static tarn_store *store;

/* ---- its channels ---------------------------------------------------------------------- */

struct feeds {
	unsigned n;
	char name[100]; /* of the last */
};

static int look(void *arg, const char *name)
{
	struct feeds *found = arg;

	if (strlen(name) == strlen("train/") + 32) {
		found->n++;
		snprintf(found->name, sizeof(found->name), "%s", name);
	}
	return 0;
}

static struct feeds feeds(void)
{
	struct feeds found = {0};

	must(tarn_channel_list(store, "train/", look, &found));
	return found;
}

/* The loader's: those of earlier ones end a moment after their last participant. */
static struct feeds feed(void)
{
	struct feeds found = feeds();

	for (int i = 0; i < 60000 && found.n != 1; i++) {
		usleep(1000);
		found = feeds();
	}
	if (found.n != 1)
		bail("%u channels, of which %s is one", found.n, found.name);
	return found;
}

/* ---- other configurations ------------------------------------------------------------- */

static void refused(
	tarn_data *data, struct tarn_loader_options o, const char *what)
{
	tarn_loader *loader;

	is_int(-EMEDIUMTYPE, tarn_loader_open(store, data, &o, &loader),
		"the name is refused: %s", what);
	has_str("'train' is in use by processes with another",
		tarn_error_message(), "the sentence says so: %s", what);
}

static void test_others(tarn_data *data)
{
	struct tarn_data_options options = datasets_options(14, NULL);
	struct tarn_loader_options a = ranks_options(0, 1), b = a;
	tarn_data *other = datasets_open(&options);
	tarn_loader *loader = ranks_loader(store, data, &a);

	refused(other, a, "another dataset");
	b.global_batch++;
	refused(data, b, "another batch");
	b = a;
	b.parts = 0;
	refused(data, b, "other parts");
	b = a;
	b.world = 3;
	b.node_ranks = 2;
	refused(data, b, "other ranks of the node");
	is_int(1, feeds().n, "those that were refused have made no channel");
	ok(batches_next(loader, data, &a), "the one that has it goes on");
	tarn_loader_unref(loader);
	loader = ranks_loader(store, other, &a);
	ok(batches_next(loader, other, &a),
		"the name is free for another when all have left");
	tarn_loader_unref(loader);
	tarn_data_free(other);
}

/* ---- hostile peers ---------------------------------------------------------------------- */

/* Publishes into the feed what claims to be the batch at a position. */
static void publish(tarn_channel *channel, uint64_t position, int how)
{
	uint64_t tag[3] = {0x31726461656c7274u, position, 0};
	const int64_t shape[] = {how == 2 ? 3 : RANKS_BATCH, SEQ_LEN + 1};
	tarn_tensor *t;
	tarn_slot *slot;

	must(tarn_channel_acquire(channel, -1, &slot));
	for (int i = 0; how != 1 && i < 3; i++) {
		must(tarn_slot_new_tensor(
			slot, how == 3 ? TARN_F32 : TARN_I32, 2, shape, &t));
		memset(tarn_tensor_data(t), 0,
			(size_t)tarn_layout_nbytes(tarn_tensor_layout(t)));
		tarn_tensor_unref(t);
	}
	if (how == 4)
		tag[0]++;
	must(tarn_slot_set_tag(slot, tag, how == 5 ? 7 : sizeof(tag)));
	must(tarn_slot_publish(slot));
}

struct forger {
	tarn_loader *loader;
	tarn_channel *channel;
	int how;
	atomic_bool stop;
};

/* Waits for slots as the reader does, and gets some of them: all the time. */
static void *forge(void *arg)
{
	struct forger *f = arg;

	for (uint64_t i = 0; !atomic_load(&f->stop); i++) {
		uint64_t at = tarn_loader_position(f->loader);

		publish(f->channel,
			f->how < 6 ? at + i % 3 * RANKS_BATCH
				   : MAX(at, RANKS_BATCH) - RANKS_BATCH,
			f->how);
	}
	return NULL;
}

static void test_hostile(tarn_data *data)
{
	static const char *const what[] = {"with too few tensors",
		"without tensors", "of another shape", "of another dtype",
		"of another kind", "with a short tag", "that was before"};
	const struct tarn_loader_options a = ranks_options(0, 1);

	for (int how = 0; how < 7; how++) {
		struct forger f = {.how = how};
		pthread_t thread;
		bool right;

		f.loader = ranks_loader(store, data, &a);
		right = batches_next(f.loader, data, &a);
		must(tarn_channel_open(store, feed().name, NULL, &f.channel));
		if (pthread_create(&thread, NULL, forge, &f))
			bail("no thread");
		for (int i = 0; i < 20; i++)
			right = batches_next(f.loader, data, &a) && right;
		atomic_store(&f.stop, true);
		while (pthread_tryjoin_np(thread, NULL) == EBUSY)
			right = batches_next(f.loader, data, &a) && right;
		for (int i = 0; i < 10; i++)
			right = batches_next(f.loader, data, &a) && right;
		ok(right, "an item %s is not taken for a batch", what[how]);
		tarn_channel_unref(f.channel);
		tarn_loader_unref(f.loader);
	}
}

/* ---- time ------------------------------------------------------------------------------- */

enum { OLD = 20, OLD_US = 100000 };

static atomic_bool old_stop;

/* Goes on: a wait that each item made longer would have no end. */
static void *publish_old(void *arg)
{
	for (uint64_t i = 0; !atomic_load(&old_stop); i++) {
		publish(arg, i % OLD * RANKS_BATCH, 0);
		usleep(OLD_US);
	}
	return NULL;
}

/* The loader's channels, to take part in. */
static void open_both(tarn_channel **items, tarn_channel **turn)
{
	const struct feeds it = feed();
	char other[110];

	snprintf(other, sizeof(other), "%s/turn", it.name);
	must(tarn_channel_open(store, it.name, NULL, items));
	must(tarn_channel_open(store, other, NULL, turn));
	must(tarn_channel_join(*items, TARN_CHANNEL_PRODUCER));
	must(tarn_channel_join(*turn, TARN_CHANNEL_PRODUCER));
}

/* One that has the turn publishes slowly what was before. */
static void test_time(tarn_data *data)
{
	struct tarn_loader_options a = ranks_options(0, 1);
	tarn_channel *items, *turn;
	tarn_loader *loader;
	tarn_batch *batch;
	tarn_slot *slot;
	pthread_t thread;
	bool right = true;

	a.ahead = OLD;
	a.from = OLD * RANKS_BATCH;
	loader = ranks_loader(store, data, &a);
	open_both(&items, &turn);
	tarn_loader_unref(loader);
	must(tarn_channel_acquire(turn, -1, &slot));
	loader = ranks_loader(store, data, &a);
	if (pthread_create(&thread, NULL, publish_old, items))
		bail("no thread");
	is_int(-ETIMEDOUT, tarn_loader_next(loader, 5 * OLD_US / 2000, &batch),
		"the wait ends when its time is over, though what was before "
		"comes");
	atomic_store(&old_stop, true);
	tarn_slot_abandon(slot);
	do /* they share the slots */
		right = batches_next(loader, data, &a) && right;
	while (pthread_tryjoin_np(thread, NULL) == EBUSY);
	ok(right, "the loader goes on afterwards");
	tarn_channel_unref(items);
	tarn_channel_unref(turn);
	tarn_loader_unref(loader);
}

/* ---- ended channels --------------------------------------------------------------------- */

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The feed's channel is closed while its rank is busy with something else. */
static void test_closed(tarn_data *data)
{
	const struct tarn_loader_options a = ranks_options(0, 1);
	tarn_loader *loader = ranks_loader(store, data, &a);
	tarn_channel *items, *turn;
	bool right = true;
	double spent;

	ok(batches_next(loader, data, &a), "a rank reads from its feed");
	open_both(&items, &turn);
	must(tarn_channel_close(items));
	spent = cpu_seconds();
	sleep(2);
	spent = cpu_seconds() - spent;
	if (!ok(spent < 0.2, "a process that cannot read for others rests"))
		diag("it took %.1f s of CPU in 2 s", spent);
	for (int i = 0; i < 20; i++)
		right = batches_next(loader, data, &a) && right;
	ok(right, "its rank goes on without them");
	tarn_channel_unref(items);
	tarn_channel_unref(turn);
	tarn_loader_unref(loader);
}

int main(void)
{
	struct tarn_data_options options = datasets_options(15, NULL);
	struct corpus corpora[2];
	struct daemon server;
	tarn_data *data;

	ranks_are_slow();
	datasets_begin(test_tmpdir(), corpora);
	store = daemon_start_open(
		&server, "loader.sock", (const char *[]) {NULL});
	data = datasets_open(&options);
	test_others(data);
	test_hostile(data);
	test_time(data);
	test_closed(data);
	tarn_data_free(data);
	tarn_store_unref(store);
	daemon_stop(&server);
	datasets_end(corpora);
	return done(11 + 7 + 2 + 3);
}
