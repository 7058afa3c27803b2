/* SPDX-License-Identifier: MIT */
/*
 * The kernels on the real device: random moves give the bits that the CPU's
 * give. Then how fast some are, beside a copy of the driver's from memory of the
 * device to other memory of it: bytes read and written in a second. Without a
 * device, or without kernels in the build, it is skipped.
 */
#include "base/fail.h"
#include "lib/cuda/kernel.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/moves.h"
#include "tests/gpu/real.h"
#include "tests/kit/tap.h"

#define ROUNDS 20
#define LARGE ((size_t)1 << 29)

static struct device_memory dst, src;

static void compare(const char *what, void (*fn)(int n), int n)
{
	int before = check_failures();

	fn(n);
	ok(check_failures() == before, "%s", what);
}

/* ---- speed --------------------------------------------------------------- */

static double time_of(const struct move *move)
{
	double start = 0;

	for (int i = -1; i < ROUNDS; i++) {
		if (i == 0)
			start = seconds();
		if (moves_run(move, dst.at, src.at) < 0)
			bail("%s", tarn_fail_message());
		if (i < 0 || i == ROUNDS - 1)
			device_must(
				device_driver->stream_synchronize(moves_stream),
				"waiting");
	}
	return (seconds() - start) / ROUNDS;
}

static double speed(const struct tarn_layout *to,
	const struct tarn_layout *from, const struct tarn_copy_options *options)
{
	double bytes = (double)tarn_layout_nbytes(to) +
		       (double)tarn_layout_nbytes(from);
	struct move move;

	if (move_plan(&move, to, from, options) < 0)
		bail("%s", tarn_fail_message());
	return bytes / time_of(&move) / 1e9;
}

static struct tarn_layout packed(int dtype, int64_t a, int64_t b, int64_t c)
{
	return (struct tarn_layout) {.dtype = (uint8_t)dtype,
		.ndim = 3,
		.shape = {a, b, c},
		.stride = {b * c, c, 1}};
}

/* The two last dimensions in the other order in memory. */
static struct tarn_layout turned(int dtype, int64_t a, int64_t b, int64_t c)
{
	struct tarn_layout l = packed(dtype, a, b, c);

	l.stride[1] = 1;
	l.stride[2] = b;
	return l;
}

static void show(const char *what, const struct tarn_layout *to,
	const struct tarn_layout *from, const struct tarn_copy_options *options,
	double most)
{
	double s = speed(to, from, options);

	diag("%-44s %7.0f GB/s, %.2f of a copy", what, s, s / most);
}

static void speeds(void)
{
	static const double scale[3] = {0.01, 0.02, 0.03},
			    bias[3] = {-1, -2, -3};
	const struct tarn_copy_options normalised = {
		.scale = scale, .bias = bias, .channels = 3, .channel_dim = 1};
	struct tarn_layout f32 = packed(TARN_F32, 16, 2048, 2048),
			   bf16 = packed(TARN_BF16, 16, 2048, 2048),
			   f32_turned = turned(TARN_F32, 16, 2048, 2048),
			   bf16_turned = turned(TARN_BF16, 16, 2048, 2048),
			   u8_turned = turned(TARN_U8, 16, 2048, 2048),
			   e4m3 = packed(TARN_F8_E4M3, 16, 2048, 2048),
			   u8 = packed(TARN_U8, 16, 2048, 2048),
			   i32 = packed(TARN_I32, 16, 2048, 2048),
			   hwc = turned(TARN_U8, 64, 3, 1 << 18),
			   chw = packed(TARN_F32, 64, 3, 1 << 18), every = f32,
			   half = bf16;
	double most = speed(&f32, &f32, NULL);

	every.shape[2] = half.shape[2] = 1024;
	every.stride[2] = 2;
	half.stride[1] = 1024;
	half.stride[0] = 1024 * 2048;
	diag("%-44s %7.0f GB/s", "a copy of the driver's, F32", most);
	show("F32 to BF16", &bf16, &f32, NULL, most);
	show("BF16 to F32", &f32, &bf16, NULL, most);
	show("F8_E4M3 to BF16", &bf16, &e4m3, NULL, most);
	show("F32 to I32, a pair without a kernel", &i32, &f32, NULL, most);
	show("F32 transposed", &f32, &f32_turned, NULL, most);
	show("BF16 transposed", &bf16, &bf16_turned, NULL, most);
	show("U8 transposed", &u8, &u8_turned, NULL, most);
	show("F32 transposed to BF16", &bf16, &f32_turned, NULL, most);
	show("every second F32 to BF16", &half, &every, NULL, most);
	show("U8 HWC to F32 CHW, normalised", &chw, &hwc, &normalised, most);
}

int main(void)
{
	const char *why;

	if (real_load(&why) == 0)
		skip_all("no device: %s", why);
	if (!cuda_kernel_image())
		skip_all("tarn was built without kernels for GPUs");
	moves_begin();
	compare("bytes are moved as they are", moves_plain, 3000);
	compare("elements are converted", moves_converted, 4000);
	compare("so are those of common pairs", moves_common_pairs, 3600);
	compare("elements are scaled by their channels", moves_scaled, 3000);
	dst = device_memory_new(LARGE);
	src = device_memory_new(LARGE);
	speeds();
	device_memory_free(&dst);
	device_memory_free(&src);
	moves_end();
	return done(4);
}
