/* SPDX-License-Identifier: MIT */
/*
 * A load that trusts nobody: neither the disk nor what is in the pool already.
 *
 * The daemon parses no file and so knows no checksum; it publishes names with
 * the load. So the bytes are loaded without names first, verified where they
 * are, held by our lease, and only then named.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tarn/publish.h>

#include "base/fail.h"
#include "lib/save/verify.h"
#include "lib/store/store.h"
#include "lib/tensor/tensor.h"

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* PREFIX/TENSOR, and the tensor as a view of what was loaded. */
static int make_item(const char *prefix, const struct tarn_file_tensor *t,
	uint64_t data_offset, tarn_storage *storage,
	struct tarn_publish_item *item)
{
	struct tarn_layout layout;
	char *name = NULL;
	int r = tarn_file_layout(t, &layout);

	if (r < 0)
		return r;
	if (asprintf(&name, "%s/%s", prefix, t->name) < 0)
		return tarn_fail(ENOMEM, "load: no memory for a name");
	item->name = name;
	return tarn_tensor_new(
		storage, t->file_offset - data_offset, &layout, &item->tensor);
}

static int publish_all(struct tarn_store *store, const tarn_file *file,
	const char *prefix, tarn_storage *storage)
{
	size_t n = tarn_file_count(file);
	struct tarn_publish_item *items = calloc(n + 1, sizeof(*items));
	uint64_t offset, size;
	int r = 0;

	if (!items)
		return tarn_fail(ENOMEM, "load: no memory for %zu names", n);
	tarn_file_data_range(file, &offset, &size);
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = make_item(prefix, tarn_file_at(file, i), offset, storage,
			&items[i]);
	if (r >= 0 && n)
		r = tarn_store_publish(store, items, n, NULL, NULL);
	for (size_t i = 0; i < n; i++) {
		tarn_tensor_unref(items[i].tensor);
		free((char *)items[i].name);
	}
	free(items);
	return r;
}

int store_load_verified(struct tarn_store *store, tarn_file *file,
	const struct tarn_load_options *options,
	struct tarn_load_info *ret_info, tarn_storage **ret)
{
	_cleanup_storage_ tarn_storage *storage = NULL;
	struct tarn_load_options nameless = *options;
	struct tarn_load_info info;
	double start, cpu;
	int r;

	nameless.name = NULL;
	nameless.verify = false;
	r = store_load_storage(store, file, &nameless, &info, &storage);
	if (r < 0)
		return r;
	start = seconds(CLOCK_MONOTONIC);
	cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
	r = verify_memory(file, tarn_storage_data(storage));
	if (r >= 0 && options->name)
		r = publish_all(store, file, options->name, storage);
	if (r < 0)
		return r;
	info.seconds += seconds(CLOCK_MONOTONIC) - start;
	info.cpu_seconds += seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
	if (ret_info)
		*ret_info = info;
	*ret = STEAL(storage);
	return 0;
}
