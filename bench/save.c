/* SPDX-License-Identifier: MIT */
/*
 * How fast, and at what price in CPU, tensors in memory become a file that a
 * crash leaves whole:
 *
 *	bench/save FILE MIB [ALIGN]
 *
 * Eight tensors of F32, touched before the clock starts; saved to a new file
 * each time, without and with checksums. A line each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tarn/tarn.h>

enum { TENSORS = 8 };

static int fail(const char *what)
{
	fprintf(stderr, "bench/save: %s: %s\n", what, tarn_error_message());
	return 1;
}

static int make(struct tarn_save_item *items, char names[][16], int64_t mib)
{
	int64_t n = mib * (1 << 20) / TENSORS / 4;
	size_t size = (size_t)n * 4;

	for (int i = 0; i < TENSORS; i++) {
		uint32_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		tarn_storage *storage = NULL;
		tarn_tensor *tensor = NULL;
		struct tarn_layout l;
		int r;

		if (p == MAP_FAILED)
			return -1;
		madvise(p, size, MADV_HUGEPAGE); /* as numpy has it */
		for (int64_t k = 0; k < n; k++)  /* not what a disk packs */
			p[k] = (uint32_t)(k + i + 1) * 2654435761u;
		r = tarn_layout_contiguous(TARN_F32, 1, &n, &l);
		if (r >= 0)
			r = tarn_storage_borrow(
				p, size, 0, NULL, NULL, &storage);
		if (r >= 0)
			r = tarn_tensor_new(storage, 0, &l, &tensor);
		tarn_storage_unref(storage);
		if (r < 0)
			return r;
		snprintf(names[i], 16, "tensor.%d", i);
		items[i].name = names[i];
		items[i].tensor = tensor;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int64_t mib = argc > 2 ? atoll(argv[2]) : 0;
	struct tarn_save_item items[TENSORS] = {0};
	struct tarn_save_options o = {.exclusive = true};
	struct tarn_copy_info info;
	char names[TENSORS][16];
	double gib = (double)mib / 1024;

	if (mib <= 0) {
		fprintf(stderr, "usage: %s FILE MIB [ALIGN]\n", argv[0]);
		return 2;
	}
	if (argc > 3)
		o.align = (uint32_t)atoi(argv[3]);
	if (make(items, names, mib) < 0)
		return fail("tensors");
	for (int i = 0; i < 2; i++) {
		o.checksums = i;
		if (tarn_save(argv[1], items, TENSORS, &o, &info) < 0)
			return fail("save");
		printf("%s: %.3f GiB/s, %.1f ms of CPU per GiB (%s, %s)\n",
			i ? "checksums" : "tarn", gib / info.seconds,
			1000 * info.cpu_seconds / gib, info.engine,
			info.direct > info.written / 2 ? "direct" : "buffered");
		if (unlink(argv[1]) < 0)
			return fail("unlink");
		sleep(1); /* what a host owes after a burst */
	}
	for (int i = 0; i < TENSORS; i++)
		tarn_tensor_unref((tarn_tensor *)items[i].tensor);
	return 0;
}
