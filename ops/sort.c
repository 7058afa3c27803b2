// SPDX-License-Identifier: MIT
/*
 * Sorting along a dimension. Each element becomes a key of 64 bits whose order is
 * that of the elements, whatever their dtype, with its place beside it. Keys are
 * sorted byte by byte from the lowest on, which keeps the order of equal ones; a
 * byte in which all keys agree is passed over. Where the first ones only are wanted
 * most keys are just compared with the last of those.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/copy.h>

#include "base/checked.h"
#include "ops/result.h"
#include "ops/threads.h"

#define SHORT 48    /* elements that are put in their place one by one */
#define PART 16384  /* elements that pay for a thread */
#define STRETCH 256 /* of a row of which few are wanted */
#define SCREEN                                                                 \
	32 /* elements that are compared with the last of those at once */

struct pair {
	uint64_t key;
	int64_t place;
};

/* ---- keys ----------------------------------------------------------------------- */

/* Magnitudes below and above the middle; 0 and -0 are one; NaN is the last. */
static inline uint64_t float_key(uint64_t bits, int width, uint64_t infinity)
{
	uint64_t middle = (uint64_t)1 << (width - 1);
	uint64_t magnitude = bits & (middle - 1);

	if (magnitude > infinity)
		return middle + (middle - 1);
	return bits & middle ? middle - magnitude : middle + magnitude;
}

#define KEYS(T, ...)                                                           \
	for (int64_t i = 0; i < n; i++) {                                      \
		T x = ((const T *)row)[i];                                     \
		to[i].key = (uint64_t)(__VA_ARGS__);                           \
	}                                                                      \
	break;
#define MIDDLE ((uint64_t)1 << 63)

static void make_keys(
	enum tarn_dtype dtype, const void *row, int64_t n, struct pair *to)
{
	switch (dtype) {
	case TARN_BOOL:
		KEYS(uint8_t, x != 0)
	case TARN_U8:
		KEYS(uint8_t, x)
	case TARN_U16:
		KEYS(uint16_t, x)
	case TARN_U32:
		KEYS(uint32_t, x)
	case TARN_U64:
		KEYS(uint64_t, x)
	case TARN_I8:
		KEYS(int8_t, (uint64_t)x ^ MIDDLE)
	case TARN_I16:
		KEYS(int16_t, (uint64_t)x ^ MIDDLE)
	case TARN_I32:
		KEYS(int32_t, (uint64_t)x ^ MIDDLE)
	case TARN_I64:
		KEYS(int64_t, (uint64_t)x ^ MIDDLE)
	case TARN_F16:
		KEYS(uint16_t, float_key(x, 16, 0x7c00))
	case TARN_BF16:
		KEYS(uint16_t, float_key(x, 16, 0x7f80))
	case TARN_F32:
		KEYS(uint32_t, float_key(x, 32, 0x7f800000))
	default:
		KEYS(uint64_t, float_key(x, 64, 0x7ff0000000000000))
	}
}

/* ---- one row -------------------------------------------------------------------- */

static void sort_short(struct pair *a, int64_t n)
{
	for (int64_t i = 1; i < n; i++) {
		struct pair p = a[i];
		int64_t j = i;

		for (; j > 0 && a[j - 1].key > p.key; j--)
			a[j] = a[j - 1];
		a[j] = p;
	}
}

/* Sorted by one byte of the key, into to. */
static void sort_byte(
	const struct pair *a, int64_t n, int shift, struct pair *to)
{
	int64_t count[256] = {0}, at = 0;

	for (int64_t i = 0; i < n; i++)
		count[a[i].key >> shift & 255]++;
	for (int i = 0; i < 256; i++) {
		int64_t here = count[i];

		count[i] = at;
		at += here;
	}
	for (int64_t i = 0; i < n; i++)
		to[count[a[i].key >> shift & 255]++] = a[i];
}

/* Returns a or spare, whichever has the sorted row. */
static struct pair *sort_pairs(struct pair *a, int64_t n, struct pair *spare)
{
	uint64_t any = 0, all = UINT64_MAX;

	if (n <= SHORT) {
		sort_short(a, n);
		return a;
	}
	for (int64_t i = 0; i < n; i++) {
		any |= a[i].key;
		all &= a[i].key;
	}
	for (int shift = 0; shift < 64; shift += 8) {
		struct pair *sorted = spare;

		if (!((any ^ all) >> shift & 255))
			continue;
		sort_byte(a, n, shift, spare);
		spare = a;
		a = sorted;
	}
	return a;
}

/* ---- all rows ------------------------------------------------------------------- */

struct job {
	enum tarn_dtype dtype;
	const char *from;
	char *values; /* may be NULL, as places may */
	int64_t *places;
	int64_t n, k, rows, size, a_part; /* k: as many are wanted */
	bool descending;
	atomic_bool no_memory;
};

/* Of a row of which the first k are wanted: no more than the row has. */
static int64_t pairs_room(const struct job *job)
{
	return MIN(job->n, 2 * job->k + STRETCH);
}

/* Elements first .. first + n - 1 of a row. */
static void make_pairs(const struct job *job, const char *row, int64_t first,
	int64_t n, struct pair *to)
{
	make_keys(job->dtype, row + first * job->size, n, to);
	for (int64_t i = 0; i < n; i++) {
		to[i].place = first + i;
		if (job->descending)
			to[i].key = ~to[i].key;
	}
}

/* Whether any of these elements may come before that at place: said by whole
 * vectors, for dtypes that compare as they are. NaN is the last: it may where the
 * last come first. */
#define ANY_BEFORE(T)                                                          \
	{                                                                      \
		const T *x = (const T *)row + first;                           \
		T last = ((const T *)row)[place];                              \
		unsigned any = 0;                                              \
                                                                               \
		if (job->descending)                                           \
			for (int64_t i = 0; i < n; i++)                        \
				any |= !(x[i] <= last);                        \
		else                                                           \
			for (int64_t i = 0; i < n; i++)                        \
				any |= !(x[i] >= last);                        \
		return any;                                                    \
	}

static bool any_before(const struct job *job, const char *row, int64_t first,
	int64_t n, int64_t place)
{
	switch (job->dtype) {
	case TARN_U8:
		ANY_BEFORE(uint8_t)
	case TARN_I32:
		ANY_BEFORE(int32_t)
	case TARN_I64:
		ANY_BEFORE(int64_t)
	case TARN_F32:
		ANY_BEFORE(float)
	case TARN_F64:
		ANY_BEFORE(double)
	default:
		return true;
	}
}
#undef ANY_BEFORE

/* The first k of the row, in order, where k is small: each is put in its place
 * among those so far, before none that is equal. */
static void first_few(const struct job *job, const char *row, struct pair *a)
{
	struct pair *next = a + job->k;
	int64_t kept = 0, m;

	for (int64_t i = 0; i < job->n; i += m) {
		m = MIN(job->n - i, (int64_t)SCREEN);
		if (kept == job->k &&
			!any_before(job, row, i, m, a[kept - 1].place))
			continue;
		make_pairs(job, row, i, m, next);
		for (int64_t j = 0; j < m; j++) {
			int64_t at = kept;

			if (kept == job->k && next[j].key >= a[kept - 1].key)
				continue;
			if (kept == job->k)
				at--;
			else
				kept++;
			for (; at > 0 && a[at - 1].key > next[j].key; at--)
				a[at] = a[at - 1];
			a[at] = next[j];
		}
	}
}

/* The same for any k; returns a or spare. A stretch of it is looked
 * at at a time, and only those are kept that come before the k-th so far: equal
 * ones that come later do not. */
static struct pair *first_pairs(const struct job *job, const char *row,
	struct pair *a, struct pair *spare)
{
	int64_t room = pairs_room(job), i = 0, kept = 0;
	uint64_t bound = 0;
	bool bounded = false;

	for (;;) {
		int64_t j = kept, end = kept + MIN(job->n - i, room - kept);
		struct pair *sorted;

		make_pairs(job, row, i, end - kept, a + kept);
		for (i += end - j; j < end; j++)
			if (!bounded || a[j].key < bound)
				a[kept++] = a[j];
		if (i < job->n && kept <= room - STRETCH / 2)
			continue;
		sorted = sort_pairs(a, kept, spare);
		if (i == job->n)
			return sorted;
		kept = job->k;
		if (sorted != a)
			memcpy(a, sorted, (size_t)kept * sizeof(*a));
		bound = a[kept - 1].key;
		bounded = true;
	}
}

static void sort_row(const struct job *job, int64_t row, struct pair *pairs)
{
	const char *from = job->from + row * job->n * job->size;

	if (job->k <= SHORT)
		first_few(job, from, pairs);
	else
		pairs = first_pairs(job, from, pairs, pairs + pairs_room(job));
	for (int64_t i = 0; i < job->k; i++) {
		if (job->places)
			job->places[row * job->k + i] = pairs[i].place;
		if (job->values)
			memcpy(job->values + (row * job->k + i) * job->size,
				from + pairs[i].place * job->size,
				(size_t)job->size);
	}
}

static void sort_part(void *arg, size_t part)
{
	struct job *job = arg;
	int64_t row = (int64_t)part * job->a_part;
	int64_t end = MIN(row + job->a_part, job->rows);
	struct pair *pairs =
		calloc((size_t)pairs_room(job), 2 * sizeof(*pairs));

	if (!pairs) {
		job->no_memory = true;
		return;
	}
	for (; row < end; row++)
		sort_row(job, row, pairs);
	free(pairs);
}

/* The result with dim last, where the rows are written, and what it becomes. */
struct sorted {
	struct result result;
	tarn_tensor *rows, *turned;
};

static int sorted_begin(const char *op, enum tarn_dtype dtype,
	const struct tarn_layout *shape, int dim, const tarn_tensor *x,
	tarn_tensor **out, struct sorted *ret)
{
	struct tarn_layout rows = *shape;
	int r = result_begin_apart(
		op, dtype, shape->ndim, shape->shape, &x, 1, out, &ret->result);

	if (r < 0 || !shape->ndim)
		return r < 0 ? r : result_new(op, dtype, 0, NULL, &ret->rows);
	rows.shape[dim] = shape->shape[shape->ndim - 1];
	rows.shape[shape->ndim - 1] = shape->shape[dim];
	r = result_new(op, dtype, rows.ndim, rows.shape, &ret->rows);
	return r < 0 ? r
		     : tarn_tensor_transpose(ret->rows, dim, -1, &ret->turned);
}

static int sorted_end(struct sorted *s, int r)
{
	if (r >= 0)
		r = tarn_copy(s->result.work, s->turned ?: s->rows, NULL, NULL);
	tarn_tensor_unref(s->turned);
	tarn_tensor_unref(s->rows);
	return result_end(&s->result, r);
}

static int run(const char *op, struct job *job, struct sorted *values,
	struct sorted *places)
{
	if (!job->rows || !job->k)
		return 0;
	job->values = values ? tarn_tensor_data(values->rows) : NULL;
	job->places = places ? tarn_tensor_data(places->rows) : NULL;
	job->a_part = MAX(PART / job->n, 1);
	threads_run((size_t)((job->rows + job->a_part - 1) / job->a_part),
		sort_part, job);
	return job->no_memory ? tarn_error_set(ENOMEM,
					"%s: no memory for rows of "
					"%lld elements",
					op, (long long)job->n)
			      : 0;
}

/* k < 0: all. */
static int sort(const char *op, const tarn_tensor *x, int64_t k, int dim,
	bool descending, tarn_tensor **out_values, tarn_tensor **out_places)
{
	const struct tarn_layout *l = tarn_tensor_layout(x);
	struct tarn_layout shape = *l;
	_cleanup_tensor_ tarn_tensor *turned = NULL;
	_cleanup_source_ struct source source = {0};
	struct sorted values = {0}, places = {0};
	struct job job = {.dtype = l->dtype, .n = 1, .descending = descending};
	int64_t all = tarn_layout_numel(l);
	int r = dim_of(op, dim, l->ndim, &dim);

	if (r >= 0 && l->ndim)
		r = tarn_tensor_transpose((tarn_tensor *)x, dim, -1, &turned);
	if (r >= 0)
		r = source_open_plain(op, turned ?: x, l->dtype, &source);
	if (r < 0)
		return r;
	if (l->ndim)
		job.n = l->shape[dim];
	if (k > job.n)
		return tarn_error_set(EINVAL,
			"%s: the first %lld of %lld elements", op, (long long)k,
			(long long)job.n);
	job.k = k < 0 ? job.n : k;
	shape.shape[dim] = l->ndim ? job.k : 0;
	job.rows = job.n ? all / job.n : 0;
	job.size = tarn_dtype_bits(l->dtype) / 8;
	job.from = tarn_tensor_data(source.tensor);
	if (out_values)
		r = sorted_begin(
			op, l->dtype, &shape, dim, x, out_values, &values);
	if (r >= 0 && out_places)
		r = sorted_begin(
			op, TARN_I64, &shape, dim, x, out_places, &places);
	if (r >= 0)
		r = run(op, &job, out_values ? &values : NULL,
			out_places ? &places : NULL);
	if (out_values)
		r = sorted_end(&values, r);
	if (out_places)
		r = sorted_end(&places, r);
	return r;
}

int tarn_sort(const tarn_tensor *x, int dim, bool descending,
	tarn_tensor **out_values, tarn_tensor **out_places)
{
	return sort("sort", x, -1, dim, descending, out_values, out_places);
}

int tarn_top(const tarn_tensor *x, int64_t k, int dim, bool largest,
	tarn_tensor **out_values, tarn_tensor **out_places)
{
	if (k < 0)
		return tarn_error_set(
			EINVAL, "top: %lld elements", (long long)k);
	return sort("top", x, k, dim, largest, out_values, out_places);
}
