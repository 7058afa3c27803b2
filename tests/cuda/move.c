/* SPDX-License-Identifier: MIT */
/*
 * Moves by a device do what move_run does, bit for bit: random layouts in memory
 * of the device and in registered memory, dtypes of all kinds, with the kernels
 * as the stand-in runs them; which of them are copies of the driver's; and what
 * each failure says.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/cuda/kernel.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/moves.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/kit/move.h"
#include "tests/kit/tap.h"

#define NAMED(name) "tarn_" #name

/* At least one launch of it. */
static void used(const char *name)
{
	check(count_of(name) > 0, "%s was never launched", name);
}

/* ---- random moves -------------------------------------------------------- */

static void plain(void)
{
	static const char *const kernels[] = {"tarn_raw_1", "tarn_raw_2",
		"tarn_raw_4", "tarn_raw_8", "tarn_raw_16", "tarn_tile_1",
		"tarn_tile_2", "tarn_tile_4", "tarn_tile_8"};

	moves_begin();
	moves_plain((int)test_cases(3000));
	for (size_t i = 0; i < ARRAY_SIZE(kernels); i++)
		used(kernels[i]);
	moves_end();
}

static void converted(void)
{
	moves_begin();
	moves_converted((int)test_cases(4000));
	used("tarn_any");
	used("tarn_tile_any_1");
	used("tarn_tile_any_2");
	used("tarn_tile_any_4");
	used("tarn_tile_any_8");
	moves_end();
}

static void common_pairs(void)
{
	moves_begin();
	moves_common_pairs((int)test_cases(3600));
#define PAIR(src, dst)                                                         \
	used(NAMED(vector_##src##_##dst));                                     \
	used(NAMED(single_##src##_##dst));                                     \
	used(NAMED(tile_##src##_##dst));
	CUDA_PAIRS(PAIR)
#undef PAIR
	moves_end();
}

static void scaled(void)
{
	moves_begin();
	moves_scaled((int)test_cases(3000));
	moves_end();
}

/* ---- ways ---------------------------------------------------------------- */

/* Of shape [a, b, c], F32: with these strides. */
static struct tarn_layout layout(
	int64_t a, int64_t b, int64_t c, int64_t sa, int64_t sb, int64_t sc)
{
	return (struct tarn_layout) {.dtype = TARN_F32,
		.ndim = 3,
		.shape = {a, b, c},
		.stride = {sa, sb, sc}};
}

/* The calls of the driver that queue work. */
static const char *const calls[] = {"COPY", "COPY_2D", "COPY_3D", "LAUNCH"};

/* n calls of the one, and none of the others. */
static void moved(const char *way, unsigned n, struct tarn_layout dst,
	struct tarn_layout src)
{
	unsigned char *seen = malloc(MOVES_ROOM);
	struct kit_move_pair p = {.dst = dst, .src = src};
	unsigned before[ARRAY_SIZE(calls)];
	struct move move;
	int r = move_plan(&move, &dst, &src, NULL);

	check(r == 0, "a plan");
	kit_move_pair_fill(&p);
	device_put(moves_dst.at, p.dst_bytes, (size_t)p.dst_size, moves_stream);
	device_put(moves_src.at, p.src_bytes, (size_t)p.src_size, moves_stream);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		before[i] = (unsigned)count_of(calls[i]);
	r = moves_run(&move, moves_dst.at, moves_src.at);
	check(r == 0, "%s: %d, %s", way, r, r < 0 ? tarn_fail_message() : "");
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		unsigned times = (unsigned)count_of(calls[i]) - before[i];

		check(times == (strcmp(way, calls[i]) ? 0 : n),
			"wanted %s %u times, seen %s %u times", way, n,
			calls[i], times);
	}
	move_run(&move, p.wanted, p.src_bytes);
	device_get(seen, moves_dst.at, (size_t)p.dst_size, moves_stream);
	check(moves_same(&p, seen, false), "%s moves what it should", way);
	kit_move_pair_free(&p);
	free(seen);
}

static void ways(void)
{
	const struct tarn_layout packed = layout(4, 8, 128, 1024, 128, 1),
				 rows = layout(4, 8, 128, 1600, 200, 1),
				 slices = layout(4, 8, 128, 2000, 200, 1),
				 odd = layout(4, 8, 128, 1700, 200, 1),
				 many = layout(100, 8, 128, 1700, 200, 1),
				 packed_many =
					 layout(100, 8, 128, 1024, 128, 1),
				 still = layout(4, 8, 128, 0, 128, 1),
				 turned = layout(4, 8, 128, 1024, 1, 8),
				 apart = layout(4, 8, 128, 2048, 256, 2);

	moves_begin();
	moved("COPY", 1, packed, packed);
	moved("COPY_2D", 1, packed, rows);
	moved("COPY_2D", 1, rows, packed);
	moved("COPY_3D", 1, slices, packed);
	moved("COPY_3D", 1, packed, slices);
	moved("COPY_2D", 4, packed, odd);
	moved("COPY", 4, packed, still);
	if (cuda_kernel_image()) {
		moved("LAUNCH", 1, packed_many, many);
		moved("LAUNCH", 1, packed, turned);
		moved("LAUNCH", 1, apart, packed);
	}
	moves_end();
}

static void pitch(void)
{
	moves_begin();
	moved("LAUNCH", 1, layout(4, 8, 128, 1024, 128, 1),
		layout(4, 8, 128, 1600, 200, 1));
	moves_end();
}

/* ---- large nests --------------------------------------------------------- */

/* Kernels for 2^31 steps and more, in a small nest: element i of src, U8, is at
 * i; in dst, 4 bytes each, the dimensions have the opposite order. */
static void launch_long(enum cuda_kernel kernel, int dst_size, int src_size)
{
	struct cuda_nest nest = {.dst = moves_dst.at,
		.src = moves_src.at,
		.steps = 5 * 7 * 9,
		.n = 3,
		.dst_dtype = TARN_I32,
		.src_dtype = TARN_U8,
		.pivot = PIVOT_F64,
		.dst_size = (uint8_t)dst_size,
		.src_size = (uint8_t)src_size,
		.loop = {{.extent = 5, .dst = 4 * 63, .src = src_size},
			{.extent = 7, .dst = 4 * 9, .src = 5 * src_size},
			{.extent = 9, .dst = 4, .src = 35 * src_size}}};
	unsigned char bytes[4 * 315];
	int32_t seen[315], wanted;
	bool same_all = true;

	for (int i = 0; i < 4 * 315; i++)
		bytes[i] = (unsigned char)kit_move_below(256);
	device_put(moves_src.at, bytes, sizeof(bytes), moves_stream);
	check(cuda_kernel_launch(device_driver, device_used, kernel, &nest,
		      moves_stream) == 0,
		"a launch");
	device_get(seen, moves_dst.at, sizeof(seen), moves_stream);
	for (int i = 0; i < 315; i++) {
		int at = i % 5 * 63 + i / 5 % 7 * 9 + i / 35;

		wanted = bytes[i];
		if (src_size == 4)
			memcpy(&wanted, bytes + 4 * i, 4);
		same_all = same_all && seen[at] == wanted;
	}
	check(same_all, "kernel %d", kernel);
}

static void large(void)
{
	moves_begin();
	launch_long(CUDA_K_raw_4_long, 4, 4);
	launch_long(CUDA_K_any_long, 4, 1);
	moves_end();
}

/* ---- registered memory --------------------------------------------------- */

static void registered(void)
{
	const struct tarn_layout packed = layout(40, 8, 16, 128, 16, 1),
				 turned = layout(40, 8, 16, 128, 1, 8);
	CUdeviceptr at;
	struct move move;
	float *host;
	int r;

	moves_begin();
	host = mmap(NULL, MOVES_ROOM, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	device_must(device_driver->host_register(host, MOVES_ROOM,
			    CU_MEMHOSTREGISTER_PORTABLE |
				    CU_MEMHOSTREGISTER_DEVICEMAP),
		"registering");
	device_must(device_driver->host_device_pointer(&at, host, 0), "at");
	for (int i = 0; i < 40 * 8 * 16; i++)
		host[i] = (float)i;
	r = move_plan(&move, &turned, &packed, NULL);
	check(r == 0 && moves_run(&move, moves_dst.at, at) == 0,
		"to the device");
	r = move_plan(&move, &packed, &turned, NULL);
	check(r == 0 && moves_run(&move, at + (MOVES_ROOM / 2), moves_dst.at) ==
				0,
		"and back");
	device_must(device_driver->stream_synchronize(moves_stream), "waiting");
	check(!memcmp(host, host + MOVES_ROOM / 8, sizeof(float) * 40 * 8 * 16),
		"it is what it was");
	device_must(device_driver->host_unregister(host), "unregistering");
	munmap(host, MOVES_ROOM);
	moves_end();
}

/* ---- threads ------------------------------------------------------------- */

#define THREADS 4
#define SHARE 4096 /* elements of a thread */

/* All load the module at once, and then launch in streams of their own. */
static void *convert_many(void *arg)
{
	const int64_t at = *(const int64_t *)arg;
	const struct tarn_layout to = {.dtype = TARN_BF16,
		.ndim = 1,
		.shape = {SHARE},
		.stride = {1},
		.offset = at};
	struct tarn_layout from = to;
	struct move move;
	CUstream own;
	int r;

	if (cuda_device_enter(device_driver, device_used) < 0)
		bail("%s", tarn_fail_message());
	device_must(device_driver->stream_create(&own, CU_STREAM_NON_BLOCKING),
		"a stream");
	from.dtype = TARN_F32;
	r = move_plan(&move, &to, &from, NULL);
	for (int i = 0; r >= 0 && i < 50; i++)
		r = cuda_move(device_driver, device_used, &move, moves_dst.at,
			moves_src.at, 0, own);
	if (r < 0)
		bail("%s", tarn_fail_message());
	device_must(device_driver->stream_synchronize(own), "waiting");
	device_must(device_driver->stream_destroy(own), "its end");
	cuda_device_leave(device_driver);
	return NULL;
}

static void threads(void)
{
	static uint32_t values[THREADS * SHARE];
	static uint16_t seen[THREADS * SHARE];
	pthread_t thread[THREADS];
	int64_t first[THREADS];
	bool right = true;

	moves_begin();
	for (uint32_t i = 0; i < THREADS * SHARE; i++)
		values[i] = i << 16;
	device_put(moves_src.at, values, sizeof(values), moves_stream);
	device_must(device_driver->stream_synchronize(moves_stream), "waiting");
	for (int i = 0; i < THREADS; i++) {
		first[i] = i * SHARE;
		if (pthread_create(&thread[i], NULL, convert_many, &first[i]))
			bail("no thread");
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	device_get(seen, moves_dst.at, sizeof(seen), moves_stream);
	for (int i = 0; i < THREADS * SHARE; i++)
		right = right && seen[i] == i;
	check(right, "each thread's elements are there");
	check(count_of("MODULE_LOAD") == 1, "the module was loaded %d times",
		(int)count_of("MODULE_LOAD"));
	moves_end();
}

/* ---- failures ------------------------------------------------------------ */

/* n elements; steps of dst. */
static int move_of(int dst, int src, int64_t n, int64_t step)
{
	struct tarn_layout from = {
		.dtype = (uint8_t)src, .ndim = 1, .shape = {n}, .stride = {1}};
	struct tarn_layout to = from;
	struct move move;
	int r;

	to.dtype = (uint8_t)dst;
	to.stride[0] = step;
	to.offset = step < 0 ? -step * (n - 1) : 0;
	r = move_plan(&move, &to, &from, NULL);
	return r < 0 ? r : moves_run(&move, moves_dst.at, moves_src.at);
}

static void fails(const char *part, int wanted)
{
	moves_begin();
	check_failed(wanted, part, move_of(TARN_F32, TARN_F16, 100, 1),
		"a conversion");
	check_failed(wanted, part, move_of(TARN_F32, TARN_F32, 100, -1),
		"a row backwards");
	check(move_of(TARN_F32, TARN_F32, 100, 1) == 0, "a copy");
	moves_end();
}

static void no_module(void)
{
	fails("CUDA_ERROR_NO_BINARY_FOR_GPU", -ENOTSUP);
}

static void no_memory(void)
{
	fails("CUDA_ERROR_OUT_OF_MEMORY", -ENOMEM);
}

static void no_launch(void)
{
	fails("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", -EIO);
}

static void no_function(void)
{
	fails("the kernel tarn_", -EIO);
}

/* Short rows go the driver's way then. */
static void short_rows(void)
{
	moves_begin();
	moved("COPY_2D", 1, layout(1, 8, 16, 128, 16, 1),
		layout(1, 8, 16, 200, 20, 1));
	moves_end();
}

static void no_copy(void)
{
	moves_begin();
	check_failed(-EIO, "copying 400 bytes",
		move_of(TARN_F32, TARN_F32, 100, 1), "a copy");
	case_set("COPY", "0");
	moves_end();
}

static void not_done(void)
{
	static double scale[100];
	const struct tarn_copy_options options = {
		.scale = scale, .channels = 100};
	struct tarn_layout l = {
		.dtype = TARN_F32, .ndim = 1, .shape = {100}, .stride = {1}};
	struct move move;
	int r;

	moves_begin();
	check_failed(-ENOTSUP, "F32 to F4", move_of(TARN_F4, TARN_F32, 100, 1),
		"to a sub-byte dtype");
	check_failed(-ENOTSUP, "whole bytes", move_of(TARN_F4, TARN_F4, 50, 2),
		"parts of bytes");
	r = move_plan(&move, &l, &l, &options);
	check(r == 0, "a plan");
	check_failed(-EINVAL, "cuda_move_factors",
		cuda_move(device_driver, device_used, &move, moves_dst.at,
			moves_src.at, 0, moves_stream),
		"no factors");
	l.shape[0] = 0;
	r = move_plan(&move, &l, &l, NULL);
	check(r == 0 && moves_run(&move, moves_dst.at, moves_src.at) == 0,
		"without elements");
	moves_end();
}

/* ---- all ----------------------------------------------------------------- */

static const struct case_ cases[] = {
	{"plain", "elements are moved as they are", plain, {"LATE=0"}},
	{"converted", "elements are converted", converted, {"LATE=0"}},
	{"common_pairs", "common conversions have their kernels", common_pairs,
		{"LATE=0"}},
	{"scaled", "elements are scaled by their channels", scaled, {"LATE=0"}},
	{"large", "kernels for large nests give the same", large, {NULL}},
	{"ways", "long rows are copied by the driver", ways, {NULL}},
	{"pitch", "a kernel copies what the driver refuses", pitch,
		{"PITCH=256"}},
	{"registered", "memory of the host may be a side", registered, {NULL}},
	{"threads", "threads share the module", threads, {"LATE=0"}},
	{"no_module", "kernels may not fit a device", no_module,
		{"MODULE_LOAD=209"}},
	{"no_memory", "a module may not fit into memory", no_memory,
		{"MODULE_LOAD=2"}},
	{"no_function", "a kernel may be missing", no_function,
		{"MODULE_FUNCTION=500"}},
	{"no_launch", "a launch may fail", no_launch, {"LAUNCH=701"}},
	{"short_rows", "without kernels the driver copies short rows",
		short_rows, {"MODULE_LOAD=209"}},
	{"no_copy", "a copy of the driver's may fail", no_copy, {"COPY=999"}},
	{"not_done", "what devices do not do has a sentence", not_done, {NULL}},
};

/* Where the build has no kernels. */
static void no_kernels(void)
{
	fails("built without kernels", -ENOTSUP);
}

static const struct case_ without[] = {
	{"no_kernels", "what needs a kernel says that there is none",
		no_kernels, {NULL}},
	{"ways", "long rows are copied by the driver", ways, {NULL}},
	{"short_rows", "short rows are, too", short_rows, {NULL}},
	{"no_copy", "a copy of the driver's may fail", no_copy, {"COPY=999"}},
	{"not_done", "what devices do not do has a sentence", not_done, {NULL}},
};

int main(int argc, char **argv)
{
	if (cuda_kernel_image())
		return cases_main(argc, argv, cases, (int)ARRAY_SIZE(cases));
	return cases_main(argc, argv, without, (int)ARRAY_SIZE(without));
}
