/* SPDX-License-Identifier: MIT */
/*
 * Tensors on devices that are loaded from files, copied from and to them, and
 * copied by streams. The stand-in for the driver works late and keeps an
 * account.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/tensors.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

/* ---- files --------------------------------------------------------------- */

static char path[] = "device-XXXXXX.safetensors";

/* Tensors whose offsets in the file have three remainders by 16. */
static void write_file(void)
{
	static const struct {
		const char *name;
		int64_t size;
	} tensors[] = {{"a", 3 * MIB + 7}, {"b", 9}, {"c", 6 * MIB}, {"d", 0},
		{"e", 16 * 1000}};
	struct tarn_save_item items[ARRAY_SIZE(tensors)];
	int fd = mkstemps(path, 12);

	if (fd < 0)
		bail("%s: %m", path);
	close(fd);
	memset(items, 0, sizeof(items));
	for (size_t i = 0; i < ARRAY_SIZE(tensors); i++) {
		items[i].name = tensors[i].name;
		items[i].tensor = host_tensor(1, &tensors[i].size);
	}
	must(tarn_save(path, items, ARRAY_SIZE(tensors), NULL, NULL));
	for (size_t i = 0; i < ARRAY_SIZE(tensors); i++)
		tarn_tensor_unref((tarn_tensor *)items[i].tensor);
}

static void load(void)
{
	tarn_tensor *there[5], *src, *got;
	struct tarn_copy_info info;
	tarn_file *file;
	uint64_t at;

	gpu_find();
	write_file();
	must(tarn_file_open(path, &file));
	must(tarn_cuda_load(file, &gpu, NULL, &info, there));
	check(info.bytes == 9 * MIB + 16016, "%llu bytes",
		(unsigned long long)info.bytes);
	for (size_t i = 0; i < tarn_file_count(file); i++) {
		const struct tarn_file_entry *e = tarn_file_at(file, i);

		must(tarn_file_tensor(file, e->name, &src));
		got = tensor_back(there[i]);
		check(tensors_same(got, src), "tensor %s", e->name);
		must(tarn_tensor_device_pointer(there[i], &gpu, &at));
		check(at % 16 == 0, "tensor %s begins at %#llx", e->name,
			(unsigned long long)at);
		tarn_tensor_unref(got);
		tarn_tensor_unref(src);
		tarn_tensor_unref(there[i]);
	}
	tarn_file_unref(file);
	unlink(path);
}

/* From the device to a file, and a view of the file to the device. */
static void store_file(void)
{
	const int64_t size = 9 * MIB + 3;
	tarn_tensor *t = host_tensor(1, &size), *there, *written, *view,
		    *wanted, *got;
	tarn_storage *storage;
	int fd = mkstemps(path, 12);

	gpu_find();
	must(tarn_tensor_to_device(t, &gpu, NULL, &there));
	must(tarn_storage_to_fd(fd, 100, (uint64_t)size, &storage));
	must(tarn_tensor_new(storage, 0, tarn_tensor_layout(t), &written));
	must(tarn_copy(written, there, NULL, NULL));
	check(tensors_same(written, t), "the file has the device's bytes");
	tarn_tensor_unref(there);
	must(tarn_tensor_eval(written, "[1000:8000000]", &view));
	must(tarn_tensor_eval(t, "[1000:8000000]", &wanted));
	must(tarn_tensor_to_device(view, &gpu, NULL, &there));
	got = tensor_back(there);
	check(tensors_same(got, wanted), "the device has the file's bytes");
	tarn_tensor_unref(got);
	tarn_tensor_unref(there);
	tarn_tensor_unref(wanted);
	tarn_tensor_unref(view);
	tarn_tensor_unref(written);
	tarn_storage_unref(storage);
	tarn_tensor_unref(t);
	close(fd);
	unlink(path);
}

/* ---- streams ------------------------------------------------------------- */

enum { COPIES = 12 };

static void stream(void)
{
	const int64_t size = 5 * MIB;
	tarn_tensor *src[COPIES], *dst[COPIES], *got;
	struct tarn_completion done[COPIES];
	tarn_stream *s;
	size_t n = 0;

	gpu_find();
	must(tarn_stream_new(NULL, &s));
	for (int i = 0; i < COPIES; i++) {
		src[i] = host_tensor(1, &size);
		memset(tarn_tensor_data(src[i]), i + 1, 1000);
		must(tarn_cuda_zeros(&gpu, TARN_U8, 1, &size, &dst[i]));
		must(tarn_stream_copy(
			s, dst[i], src[i], NULL, -1, (uint64_t)i, NULL));
	}
	while (n < COPIES) {
		int r = must(tarn_stream_reap(s, 1, -1, done, COPIES));

		for (int i = 0; i < r; i++)
			check(done[i].result == 0, "a copy of a stream: %d",
				done[i].result);
		n += (size_t)r;
	}
	for (int i = 0; i < COPIES; i++) {
		got = tensor_back(dst[i]);
		check(tensors_same(got, src[i]), "copy %d of a stream", i);
		tarn_tensor_unref(got);
		tarn_tensor_unref(src[i]);
		tarn_tensor_unref(dst[i]);
	}
	tarn_stream_free(s);
}

int main(int argc, char **argv)
{
	static const struct case_ cases[] = {
		{"load", "a file is loaded to a device, aligned", load, {NULL}},
		{"store_file", "and bytes are copied to and from files",
			store_file, {NULL}},
		{"stream", "a stream copies to a device", stream, {NULL}},
	};

	return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
