// SPDX-License-Identifier: MIT
/*
 * Reductions: sums, products, the least, the largest.
 *
 * The dimensions that stay and those that go are two nests of loops. Where the
 * elements that are closest in memory go into one result, whole runs of them are
 * folded; where they go into results beside each other, whole rows are added to
 * a row of results. A run or row that is not packed, or not of the dtype in which
 * it is added, is packed first.
 *
 * Runs are folded by lanes, and their results pairwise: each waits until there
 * is another of as many elements. How a reduction is cut into parts depends on
 * its shape alone, so it gives the same bits for any number of threads.
 */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/copy.h>

#include "base/checked.h"
#include "lib/move/move.h"
#include "ops/kernels.h"
#include "ops/result.h"
#include "ops/threads.h"

#define RUN 4096      /* elements that are folded by lanes */
#define TILE 1024     /* results beside each other */
#define ROWS 32       /* that are added one after the other, before pairs */
#define LEVELS 40     /* 2^40 runs */
#define ROW_LEVELS 22 /* 2^22 sums of rows */
#define PART 65536    /* elements that pay for a thread */
#define FEW 64        /* results that keep all threads busy by themselves */
#define PARTS_MAX 512 /* of one result */

struct dims {
	int n;
	int64_t extent[TARN_NDIM_MAX];
	int64_t from[TARN_NDIM_MAX]; /* strides of the source, in bytes */
	int64_t to[TARN_NDIM_MAX];   /* of the results; only of those kept */
};

struct reduction {
	const char *from;
	char *to;
	enum tarn_dtype source, computed;
	int64_t size; /* bytes of an element that is computed */
	struct dims kept, gone;
	bool by_rows;
	int64_t rows; /* that are added before they are a pair's */
	size_t levels_size;
	atomic_bool failed; /* there was no memory */
	int64_t wide; /* rows that lie beside each other and are added as one */
	fold_fn *fold;
	run_fn *pair;
	int64_t kept_units, gone_units;   /* tiles or results; rows or runs */
	int64_t n_parts, a_piece, a_part; /* pieces of what goes; units */
};

/* What one thread needs; of the results of a row's tile. */
struct scratch {
	struct move lift;
	int64_t lift_n, lift_stride;
	_Alignas(64) char packed[RUN * 8];
	_Alignas(64) char row[TILE * 8], narrow[TILE * 8];
	char *levels[2]; /* by rows: ROW_LEVELS tiles each */
};

/* ---- pairs ------------------------------------------------------------------ */

/* Partial results of width elements: level i has that of 2^i of them. */
struct pairs {
	const struct reduction *r;
	int64_t width;
	uint64_t count;
	char *levels; /* each of as many bytes as width takes */
};

static void combine(
	const struct reduction *r, int64_t n, char *dst, const char *more)
{
	const void *src[3] = {dst, more, NULL};

	r->pair((size_t)n, dst, src, 0);
}

/* value is used up. */
static void push(struct pairs *p, char *value)
{
	size_t size = (size_t)(p->width * p->r->size);
	char *level = p->levels;

	for (uint64_t n = p->count++; n & 1; n >>= 1, level += size) {
		combine(p->r, p->width, level, value);
		memcpy(value, level, size);
	}
	memcpy(level, value, size);
}

/* to has the result, if there is one. */
static void finish(struct pairs *p, char *to)
{
	size_t size = (size_t)(p->width * p->r->size);
	char *level = p->levels;
	bool first = true;

	for (uint64_t n = p->count; n; n >>= 1, level += size) {
		if (!(n & 1))
			continue;
		if (!first)
			combine(p->r, p->width, level, to);
		memcpy(to, level, size);
		first = false;
	}
}

/* ---- nests ------------------------------------------------------------------ */

/* The place of a step of the outermost n loops, counted like digits. */
static int64_t seek(const struct dims *d, int n, int64_t number, int64_t *index,
	int64_t *ret_to)
{
	int64_t at = 0, to = 0;

	for (int i = n - 1; i >= 0; i--) {
		index[i] = number % d->extent[i];
		number /= d->extent[i];
		at += index[i] * d->from[i];
		to += index[i] * d->to[i];
	}
	if (ret_to)
		*ret_to = to;
	return at;
}

/* How far the next step is. */
static int64_t step(const struct dims *d, int n, int64_t *index)
{
	int64_t at = 0;

	for (int i = n - 1; i >= 0; i--) {
		at += d->from[i];
		if (++index[i] < d->extent[i])
			return at;
		at -= d->from[i] * d->extent[i];
		index[i] = 0;
	}
	return at;
}

static int64_t steps(const struct dims *d, int n)
{
	int64_t product = 1;

	for (int i = 0; i < n; i++)
		product *= d->extent[i];
	return product;
}

/* n elements, a stride of bytes apart, as the kernels take them. */
static const char *lift(const struct reduction *r, struct scratch *s,
	const char *from, int64_t n, int64_t stride)
{
	int64_t size = tarn_dtype_bits(r->source) / 8;
	struct tarn_layout packed = {.dtype = (uint8_t)r->computed,
		.ndim = 1,
		.shape = {n},
		.stride = {1}};
	struct tarn_layout there = packed;

	if (r->source == r->computed && (stride == size || n == 1) &&
		(uintptr_t)from % (uintptr_t)size == 0)
		return from;
	if (n != s->lift_n || stride != s->lift_stride) {
		there.dtype = (uint8_t)r->source;
		there.stride[0] = stride / size;
		/* It fails for C64 alone, which has no arithmetic. */
		if (move_plan(&s->lift, &packed, &there, NULL) < 0)
			__builtin_unreachable();
		s->lift_n = n;
		s->lift_stride = stride;
	}
	move_run(&s->lift, s->packed, from);
	return s->packed;
}

/* ---- whole runs --------------------------------------------------------------- */

static int64_t runs_a_row(const struct reduction *r)
{
	int64_t n = r->gone.n ? r->gone.extent[r->gone.n - 1] : 1;

	return (n + RUN - 1) / RUN;
}

/* Runs first .. end - 1 of what goes into one result. */
static void fold_runs(const struct reduction *r, struct scratch *s,
	const char *from, int64_t first, int64_t end, char *to)
{
	const struct dims *gone = &r->gone;
	int inner = MAX(gone->n - 1, 0);
	int64_t n = gone->n ? gone->extent[inner] : 1;
	int64_t stride = gone->n ? gone->from[inner] : 0;
	int64_t a_row = runs_a_row(r), run = first % a_row;
	int64_t index[TARN_NDIM_MAX];
	uint64_t levels[LEVELS], value;
	struct pairs pairs = {r, 1, 0, (char *)levels};

	from += seek(gone, inner, first / a_row, index, NULL);
	for (; first < end; first++) {
		int64_t length = MIN(n - run * RUN, (int64_t)RUN);

		r->fold((size_t)length, &value,
			lift(r, s, from + run * RUN * stride, length, stride));
		push(&pairs, (char *)&value);
		if (++run < a_row)
			continue;
		run = 0;
		from += step(gone, inner, index);
	}
	finish(&pairs, to);
}

/* ---- rows of results ------------------------------------------------------------ */

/* A row of sums, of which some are added before they are pushed. */
struct row {
	struct pairs pairs;
	char *sum;
	int64_t rows;
};

static void row_add(struct row *row, const char *more)
{
	const struct pairs *p = &row->pairs;

	if (!row->rows)
		memcpy(row->sum, more, (size_t)(p->width * p->r->size));
	else
		combine(p->r, p->width, row->sum, more);
	if (++row->rows < p->r->rows)
		return;
	push(&row->pairs, row->sum);
	row->rows = 0;
}

static bool row_finish(struct row *row)
{
	if (row->rows)
		push(&row->pairs, row->sum);
	finish(&row->pairs, row->sum);
	return row->pairs.count > 0;
}

/* Steps first .. end - 1 of what goes, for width results beside each other; the
 * sum is in s->narrow. */
static void add_rows(const struct reduction *r, struct scratch *s,
	const char *from, int64_t first, int64_t end, int64_t width,
	int64_t stride)
{
	const struct dims *gone = &r->gone;
	int inner = gone->n - 1;
	struct row narrow = {{r, width, 0, s->levels[0]}, s->narrow, 0};
	struct row wide = {{r, width * r->wide, 0, s->levels[1]}, s->row, 0};
	int64_t index[TARN_NDIM_MAX];

	from += seek(gone, gone->n, first, index, NULL);
	while (first < end) {
		int64_t left = gone->n ? gone->extent[inner] - index[inner] : 1;

		if (r->wide > 1 && MIN(left, end - first) >= r->wide) {
			row_add(&wide,
				lift(r, s, from, width * r->wide, stride));
			/* To the last of them, and one on. */
			first += r->wide;
			index[inner] += r->wide - 1;
			from += (r->wide - 1) * gone->from[inner];
		} else {
			row_add(&narrow, lift(r, s, from, width, stride));
			first++;
		}
		from += step(gone, gone->n, index);
	}
	if (!row_finish(&wide)) {
		row_finish(&narrow);
		return;
	}
	for (int64_t half = r->wide / 2; half; half /= 2)
		combine(r, half * width, s->row,
			s->row + half * width * r->size);
	if (row_finish(&narrow))
		combine(r, width, s->narrow, s->row);
	else
		memcpy(s->narrow, s->row, (size_t)(width * r->size));
}

static void scatter(
	char *to, int64_t stride, const char *from, int64_t n, int64_t size)
{
	if (stride == size) {
		memcpy(to, from, (size_t)(n * size));
		return;
	}
	for (int64_t i = 0; i < n; i++)
		memcpy(to + i * stride, from + i * size, (size_t)size);
}

/* ---- parts ----------------------------------------------------------------------- */

static int64_t tiles_a_row(const struct reduction *r)
{
	return (r->kept.extent[r->kept.n - 1] + TILE - 1) / TILE;
}

static void unit_by_runs(const struct reduction *r, struct scratch *s,
	int64_t unit, int64_t first, int64_t end, char *results)
{
	int64_t index[TARN_NDIM_MAX], to;
	int64_t at = seek(&r->kept, r->kept.n, unit, index, &to);

	fold_runs(r, s, r->from + at, first, end, results + to);
}

static void unit_by_rows(const struct reduction *r, struct scratch *s,
	int64_t unit, int64_t first, int64_t end, char *results)
{
	const struct dims *kept = &r->kept;
	int inner = kept->n - 1;
	int64_t tile = unit % tiles_a_row(r) * TILE;
	int64_t width = MIN(kept->extent[inner] - tile, (int64_t)TILE);
	int64_t index[TARN_NDIM_MAX], to;
	int64_t at = seek(kept, inner, unit / tiles_a_row(r), index, &to);

	add_rows(r, s, r->from + at + tile * kept->from[inner], first, end,
		width, kept->from[inner]);
	scatter(results + to + tile * kept->to[inner], kept->to[inner],
		s->narrow, width, r->size);
}

/* Parts are numbered by results first. Those of one piece of what goes lie
 * beside each other in memory. */
static void run_part(void *arg, size_t number)
{
	struct reduction *r = arg;
	int64_t groups = (r->kept_units + r->a_part - 1) / r->a_part;
	int64_t piece = (int64_t)number / groups;
	int64_t unit = (int64_t)number % groups * r->a_part;
	int64_t last = MIN(unit + r->a_part, r->kept_units);
	int64_t first = piece * r->a_piece;
	int64_t end = MIN(first + r->a_piece, r->gone_units);
	char *results = r->to + piece * steps(&r->kept, r->kept.n) * r->size;
	_cleanup_free_ char *levels = NULL;
	struct scratch s;

	s.lift_n = 0;
	if (r->by_rows) {
		/* Not on the stack, which may be the caller's and small. */
		levels = malloc(2 * r->levels_size);
		if (!levels) {
			/* Relaxed: the end of the job orders it. */
			atomic_store_explicit(
				&r->failed, true, memory_order_relaxed);
			return;
		}
		s.levels[0] = levels;
		s.levels[1] = levels + r->levels_size;
	}
	for (; unit < last; unit++)
		if (r->by_rows)
			unit_by_rows(r, &s, unit, first, end, results);
		else
			unit_by_runs(r, &s, unit, first, end, results);
}

/* ---- plans ------------------------------------------------------------------------ */

static int64_t magnitude(int64_t stride)
{
	/* What is repeated is farthest. */
	return stride < 0 ? -stride : stride ? stride : INT64_MAX;
}

static void add_dim(struct dims *d, int64_t extent, int64_t from, int64_t to)
{
	int i = d->n++;

	for (; i > 0 && magnitude(d->from[i - 1]) < magnitude(from); i--) {
		d->extent[i] = d->extent[i - 1];
		d->from[i] = d->from[i - 1];
		d->to[i] = d->to[i - 1];
	}
	d->extent[i] = extent;
	d->from[i] = from;
	d->to[i] = to;
}

static void fuse(struct dims *d)
{
	int n = 0;

	for (int i = 0; i < d->n; i++) {
		int64_t extent = d->extent[i];

		if (n && d->from[n - 1] == d->from[i] * extent &&
			d->to[n - 1] == d->to[i] * extent)
			extent *= d->extent[--n];
		d->extent[n] = extent;
		d->from[n] = d->from[i];
		d->to[n++] = d->to[i];
	}
	d->n = n;
}

static void plan_rows(struct reduction *r)
{
	const struct dims *kept = &r->kept, *gone = &r->gone;
	int k = kept->n - 1, g = gone->n - 1;

	r->wide = 1;
	r->by_rows = kept->n && kept->extent[k] > 1 &&
		     (!gone->n || magnitude(kept->from[k]) <
					  magnitude(gone->from[g]));
	if (!r->by_rows || !gone->n ||
		gone->from[g] != kept->extent[k] * kept->from[k])
		return;
	while (kept->extent[k] * r->wide * 2 <= TILE)
		r->wide *= 2;
}

static int bits_of(int64_t n)
{
	return n ? 64 - __builtin_clzll((unsigned long long)n) : 0;
}

static void plan_parts(struct reduction *r)
{
	int64_t outside = steps(&r->kept, r->kept.n - r->by_rows);
	int64_t elements = steps(&r->gone, r->gone.n), parts = 1;

	if (r->by_rows) {
		r->kept_units = outside * tiles_a_row(r);
		r->gone_units = elements;
		r->rows = MAX(elements >> (ROW_LEVELS - 2), (int64_t)ROWS);
		r->levels_size = (size_t)(bits_of(elements / r->rows) + 1) *
				 TILE * (size_t)r->size;
		elements *= MIN(r->kept.extent[r->kept.n - 1], (int64_t)TILE);
	} else {
		r->kept_units = outside;
		r->gone_units = steps(&r->gone, r->gone.n - 1) * runs_a_row(r);
	}
	if (r->kept_units < FEW)
		parts = MIN(MIN(elements / PART, r->gone_units),
			(int64_t)PARTS_MAX);
	r->a_piece = (r->gone_units + MAX(parts, 1) - 1) / MAX(parts, 1);
	r->n_parts = (r->gone_units + r->a_piece - 1) / r->a_piece;
	r->a_part =
		MAX(PART / MAX(elements / r->n_parts, (int64_t)1), (int64_t)1);
}

static int run_parts(struct reduction *r)
{
	int64_t groups = (r->kept_units + r->a_part - 1) / r->a_part;

	threads_run((size_t)(groups * r->n_parts), run_part, r);
	if (!r->failed)
		return 0;
	return tarn_error_set(ENOMEM, "reduce: no memory for partial results");
}

/* There are elements on both sides. */
static int reduction_run(struct reduction *r)
{
	struct reduction last = *r;
	int64_t n = steps(&r->kept, r->kept.n);
	_cleanup_free_ char *pieces = NULL;
	int e;

	fuse(&r->kept);
	fuse(&r->gone);
	plan_rows(r);
	plan_parts(r);
	if (r->n_parts == 1)
		return run_parts(r);
	pieces = calloc((size_t)(r->n_parts * n), (size_t)r->size);
	if (!pieces)
		return tarn_error_set(ENOMEM,
			"reduce: no memory for %lld parts",
			(long long)r->n_parts);
	r->to = pieces;
	e = run_parts(r);
	if (e < 0)
		return e;
	/* The results lie in each piece as they do in the end. */
	last.from = pieces;
	last.source = r->computed;
	last.kept = (struct dims) {1, {n}, {r->size}, {r->size}};
	last.gone = (struct dims) {1, {r->n_parts}, {n * r->size}, {0}};
	plan_rows(&last);
	plan_parts(&last);
	last.n_parts = 1;
	last.a_piece = last.gone_units;
	return run_parts(&last);
}

/* ---- the operations ------------------------------------------------------------------ */

struct operation {
	const char *name;
	enum fold fold;
};

static const struct operation operations[TARN_REDUCE_OPS] = {
	[TARN_SUM] = {"sum", FOLD_ADD},
	[TARN_PROD] = {"prod", FOLD_MUL},
	[TARN_MEAN] = {"mean", FOLD_ADD},
	[TARN_AMIN] = {"amin", FOLD_MIN},
	[TARN_AMAX] = {"amax", FOLD_MAX},
	[TARN_ANY] = {"any", FOLD_ADD},
	[TARN_ALL] = {"all", FOLD_MUL},
};

static int choose_dtypes(enum tarn_reduce_op op, enum tarn_dtype dtype,
	enum tarn_dtype *ret_result, enum tarn_dtype *ret_computed)
{
	*ret_result = dtype;
	if (op == TARN_MEAN && dtype_kind(dtype) != KIND_FLOAT)
		return tarn_error_set(EINVAL,
			"mean: of %s; cast the tensor to F32, for example",
			tarn_dtype_name(dtype));
	if (op == TARN_ANY || op == TARN_ALL)
		*ret_result = TARN_BOOL;
	else if (op <= TARN_PROD && dtype_kind(dtype) != KIND_FLOAT &&
		 dtype != TARN_U64)
		*ret_result = TARN_I64;
	*ret_computed = dtype_computed(*ret_result);
	return 0;
}

int reduce_dims(const char *op, int ndim, int n, const int *dims,
	bool gone[TARN_NDIM_MAX])
{
	int dim, r;

	for (int i = 0; i < ndim; i++)
		gone[i] = !n;
	for (int i = 0; i < n; i++) {
		r = dim_of(op, dims[i], ndim, &dim);
		if (r < 0)
			return r;
		if (ndim && gone[dim])
			return tarn_error_set(EINVAL,
				"%s: dimension %d is given twice", op, dim);
		gone[dim] = ndim > 0;
	}
	return 0;
}

void reduce_shape(const struct tarn_layout *l, const bool gone[TARN_NDIM_MAX],
	unsigned flags, struct tarn_layout *ret)
{
	*ret = (struct tarn_layout) {0};
	for (int i = 0; i < l->ndim; i++)
		if (!gone[i] || flags & TARN_KEEP_DIMS)
			ret->shape[ret->ndim++] = gone[i] ? 1 : l->shape[i];
}

/* Of no elements: what changes no other. */
static int fill_empty(enum tarn_reduce_op op, tarn_tensor *to)
{
	struct tarn_operand value = tarn_float(NAN);

	if (op == TARN_AMIN || op == TARN_AMAX)
		return tarn_error_set(EINVAL,
			"%s: of no elements there is none; give dimensions "
			"that have some",
			operations[op].name);
	if (op != TARN_MEAN)
		value = tarn_int(op == TARN_PROD || op == TARN_ALL);
	return tensor_fill(to, &value);
}

static void prepare(struct reduction *r, enum tarn_reduce_op op,
	const tarn_tensor *x, const bool gone[TARN_NDIM_MAX], tarn_tensor *to)
{
	const struct tarn_layout *l = tarn_tensor_layout(x);
	const struct kernels *k = kernels();
	enum type type = kernels_type(r->computed);
	int64_t size = tarn_dtype_bits(l->dtype) / 8, stride;

	r->from = tarn_tensor_data(x);
	r->to = tarn_tensor_data(to);
	r->source = l->dtype;
	r->size = stride = tarn_dtype_bits(r->computed) / 8;
	r->fold = k->fold[type][operations[op].fold];
	r->pair = k->binary[type][(enum tarn_binary_op[]) {
		TARN_ADD, TARN_MUL, TARN_MIN, TARN_MAX}[operations[op].fold]];
	for (int i = l->ndim - 1; i >= 0; i--) {
		if (!gone[i]) {
			add_dim(&r->kept, l->shape[i], l->stride[i] * size,
				stride);
			stride *= l->shape[i];
		} else if (l->shape[i] > 1)
			add_dim(&r->gone, l->shape[i], l->stride[i] * size, 0);
	}
}

/* The sum becomes the mean, and of another dtype, where it must. */
static int reduce_to(enum tarn_reduce_op op, const tarn_tensor *x,
	const bool gone[TARN_NDIM_MAX], enum tarn_dtype computed,
	tarn_tensor *sum)
{
	const struct tarn_layout *l = tarn_tensor_layout(x);
	struct reduction r = {.computed = computed};
	int64_t n = 1;
	int e;

	for (int i = 0; i < l->ndim; i++)
		n *= gone[i] ? l->shape[i] : 1;
	if (!tarn_layout_numel(tarn_tensor_layout(sum)))
		return 0;
	if (!n)
		return fill_empty(op, sum);
	prepare(&r, op, x, gone, sum);
	e = reduction_run(&r);
	if (e >= 0 && op == TARN_MEAN)
		e = tarn_binary(TARN_DIV, tarn_of(sum), tarn_int(n), &sum);
	return e;
}

int tarn_reduce(enum tarn_reduce_op op, const tarn_tensor *x, int n_dims,
	const int *dims, unsigned flags, tarn_tensor **out)
{
	const struct tarn_layout *l = tarn_tensor_layout(x);
	_cleanup_source_ struct source source = {0};
	_cleanup_tensor_ tarn_tensor *sum = NULL;
	enum tarn_dtype dtype = l->dtype, computed = l->dtype;
	bool gone[TARN_NDIM_MAX];
	struct tarn_layout shape;
	struct result result;
	int r;

	if ((unsigned)op >= TARN_REDUCE_OPS)
		return tarn_error_set(
			EINVAL, "there is no reduction %d", (int)op);
	if (n_dims < 0 || flags & ~TARN_KEEP_DIMS)
		return tarn_error_set(EINVAL, "%s: %d dimensions, flags 0x%x",
			operations[op].name, n_dims, flags);
	r = source_open(operations[op].name, x, &source);
	if (r >= 0)
		r = choose_dtypes(op, l->dtype, &dtype, &computed);
	if (r >= 0)
		r = reduce_dims(
			operations[op].name, l->ndim, n_dims, dims, gone);
	if (r < 0)
		return r;
	reduce_shape(l, gone, flags, &shape);
	r = result_begin_plain(operations[op].name, dtype, shape.ndim,
		shape.shape, &source.tensor, 1, out, &result);
	if (r >= 0 && dtype != computed)
		r = result_new(operations[op].name, computed, shape.ndim,
			shape.shape, &sum);
	if (r >= 0)
		r = reduce_to(
			op, source.tensor, gone, computed, sum ?: result.work);
	if (r >= 0 && sum)
		r = tarn_copy(result.work, sum, NULL, NULL);
	return result_end(&result, r);
}
