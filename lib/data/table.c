// SPDX-License-Identifier: MIT
/*
 * How many samples the documents before each group make. It is all that is kept
 * of documents: 8 bytes for a thousand and more of them. A sample's group is
 * found by bisection, and its document by the lengths of that group, which are
 * read again.
 *
 * A table is a tensor with a head, so that one process of a node can publish it
 * for the others, or save it beside the files. Others may have written it, so a
 * table that is given is checked.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/cpus.h"
#include "base/fail.h"
#include "lib/data/dataset.h"
#include "lib/data/key.h"
#include "lib/tensor/tensor.h"

/* The head: what it is, a mark of what it was made of, and the group. */
enum { HEAD = 4 };
#define TABLE_MAGIC 0x31656c626174b501u

/* Documents in a group where windows are in documents: their lengths are one
 * read. Where they are packed, what a group leaves of its last sequences is to
 * be little beside all of them, and a plan is to be made in less time than a
 * sample takes to be used: picked. */
#define GROUP_LEAST 1024u
#define GROUP_MOST 65536u
#define GROUP_SEQUENCES 256u

/* Groups that a thread takes at a time. */
#define STRIDE 16u

uint32_t data_table_group(
	const struct tarn_data_options *options, const tarn_data_source *source)
{
	uint64_t wanted, n;
	uint32_t group = GROUP_LEAST;

	if (options->group)
		return options->group;
	if (options->windows != TARN_WINDOWS_PACKED || !source->n_tokens)
		return group;
	n = source->n_documents;
	wanted = (uint64_t)((double)GROUP_SEQUENCES *
			    (double)(options->seq_len + 1) /
			    ((double)source->n_tokens / (double)n));
	while (group < wanted && group < GROUP_MOST)
		group *= 2;
	return group;
}

static void mark_of(const struct data_stream *stream,
	const struct data_shape *shape, uint32_t group, uint64_t head[HEAD])
{
	const uint64_t words[] = {stream->mark[0], stream->mark[1],
		(uint64_t)shape->windows, shape->seq_len, group};

	head[0] = TABLE_MAGIC;
	head[1] = head[2] = 0;
	data_hash(words, sizeof(words), head + 1);
	head[3] = group;
}

/* ---- making one ---------------------------------------------------------------- */

struct work {
	const struct data_stream *stream;
	const struct data_shape *shape;
	uint32_t group;
	uint64_t n_groups;
	uint64_t *counts;
	atomic_uint_fast64_t next;
	atomic_bool failed;
	const struct tarn_data_options *options; /* progress */
};

struct worker {
	struct work *work;
	struct data_plan plan;
	bool is_caller;
	pthread_t thread;
	bool running;
	int r;
	char message[1024]; /* of this thread */
};

static int count_group(struct worker *w, uint64_t g)
{
	const struct work *work = w->work;
	uint64_t first = g * work->group;
	size_t n = MIN(work->group, work->stream->source->n_documents - first);
	int r = tarn_data_source_lengths(
		work->stream->source, first, n, w->plan.lengths);

	if (r < 0)
		return r;
	data_plan_make(&w->plan, work->shape, n, 0);
	work->counts[g] = w->plan.n_whole + w->plan.n_packed;
	return 0;
}

/* Strides are taken in order, so nearly all groups before this one are done. */
static int tell(const struct work *work, uint64_t groups)
{
	const struct tarn_data_options *o = work->options;
	uint64_t n = work->stream->source->n_documents;

	if (!o->progress ||
		!o->progress(o->arg, MIN(groups * work->group, n), n))
		return 0;
	return tarn_fail_constant(
		ECANCELED, "data: reading lengths was cancelled");
}

static void *count_groups(void *arg)
{
	struct worker *w = arg;
	struct work *work = w->work;
	uint64_t g, end;

	w->r = data_plan_room(&w->plan, work->shape, work->group);
	/* Others may leave it nothing to do. */
	if (w->r >= 0 && w->is_caller)
		w->r = tell(work, 0);
	while (w->r >= 0 &&
		!atomic_load_explicit(&work->failed, memory_order_relaxed)) {
		/* Relaxed: each thread writes counts of its own, and ends before
		 * they are read. */
		g = atomic_fetch_add_explicit(
			&work->next, STRIDE, memory_order_relaxed);
		end = MIN(g + STRIDE, work->n_groups);
		if (g >= end)
			break;
		for (; w->r >= 0 && g < end; g++)
			w->r = count_group(w, g);
		if (w->r >= 0 && w->is_caller)
			w->r = tell(work, end);
	}
	if (w->r < 0) {
		atomic_store_explicit(
			&work->failed, true, memory_order_relaxed);
		strncpy(w->message, tarn_error_message(),
			sizeof(w->message) - 1);
	}
	data_plan_end(&w->plan);
	return NULL;
}

/* The caller's thread is one of them. */
static int count_all(struct work *work, int threads)
{
	uint64_t most = work->n_groups / STRIDE + 1;
	int n = (int)MIN((uint64_t)MAX(threads, 1), most), r = 0;
	struct worker *workers = calloc((size_t)n, sizeof(*workers));

	if (!workers)
		return tarn_fail(ENOMEM, "data: no memory for %d threads", n);
	workers[0].is_caller = true;
	for (int i = 0; i < n; i++) {
		workers[i].work = work;
		/* One that cannot be started has its work done by others. */
		if (i)
			workers[i].running =
				pthread_create(&workers[i].thread, NULL,
					count_groups, &workers[i]) == 0;
	}
	count_groups(&workers[0]);
	for (int i = 0; i < n; i++) {
		if (workers[i].running)
			pthread_join(workers[i].thread, NULL);
		if (r >= 0 && workers[i].r < 0)
			r = tarn_fail(-workers[i].r, "%s", workers[i].message);
	}
	free(workers);
	return r;
}

static int compute(struct data_table *t, const struct data_stream *stream,
	const struct data_shape *shape, const struct tarn_data_options *options)
{
	int threads = options->threads ? options->threads : cpus_granted();
	int64_t size = (int64_t)(HEAD + t->n_groups + 1);
	uint64_t *words, sum = 0;
	struct work work = {.stream = stream,
		.shape = shape,
		.group = t->group,
		.n_groups = t->n_groups,
		.options = options};
	int r = tarn_tensor_zeros(TARN_U64, 1, &size, &t->tensor);

	if (r < 0)
		return r;
	words = tarn_tensor_data(t->tensor);
	mark_of(stream, shape, t->group, words);
	/* Counts stand where the sums will be: the sum before each group, and
	 * behind the last one all. */
	work.counts = words + HEAD;
	r = count_all(&work, threads);
	for (uint64_t g = 0; r >= 0 && g <= t->n_groups; g++) {
		uint64_t count = g < t->n_groups ? work.counts[g] : 0;

		work.counts[g] = sum;
		if (add_u64(sum, count, &sum) || sum > INT64_MAX)
			r = tarn_fail_constant(EOVERFLOW,
				"data: documents make more than 2^63 samples");
	}
	t->before = words + HEAD;
	return r;
}

/* ---- one that is given ------------------------------------------------------------ */

static int check_given(const struct data_table *t,
	const struct data_stream *stream, const struct data_shape *shape,
	const uint64_t *words)
{
	uint64_t head[HEAD];

	mark_of(stream, shape, t->group, head);
	if (memcmp(head, words, sizeof(head)) != 0)
		return tarn_fail_constant(EMEDIUMTYPE,
			"data: the table that is given was made of other files, "
			"for other windows, or with another group");
	words += HEAD;
	for (uint64_t g = 0; g < t->n_groups; g++)
		if (words[g + 1] < words[g] || words[g + 1] > INT64_MAX)
			return tarn_fail(EBADMSG,
				"data: group %llu of the table that is given "
				"begins at sample %llu and ends at %llu",
				(unsigned long long)g,
				(unsigned long long)words[g],
				(unsigned long long)words[g + 1]);
	return words[0]
		       ? tarn_fail_constant(EBADMSG,
				 "data: the table that is given does not begin "
				 "at sample 0")
		       : 0;
}

/* One in a file is copied, since its memory may vanish when the file shrinks. */
static int take(struct data_table *t, const struct data_stream *stream,
	const struct data_shape *shape, tarn_tensor *given)
{
	const struct tarn_layout *l = tarn_tensor_layout(given);
	const uint64_t *words;
	int r = 0;

	if (l->dtype != TARN_U64 || l->ndim != 1 ||
		(uint64_t)l->shape[0] != HEAD + t->n_groups + 1)
		return tarn_fail(EMEDIUMTYPE,
			"data: a table for this source is U64 of one dimension "
			"of %" PRIu64 ", not %s of %d",
			HEAD + t->n_groups + 1, tarn_dtype_name(l->dtype),
			l->ndim);
	words = storage_by_address(given->storage) ? tarn_tensor_data(given)
						   : NULL;
	if (words && tarn_layout_is_contiguous(l) &&
		(uintptr_t)words % sizeof(*words) == 0)
		t->tensor = tarn_tensor_ref(given);
	else
		r = tarn_tensor_clone(given, &t->tensor);
	if (r < 0)
		return r;
	words = tarn_tensor_data(t->tensor);
	t->before = words + HEAD;
	return check_given(t, stream, shape, words);
}

/* ---- tables -------------------------------------------------------------------------- */

int data_table_make(struct data_table *table, const struct data_stream *stream,
	const struct data_shape *shape, uint32_t group, tarn_tensor *given,
	const struct tarn_data_options *options)
{
	uint64_t n = stream->source->n_documents;
	int r;

	table->group = group;
	table->n_groups = n / group + (n % group != 0);
	r = given ? take(table, stream, shape, given)
		  : compute(table, stream, shape, options);
	if (r < 0)
		data_table_end(table);
	return r;
}

void data_table_end(struct data_table *table)
{
	tarn_tensor_unref(table->tensor);
	*table = (struct data_table) {.group = 0};
}

uint64_t data_table_find(const struct data_table *table, uint64_t sample)
{
	uint64_t low = 0, high = table->n_groups;

	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (table->before[middle] <= sample)
			low = middle;
		else
			high = middle;
	}
	return low;
}
