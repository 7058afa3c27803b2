// SPDX-License-Identifier: MIT
/*
 * A loader gives its rank one batch after another. They come from the feed of
 * the node, or from this process's own reading ahead; what came to neither, a gap,
 * the last batch, what could not be read, is read when it is wanted. All three
 * read by the same code, so it does not matter which it was.
 */
#include <errno.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lib/data/loader.h"

/* Batches that a rank outside of its feed reads when it wants them, before it
 * starts to read ahead: one that joins late is in the feed by then. */
#define GRACE 8

/* And how often it looks for the feed after that many. */
#define LOOK_OFTEN 64

/* The least that a rank waits for its feed. */
#define STALLED_LEAST_MS 20

/* So many rings of items that have been before are dropped in a row at most, which is
 * more than readers repeat. Picked. */
#define REPEATED 8

static void bump(atomic_uint_least64_t *counter, uint64_t n)
{
	/* Relaxed: others look at one number. */
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* ---- batches ----------------------------------------------------------------------- */

/* The rank's part of what is left, which is less than a global batch. */
static int read_rest(struct tarn_loader *l, uint64_t position, tarn_batch **ret)
{
	uint64_t first, n;
	int r = tarn_data_rank_part(
		l->end - position, l->rank, l->world, &first, &n);

	return r < 0 ? r
		     : batch_read(l->data, &l->form, position + first, n, ret);
}

/* Reads the rank's part itself, which has the sentence if that fails. */
static int read_now(struct tarn_loader *l, uint64_t position, tarn_batch **ret)
{
	int r = l->batch > l->end - position
			? read_rest(l, position, ret)
			: batch_read(l->data, &l->form, position + l->first,
				  l->n, ret);

	if (r >= 0) {
		bump(&l->n_alone, 1);
		bump(&l->counts.parts, 1);
		bump(&l->counts.file_bytes,
			tarn_batch_samples(*ret) * l->form.sample_bytes);
	}
	return r;
}

/* A batch that is one too many in slots, of which half are for reading ahead,
 * becomes a copy. */
static int detach(
	const struct tarn_loader *l, uint64_t held, tarn_batch **batch)
{
	int r;

	if (!l->keeps || held <= MAX(l->slots / 2, 2u))
		return 0;
	r = batch_detach(*batch);
	if (r < 0)
		*batch = tarn_batch_unref(*batch);
	return r;
}

enum outcome { AGAIN = 1, OUTSIDE = 2 };

/* The item is at the position, and ends here. */
static int take_item(struct tarn_loader *l, uint64_t position, tarn_batch **ret)
{
	int r = -EBADMSG;

	if (!l->item.failed)
		r = feed_batch(
			l->feed, &l->item, l->first - l->node_first, l->n, ret);
	loader_drop_item(l);
	/* Whatever is wrong with it: what others send stops no rank. */
	if (r < 0)
		return read_now(l, position, ret);
	r = detach(l, feed_held(l->feed), ret);
	if (r >= 0)
		bump(&l->n_shared, 1);
	return r;
}

/* feed_receive, which is given up after some time. */
static int receive(struct tarn_loader *l, int timeout_ms)
{
	int64_t now = clock_ms(), left;
	int r;

	if (!l->waits_since)
		l->waits_since = now;
	left = MAX(l->waits_since + l->patience - now, 0);
	if (timeout_ms >= 0)
		left = MIN(left, timeout_ms);
	r = feed_receive(l->feed, (int)left, &l->item);
	if (r == -ETIMEDOUT && clock_ms() - l->waits_since >= l->patience) {
		l->patience = MAX(l->patience / 2, STALLED_LEAST_MS);
		r = FEED_WENT_BY;
	} else if (r == 0)
		l->patience = loader_stalled_ms;
	if (r != -ETIMEDOUT && r != -EINTR)
		l->waits_since = 0;
	return r;
}

static int from_feed(struct tarn_loader *l, uint64_t position, int timeout_ms,
	tarn_batch **ret)
{
	int r = l->item.item ? 0 : receive(l, timeout_ms);

	if (r == FEED_WENT_BY)
		return read_now(l, position, ret);
	if (r)
		return r < 0 ? r : OUTSIDE;
	if (l->item.position == position)
		return take_item(l, position, ret);
	if (feed_is_far(l->feed, l->item.position))
		return OUTSIDE;
	if (l->item.position > position)
		return read_now(l, position, ret);
	loader_drop_item(l);
	bump(&l->n_dropped, 1);
	return AGAIN;
}

static int from_alone(struct tarn_loader *l, uint64_t position, int timeout_ms,
	tarn_batch **ret)
{
	struct alone *alone =
		atomic_load_explicit(&l->alone, memory_order_relaxed);
	struct pool_buffer *buffer = l->buffer;
	int r = buffer ? 0 : pool_next(alone_pool(alone), timeout_ms, &buffer);

	if (r < 0)
		return r;
	/* 1: it could not start to read ahead. */
	l->buffer = r ? NULL : buffer;
	if (r || pool_position(buffer) > position)
		return read_now(l, position, ret);
	l->buffer = NULL;
	if (pool_position(buffer) < position || pool_failed(buffer)) {
		bool failed = pool_position(buffer) == position;

		pool_drop(buffer);
		return failed ? read_now(l, position, ret) : AGAIN;
	}
	r = pool_take(buffer, position + l->first, ret);
	if (r >= 0)
		r = detach(l, pool_held(alone_pool(alone)), ret);
	if (r >= 0)
		bump(&l->n_alone, 1);
	return r;
}

static void leave_feed(struct tarn_loader *l)
{
	loader_drop_item(l);
	feed_leave(l->feed);
	l->outside = 0;
}

/* Is the rank in its feed? One that is not looks for it now and then. */
static bool in_feed(struct tarn_loader *l)
{
	if (!l->feed)
		return false;
	if (l->outside >= LOOK_OFTEN && l->outside % LOOK_OFTEN)
		return false;
	if (!feed_join(l->feed))
		return false;
	if (l->outside)
		loader_end_alone(l);
	l->outside = 0;
	return true;
}

static int get(struct tarn_loader *l, uint64_t position, int timeout_ms,
	tarn_batch **ret)
{
	int r;

	if (in_feed(l)) {
		r = from_feed(l, position, timeout_ms, ret);
		if (r == OUTSIDE)
			leave_feed(l);
		else
			return r;
	}
	if (l->feed && l->outside < GRACE) {
		r = read_now(l, position, ret);
		l->outside += r >= 0;
		return r;
	}
	r = atomic_load_explicit(&l->alone, memory_order_relaxed)
		    ? 0
		    : loader_begin_alone(l);
	if (r >= 0)
		r = from_alone(l, position, timeout_ms, ret);
	l->outside += r == 0;
	return r;
}

/* Nothing will be taken any more: others shall not wait for this rank. */
static int at_end(struct tarn_loader *l)
{
	if (l->feed)
		leave_feed(l);
	return tarn_fail(EPIPE, "loader: position %llu is the end",
		(unsigned long long)l->end);
}

static int next(struct tarn_loader *l, int timeout_ms, tarn_batch **ret)
{
	uint64_t position = loader_position(l);
	int64_t until = clock_ms() + timeout_ms;
	bool rest;
	uint32_t left = REPEATED * l->slots;
	int r = AGAIN;

	if (position >= l->end)
		return at_end(l);
	rest = l->batch > l->end - position;
	/* Each time something was dropped that is of no use; more comes
	 * soon, or from a process that errs, without an end. */
	for (; r == AGAIN; left--) {
		r = rest || !left ? read_now(l, position, ret)
				  : get(l, position, timeout_ms, ret);
		if (timeout_ms > 0)
			timeout_ms = (int)MAX(until - clock_ms(), 0);
	}
	if (r >= 0)
		atomic_store_explicit(&l->position,
			rest ? l->end : position + l->batch,
			memory_order_relaxed);
	return r;
}

int tarn_loader_next(tarn_loader *l, int timeout_ms, tarn_batch **ret)
{
	int r;

	if (l->pid != getpid())
		return tarn_fail_constant(ECHILD,
			"loader: it belongs to the process that opened it; "
			"open one in each");
	/* Acquire: pairs with the release store below, so that what one thread
	 * did is before what the next one does. */
	if (atomic_exchange_explicit(&l->busy, true, memory_order_acquire))
		return tarn_fail_constant(EBUSY,
			"loader: another thread waits for its next batch");
	r = next(l, timeout_ms, ret);
	/* Release: pairs with the acquire exchange above. */
	atomic_store_explicit(&l->busy, false, memory_order_release);
	return r;
}

/* ---- asking ---------------------------------------------------------------------- */

uint64_t tarn_loader_position(const tarn_loader *l)
{
	return loader_position(l);
}

static uint64_t value(const atomic_uint_least64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

void tarn_loader_info(const tarn_loader *l, struct tarn_loader_info *ret)
{
	*ret = (struct tarn_loader_info) {
		.engine = atomic_load_explicit(
			&l->counts.engine, memory_order_relaxed),
		.reads = (l->feed && feed_reads(l->feed)) ||
			 atomic_load_explicit(
				 &l->alone, memory_order_relaxed) != NULL,
		.slots = l->slots,
		.n_shared = value(&l->n_shared),
		.n_alone = value(&l->n_alone),
		.n_dropped = value(&l->n_dropped),
		.batches_read = value(&l->counts.parts),
		.requests = value(&l->counts.requests),
		.file_bytes = value(&l->counts.file_bytes),
		.memory_bytes = value(&l->counts.memory_bytes)};
}
