// SPDX-License-Identifier: MIT
/*
 * tarn_gather: rows by a list of their numbers. The whole list is checked
 * first; then the rows are moved in blocks, for each of which the numbers are
 * read anew into memory of this thread's own and checked again. So a list that
 * others can write needs no copy, and never leads outside of the table.
 *
 * Threads take a stretch of the list each, and so of dst.
 */
#include <tarn/gather.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/copy/copy_op.h"
#include "lib/copy/row_numbers.h"
#include "lib/layout/layout.h"
#include "lib/move/rows.h"
#include "lib/reserved.h"
#include "lib/tensor/nest_read.h"

/* Numbers that are read at once. */
#define BLOCK 256

/* Bytes of rows that justify a thread, which costs some tens of microseconds:
 * as long as a core takes for some of these, of rows in no cache. */
#define WORTH ((int64_t)256 << 10)

/* Rows of a file that justify one: each is a system call, and may wait for the
 * disk. */
#define WORTH_READS 64

struct gather {
	tarn_tensor *dst;
	const tarn_tensor *table;
	struct row_numbers numbers;
	struct nest row;                /* row 0 of both */
	int64_t dst_stride, src_stride; /* of rows, in elements */
	bool by_address;
	struct rows rows; /* if it is by address */
};

/* ---- checks ---------------------------------------------------------- */

static int check_shapes(const struct tarn_layout *dst,
	const struct tarn_layout *table, const struct tarn_layout *index)
{
	if (table->ndim == 0)
		return tarn_fail(EINVAL,
			"gather: the table has no dimension, and so no rows");
	if (index->ndim != 1 || !row_numbers_dtype(index->dtype))
		return tarn_fail(EINVAL,
			"gather: index is %s%s; it must be one dimension of "
			"integers",
			tarn_dtype_name(index->dtype), LAYOUT_TEXT(index));
	if (dst->dtype != table->dtype)
		return tarn_fail(EINVAL,
			"gather: dst is %s and the table %s; gather to %s, "
			"and convert that by a copy",
			tarn_dtype_name(dst->dtype),
			tarn_dtype_name(table->dtype),
			tarn_dtype_name(table->dtype));
	if (dst->ndim == table->ndim && dst->shape[0] == index->shape[0] &&
		!memcmp(dst->shape + 1, table->shape + 1,
			(size_t)(dst->ndim - 1) * sizeof(*dst->shape)))
		return 0;
	return tarn_fail(EINVAL,
		"gather: %lld rows of a table of shape %s do not make a dst "
		"of shape %s",
		(long long)index->shape[0], LAYOUT_TEXT(table),
		LAYOUT_TEXT(dst));
}

static int check_options(const struct tarn_gather_options *options)
{
	int r = RESERVED_CHECK("tarn_gather_options", options);

	if (r >= 0 && options && options->threads < 0)
		return tarn_fail(EINVAL,
			"gather: %d threads; 0 and 1 are the caller's alone",
			options->threads);
	return r;
}

/* Not where it has no elements: a tensor without any may be anywhere. */
static int check_overlap(const tarn_tensor *dst, const tarn_tensor *table,
	const tarn_tensor *index)
{
	int r = copy_check_itself("gather", dst);

	if (r >= 0 && copy_shares_bytes(dst, table, &table->layout))
		r = tarn_fail(EINVAL,
			"gather: dst and table share bytes; gather to other "
			"memory, and copy that");
	if (r >= 0 && copy_shares_bytes(dst, index, &index->layout))
		r = tarn_fail(EINVAL,
			"gather: dst and index share bytes; gather by a clone "
			"of index");
	return r;
}

static int check(const tarn_tensor *dst, const tarn_tensor *table,
	const tarn_tensor *index, const struct tarn_gather_options *options)
{
	int r = check_options(options);

	if (r >= 0)
		r = check_shapes(&dst->layout, &table->layout, &index->layout);
	if (r >= 0)
		r = tarn_tensor_check_writable(dst, "gather");
	if (r >= 0 && tarn_layout_numel(&dst->layout) != 0)
		r = check_overlap(dst, table, index);
	return r;
}

/* ---- the plan -------------------------------------------------------- */

/* The stride of rows, which means nothing if there is no second one. */
static int64_t row_stride(const struct tarn_layout *l)
{
	return l->shape[0] > 1 ? l->stride[0] : 0;
}

static int plan(struct gather *g)
{
	struct tarn_layout to = g->dst->layout, from = g->table->layout;
	int64_t bits = tarn_dtype_bits(to.dtype);

	g->dst_stride = row_stride(&to);
	g->src_stride = row_stride(&from);
	g->by_address = storage_by_address(g->table->storage);
	layout_drop_dim(&to, 0);
	layout_drop_dim(&from, 0);
	nest_plan(&g->row, &to, &from, -1, NEST_BY_DST);
	if (!rows_plan(&g->rows, &g->row, g->dst_stride * bits / 8,
		    g->src_stride * bits / 8))
		return tarn_fail(ENOTSUP,
			"gather: a row of %s%s is not a whole number of bytes",
			tarn_dtype_name(to.dtype),
			LAYOUT_TEXT(&g->table->layout));
	if (!g->by_address)
		nest_tidy(&g->row, NEST_BY_SRC);
	return 0;
}

/* ---- the rows -------------------------------------------------------- */

/* first .. first + n - 1 of the list. Some numbers stay known beyond those that
 * are moved: they are being prefetched. */
static int move_rows(const struct gather *g, int64_t first, int64_t n)
{
	int64_t numbers[BLOCK + ROWS_LEAD_MAX];
	int64_t known = 0, done = 0;
	int r;

	while (done < n) {
		int64_t more = MIN(n - done - known, BLOCK), now;
		bool last = done + known + more == n;

		r = row_numbers_read(&g->numbers, first + done + known, more,
			numbers + known);
		if (r < 0)
			return r;
		if (known == 0)
			rows_begin(&g->rows, tarn_tensor_origin(g->table),
				numbers, more);
		known += more;
		now = last ? known : MAX(known - g->rows.lead, 0);
		rows_move(&g->rows, tarn_tensor_origin(g->dst), first + done,
			tarn_tensor_origin(g->table), numbers, now,
			known - now);
		done += now;
		known -= now;
		memmove(numbers, numbers + now,
			(size_t)known * sizeof(*numbers));
	}
	return 0;
}

/* Each by itself, and only its bytes. */
static int read_rows(const struct gather *g, int64_t first, int64_t n)
{
	void *dst = tarn_tensor_origin(g->dst);
	int r = 0;

	for (int64_t i = first; r >= 0 && i < first + n; i++) {
		struct nest row = g->row;
		int64_t number;

		r = row_numbers_read(&g->numbers, i, 1, &number);
		if (r < 0)
			return r;
		row.dst0 += i * g->dst_stride;
		row.src0 += number * g->src_stride;
		r = nest_read(&row, dst, g->table->storage, g->table->base);
	}
	return r;
}

/* ---- threads --------------------------------------------------------- */

struct stretch {
	const struct gather *gather;
	int64_t first, n;
	int r;
	char message[TARN_MESSAGE_MAX]; /* of this thread, if r < 0 */
	pthread_t thread;
	bool running;
};

static void *work(void *arg)
{
	struct stretch *s = arg;

	s->r = s->gather->by_address ? move_rows(s->gather, s->first, s->n)
				     : read_rows(s->gather, s->first, s->n);
	if (s->r < 0)
		snprintf(s->message, sizeof(s->message), "%s",
			tarn_fail_message());
	return NULL;
}

static int threads_for(const struct gather *g, int threads)
{
	int64_t n = g->numbers.n;
	int64_t bytes = tarn_layout_nbytes(&g->dst->layout);

	return (int)MIN(
		threads, g->by_address ? bytes / WORTH : n / WORTH_READS);
}

/* The first stretch is the caller's, as are those whose thread cannot be
 * started. */
static void run_stretches(
	struct stretch *stretches, const struct gather *g, int threads)
{
	int64_t n = g->numbers.n, first = 0;

	for (int i = 0; i < threads; i++) {
		struct stretch *s = &stretches[i];

		s->gather = g;
		s->first = first;
		s->n = (n - first) / (threads - i);
		first += s->n;
		s->running =
			i > 0 && pthread_create(&s->thread, NULL, work, s) == 0;
	}
	for (int i = 0; i < threads; i++)
		if (!stretches[i].running)
			work(&stretches[i]);
	for (int i = 0; i < threads; i++)
		if (stretches[i].running)
			pthread_join(stretches[i].thread, NULL);
}

static int run(const struct gather *g, int threads)
{
	_cleanup_free_ struct stretch *stretches = NULL;

	threads = threads_for(g, threads);
	if (threads > 1)
		stretches = calloc((size_t)threads, sizeof(*stretches));
	if (!stretches)
		return g->by_address ? move_rows(g, 0, g->numbers.n)
				     : read_rows(g, 0, g->numbers.n);
	run_stretches(stretches, g, threads);
	for (int i = 0; i < threads; i++)
		if (stretches[i].r < 0)
			return tarn_fail_verbatim(
				-stretches[i].r, stretches[i].message);
	return 0;
}

/* ---- the verb -------------------------------------------------------- */

static struct row_numbers numbers_of(
	const tarn_tensor *index, const tarn_tensor *table)
{
	const struct tarn_layout *l = &index->layout;
	int64_t size = tarn_dtype_bits(l->dtype) / 8;

	return (struct row_numbers) {
		.at = (const char *)tarn_tensor_origin(index) +
		      l->offset * size,
		.step = row_stride(l) * size,
		.dtype = l->dtype,
		.n = l->shape[0],
		.rows = table->layout.shape[0],
	};
}

int tarn_gather(tarn_tensor *dst, const tarn_tensor *table,
	const tarn_tensor *index, const struct tarn_gather_options *options)
{
	_cleanup_tensor_ tarn_tensor *read = NULL;
	struct gather g = {.dst = dst, .table = table};
	int r = check(dst, table, index, options);

	/* A list in a file is read whole. */
	if (r >= 0 && index->layout.shape[0] > 0 &&
		!storage_by_address(index->storage)) {
		r = tarn_tensor_clone(index, &read);
		index = read;
	}
	if (r < 0 || index->layout.shape[0] == 0)
		return r;
	g.numbers = numbers_of(index, table);
	r = row_numbers_check(&g.numbers);
	if (r < 0 || tarn_layout_numel(&dst->layout) == 0)
		return r;
	r = plan(&g);
	return r < 0 ? r : run(&g, options ? options->threads : 0);
}
