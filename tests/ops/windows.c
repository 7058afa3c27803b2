// SPDX-License-Identifier: MIT
/*
 * Convolutions and pooling are those of a plain loop over windows, bit by bit,
 * with all strides, paddings, dilations, groups and layouts.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tests/kit/tap.h"
#include "tests/ops/views.h"

#define CASES 2000

/* One dimension is two, of which the first has one element. */
struct window_case {
	tarn_tensor *x, *weight, *bias;
	int axes;
	int64_t x_shape[4], shape[4]; /* shape: of the result */
	int64_t kernel[2], stride[2], padding[2], dilation[2], groups;
	bool ceil, own;
	enum tarn_dtype dtype;
};

static void must(int r)
{
	if (r < 0)
		bail("%s", tarn_error_message());
}

static bool may(unsigned one_in)
{
	return !view_below(one_in);
}

/* Drops the dimension that was added. */
static tarn_tensor *random_tensor(const struct window_case *c,
	enum tarn_dtype dtype, const int64_t *shape)
{
	int64_t line[] = {shape[0], shape[1], shape[3]};

	return view_random(dtype, c->axes + 2, c->axes == 1 ? line : shape,
		VIEW_SKEW | (may(5) ? VIEW_REPEATED : 0));
}

static void random_axes(struct window_case *c, bool pool)
{
	c->axes = 1 + (int)view_below(2);
	c->x_shape[0] = (int64_t)view_below(4);
	for (int i = 0; i < 2; i++) {
		int64_t span;

		c->kernel[i] = 1 + (int64_t)view_below(4);
		c->stride[i] = 1 + (int64_t)view_below(4);
		c->dilation[i] = may(3) ? 2 : 1;
		c->padding[i] = may(2) ? (int64_t)view_below(4) : 0;
		if (pool && c->padding[i] > c->kernel[i] / 2)
			c->padding[i] = c->kernel[i] / 2;
		if (i == 0 && c->axes == 1) {
			c->kernel[0] = c->stride[0] = c->dilation[0] = 1;
			c->padding[0] = 0;
		}
		span = c->dilation[i] * (c->kernel[i] - 1) + 1;
		c->x_shape[2 + i] =
			span + (int64_t)view_below(12) - 2 * c->padding[i];
		if (c->x_shape[2 + i] < 1)
			c->x_shape[2 + i] = span;
		if (i == 0 && c->axes == 1)
			c->x_shape[2] = 1;
	}
	if (c->axes == 2 ? may(300) : may(100))
		c->x_shape[3] = 700 + (int64_t)view_below(400);
	if (pool && may(20))
		for (int i = 0; i < 2; i++) {
			/* One window, of all that there is. */
			c->padding[i] = 0;
			c->dilation[i] = 1;
			c->kernel[i] = c->x_shape[2 + i];
		}
}

static void set_result(struct window_case *c)
{
	for (int i = 0; i < 2; i++) {
		int64_t room = c->x_shape[2 + i] + 2 * c->padding[i] -
			       c->dilation[i] * (c->kernel[i] - 1) - 1;
		int64_t *out = &c->shape[2 + i];

		*out = (room + (c->ceil ? c->stride[i] - 1 : 0)) /
			       c->stride[i] +
		       1;
		if (c->ceil && (*out - 1) * c->stride[i] >=
				       c->x_shape[2 + i] + c->padding[i])
			--*out;
	}
	c->shape[0] = c->x_shape[0];
}

/* ---- plain loops -------------------------------------------------------------- */

/* The place in x of a window's element, of the plane; -1: in the padding. */
static int64_t element(const struct window_case *c, const int64_t *window,
	const int64_t *place)
{
	int64_t at[2];

	for (int i = 0; i < 2; i++) {
		at[i] = window[i] * c->stride[i] - c->padding[i] +
			place[i] * c->dilation[i];
		if (at[i] < 0 || at[i] >= c->x_shape[2 + i])
			return -1;
	}
	return at[0] * c->x_shape[3] + at[1];
}

static double conv_element(const struct window_case *c, const double *x,
	const double *w, int64_t image, int64_t output, const int64_t *window)
{
	int64_t inputs = c->x_shape[1] / c->groups;
	int64_t group = output / (c->shape[1] / c->groups);
	int64_t plane = c->x_shape[2] * c->x_shape[3], place[2];
	double sum = 0;

	for (int64_t i = 0; i < inputs; i++)
		for (place[0] = 0; place[0] < c->kernel[0]; place[0]++)
			for (place[1] = 0; place[1] < c->kernel[1];
				place[1]++) {
				int64_t at = element(c, window, place);
				int64_t channel = image * c->x_shape[1] +
						  group * inputs + i;
				double weight = w[((output * inputs + i) *
								  c->kernel[0] +
							  place[0]) *
							  c->kernel[1] +
						  place[1]];

				if (at >= 0)
					sum += x[channel * plane + at] * weight;
			}
	return sum;
}

static double pool_element(const struct window_case *c, bool mean,
	const double *plane, const int64_t *window)
{
	double sum = 0, largest = c->dtype == TARN_BOOL ? 0 : -INFINITY;
	int64_t place[2], n = 0, all = 1;

	for (place[0] = 0; place[0] < c->kernel[0]; place[0]++)
		for (place[1] = 0; place[1] < c->kernel[1]; place[1]++) {
			int64_t at = element(c, window, place);

			if (at < 0)
				continue;
			sum += plane[at];
			largest = fmax(largest, plane[at]);
			n++;
		}
	for (int i = 0; i < 2; i++) {
		int64_t begin = window[i] * c->stride[i] - c->padding[i];
		int64_t end = begin + c->kernel[i];
		int64_t most = c->x_shape[2 + i] + c->padding[i];

		all *= (end < most ? end : most) - begin;
	}
	return mean ? sum / (double)(c->own ? n : all) : largest;
}

static int64_t step(const int64_t *shape, int64_t *index)
{
	for (int i = 3; i >= 0; i--) {
		if (++index[i] < shape[i])
			return 1;
		index[i] = 0;
	}
	return 0;
}

/* way: 0 is the convolution, 1 the largest, 2 the mean. */
static double *plain_loop(const struct window_case *c, int way)
{
	int64_t n = c->shape[0] * c->shape[1] * c->shape[2] * c->shape[3];
	int64_t plane = c->x_shape[2] * c->x_shape[3], index[4] = {0};
	double *x = view_values(c->x), *ret = calloc((size_t)n + 1, 8);
	double *w = way ? NULL : view_values(c->weight);
	double *bias = c->bias ? view_values(c->bias) : NULL;

	for (int64_t i = 0; i < n; i++, step(c->shape, index)) {
		if (way)
			ret[i] = pool_element(c, way == 2,
				x + (index[0] * c->shape[1] + index[1]) * plane,
				index + 2);
		else
			ret[i] = conv_element(c, x, w, index[0], index[1],
					 index + 2) +
				 (bias ? bias[index[1]] : 0);
	}
	free(x);
	free(w);
	free(bias);
	return ret;
}

/* ---- cases ------------------------------------------------------------------------ */

static void copy_from(int64_t *to, const int64_t *from, int axes)
{
	to[0] = from[2 - axes];
	to[1] = axes == 1 ? 0 : from[1];
}

static int run(const struct window_case *c, int way, tarn_tensor **out)
{
	struct tarn_conv_options conv = {.groups = c->groups};
	struct tarn_pool_options pool = {
		.flags = (c->ceil ? TARN_POOL_CEIL : 0) |
			 (c->own ? TARN_POOL_NOT_PADDING : 0)};

	copy_from(conv.stride, c->stride, c->axes);
	copy_from(conv.padding, c->padding, c->axes);
	copy_from(conv.dilation, c->dilation, c->axes);
	if (!way)
		return tarn_conv(c->x, c->weight, c->bias, &conv, out);
	copy_from(pool.kernel, c->kernel, c->axes);
	copy_from(pool.stride, c->stride, c->axes);
	copy_from(pool.padding, c->padding, c->axes);
	copy_from(pool.dilation, c->dilation, c->axes);
	return tarn_pool(
		way == 1 ? TARN_POOL_MAX : TARN_POOL_MEAN, c->x, &pool, out);
}

static void say(const struct window_case *c, const char *what)
{
	char text[200];

	tarn_layout_format(tarn_tensor_layout(c->x), text, sizeof(text));
	diag("%s of x %s: %s", what, text, tarn_error_message());
	if (c->weight) {
		tarn_layout_format(
			tarn_tensor_layout(c->weight), text, sizeof(text));
		diag("weight %s in %d groups", text, (int)c->groups);
	}
	for (int i = 2 - c->axes; i < 2; i++)
		diag("kernel %d, stride %d, padding %d, dilation %d",
			(int)c->kernel[i], (int)c->stride[i],
			(int)c->padding[i], (int)c->dilation[i]);
}

static bool judge(const struct window_case *c, int way)
{
	int64_t line[] = {c->shape[0], c->shape[1], c->shape[3]};
	const int64_t *shape = c->axes == 1 ? line : c->shape;
	double *values = plain_loop(c, way);
	tarn_tensor *wanted = view_of(c->dtype, c->axes + 2, shape, values);
	tarn_tensor *to = NULL, *out;
	struct view_before before = {0};
	bool good;

	if (may(2))
		to = view_random(c->dtype, c->axes + 2, shape, VIEW_SKEW);
	if (to)
		before = view_before(to);
	out = to;
	good = run(c, way, &out) == 0 && (!to || out == to);
	if (good)
		good = to ? view_written(before, to, wanted)
			  : tarn_tensor_equal(out, wanted) == 1;
	else
		free(before.bytes);
	if (!good)
		say(c, (const char *[]) {"conv", "largest", "mean"}[way]);
	tarn_tensor_unref(out);
	tarn_tensor_unref(wanted);
	free(values);
	return good;
}

static const enum tarn_dtype floats[] = {
	TARN_F32, TARN_F32, TARN_F32, TARN_F64, TARN_F16, TARN_BF16};

static void random_conv(struct window_case *c)
{
	int64_t weight[4], outputs;

	random_axes(c, false);
	c->dtype = floats[view_below(6)];
	c->groups = 1 + (int64_t)view_below(3);
	c->x_shape[1] = c->groups * (1 + (int64_t)view_below(4));
	outputs = c->groups * (1 + (int64_t)view_below(5));
	weight[0] = c->shape[1] = outputs;
	weight[1] = c->x_shape[1] / c->groups;
	weight[2] = c->kernel[0];
	weight[3] = c->kernel[1];
	c->x = random_tensor(c, c->dtype, c->x_shape);
	c->weight = random_tensor(c, c->dtype, weight);
	if (may(2))
		c->bias = view_random(c->dtype, 1, weight, 0);
}

static void random_pool(struct window_case *c, int way)
{
	static const enum tarn_dtype integers[] = {
		TARN_U8, TARN_I8, TARN_I16, TARN_I32, TARN_I64, TARN_BOOL};

	random_axes(c, true);
	c->dtype = way == 1 && may(3) ? integers[view_below(6)]
				      : floats[view_below(6)];
	c->ceil = may(2);
	c->own = may(2);
	if (way == 2)
		c->dilation[0] = c->dilation[1] = 1;
	c->x_shape[1] = c->shape[1] = 1 + (int64_t)view_below(4);
	c->x = random_tensor(c, c->dtype, c->x_shape);
}

static void test_random(uint64_t seed, int way)
{
	static const char *const names[] = {"convolutions",
		"poolings by the largest", "poolings by the mean"};
	unsigned n = test_cases(CASES), wrong = 0;

	for (unsigned i = 0; i < n && wrong < 5; i++) {
		struct window_case c = {0};

		view_seed(seed + i);
		must(tarn_ops_set_threads(1 + (int)(i % 3)));
		if (way)
			random_pool(&c, way);
		else
			random_conv(&c);
		set_result(&c);
		if (!judge(&c, way)) {
			wrong++;
			diag("that was seed %llu",
				(unsigned long long)(seed + i));
		}
		tarn_tensor_unref(c.x);
		tarn_tensor_unref(c.weight);
		tarn_tensor_unref(c.bias);
	}
	is_int(0, wrong, "%u random %s are those of a plain loop", n,
		names[way]);
}

/* ---- what is refused ------------------------------------------------------------ */

static tarn_tensor *parsed(const char *spec)
{
	struct tarn_layout l;
	tarn_tensor *t;

	must(tarn_layout_parse(spec, &l));
	must(tarn_tensor_zeros(l.dtype, l.ndim, l.shape, &t));
	return t;
}

static void conv_refused(const char *part, const char *x, const char *weight,
	const char *bias, struct tarn_conv_options options)
{
	struct window_case c = {.x = parsed(x),
		.weight = parsed(weight),
		.bias = bias ? parsed(bias) : NULL};
	tarn_tensor *out = NULL;

	is_int(-EINVAL, tarn_conv(c.x, c.weight, c.bias, &options, &out),
		"refused: %s", part);
	has_str(part, tarn_error_message(), "the sentence says: %s", part);
	tarn_tensor_unref(c.x);
	tarn_tensor_unref(c.weight);
	tarn_tensor_unref(c.bias);
}

static void pool_refused(const char *part, enum tarn_pool_kind kind,
	const char *x, struct tarn_pool_options options)
{
	tarn_tensor *t = parsed(x), *out = NULL;

	is_int(-EINVAL, tarn_pool(kind, t, &options, &out), "refused: %s",
		part);
	has_str(part, tarn_error_message(), "the sentence says: %s", part);
	tarn_tensor_unref(t);
}

static void test_refused(void)
{
	struct tarn_conv_options none = {0};

	conv_refused("conv: [1, 4, 9] by a weight of [2, 3, 3] in 1 groups",
		"F32[1,4,9]", "F32[2,3,3]", NULL, none);
	conv_refused("conv: of I64; cast it to F32", "I64[1,4,9]", "I64[2,4,3]",
		NULL, none);
	conv_refused("a bias of [3] to a weight of [2, 4, 3]; it must be [2]",
		"F32[1,4,9]", "F32[2,4,3]", "F32[3]", none);
	conv_refused("windows of 5 elements do not fit into 4, with a padding "
		     "of 0",
		"F32[1,4,4]", "F32[2,4,5]", NULL, none);
	conv_refused("a stride of -1", "F32[1,4,9]", "F32[2,4,3]", NULL,
		(struct tarn_conv_options) {.stride = {-1}});
	conv_refused("reserved", "F32[1,4,9]", "F32[2,4,3]", NULL,
		(struct tarn_conv_options) {.reserved = {1}});
	pool_refused("pool: of [4, 9]; it must be [n, channels, length]",
		TARN_POOL_MAX, "F32[4,9]",
		(struct tarn_pool_options) {.kernel = {2}});
	pool_refused("pool: of I32; cast it to F32", TARN_POOL_MEAN,
		"I32[1,4,9]", (struct tarn_pool_options) {.kernel = {2}});
	pool_refused("a kernel of 0", TARN_POOL_MAX, "F32[1,4,9]",
		(struct tarn_pool_options) {0});
	pool_refused("a padding of 2; it may be half of the kernel, 3",
		TARN_POOL_MAX, "F32[1,4,9]",
		(struct tarn_pool_options) {.kernel = {3}, .padding = {2}});
	pool_refused("a dilation of 2; means have none", TARN_POOL_MEAN,
		"F32[1,4,9]",
		(struct tarn_pool_options) {.kernel = {3}, .dilation = {2}});
	pool_refused("there is no kind 0 with the flags 0x10", TARN_POOL_MAX,
		"F32[1,4,9]",
		(struct tarn_pool_options) {.kernel = {3}, .flags = 16});
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 40000;

	for (int way = 0; way < 3; way++)
		test_random(seed, way);
	test_refused();
	return done(27);
}
