/* SPDX-License-Identifier: MIT */
/* What goes wrong between a device and those who use it at the same time, or
 * ask for what it cannot do. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/dlpack_abi.h>
#include <tarn/tarn.h>

#include "base/checked.h"
#include "lib/cuda/memory.h"
#include "tests/cuda/cases.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define PATIENCE_S 60.0

static struct tarn_cuda_device gpu;

static void find(void)
{
	must(tarn_cuda_device("0", &gpu));
}

static tarn_tensor *on_device(enum tarn_dtype dtype, int64_t n)
{
	tarn_tensor *t;

	must(tarn_cuda_zeros(&gpu, dtype, 1, &n, &t));
	return t;
}

/* ---- conversions that a device does not do ------------------------------- */

static void check_scaled(int64_t channels, bool from_host)
{
	const int64_t shape[] = {2, channels};
	double *scale = calloc((size_t)channels, sizeof(*scale));
	struct tarn_copy_options options = {
		.channel_dim = 1, .channels = channels, .scale = scale};
	tarn_tensor *src, *there, *dst, *got, *wanted;

	if (!scale)
		bail("out of memory");
	for (int64_t i = 0; i < channels; i++)
		scale[i] = (double)(i % 100);
	must(tarn_tensor_full(TARN_F32, 2, shape, 3, &src));
	must(tarn_tensor_zeros(TARN_F32, 2, shape, &wanted));
	must(tarn_tensor_zeros(TARN_F32, 2, shape, &got));
	must(tarn_copy(wanted, src, &options, NULL));
	must(tarn_tensor_to_device(src, &gpu, NULL, &there));
	must(tarn_cuda_zeros(&gpu, TARN_F32, 2, shape, &dst));
	must(tarn_copy(dst, from_host ? src : there, &options, NULL));
	must(tarn_copy(got, dst, NULL, NULL));
	check(must(tarn_tensor_equal(got, wanted)) == 1,
		"%lld channels are scaled, %s", (long long)channels,
		from_host ? "from memory" : "on the device");
	tarn_tensor_unref(src);
	tarn_tensor_unref(there);
	tarn_tensor_unref(dst);
	tarn_tensor_unref(got);
	tarn_tensor_unref(wanted);
	free(scale);
}

static void channels(void)
{
	static const int64_t counts[] = {60, 5000, 16384, 300000};

	find();
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		check_scaled(counts[i], false);
		check_scaled(counts[i], true);
	}
}

/* Within the device, and out of it. */
static void check_convert(enum tarn_dtype to, enum tarn_dtype from)
{
	const int64_t n = 100000;
	tarn_tensor *src, *there, *dst, *got, *wanted;

	must(tarn_tensor_arange(from, 0, 1, 1.0 / n, &src));
	must(tarn_tensor_zeros(to, 1, &n, &wanted));
	must(tarn_tensor_zeros(to, 1, &n, &got));
	must(tarn_copy(wanted, src, NULL, NULL));
	must(tarn_tensor_to_device(src, &gpu, NULL, &there));
	must(tarn_cuda_zeros(&gpu, to, 1, &n, &dst));
	must(tarn_copy(dst, there, NULL, NULL));
	must(tarn_copy(got, dst, NULL, NULL));
	check(must(tarn_tensor_equal(got, wanted)) == 1,
		"%s to %s on the device", tarn_dtype_name(from),
		tarn_dtype_name(to));
	must(tarn_copy(got, there, NULL, NULL));
	check(must(tarn_tensor_equal(got, wanted)) == 1,
		"%s to %s from the device", tarn_dtype_name(from),
		tarn_dtype_name(to));
	tarn_tensor_unref(src);
	tarn_tensor_unref(there);
	tarn_tensor_unref(dst);
	tarn_tensor_unref(got);
	tarn_tensor_unref(wanted);
}

static void conversions(void)
{
	find();
	check_convert(TARN_F32, TARN_F16);
	check_convert(TARN_BF16, TARN_F64);
	check_convert(TARN_F4, TARN_F32);
	check_convert(TARN_F6_E2M3, TARN_F32);
}

static void packed(void)
{
	tarn_tensor *a, *b;

	find();
	a = on_device(TARN_F6_E2M3, 100000000);
	b = on_device(TARN_F6_E2M3, 100000000);
	must(tarn_copy(b, a, NULL, NULL));
	check(true, "elements of 6 bits, more than a slice");
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
}

/* ---- memory of another device -------------------------------------------- */

static void check_import(const struct tarn_cuda_device *device, int fd,
	int wanted, const char *part, const char *what)
{
	struct cuda_memory *memory = NULL;
	int r = cuda_memory_import(device->uuid, fd, 4 << 20, &memory);

	if (wanted < 0)
		check_failed(wanted, part, r, what);
	else
		check(r == 0, "%s", what);
	if (r >= 0)
		cuda_memory_free(memory);
}

static void another(void)
{
	struct tarn_cuda_device other;
	struct cuda_memory *memory;
	int fd;

	find();
	must(tarn_cuda_device("1", &other));
	must(cuda_memory_new(gpu.uuid, 4 << 20, &memory));
	must(cuda_memory_export(memory, &fd));
	check_import(&gpu, fd, 0, NULL, "memory is imported on its device");
	check_import(&other, fd, -EINVAL, "is of device 0, not of device 1",
		"memory of another device than its publisher says is refused");
	case_set("MEMORY_PROPERTIES", "801");
	check_import(&gpu, fd, 0, NULL,
		"a driver that tells no properties is believed");
	case_set("MEMORY_PROPERTIES", "999");
	check_import(&gpu, fd, -EIO, "asking for the place of",
		"another error of the driver ends the import");
	close(fd);
	cuda_memory_free(memory);
}

/* ---- memory that goes away ----------------------------------------------- */

static const int64_t size = 4 << 20;

static void *copy_there(void *arg)
{
	tarn_tensor **both = arg;

	/* It fails, or has all bytes. */
	return (void *)(intptr_t)tarn_copy(both[0], both[1], NULL, NULL);
}

static void published(void)
{
	static const char *const none[] = {NULL};
	struct daemon server;
	tarn_store *store = daemon_start_open(&server, "d", none);
	tarn_tensor *both[2], *got;
	uint64_t at, before;
	pthread_t thread;
	void *result;
	double end;

	find();
	must(tarn_store_create(store, TARN_U8, 1, &size, 0, &both[1]));
	memset(tarn_tensor_data(both[1]), 7, (size_t)size);
	must(tarn_tensor_device_pointer(both[1], &gpu, &at));
	both[0] = on_device(TARN_U8, size);
	case_set("LATE", "100000");
	before = count_calls();
	if (pthread_create(&thread, NULL, copy_there, both))
		bail("no thread");
	/* It is under way, or has failed. */
	end = seconds() + PATIENCE_S;
	while (count_calls() == before && seconds() < end)
		usleep(100);
	must(tarn_store_publish_one(store, "t", both[1], NULL, NULL));
	pthread_join(thread, &result);
	case_set("LATE", "0");
	must(tarn_tensor_zeros(TARN_U8, 1, &size, &got));
	must(tarn_copy(got, both[0], NULL, NULL));
	check(result || must(tarn_tensor_equal(got, both[1])) == 1,
		"a copy of what is published meanwhile");
	tarn_tensor_unref(got);
	tarn_tensor_unref(both[0]);
	tarn_tensor_unref(both[1]);
	tarn_store_unref(store);
	daemon_stop(&server);
}

static void forked(void)
{
	struct DLManagedTensorVersioned *managed;
	tarn_tensor *t, *mine;
	int status = -1;
	uint64_t at;
	pid_t pid;

	find();
	t = on_device(TARN_U8, size);
	must(tarn_tensor_zeros(TARN_U8, 1, &size, &mine));
	must(tarn_copy(t, mine, NULL, NULL));
	pid = fork();
	if (pid == 0) {
		check_failed(-ENOTSUP, "fork", tarn_copy(mine, t, NULL, NULL),
			"a copy in a child");
		check_failed(-ENOTSUP, "fork",
			tarn_tensor_device_pointer(t, &gpu, &at),
			"an address in a child");
		check_failed(-ENOTSUP, "fork",
			tarn_tensor_to_dlpack(t, 0, &managed),
			"DLPack in a child");
		tarn_tensor_unref(t);
		_exit(check_result());
	}
	check(pid > 0 && waitpid(pid, &status, 0) == pid && !status,
		"a child: %#x", status);
	tarn_tensor_unref(mine);
	tarn_tensor_unref(t);
}

/* ---- time ---------------------------------------------------------------- */

/* Whether a reap for 10 ms ends before a copy that takes so many us. */
static bool reap_ends(tarn_tensor *a, tarn_tensor *b, const char *late)
{
	struct tarn_completion done;
	tarn_stream *s;
	int r;

	case_set("LATE", late);
	must(tarn_stream_new(NULL, &s));
	must(tarn_stream_copy(s, a, b, NULL, -1, 1, NULL));
	r = must(tarn_stream_reap(s, 1, 10, &done, 1));
	if (r == 1) {
		tarn_stream_free(s);
		return false;
	}
	r = must(tarn_stream_reap(s, 1, -1, &done, 1));
	check(r == 1 && done.result == 0, "it is done: %d", done.result);
	tarn_stream_free(s);
	return true;
}

static void timeout(void)
{
	tarn_tensor *a, *b;

	find();
	a = on_device(TARN_U8, size);
	b = on_device(TARN_U8, size);
	/* This process may not run for a second. */
	check(reap_ends(a, b, "1000000") || reap_ends(a, b, "10000000") ||
			reap_ends(a, b, "100000000"),
		"a reap that waits for 10 ms waited for the copy");
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
}

enum { COPIES = 200 };

static void many(void)
{
	struct tarn_completion done[COPIES];
	tarn_tensor *a, *b;
	tarn_stream *s;
	int n = 0;

	find();
	a = on_device(TARN_U8, COPIES * 10);
	b = on_device(TARN_U8, COPIES * 10);
	must(tarn_stream_new(NULL, &s));
	for (int64_t i = 0; i < COPIES; i++) {
		tarn_tensor *to, *from;

		must(tarn_tensor_narrow(a, 0, i * 10, 10, &to));
		must(tarn_tensor_narrow(b, 0, i * 10, 10, &from));
		must(tarn_stream_copy(
			s, to, from, NULL, -1, (uint64_t)i, NULL));
		tarn_tensor_unref(to);
		tarn_tensor_unref(from);
	}
	while (n < COPIES)
		n += must(tarn_stream_reap(s, 1, -1, done, COPIES));
	check(count_of("STREAM_CREATE") < 10,
		"%d copies that wait have %llu streams", COPIES,
		(unsigned long long)count_of("STREAM_CREATE"));
	tarn_stream_free(s);
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
}

int main(int argc, char **argv)
{
	static const struct case_ cases[] = {
		{"channels", "any number of channels is scaled", channels,
			{NULL}},
		{"conversions", "what no kernel converts the host does",
			conversions, {NULL}},
		{"kernelless", "and all, where there are no kernels",
			conversions, {"MODULE_LOAD=209"}},
		{"packed", "elements of less than a byte go in slices", packed,
			{NULL}},
		{"another", "memory of another device is not imported", another,
			{"DEVICES=2"}},
		{"published", "memory is published while it is copied",
			published, {NULL}},
		{"forked", "a child is told that it has no device", forked,
			{NULL}},
		{"timeout", "a stream does not wait longer than it is told",
			timeout, {NULL}},
		{"many", "copies that wait hold no streams of the driver", many,
			{"LATE=10"}},
	};

	return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
