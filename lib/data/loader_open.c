// SPDX-License-Identifier: MIT
/* Opens loaders, and ends them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/data/loader.h"
#include "lib/reserved.h"

#define NAME_MAX_BYTES 900

#define PARTS                                                                  \
	((unsigned)TARN_LOADER_POSITIONS | TARN_LOADER_SEGMENTS |              \
		TARN_LOADER_CU_SEQLENS | TARN_LOADER_DOCUMENTS)

int64_t loader_stalled_ms = 2000;

/* ---- the options ---------------------------------------------------------------- */

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
	if (o->from > LOADER_END || o->until > LOADER_END)
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

/* ---- opening ------------------------------------------------------------------ */

static int set_up(struct tarn_loader *l, const struct tarn_loader_options *o)
{
	int r = batch_form_of(l->data, o->parts, &l->form);

	l->pid = getpid();
	l->batch = o->global_batch;
	l->end = o->until ? o->until : LOADER_END;
	l->rank = o->rank;
	l->world = o->world ? o->world : 1;
	/* One more that the caller has, and one more that is being filled. */
	l->slots = (o->ahead ? o->ahead : 4) + 2;
	l->keeps = o->keeps;
	l->patience = loader_stalled_ms;
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

int loader_begin_alone(struct tarn_loader *l)
{
	const struct ahead_job job = {.data = l->data,
		.form = &l->form,
		.counts = &l->counts,
		.position = loader_position(l),
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
				  : loader_begin_alone(l);
	if (r < 0)
		tarn_loader_unref(l);
	else
		*ret = l;
	return r;
}

/* ---- ending --------------------------------------------------------------------- */

void loader_drop_item(struct tarn_loader *l)
{
	l->item.item = tarn_item_unref(l->item.item);
}

void loader_drop_buffer(struct tarn_loader *l)
{
	if (l->buffer)
		pool_drop(l->buffer);
	l->buffer = NULL;
}

void loader_end_alone(struct tarn_loader *l)
{
	loader_drop_buffer(l);
	/* Relaxed: others look whether there is one. */
	alone_end(atomic_exchange_explicit(
		&l->alone, NULL, memory_order_relaxed));
}

tarn_loader *tarn_loader_unref(tarn_loader *l)
{
	if (!l)
		return NULL;
	loader_drop_item(l);
	if (l->pid == getpid()) {
		loader_end_alone(l);
		feed_end(l->feed);
	} else {
		/* The threads are the parent's, and so is what they use. */
		feed_forget(l->feed);
	}
	free(l);
	return NULL;
}
