// SPDX-License-Identifier: MIT
/* A process's part in a feed: it joins, receives, watches from outside. */
#include "lib/data/feed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"

/* A rank waits for a feed that is at most so many rings of slots away.
 * Picked. */
#define FAR 4

/* How long one waits before one looks whether the feed is still of use. */
#define SLICE_MS 100

/* ---- opening ---------------------------------------------------------------- */

int feed_open(tarn_store *store, tarn_data *data, const struct batch_form *form,
	const struct feed_options *options, const atomic_uint_least64_t *wanted,
	struct ahead_counts *counts, struct feed **ret)
{
	struct feed *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return tarn_fail_constant(
			ENOMEM, "loader: no memory for a feed");
	s->store = tarn_store_ref(store);
	s->data = data;
	s->form = form;
	s->options = *options;
	s->wanted = wanted;
	s->counts = counts;
	pthread_mutex_init(&s->lock, NULL);
	r = feed_open_channels(s);
	if (r < 0)
		feed_end(s);
	else
		*ret = s;
	return r;
}

struct feed *feed_end(struct feed *s)
{
	if (!s)
		return NULL;
	feed_leave(s);
	feed_end_channels(s);
	pthread_mutex_destroy(&s->lock);
	return feed_forget(s);
}

struct feed *feed_forget(struct feed *s)
{
	if (!s)
		return NULL;
	feed_close_channels(s);
	tarn_store_unref(s->store);
	free(s->name);
	free(s);
	return NULL;
}

bool feed_reads(const struct feed *s)
{
	return feed_flag(&s->reads);
}

/* ---- joining ------------------------------------------------------------------ */

bool feed_is_far(const struct feed *s, uint64_t position)
{
	uint64_t wanted = feed_wanted(s);
	uint64_t away =
		position > wanted ? position - wanted : wanted - position;

	return away % s->options.batch ||
	       away / s->options.batch > (uint64_t)FAR * s->options.slots;
}

static bool read_tag(const void *bytes, size_t size, struct feed_tag *ret)
{
	if (size != sizeof(*ret))
		return false;
	memcpy(ret, bytes, size);
	return ret->magic == FEED_MAGIC && ret->failed <= 1;
}

/* The latest position near the wanted one counts: a reader that takes over may
 * repeat earlier ones behind it. */
static void pass(struct feed *s, uint64_t position)
{
	if (!s->passed || position > s->passed_position ||
		feed_is_far(s, s->passed_position))
		s->passed_position = position;
	s->passed = true;
}

/* Looks at the items that went by since the last look, or, at first, at none. */
static void look(struct feed *s)
{
	struct tarn_channel_seen seen;
	struct feed_tag tag;

	for (uint32_t i = 0; i < 2 * s->options.slots; i++) {
		if (tarn_channel_watch(s->channel, &s->cursor, 0, &seen) != 1)
			break;
		if (read_tag(seen.tag, seen.tag_size, &tag)) {
			s->passed_item = seen.position;
			s->passed_last = tag.position;
			pass(s, tag.position);
		}
	}
}

/* Opens the channels anew where those that are open have ended: they have no
 * name any more, or were closed. */
static int renew(struct feed *s, struct tarn_channel_info *info)
{
	struct tarn_channel_info turn;
	int r = s->channel ? tarn_channel_info(s->channel, info) : -ENOENT;

	if (r >= 0)
		r = tarn_channel_info(s->turn, &turn);
	if (r >= 0 && !info->unlinked && !info->closed && !turn.unlinked)
		return 0;
	r = feed_open_channels(s);
	return r < 0 ? r : tarn_channel_info(s->channel, info);
}

/* Is there a feed whose position is not near, or not known, since no item went by
 * yet? */
static bool is_elsewhere(struct feed *s)
{
	struct tarn_channel_info info;

	return tarn_channel_info(s->channel, &info) >= 0 && info.published &&
	       info.consumers &&
	       (!s->passed || feed_is_far(s, s->passed_position));
}

/* Items that were published, and given back by all others, before this process
 * took part are not seen any more; they are counted. The positions of items follow
 * each other, but for what a reader repeats or leaves out when it takes over. */
static void count_passed(struct feed *s, const struct tarn_channel_info *info)
{
	uint64_t unseen = info->published - s->passed_item - 1;

	if (!s->passed || info->published <= s->passed_item ||
		unseen > (uint64_t)FAR * s->options.slots)
		return;
	pass(s, s->passed_last + unseen * s->options.batch);
}

/* -ESTALE: the last participant of before had left just before. */
static int join_named(
	tarn_channel *channel, unsigned role, struct tarn_channel_info *ret)
{
	int r = tarn_channel_join(channel, role);

	if (r >= 0)
		r = tarn_channel_info(channel, ret);
	return r >= 0 && ret->unlinked ? -ESTALE : r;
}

static int take_part(struct feed *s)
{
	struct tarn_channel_info info, turn;
	int r = join_named(s->channel, TARN_CHANNEL_CONSUMER, &info);

	/* Both, or others find another turn, and two read. */
	if (r >= 0)
		r = join_named(s->turn, TARN_CHANNEL_PRODUCER, &turn);
	s->seen = false;
	/* What is published from here on is received, so what went by until now
	 * and is not received will not come. */
	if (r >= 0) {
		look(s);
		count_passed(s, &info);
		r = feed_begin_turns(s);
	}
	if (r < 0) {
		tarn_channel_leave(s->turn, TARN_CHANNEL_PRODUCER);
		tarn_channel_leave(s->channel, TARN_CHANNEL_CONSUMER);
	}
	return r;
}

bool feed_join(struct feed *s)
{
	struct tarn_channel_info info;
	int r = 0;

	if (s->joined || s->over)
		return s->joined;
	r = renew(s, &info);
	if (r >= 0)
		look(s);
	if (r >= 0 && is_elsewhere(s))
		return false;
	if (r >= 0)
		r = take_part(s);
	s->joined = r >= 0;
	/* It goes on where the daemon is gone, and the like: for itself. */
	s->over = r < 0 && r != -ESTALE;
	return s->joined;
}

void feed_leave(struct feed *s)
{
	if (!s->joined)
		return;
	feed_end_turns(s);
	tarn_channel_leave(s->channel, TARN_CHANNEL_CONSUMER);
	s->joined = false;
}

/* ---- receiving ------------------------------------------------------------------ */

static void note(struct feed *s, const struct feed_item *item)
{
	pthread_mutex_lock(&s->lock);
	s->seen = true;
	s->seen_item = tarn_item_position(item->item);
	s->seen_position = item->position;
	pthread_mutex_unlock(&s->lock);
}

static bool accept(struct feed *s, tarn_item *item, struct feed_item *ret)
{
	struct feed_tag tag;
	size_t size;
	const void *bytes = tarn_item_tag(item, &size);

	if (!read_tag(bytes, size, &tag))
		return false;
	*ret = (struct feed_item) {
		.item = item, .position = tag.position, .failed = tag.failed};
	note(s, ret);
	return true;
}

/* Went the item by before this process took part? */
static bool went_by(const struct feed *s)
{
	return s->passed && feed_wanted(s) <= s->passed_position &&
	       !feed_is_far(s, s->passed_position);
}

/* A process that errs may send what is none, without an end: so what is wanted is
 * not waited for then. */
static int take_received(struct feed *s, tarn_item *item, struct feed_item *ret)
{
	if (accept(s, item, ret))
		return 0;
	tarn_item_unref(item);
	return FEED_WENT_BY;
}

static int try_receive(struct feed *s, struct feed_item *ret)
{
	tarn_item *item;

	return tarn_channel_receive(s->channel, 0, &item) < 0
		       ? FEED_WENT_BY
		       : take_received(s, item, ret);
}

int feed_receive(struct feed *s, int timeout_ms, struct feed_item *ret)
{
	int64_t until = clock_ms() + timeout_ms, left = SLICE_MS;

	feed_set(&s->awaited, true);
	if (went_by(s))
		return try_receive(s, ret);
	for (;;) {
		tarn_item *item;
		int r;

		if (timeout_ms >= 0)
			left = MAX(MIN(until - clock_ms(), SLICE_MS), 0);
		r = tarn_channel_receive(s->channel, (int)left, &item);
		if (r >= 0)
			return take_received(s, item, ret);
		if (r == -ETIMEDOUT && feed_flag(&s->broken))
			return FEED_OVER;
		if (r == -EINTR || (r == -ETIMEDOUT && timeout_ms >= 0 &&
					   clock_ms() >= until))
			return r;
		if (r != -ETIMEDOUT)
			return FEED_OVER; /* or for now: it joins again */
	}
}

uint64_t feed_held(const struct feed *s)
{
	struct tarn_channel_info info;

	return tarn_channel_info(s->channel, &info) < 0 ? 0 : info.held;
}

/* ---- batches --------------------------------------------------------------------- */

/* A tensor of the item, which must be as the form has it. */
static int item_tensor(const struct feed *s, tarn_item *item, size_t i,
	const struct tarn_layout *wanted, tarn_tensor **ret)
{
	_cleanup_tensor_ tarn_tensor *tensor = NULL;
	const struct tarn_layout *l;
	int r = tarn_item_tensor(item, i, &tensor);

	if (r < 0)
		return r;
	l = &tensor->layout;
	if (l->dtype != wanted->dtype || l->ndim != wanted->ndim || l->offset ||
		!storage_by_address(tensor->storage) ||
		memcmp(l->shape, wanted->shape, l->ndim * sizeof(*l->shape)) !=
			0 ||
		!tarn_layout_is_contiguous(l))
		return tarn_fail(EBADMSG,
			"loader: '%.200s' has an item that is no batch of it",
			s->options.name);
	*ret = STEAL(tensor);
	return 0;
}

static int add_rows(const struct feed *s, tarn_item *item, size_t i,
	const struct tarn_layout *wanted, uint64_t first, uint64_t n,
	tarn_tensor **ret)
{
	_cleanup_tensor_ tarn_tensor *all = NULL;
	int r = item_tensor(s, item, i, wanted, &all);

	return r < 0 ? r
		     : tarn_tensor_narrow(
			       all, 0, (int64_t)first, (int64_t)n, ret);
}

static int list_tensor(const struct feed *s, tarn_item *item, size_t i,
	uint64_t n, tarn_tensor **ret)
{
	const struct tarn_layout layout = {.dtype = TARN_I32,
		.ndim = 1,
		.shape = {(int64_t)n},
		.stride = {1}};

	return item_tensor(s, item, i, &layout, ret);
}

static int add_boundaries(const struct feed *s, tarn_item *item, size_t i,
	uint64_t first, uint64_t n, tarn_tensor **ret)
{
	_cleanup_tensor_ tarn_tensor *at = NULL, *any = NULL, *starts = NULL;
	struct boundaries boundaries = {.at = NULL};
	int r = list_tensor(s, item, i, s->options.n + 1, &at);

	if (r >= 0)
		r = tarn_item_tensor(item, i + 1, &any);
	if (r >= 0)
		r = list_tensor(s, item, i + 1, (uint64_t)any->layout.shape[0],
			&starts);
	if (r < 0)
		return r;
	boundaries.at = tarn_tensor_origin(at);
	boundaries.starts = tarn_tensor_origin(starts);
	boundaries.n_starts = (size_t)starts->layout.shape[0];
	return batch_cu_seqlens(s->form, &boundaries, first, n, ret);
}

int feed_batch(struct feed *s, const struct feed_item *item, uint64_t first,
	uint64_t n, tarn_batch **ret)
{
	_cleanup_batch_ tarn_batch *batch = calloc(1, sizeof(*batch));
	struct tarn_layout layout;
	size_t next = 0;
	int r = 0;

	if (!batch)
		return tarn_fail_constant(
			ENOMEM, "loader: no memory for a batch");
	batch->position = item->position + s->options.first + first;
	batch->n = n;
	for (int i = 0; r >= 0 && i < BATCH_TENSORS; i++)
		if (batch_layout(s->form, i, s->options.n, &layout))
			r = add_rows(s, item->item, next++, &layout, first, n,
				&batch->tensors[i]);
	if (r >= 0 && s->form->parts & TARN_LOADER_CU_SEQLENS)
		r = add_boundaries(s, item->item, next, first, n,
			&batch->tensors[BATCH_CU_SEQLENS]);
	if (r >= 0)
		*ret = STEAL(batch);
	return r;
}
