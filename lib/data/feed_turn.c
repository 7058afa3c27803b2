// SPDX-License-Identifier: MIT
/*
 * The turn, and what the process does that has it: it reads into slots, and
 * publishes them.
 *
 * A new reader goes on after what was published, as far as its own rank knows:
 * from the last item that came to the rank, and how many were published since. It
 * may be wrong, about gaps and repetitions, and then costs reads.
 *
 * The processes of a job open its loader within some time of each other. So that
 * those that come last miss nothing, the first parts are read, but published only
 * when as many take part as are expected, or the reader's own rank wants its
 * first batch, or some seconds have gone by.
 */
#include "lib/data/feed.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lib/data/alone.h"

/* How long at most until a request to stop is seen. */
#define PATIENCE_MS 50

uint64_t feed_expect_ns = 10000000000u;

static void rest(void)
{
	const struct timespec time = {.tv_nsec = 10000000};

	nanosleep(&time, NULL);
}

/* ---- slots ---------------------------------------------------------------------- */

static int lay_slot(struct feed *s, tarn_slot *slot, struct batch_memory *ret)
{
	struct tarn_layout layout;
	int r = 0;

	*ret = (struct batch_memory) {.owner = slot};
	for (int i = 0; r >= 0 && i < BATCH_TENSORS; i++) {
		_cleanup_tensor_ tarn_tensor *t = NULL;

		if (!batch_layout(s->form, i, s->options.n, &layout))
			continue;
		r = tarn_slot_new_tensor(
			slot, layout.dtype, layout.ndim, layout.shape, &t);
		if (r >= 0)
			batch_set(ret, i, tarn_tensor_origin(t));
	}
	return r;
}

static int take(void *arg, int timeout_ms, struct batch_memory *ret)
{
	struct feed *s = arg;
	tarn_slot *slot;
	int r = tarn_channel_acquire(s->channel, timeout_ms, &slot);

	if (r == -ETIMEDOUT || r == -EINTR || r == -ESTALE)
		return 0;
	if (r >= 0) {
		r = lay_slot(s, slot, ret);
		if (r < 0)
			tarn_slot_abandon(slot);
	}
	feed_set(&s->broken, r < 0);
	return r < 0 ? r : 1;
}

static bool ready(void *arg)
{
	struct feed *s = arg;
	struct tarn_channel_info info;

	if (!s->ready)
		s->ready = feed_flag(&s->awaited) ||
			   clock_ns(CLOCK_MONOTONIC) - s->turn_ns >
				   feed_expect_ns ||
			   tarn_channel_info(s->channel, &info) < 0 ||
			   info.published ||
			   info.consumers >= s->options.processes;
	return s->ready;
}

static int put_list(tarn_slot *slot, const int32_t *list, size_t n)
{
	const int64_t shape[] = {(int64_t)n};
	_cleanup_tensor_ tarn_tensor *t = NULL;
	int r = tarn_slot_new_tensor(slot, TARN_I32, 1, shape, &t);

	if (r >= 0 && n)
		memcpy(tarn_tensor_origin(t), list, n * sizeof(*list));
	return r;
}

static int complete(
	struct feed *s, tarn_slot *slot, const struct ahead_part *part)
{
	const struct boundaries *b = &part->boundaries;
	struct feed_tag tag = {.magic = FEED_MAGIC,
		.position = part->position,
		.failed = part->failed};
	int r = 0;

	if (!part->failed && s->form->parts & TARN_LOADER_CU_SEQLENS) {
		r = put_list(slot, b->at, s->options.n + 1);
		if (r >= 0)
			r = put_list(slot, b->starts, b->n_starts);
	}
	tag.failed |= r < 0;
	return tarn_slot_set_tag(slot, &tag, sizeof(tag));
}

static int give(void *arg, struct ahead_part *part)
{
	struct feed *s = arg;
	tarn_slot *slot = part->memory.owner;
	int r = complete(s, slot, part);

	if (r < 0) {
		tarn_slot_abandon(slot);
		return r;
	}
	return tarn_slot_publish(slot);
}

static void drop(void *arg, struct batch_memory *memory)
{
	(void)arg;
	tarn_slot_abandon(memory->owner);
}

/* ---- reading ---------------------------------------------------------------------- */

/* Where a new reader begins: behind the last item that this process knows of, as
 * many batches as items were published from that one on. To repeat some would not
 * be wrong, but the repetitions would take the slots of what follows them: a rank
 * to which those are new would wait for its next batch, and the others, which have
 * had them, for that rank. */
static uint64_t go_on(struct feed *s)
{
	uint64_t wanted = feed_wanted(s), next = wanted, item = 0, position = 0;
	struct tarn_channel_info info;
	bool known;

	pthread_mutex_lock(&s->lock);
	known = s->passed || s->seen;
	if (s->passed) {
		item = s->passed_item;
		position = s->passed_last;
	}
	if (s->seen && s->seen_item >= item) {
		item = s->seen_item;
		position = s->seen_position;
	}
	pthread_mutex_unlock(&s->lock);
	if (known && tarn_channel_info(s->channel, &info) >= 0)
		next = position + (info.published - item) * s->options.batch;
	return next < wanted || feed_is_far(s, next) ? wanted : next;
}

static void read_for_all(struct feed *s)
{
	const struct ahead_place place = {.take = take,
		.ready = ready,
		.give = give,
		.drop = drop,
		.arg = s};
	const struct ahead_job job = {.data = s->data,
		.form = s->form,
		.place = &place,
		.counts = s->counts,
		.stop = &s->stop,
		.position = go_on(s),
		.batch = s->options.batch,
		.first = s->options.first,
		.n = s->options.n,
		.end = s->options.end,
		.most = s->options.slots};

	s->turn_ns = clock_ns(CLOCK_MONOTONIC);
	feed_set(&s->reads, true);
	ahead_run(&job);
	feed_set(&s->reads, false);
	tarn_channel_leave(s->channel, TARN_CHANNEL_PRODUCER);
}

/* Would a batch at that position reach further than is wanted? */
static bool is_end(const struct feed *s, uint64_t position)
{
	return position > s->options.end ||
	       s->options.batch > s->options.end - position;
}

static int wait_for_turn(struct feed *s)
{
	tarn_slot *turn;
	int r = tarn_channel_acquire(s->turn, PATIENCE_MS, &turn);

	if (r >= 0) {
		read_for_all(s);
		tarn_slot_abandon(turn);
	}
	return r == -ETIMEDOUT || r == -EINTR || r == -ESTALE ? 0 : r;
}

static void *run(void *arg)
{
	struct feed *s = arg;
	int r = 0;

	/* Where it cannot read it ends, until its rank joins again: it would
	 * only try the same all the time. */
	while (r >= 0 && !feed_flag(&s->stop) && !feed_flag(&s->broken) &&
		!is_end(s, feed_wanted(s))) {
		/* All was published that its rank will want. */
		if (is_end(s, go_on(s)))
			rest();
		else
			r = wait_for_turn(s);
	}
	if (r < 0)
		feed_set(&s->broken, true);
	tarn_channel_leave(s->turn, TARN_CHANNEL_PRODUCER);
	return NULL;
}

int feed_begin_turns(struct feed *s)
{
	int r;

	feed_set(&s->stop, false);
	feed_set(&s->broken, false);
	s->ready = false;
	r = thread_start(&s->thread, run, s);
	s->begun = r >= 0;
	return r;
}

void feed_end_turns(struct feed *s)
{
	if (!s->begun)
		return;
	/* It must not lose its slots, by leaving for it, while it still fills
	 * them: another would get them. */
	feed_set(&s->stop, true);
	pthread_join(s->thread, NULL);
	s->begun = false;
}
