/* SPDX-License-Identifier: MIT */
/*
 * Tensors of a loaded file, as views of the load's result.
 *
 * A caller that holds all of a file need not ask the daemon for its parts, and
 * they must be parts of the same memory, even if the file on disk has changed
 * since.
 */
#include "base/fail.h"
#include "lib/file/file.h"
#include "lib/store/load_shards.h"
#include "lib/store/store.h"
#include "lib/tensor/tensor.h"

static int view(
	tarn_tensor *all, tarn_file *file, const char *name, tarn_tensor **ret)
{
	const struct tarn_file_entry *t;
	struct tarn_layout layout;
	tarn_storage *storage = all->storage;
	uint64_t offset, size;
	int r = file_find(file, name, &t);

	if (r < 0)
		return r;
	r = tarn_file_entry_layout(t, &layout);
	if (r < 0)
		return r;
	if (file_is_index(file))
		storage = load_shards_storage(storage, t->shard);
	tarn_file_data_range(tarn_file_shard(file, t->shard), &offset, &size);
	if (!storage || storage->size != size)
		return tarn_fail(EINVAL,
			"tensor \"%s\" lies in %llu bytes that were not loaded",
			name, (unsigned long long)size);
	return tarn_tensor_new(storage, t->file_offset - offset, &layout, ret);
}

int tarn_loaded_tensor(tarn_tensor *all, tarn_file *file, const char *tensor,
	tarn_tensor **ret)
{
	int r = view(all, file, tensor, ret);

	return r < 0 ? tarn_fail_prefix(r, "%s: ", tarn_file_path(file)) : 0;
}
