/* SPDX-License-Identifier: MIT */
/*
 * A load that trusts neither the disk nor the bytes that are in the pool
 * already.
 *
 * The daemon parses no file and so knows no checksum; it publishes names with
 * the load. So the bytes are loaded without names first, verified in place
 * under this process's lease, and only then named.
 */

#include "base/clock.h"
#include "lib/save/verify.h"
#include "lib/store/load_shards.h"
#include "lib/store/store.h"
#include "lib/tensor/storage.h"

int load_verify(const tarn_file *file, const tarn_storage *storage,
	struct tarn_load_info *info)
{
	double start = clock_seconds(CLOCK_MONOTONIC);
	double cpu = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
	int r = verify_memory(file, tarn_storage_data(storage));

	info->seconds += clock_seconds(CLOCK_MONOTONIC) - start;
	info->cpu_seconds += clock_seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
	return r;
}

int store_load_verified(struct tarn_store *store, tarn_file *file,
	const struct tarn_load_options *options,
	struct tarn_load_info *ret_info, tarn_storage **ret)
{
	_cleanup_storage_ tarn_storage *storage = NULL;
	struct tarn_load_options unnamed = *options;
	struct tarn_load_info info;
	int r;

	unnamed.name = NULL;
	unnamed.verify = false;
	r = store_load_storage(store, file, &unnamed, &info, &storage);
	if (r < 0)
		return r;
	r = load_verify(file, storage, &info);
	if (r >= 0 && options->name)
		r = store_publish_file(store, file, options->name, &storage);
	if (r < 0)
		return r;
	if (ret_info)
		*ret_info = info;
	*ret = STEAL(storage);
	return 0;
}
