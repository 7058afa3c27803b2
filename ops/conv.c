// SPDX-License-Identifier: MIT
/*
 * Convolutions: strided windows, and a product. The windows of an image are a view
 * of it, [inputs, kernel, windows], and the result is the weight by that matrix.
 * Where its strides are BLAS's, it is read as it lies; else a tile of it after the
 * other is packed.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include <tarn/copy.h>

#include "base/checked.h"
#include "lib/move/move.h"
#include "ops/product.h"
#include "ops/windows.h"

#define TILE (512 << 10) /* bytes of packed windows: they stay in L2 */
#define TILE_WINDOWS 128 /* at least: the weight is packed for each tile */

/* What a window spans, in *ret, and checks of the rest. */
static int check_axis(const char *op, const struct axis *a, int64_t *ret)
{
	int64_t padded;

	if (a->kernel < 1 || a->stride < 1 || a->dilation < 1 ||
		a->padding < 0 || mul_i64(a->dilation, a->kernel - 1, ret) ||
		add_i64(*ret, 1, ret) || mul_i64(a->padding, 2, &padded) ||
		add_i64(padded, a->in, &padded) ||
		add_i64(padded, a->stride, &padded))
		return tarn_error_set(EINVAL,
			"%s: a kernel of %lld, a stride of %lld, a dilation of "
			"%lld and a padding of %lld; they must be above 0, the "
			"padding 0 or more",
			op, (long long)a->kernel, (long long)a->stride,
			(long long)a->dilation, (long long)a->padding);
	return 0;
}

int axis_open(const char *op, struct axis *a, bool ceil)
{
	int64_t span = 0, room;
	int r = check_axis(op, a, &span);

	if (r < 0)
		return r;
	room = a->in + 2 * a->padding - span;
	if (room < 0)
		return tarn_error_set(EINVAL,
			"%s: windows of %lld elements do not fit into %lld, "
			"with a padding of %lld on both sides",
			op, (long long)span, (long long)a->in,
			(long long)a->padding);
	a->out = (room + (ceil ? a->stride - 1 : 0)) / a->stride + 1;
	/* The last one begins inside, or in the first padding. */
	if (ceil && (a->out - 1) * a->stride >= a->in + a->padding)
		a->out--;
	return 0;
}

/* ---- convolution ----------------------------------------------------------------- */

struct conv {
	enum tarn_dtype dtype, from;
	int64_t size, from_size;            /* bytes of elements */
	int64_t n, groups, inputs, outputs; /* the last two: of a group */
	struct axis down, right;
	const char *x;
	int64_t x_stride[4]; /* elements: images, channels, down, right */
	char *weight, *bias, *out;
	bool packed;                   /* windows are, tile by tile */
	struct matrix windows;         /* else, of the first image and group */
	int64_t tile_down, tile_right; /* windows of a tile */
	int64_t tiles_down, tiles_right;
};

/* Windows of an image, as [inputs, kernel down, right, windows down, right]. */
static struct tarn_layout window_layout(
	const struct conv *c, int64_t down, int64_t right)
{
	const struct axis *d = &c->down, *r = &c->right;
	int64_t sd = c->x_stride[2], sr = c->x_stride[3];

	return (struct tarn_layout) {.dtype = (uint8_t)c->from,
		.ndim = 5,
		.shape = {c->inputs, d->kernel, r->kernel, down, right},
		.stride = {c->x_stride[1], d->dilation * sd, r->dilation * sr,
			d->stride * sd, r->stride * sr}};
}

/* Can BLAS read the windows as they lie? */
static bool read_as_they_lie(struct conv *c)
{
	struct tarn_layout l = window_layout(c, c->down.out, c->right.out);
	uintptr_t bits = (uintptr_t)c->x;

	if (c->from != c->dtype || bits % (uintptr_t)c->size ||
		tarn_layout_merge(&l, 3, 4, &l) < 0 ||
		tarn_layout_merge(&l, 0, 2, &l) < 0)
		return false;
	c->windows = (struct matrix) {
		NULL, l.shape[0], l.shape[1], l.stride[0], l.stride[1]};
	return matrix_fits(&c->windows);
}

static void choose_tiles(struct conv *c)
{
	int64_t k = MAX(c->inputs * c->down.kernel * c->right.kernel, 1);
	int64_t n = MAX(TILE / (k * c->size), (int64_t)TILE_WINDOWS);

	c->packed = !read_as_they_lie(c);
	c->tile_right = MIN(n, c->right.out);
	c->tile_down = c->tile_right < c->right.out
			       ? 1
			       : MIN(n / c->right.out, c->down.out);
	c->tiles_right = (c->right.out + c->tile_right - 1) / c->tile_right;
	c->tiles_down = (c->down.out + c->tile_down - 1) / c->tile_down;
}

static void pack_windows(const struct conv *c, const char *x, int64_t down,
	int64_t right, char *to)
{
	struct tarn_layout there = window_layout(c, down, right), packed;
	struct move move;

	/* Of fewer elements than memory has; and no C64. */
	if (tarn_layout_contiguous(c->dtype, 5, there.shape, &packed) < 0 ||
		move_plan(&move, &packed, &there, NULL) < 0)
		__builtin_unreachable();
	move_run(&move, to, x);
}

static void run_tile(const void *arg, int64_t number, char *scratch)
{
	const struct conv *c = arg;
	int64_t k = c->inputs * c->down.kernel * c->right.kernel;
	int64_t right = number % c->tiles_right * c->tile_right;
	int64_t down = number / c->tiles_right % c->tiles_down * c->tile_down;
	int64_t group = number / (c->tiles_right * c->tiles_down);
	int64_t image = group / c->groups, first, count;
	int64_t wide = MIN(c->tile_right, c->right.out - right);
	int64_t high = MIN(c->tile_down, c->down.out - down);
	struct matrix a = {
		.rows = c->outputs, .cols = k, .down = k, .right = 1};
	struct matrix b = {scratch, k, high * wide, high * wide, 1}, to;
	const char *x = c->x;

	group %= c->groups;
	first = down * c->right.out + right;
	count = high * wide;
	x += (image * c->x_stride[0] + group * c->inputs * c->x_stride[1]) *
	     c->from_size;
	a.at = c->weight + group * c->outputs * k * c->size;
	to = (struct matrix) {
		c->out, c->outputs, count, c->down.out * c->right.out, 1};
	to.at += ((image * c->groups + group) * c->outputs * to.down + first) *
		 c->size;
	if (c->packed) {
		pack_windows(c,
			x + (down * c->down.stride * c->x_stride[2] +
				    right * c->right.stride * c->x_stride[3]) *
					c->from_size,
			high, wide, scratch);
	} else {
		b = matrix_part(&c->windows, c->size, 0, k, first, count);
		b.at = (char *)x + (b.at - c->windows.at);
	}
	if (c->bias)
		matrix_fill(&to, c->size,
			c->bias + group * c->outputs * c->size, 1, 0);
	blas_product(c->dtype, 1, &a, &b, c->bias, &to);
}

static int run_tiles(struct conv *c)
{
	int64_t k = c->inputs * c->down.kernel * c->right.kernel;
	int64_t windows;
	struct parts parts = {.op = "conv", .fn = run_tile, .arg = c};

	choose_tiles(c);
	windows = c->tile_down * c->tile_right;
	parts.items = c->n * c->groups * c->tiles_down * c->tiles_right;
	parts.cost = (double)k * (double)windows * ((double)c->outputs + 8);
	parts.scratch = c->packed ? k * windows * c->size : 0;
	return parts_run(&parts);
}

/* x with zeros around, in the dtype that is computed. */
static int pad(const tarn_tensor *x, const struct conv *c, tarn_tensor **ret)
{
	struct tarn_layout l = *tarn_tensor_layout(x);
	_cleanup_tensor_ tarn_tensor *all = NULL, *rows = NULL, *middle = NULL;
	int last = l.ndim - 1, r;

	l.shape[last] += 2 * c->right.padding;
	if (last == 3)
		l.shape[2] += 2 * c->down.padding;
	r = tarn_tensor_zeros(c->dtype, l.ndim, l.shape, &all);
	if (r >= 0)
		r = tarn_tensor_narrow(
			all, last, c->right.padding, c->right.in, &rows);
	if (r >= 0 && last == 3)
		r = tarn_tensor_narrow(
			rows, 2, c->down.padding, c->down.in, &middle);
	if (r >= 0)
		r = tarn_copy(middle ?: rows, x, NULL, NULL);
	if (r >= 0)
		*ret = STEAL(all);
	return r;
}

static int64_t or_one(int64_t n)
{
	return n ? n : 1;
}

/* The axes of a shape of 3 or 4 dimensions. */
static void conv_axes(struct conv *c, const struct tarn_layout *x,
	const struct tarn_layout *w, const struct tarn_conv_options *o)
{
	int last = x->ndim - 1, at = x->ndim - 3;

	c->right = (struct axis) {x->shape[last], w->shape[last],
		or_one(o->stride[at]), o->padding[at], or_one(o->dilation[at]),
		0};
	c->down = (struct axis) {1, 1, 1, 0, 1, 0};
	if (last == 3)
		c->down = (struct axis) {x->shape[2], w->shape[2],
			or_one(o->stride[0]), o->padding[0],
			or_one(o->dilation[0]), 0};
}

static int check_conv(const struct tarn_layout *x, const struct tarn_layout *w,
	const struct tarn_layout *bias, int64_t groups)
{
	bool fit = x->ndim == w->ndim && (x->ndim == 3 || x->ndim == 4) &&
		   groups > 0 && w->shape[0] % groups == 0 &&
		   x->shape[1] % groups == 0 &&
		   x->shape[1] / groups == w->shape[1];

	if (!fit)
		return tarn_error_set(EINVAL,
			"conv: %s by a weight of %s in %lld groups; they must "
			"be [n, inputs, ...] and [outputs, inputs / groups, "
			"...] with one or two dimensions more",
			shape_words(x->ndim, x->shape).text,
			shape_words(w->ndim, w->shape).text, (long long)groups);
	if (bias && (bias->ndim != 1 || bias->shape[0] != w->shape[0]))
		return tarn_error_set(EINVAL,
			"conv: a bias of %s to a weight of %s; it must be "
			"[%lld]",
			shape_words(bias->ndim, bias->shape).text,
			shape_words(w->ndim, w->shape).text,
			(long long)w->shape[0]);
	return 0;
}

static int conv_open(struct conv *c, const tarn_tensor *x, const tarn_tensor *w,
	const tarn_tensor *bias, const struct tarn_conv_options *o)
{
	const struct tarn_layout *l = tarn_tensor_layout(x),
				 *wl = tarn_tensor_layout(w);
	int r = OPTIONS_CHECK("tarn_conv_options", o);

	*c = (struct conv) {.groups = or_one(o->groups)};
	if (r >= 0)
		r = check_conv(l, wl, bias ? tarn_tensor_layout(bias) : NULL,
			c->groups);
	if (r < 0)
		return r;
	conv_axes(c, l, wl, o);
	r = axis_open("conv", &c->right, false);
	if (r >= 0)
		r = axis_open("conv", &c->down, false);
	c->n = l->shape[0];
	c->inputs = wl->shape[1];
	c->outputs = wl->shape[0] / c->groups;
	return r;
}

/* Operands in memory: the weight and the bias are plain. */
struct conv_operands {
	struct source x, weight, bias;
};

static void close_operands(struct conv_operands *o)
{
	source_close(&o->x);
	source_close(&o->weight);
	source_close(&o->bias);
}

static int open_operands(struct conv *c, struct conv_operands *o,
	const tarn_tensor *x, const tarn_tensor *w, const tarn_tensor *bias)
{
	struct tarn_layout l;
	tarn_tensor *padded = NULL;
	int r = source_open("conv", x, &o->x);

	if (r >= 0 && (c->right.padding || c->down.padding)) {
		r = pad(o->x.tensor, c, &padded);
		if (r < 0)
			return r;
		source_close(&o->x);
		o->x = (struct source) {padded, padded};
	}
	if (r >= 0)
		r = source_open_plain("conv", w, c->dtype, &o->weight);
	if (r >= 0 && bias)
		r = source_open_plain("conv", bias, c->dtype, &o->bias);
	if (r < 0)
		return r;
	l = *tarn_tensor_layout(o->x.tensor);
	r = l.ndim == 3 ? tarn_layout_unsqueeze(&l, -2, &l) : 0;
	c->from = l.dtype;
	c->from_size = tarn_dtype_bits(l.dtype) / 8;
	memcpy(c->x_stride, l.stride, sizeof(c->x_stride));
	c->x = tarn_tensor_data(o->x.tensor);
	c->weight = tarn_tensor_data(o->weight.tensor);
	c->bias = bias ? tarn_tensor_data(o->bias.tensor) : NULL;
	return r;
}

int tarn_conv(const tarn_tensor *x, const tarn_tensor *weight,
	const tarn_tensor *bias, const struct tarn_conv_options *options,
	tarn_tensor **out)
{
	static const struct tarn_conv_options none;
	const tarn_tensor *operands[] = {x, weight, bias};
	__attribute__((cleanup(close_operands))) struct conv_operands o = {0};
	_cleanup_tensor_ tarn_tensor *wide = NULL;
	enum tarn_dtype dtype = TARN_F32;
	struct result result;
	struct conv c;
	int64_t shape[4];
	int r = conv_open(&c, x, weight, bias, options ?: &none), ndim;

	if (r >= 0 && c.down.out > INT_MAX / MAX(c.right.out, (int64_t)1))
		r = tarn_error_set(ENOTSUP,
			"conv: %lld windows of one picture; %d are the most",
			(long long)(c.down.out * c.right.out), INT_MAX);
	if (r >= 0)
		r = floats_meet("conv", operands, bias ? 3 : 2, &dtype);
	c.dtype = dtype_computed(dtype);
	c.size = tarn_dtype_bits(c.dtype) / 8;
	if (r >= 0)
		r = open_operands(&c, &o, x, weight, bias);
	if (r >= 0)
		r = blas_ready("conv");
	if (r < 0)
		return r;
	ndim = tarn_tensor_layout(x)->ndim;
	shape[0] = c.n;
	shape[1] = c.outputs * c.groups;
	shape[2] = c.down.out;
	shape[ndim - 1] = c.right.out;
	r = result_begin_plain(
		"conv", dtype, ndim, shape, operands, 3, out, &result);
	if (r >= 0 && c.dtype != dtype)
		r = result_new("conv", c.dtype, ndim, shape, &wide);
	if (r < 0)
		return result_end(&result, r);
	c.out = tarn_tensor_data(wide ?: result.work);
	if (c.n && c.outputs)
		r = run_tiles(&c);
	if (r >= 0 && wide)
		r = tarn_copy(result.work, wide, NULL, NULL);
	return result_end(&result, r);
}
