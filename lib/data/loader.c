// SPDX-License-Identifier: MIT
/*
 * A loader gives its rank one batch after another. They come from the feed of
 * the node, or from this process's own reading ahead; what came to neither, a gap,
 * the last batch, what could not be read, is read when it is wanted. All three
 * read by the same code, so it does not matter which it was.
 */
#include <tarn/loader.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lib/data/alone.h"
#include "lib/data/feed.h"
#include "lib/reserved.h"

/* Batches that a rank outside of its feed reads when it wants them, before it
 * starts to read ahead: one that joins late is in the feed by then. */
#define GRACE 8

/* And how often it looks for the feed after that many. */
#define LOOK_OFTEN 64

/* So long a rank waits for its feed before it reads what it wants itself. What comes
 * after the next item is known, but where a process that knows of no item becomes the
 * reader, or one errs, ranks that wait for each other could wait for what does not
 * come. Picked: longer than a drive takes. Each further time is half as long, until
 * something comes: behind a process that has stopped a job goes on, slowly. */
#define STALLED_MS 2000
#define STALLED_LEAST_MS 20

/* So many rings of items that have been before are dropped in a row at most, which is
 * more than readers repeat. Picked. */
#define REPEATED 8

#define NAME_MAX_BYTES 900

/* Positions end where those of orders do. */
#define END (UINT64_C(1) << 63)

#define PARTS                                                                  \
	((unsigned)TARN_LOADER_POSITIONS | TARN_LOADER_SEGMENTS |              \
		TARN_LOADER_CU_SEQLENS | TARN_LOADER_DOCUMENTS)

struct tarn_loader {
	tarn_data *data;
	struct batch_form form;
	pid_t pid;
	uint64_t batch, end;
	uint32_t rank, world;
	uint64_t first, n; /* of each full batch, the rank's */
	uint64_t node_first;
	uint32_t slots;
	bool keeps; /* as the options have it */
	atomic_bool busy;
	atomic_uint_least64_t position;
	atomic_uint_least64_t n_shared, n_alone, n_dropped;
	struct ahead_counts counts;
	struct feed *feed;     /* NULL: it has no name */
	struct feed_item item; /* of the feed, of a later position */
	struct alone *_Atomic alone;
	struct pool_buffer *buffer; /* of alone, of a later position */
	uint64_t outside;           /* batches since it is not in the feed */
	int64_t waits_since;        /* for its feed, in ms; 0: it does not */
	int64_t patience;           /* in ms, STALLED_MS at most */
};

static void bump(atomic_uint_least64_t *counter, uint64_t n)
{
	/* Relaxed: others look at one number. */
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static uint64_t position_of(const struct tarn_loader *l)
{
	/* Relaxed: the caller's thread writes it. */
	return atomic_load_explicit(&l->position, memory_order_relaxed);
}

/* ---- opening ------------------------------------------------------------------ */

static int check_ranks(const struct tarn_loader_options *o, uint32_t world)
{
	uint32_t ranks = o->node_ranks ? o->node_ranks : world;

	if (o->rank >= world)
		return tarn_fail(
			EINVAL, "loader: rank %u of %u", o->rank, world);
	if (o->node_rank >= world || ranks > world - o->node_rank)
		return tarn_fail(EINVAL,
			"loader: the node has ranks %u to %llu of %u",
			o->node_rank,
			(unsigned long long)o->node_rank + ranks - 1, world);
	if (o->rank < o->node_rank || o->rank - o->node_rank >= ranks)
		return tarn_fail(EINVAL,
			"loader: rank %u is none of the node's, which are %u "
			"to %u",
			o->rank, o->node_rank, o->node_rank + ranks - 1);
	return 0;
}

static int check_parts(const tarn_data *data, unsigned parts)
{
	const unsigned tokens = PARTS & ~(unsigned)TARN_LOADER_DOCUMENTS;

	if (parts & ~PARTS)
		return tarn_fail(EINVAL, "loader: unknown parts %#x of %#x",
			parts & ~PARTS, parts);
	if (data->shape.windows == TARN_WINDOWS_RECORDS)
		return tarn_fail(ENOTSUP,
			"loader: samples are records, of any size each; "
			"tarn_data_get gives their numbers, and "
			"tarn_data_source_record reads them");
	if (data->shape.windows == TARN_WINDOWS_ROWS && parts & tokens)
		return tarn_fail(EINVAL,
			"loader: parts %#x are of tokens, and samples are rows",
			parts & tokens);
	return 0;
}

static int check_numbers(const struct tarn_loader_options *o)
{
	if (!o->global_batch || o->global_batch > INT32_MAX)
		return tarn_fail(EINVAL,
			"loader: a global batch has 1 to %d samples, not %llu",
			INT32_MAX, (unsigned long long)o->global_batch);
	if (o->ahead > TARN_LOADER_AHEAD_MAX)
		return tarn_fail(EINVAL,
			"loader: %u batches are at most read ahead, not %u",
			TARN_LOADER_AHEAD_MAX, o->ahead);
	if (o->from > END || o->until > END)
		return tarn_fail(EINVAL,
			"loader: positions are at most 2^63, not %llu",
			(unsigned long long)MAX(o->from, o->until));
	if (o->name && (!*o->name || strlen(o->name) > NAME_MAX_BYTES))
		return tarn_fail(EINVAL,
			"loader: a name has 1 to %d bytes, not %zu",
			NAME_MAX_BYTES, strlen(o->name));
	return 0;
}

static int check(const tarn_store *store, const tarn_data *data,
	const struct tarn_loader_options *o)
{
	int r = RESERVED_CHECK("tarn_loader_options", o);

	if (r >= 0)
		r = check_numbers(o);
	if (r >= 0)
		r = check_ranks(o, o->world ? o->world : 1);
	if (r >= 0)
		r = check_parts(data, o->parts);
	if (r >= 0 && o->name && !store)
		r = tarn_fail(EINVAL,
			"loader: '%.200s' is shared, and there is no store",
			o->name);
	return r;
}

static int set_up(struct tarn_loader *l, const struct tarn_loader_options *o)
{
	int r = batch_form_of(l->data, o->parts, &l->form);

	l->pid = getpid();
	l->batch = o->global_batch;
	l->end = o->until ? o->until : END;
	l->rank = o->rank;
	l->world = o->world ? o->world : 1;
	/* One more that the caller has, and one more that is being filled. */
	l->slots = (o->ahead ? o->ahead : 4) + 2;
	l->keeps = o->keeps;
	l->patience = STALLED_MS;
	atomic_init(&l->busy, false);
	atomic_init(&l->position, o->from);
	atomic_init(&l->counts.engine, "");
	if (r >= 0)
		r = tarn_data_rank_part(
			l->batch, l->rank, l->world, &l->first, &l->n);
	return r;
}

static int open_feed(struct tarn_loader *l, tarn_store *store,
	const struct tarn_loader_options *o)
{
	uint32_t ranks = o->node_ranks ? o->node_ranks : l->world;
	struct feed_options options = {.name = o->name,
		.batch = l->batch,
		.end = l->end,
		.slots = l->slots,
		.processes = o->processes ? o->processes : ranks};
	uint64_t last, n;
	int r = tarn_data_rank_part(
		l->batch, o->node_rank, l->world, &l->node_first, &n);

	if (r >= 0)
		r = tarn_data_rank_part(l->batch, o->node_rank + ranks - 1,
			l->world, &last, &n);
	if (r < 0)
		return r;
	options.first = l->node_first;
	options.n = last + n - l->node_first;
	r = feed_open(store, l->data, &l->form, &options, &l->position,
		&l->counts, &l->feed);
	if (r >= 0)
		feed_join(l->feed);
	return r;
}

static int begin_alone(struct tarn_loader *l)
{
	const struct ahead_job job = {.data = l->data,
		.form = &l->form,
		.counts = &l->counts,
		.position = position_of(l),
		.batch = l->batch,
		.first = l->first,
		.n = l->n,
		.end = l->end};
	struct alone *alone;
	int r = alone_start(&job, l->slots, &alone);

	if (r >= 0)
		atomic_store_explicit(&l->alone, alone, memory_order_relaxed);
	return r;
}

int tarn_loader_open(tarn_store *store, tarn_data *data,
	const struct tarn_loader_options *options, tarn_loader **ret)
{
	struct tarn_loader *l;
	int r = check(store, data, options);

	if (r < 0)
		return r;
	l = calloc(1, sizeof(*l));
	if (!l)
		return tarn_fail_constant(ENOMEM, "loader: no memory");
	l->data = data;
	r = set_up(l, options);
	if (r >= 0)
		r = options->name ? open_feed(l, store, options)
				  : begin_alone(l);
	if (r < 0)
		tarn_loader_unref(l);
	else
		*ret = l;
	return r;
}

/* ---- ending --------------------------------------------------------------------- */

static void drop_item(struct tarn_loader *l)
{
	l->item.item = tarn_item_unref(l->item.item);
}

static void drop_buffer(struct tarn_loader *l)
{
	if (l->buffer)
		pool_drop(l->buffer);
	l->buffer = NULL;
}

static void end_alone(struct tarn_loader *l)
{
	drop_buffer(l);
	/* Relaxed: others look whether there is one. */
	alone_end(atomic_exchange_explicit(
		&l->alone, NULL, memory_order_relaxed));
}

tarn_loader *tarn_loader_unref(tarn_loader *l)
{
	if (!l)
		return NULL;
	drop_item(l);
	if (l->pid == getpid()) {
		end_alone(l);
		feed_end(l->feed);
	} else {
		/* The threads are the parent's, and so is what they use. */
		feed_forget(l->feed);
	}
	free(l);
	return NULL;
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
	drop_item(l);
	if (r == -EBADMSG)
		return read_now(l, position, ret);
	if (r >= 0)
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
		l->patience = STALLED_MS;
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
	drop_item(l);
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
	drop_item(l);
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
		end_alone(l);
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
		    : begin_alone(l);
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
	uint64_t position = position_of(l);
	bool rest;
	uint32_t left = REPEATED * l->slots;
	int r = AGAIN;

	if (position >= l->end)
		return at_end(l);
	rest = l->batch > l->end - position;
	/* Each time something was dropped that is of no use; more comes
	 * soon, or from a process that errs, without an end. */
	for (; r == AGAIN; left--)
		r = rest || !left ? read_now(l, position, ret)
				  : get(l, position, timeout_ms, ret);
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
	/* Acquire, and release below: what one thread did is before what the
	 * next one does. */
	if (atomic_exchange_explicit(&l->busy, true, memory_order_acquire))
		return tarn_fail_constant(EBUSY,
			"loader: another thread waits for its next batch");
	r = next(l, timeout_ms, ret);
	atomic_store_explicit(&l->busy, false, memory_order_release);
	return r;
}

/* ---- asking ---------------------------------------------------------------------- */

uint64_t tarn_loader_position(const tarn_loader *l)
{
	return position_of(l);
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
