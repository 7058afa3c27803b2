/* SPDX-License-Identifier: MIT */
/*
 * Bytes over the link between the host and the real device: tarn's copies, with
 * what they copy compared, beside a copy of the driver's own from memory that
 * the driver has allocated; files to the device beside the slower of the two
 * wires; a device's memory in a second process. $TARN_GPU_BYTES is the size of
 * each copy (1 GiB). Without a device it is skipped.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/gpu/real.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

enum { ROUNDS = 5, NAMES = 1000 };

static struct daemon server;
static tarn_store *store;
static struct tarn_cuda_device gpu;
static int64_t size = (int64_t)1 << 30;
static double reference_in, reference_out;

/* ---- showing ------------------------------------------------------------- */

static void show(const char *what, double gib_s, double reference)
{
	printf("# %-52s %7.2f GiB/s", what, gib_s);
	if (reference > 0)
		printf("  %.2f of the reference", gib_s / reference);
	printf("\n");
}

static double gib(int64_t bytes)
{
	return (double)bytes / (double)(1 << 30);
}

/* ---- the reference ------------------------------------------------------- */

/* The best of some copies of the driver's, in the direction given. */
static double driver_copy(CUdeviceptr there, void *here, bool in)
{
	double best = 0;

	for (int i = 0; i < ROUNDS; i++) {
		double start = seconds(), speed;
		CUresult e = in ? REAL(cuMemcpy, there, (uintptr_t)here,
					  (size_t)size)
				: REAL(cuMemcpy, (uintptr_t)here, there,
					  (size_t)size);

		if (e)
			bail("a copy of the driver's: %s", real_result(e));
		speed = gib(size) / (seconds() - start);
		best = speed > best ? speed : best;
	}
	return best;
}

static void measure_reference(void)
{
	CUdeviceptr there = 0;
	void *here = NULL;
	CUresult e = REAL(cuMemHostAlloc, &here, (size_t)size, 0);

	if (!e)
		e = REAL(cuMemAlloc, &there, (size_t)size);
	if (e) {
		printf("# no reference: %s\n", real_result(e));
	} else {
		memset(here, 1, (size_t)size);
		reference_in = driver_copy(there, here, true);
		reference_out = driver_copy(there, here, false);
		show("reference: cuMemcpy to the device", reference_in, 0);
		show("reference: cuMemcpy from the device", reference_out, 0);
	}
	if (there)
		REAL(cuMemFree, there);
	if (here)
		REAL(cuMemFreeHost, here);
}

/* ---- memory -------------------------------------------------------------- */

static void fill(tarn_tensor *t, int seed)
{
	uint32_t *p = tarn_tensor_data(t);

	for (int64_t i = 0; i < size / 4; i++)
		p[i] = (uint32_t)i * 2654435761u + (uint32_t)seed;
}

static double best_copy(tarn_tensor *dst, tarn_tensor *src)
{
	double best = 0;

	for (int i = 0; i < ROUNDS; i++) {
		double start = seconds(), speed;

		must(tarn_copy(dst, src, NULL, NULL));
		speed = gib(size) / (seconds() - start);
		best = speed > best ? speed : best;
	}
	return best;
}

/* One assertion. */
static void there_and_back(tarn_tensor *t, tarn_tensor *there, const char *what)
{
	const int64_t shape = size;
	tarn_tensor *back;
	char text[80];

	snprintf(text, sizeof(text), "%s to the device", what);
	show(text, best_copy(there, t), reference_in);
	must(tarn_tensor_zeros(TARN_U8, 1, &shape, &back));
	must(tarn_copy(back, there, NULL, NULL));
	ok(!memcmp(tarn_tensor_data(back), tarn_tensor_data(t), (size_t)size),
		"%s: the device has its bytes", what);
	tarn_tensor_unref(back);
	if (!tarn_storage_writable(tarn_tensor_storage(t)))
		return;
	snprintf(text, sizeof(text), "%s from the device", what);
	show(text, best_copy(t, there), reference_out);
}

static void measure_memory(tarn_tensor *there)
{
	tarn_tensor *t;
	uint64_t at;
	double start;

	must(tarn_tensor_zeros(TARN_U8, 1, &size, &t));
	fill(t, 1);
	there_and_back(t, there, "memory that is not registered");
	tarn_tensor_unref(t);
	must(tarn_store_create(
		store, TARN_U8, 1, &size, TARN_CREATE_MUTABLE, &t));
	fill(t, 2);
	start = seconds();
	must(tarn_tensor_device_pointer(t, &gpu, &at));
	printf("# registering %.1f GiB takes %.0f ms\n", gib(size),
		1e3 * (seconds() - start));
	there_and_back(t, there, "registered memory");
	tarn_tensor_unref(t);
}

/* ---- files --------------------------------------------------------------- */

static double read_speed(const char *path)
{
	size_t step = (size_t)8 << 20;
	char *buffer = aligned_alloc(4096, step);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	double start = seconds();
	ssize_t n;

	if (!buffer || fd < 0)
		bail("%s: %m", path);
	memset(buffer, 0, step);
	while ((n = read(fd, buffer, step)) > 0)
		;
	close(fd);
	free(buffer);
	return gib(size) / (seconds() - start);
}

static void drop_cache(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fdatasync(fd) < 0 ||
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
		bail("%s: %m", path);
	close(fd);
}

/* One assertion. */
static void measure_file(const char *folder, const char *what, bool cold)
{
	struct tarn_save_item item = {.name = "t"};
	tarn_tensor *there, *t;
	double start, took, wire;
	tarn_file *file;
	char path[256];

	snprintf(path, sizeof(path), "%s/link-%d.safetensors", folder,
		(int)getpid());
	must(tarn_tensor_zeros(TARN_U8, 1, &size, &t));
	fill(t, 3);
	item.tensor = t;
	must(tarn_save(path, &item, 1, NULL, NULL));
	if (cold)
		drop_cache(path);
	wire = read_speed(path);
	if (cold)
		drop_cache(path);
	if (reference_in > 0 && reference_in < wire)
		wire = reference_in;
	must(tarn_file_open(path, &file));
	start = seconds();
	must(tarn_cuda_load(file, &gpu, NULL, NULL, &there));
	took = seconds() - start;
	show(what, gib(size) / took, wire);
	ok(must(tarn_tensor_equal(there, t)) == 1, "%s: its bytes are there",
		what);
	tarn_file_unref(file);
	tarn_tensor_unref(there);
	tarn_tensor_unref(t);
	unlink(path);
}

/* ---- another process ----------------------------------------------------- */

static void publish_names(tarn_tensor *there)
{
	struct tarn_publish_item items[NAMES];
	static char names[NAMES][16];

	for (int i = 0; i < NAMES; i++) {
		snprintf(names[i], sizeof(names[i]), "w/%d", i);
		items[i] = (struct tarn_publish_item) {.name = names[i]};
		must(tarn_tensor_slice(there, 0, i * (size / NAMES),
			(i + 1) * (size / NAMES), 1, &items[i].tensor));
	}
	must(tarn_store_publish(store, items, NAMES, NULL, NULL));
	for (int i = 0; i < NAMES; i++)
		tarn_tensor_unref(items[i].tensor);
}

/* In a process of its own: the exit status. */
static int read_names(void)
{
	static tarn_tensor *t[NAMES];
	int64_t at = 1, value;
	uint64_t address;
	char name[16];
	double start;
	int r;

	must(tarn_cuda_device("0", &gpu));
	must(tarn_store_open(getenv("LINK_SOCKET"), NULL, &store));
	start = seconds();
	for (int i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "w/%d", i);
		must(tarn_store_lookup(store, name, &t[i]));
		must(tarn_tensor_device_pointer(t[i], &gpu, &address));
	}
	printf("# another process maps %.1f GiB with %d names in %.1f ms\n",
		gib(size), NAMES, 1e3 * (seconds() - start));
	fflush(stdout);
	r = tarn_tensor_get_i64(t[NAMES - 1], &at, &value);
	for (int i = 0; i < NAMES; i++)
		tarn_tensor_unref(t[i]);
	tarn_store_unref(store);
	return r < 0;
}

/* One assertion. */
static void measure_other(const char *self, tarn_tensor *there)
{
	int status = -1;
	pid_t pid;

	publish_names(there);
	fflush(stdout);
	setenv("LINK_SOCKET", server.socket, 1);
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", self, "other", NULL);
		_exit(1);
	}
	ok(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0,
		"another process reads memory of the device");
}

int main(int argc, char **argv)
{
	const char *bytes = getenv("TARN_GPU_BYTES"), *why;
	tarn_tensor *there;
	CUcontext context;
	CUdevice device;

	if (bytes)
		size = atoll(bytes) / 4096 * 4096;
	if (argc > 1)
		return read_names();
	if (!real_load(&why))
		skip_all("no device: %s", why);
	store = daemon_start_open(&server, "d", NULL);
	must(tarn_cuda_device("0", &gpu));
	if (REAL(cuDeviceGet, &device, 0) ||
		REAL(cuDevicePrimaryCtxRetain, &context, device) ||
		REAL(cuCtxPushCurrent, context))
		bail("the device has no context");
	measure_reference();
	must(tarn_cuda_zeros(&gpu, TARN_U8, 1, &size, &there));
	measure_memory(there);
	measure_file("/dev/shm", "a file in memory to the device", false);
	measure_file(".", "a cold file of the disk to the device", true);
	measure_other(argv[0], there);
	tarn_tensor_unref(there);
	store = tarn_store_unref(store);
	REAL(cuCtxPopCurrent, &context);
	REAL(cuDevicePrimaryCtxRelease, device);
	daemon_stop(&server);
	return done(5);
}
