/* SPDX-License-Identifier: MIT */
/*
 * Processes that open a loader by one name: each batch is read once, by one of
 * them, and all get what tarn_data_get reads, whatever joins late, at another
 * position or with another number of ranks, and leaves early. The slots bound what
 * is read ahead. Another configuration is refused, and what others write into the
 * feed is checked.
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

enum { BATCH = 12 };

static tarn_store *store;

static struct tarn_loader_options options_of(uint32_t rank, uint32_t world)
{
	return (struct tarn_loader_options) {.name = "train",
		.global_batch = BATCH,
		.rank = rank,
		.world = world,
		.ahead = 2,
		.parts = BATCHES_PARTS};
}

/* ---- once ----------------------------------------------------------------------- */

/* Four processes of three ranks make some steps at one time. */
static void once(const char *name)
{
	enum { PROCESSES = 4, STEPS = 12 };
	struct rank ranks[PROCESSES];
	uint64_t read = 0, readers = 0, alone = 0;
	struct rank_word word;
	bool right = true;

	for (uint32_t i = 0; i < PROCESSES; i++) {
		ranks[i].options = options_of(i % 3, 3);
		ranks[i].options.processes = PROCESSES;
		ranks[i].options.from = 7;
		rank_start(&ranks[i]);
	}
	for (int i = 0; i < PROCESSES; i++)
		rank_go(&ranks[i], STEPS);
	for (int i = 0; i < PROCESSES; i++) {
		right = rank_finish(&ranks[i], &word) && right;
		alone += word.info.n_alone;
		readers += word.info.batches_read > 0;
		read += word.info.batches_read;
	}
	ok(right, "all ranks get what is theirs: %s", name);
	if (!ok(readers == 1 && alone == 0 && read >= STEPS &&
			    read <= STEPS + 4,
		    "each batch is read once, by one of them: %s", name))
		diag("%llu readers, %llu batches, %llu alone",
			(unsigned long long)readers, (unsigned long long)read,
			(unsigned long long)alone);
	for (int i = 0; i < PROCESSES; i++)
		rank_end(&ranks[i]);
}

static void test_once(void)
{
	for (int i = 0; i < CONFIGURATIONS; i += 5) {
		const char *name;

		ranks_dataset = datasets_options(i, &name);
		once(name);
	}
}

/* ---- joining ----------------------------------------------------------------------- */

static struct rank started(uint32_t rank, uint32_t world, uint64_t from)
{
	struct rank r = {.options = options_of(rank, world)};

	r.options.from = from;
	rank_start(&r);
	return r;
}

static void steps(struct rank *rank, uint64_t n, struct rank_word *ret)
{
	rank_go(rank, n);
	ok(rank_finish(rank, ret), "a rank makes %llu steps from %llu",
		(unsigned long long)n, (unsigned long long)rank->position);
}

/* Both make a step at a time, until the second gets batches from the feed. */
static bool come_together(struct rank *first, struct rank *second)
{
	struct rank_word a, b = {.position = 0};

	for (int i = 0; !b.info.n_shared && i < 500; i++) {
		rank_go(first, 1);
		rank_go(second, 1);
		if (!rank_finish(first, &a) || !rank_finish(second, &b))
			return false;
	}
	return b.info.n_shared && !a.info.n_alone;
}

/* One that comes when the others have begun, at their position. */
static void test_late(void)
{
	struct rank first = started(0, 2, 0), second;
	struct rank_word a, b;

	steps(&first, 20, &a);
	second = started(1, 2, first.position);
	ok(come_together(&first, &second), "one that is late gets its batches "
					   "at once, and comes into the feed");
	rank_go(&first, 100);
	rank_go(&second, 100);
	ok(rank_finish(&first, &a), "the first goes on");
	ok(rank_finish(&second, &b), "the second, too");
	is_int(0, (int64_t)a.info.n_alone, "the first is always in the feed");
	rank_end(&first);
	steps(&second, 50, &b);
	ok(b.info.reads, "the second reads where the first is gone");
	rank_end(&second);
}

/* A second job, at another position, with another world. */
static void test_second_job(void)
{
	struct rank first = started(0, 1, 0), second, third;
	struct rank_word word;

	steps(&first, 10, &word);
	second = started(1, 2, 5000 * BATCH);
	third = started(0, 1, 10 * BATCH + 5);
	steps(&second, 30, &word);
	is_int(0, (int64_t)word.info.n_shared,
		"one that is far reads for itself, and waits for nobody");
	steps(&third, 30, &word);
	is_int(0, (int64_t)word.info.n_shared,
		"so does one whose batches begin elsewhere");
	steps(&first, 30, &word);
	is_int(40, (int64_t)word.info.n_shared,
		"the first job does not wait for them, either");
	rank_end(&first);
	steps(&second, 200, &word);
	ok(word.info.n_shared > 0, "where a feed has ended, one begins anew");
	rank_end(&second);
	rank_end(&third);
}

/* ---- bounds ------------------------------------------------------------------------- */

static tarn_loader *open_loader(
	tarn_data *data, const struct tarn_loader_options *options)
{
	tarn_loader *loader;

	must(tarn_loader_open(store, data, options, &loader));
	return loader;
}

static void test_bounds(tarn_data *data)
{
	const struct tarn_loader_options a = options_of(0, 2),
					 b = options_of(1, 2);
	tarn_loader *first = open_loader(data, &a),
		    *second = open_loader(data, &b);
	struct tarn_loader_info info;
	tarn_batch *batch;
	bool right = true;
	int n = 0, r;

	while ((r = tarn_loader_next(first, n < 4 ? 60000 : 200, &batch)) >=
			0 &&
		n < 100) {
		right = right && batches_right(data, batch, (uint64_t)n * BATCH,
					 BATCH / 2, BATCHES_PARTS);
		tarn_batch_unref(batch);
		n++;
	}
	is_int(-ETIMEDOUT, r, "a rank waits for one that takes nothing");
	is_int(4, n, "there are two slots more than are read ahead");
	ok(right, "until then it gets its batches");
	tarn_loader_info(first, &info);
	right = info.reads;
	tarn_loader_info(second, &info);
	ok(right != info.reads, "one of the two reads");
	for (int i = 0; i < 10; i++)
		right = batches_next(second, data, &b) &&
			batches_next(first, data, &a);
	ok(right, "both go on together");
	second = tarn_loader_unref(second);
	for (int i = 0; right && i < 30; i++)
		right = batches_next(first, data, &a);
	ok(right, "no one waits for one that has left");
	tarn_loader_unref(first);
}

/* The last batch is smaller; ranks that are through do not hold up others. */
static void test_ends(tarn_data *data)
{
	struct tarn_loader_options a = options_of(0, 2), b = options_of(1, 2);
	tarn_loader *first, *second;
	tarn_batch *none;
	bool right = true;

	a.until = 3 * BATCH + 5;
	b.until = 20 * BATCH + 1;
	first = open_loader(data, &a);
	second = open_loader(data, &b);
	while (right && tarn_loader_position(first) < a.until)
		right = batches_next(first, data, &a) &&
			batches_next(second, data, &b);
	ok(right, "both get their batches");
	is_int(-EPIPE, tarn_loader_next(first, -1, &none),
		"the first is at its end");
	while (right && tarn_loader_position(second) < b.until)
		right = batches_next(second, data, &b);
	ok(right, "the second goes on to its own");
	is_int(-EPIPE, tarn_loader_next(second, -1, &none), "it ends, too");
	tarn_loader_unref(first);
	tarn_loader_unref(second);
}

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
	struct tarn_loader_options a = options_of(0, 1), b = a;
	tarn_data *other = datasets_open(&options);
	tarn_loader *loader = open_loader(data, &a);

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
	loader = open_loader(other, &a);
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
	const int64_t shape[] = {how == 2 ? 3 : BATCH, SEQ_LEN + 1};
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
			f->how < 6 ? at + i % 3 * BATCH
				   : MAX(at, BATCH) - BATCH,
			f->how);
	}
	return NULL;
}

static void test_hostile(tarn_data *data)
{
	static const char *const what[] = {"with too few tensors",
		"without tensors", "of another shape", "of another dtype",
		"of another kind", "with a short tag", "that was before"};
	const struct tarn_loader_options a = options_of(0, 1);

	for (int how = 0; how < 7; how++) {
		struct forger f = {.how = how};
		pthread_t thread;
		bool right;

		f.loader = open_loader(data, &a);
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
		publish(arg, i % OLD * BATCH, 0);
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
	struct tarn_loader_options a = options_of(0, 1);
	tarn_channel *items, *turn;
	tarn_loader *loader;
	tarn_batch *batch;
	tarn_slot *slot;
	pthread_t thread;
	bool right = true;

	a.ahead = OLD;
	a.from = OLD * BATCH;
	loader = open_loader(data, &a);
	open_both(&items, &turn);
	tarn_loader_unref(loader);
	must(tarn_channel_acquire(turn, -1, &slot));
	loader = open_loader(data, &a);
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
	const struct tarn_loader_options a = options_of(0, 1);
	tarn_loader *loader = open_loader(data, &a);
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

	/* No process is so slow that others do not wait for it. */
	loader_stalled_ms = 120000;
	feed_expect_ns = 120000000000u;
	datasets_begin(test_tmpdir(), corpora);
	store = daemon_start_open(
		&server, "loader.sock", (const char *[]) {NULL});
	ranks_socket = server.socket;
	test_once();
	ranks_dataset = options;
	test_late();
	test_second_job();
	data = datasets_open(&options);
	test_bounds(data);
	test_ends(data);
	test_others(data);
	test_hostile(data);
	test_time(data);
	test_closed(data);
	tarn_data_free(data);
	tarn_store_unref(store);
	daemon_stop(&server);
	datasets_end(corpora);
	return done(2 * 8 + 7 + 9 + 6 + 4 + 11 + 7 + 2 + 3);
}
