/* SPDX-License-Identifier: MIT */
/* Memory of devices is that of lib/cuda. */
#include <string.h>

#include "lib/cuda/memory.h"
#include "lib/cuda/work.h"
#include "lib/store/device_storage.h"

static struct cuda_memory *cuda_of(struct device_memory *memory)
{
	return (struct cuda_memory *)memory;
}

static int export_memory(
	struct device_memory *memory, struct device_export *ret)
{
	struct cuda_memory *cuda = cuda_of(memory);
	int r = cuda_memory_export(cuda, &ret->fd);

	if (r < 0)
		return r;
	memcpy(ret->uuid, cuda_uuid(cuda_memory_device(cuda)),
		sizeof(ret->uuid));
	ret->size = cuda_memory_size(cuda);
	return 0;
}

static bool lent(const struct device_memory *memory)
{
	return cuda_memory_is_borrowed((const struct cuda_memory *)memory);
}

static int import_memory(
	const struct device_export *from, struct device_memory **ret)
{
	return cuda_memory_import(
		from->uuid, from->fd, from->size, (struct cuda_memory **)ret);
}

static void release(struct device_memory *memory)
{
	cuda_memory_free(cuda_of(memory));
}

static int unmap(struct device_memory *memory)
{
	return cuda_memory_unmap(cuda_of(memory));
}

static int map(struct device_memory *memory, int fd)
{
	return cuda_memory_map(cuda_of(memory), fd);
}

static int where(struct device_memory *memory, struct device_bytes *ret)
{
	int r = cuda_usable();

	if (r < 0)
		return r;
	*ret = (struct device_bytes) {
		.device = cuda_memory_device(cuda_of(memory)),
		.at = cuda_memory_at(cuda_of(memory)),
		.memory = cuda_of(memory),
	};
	return 0;
}

static int read_bytes(
	struct device_memory *memory, uint64_t offset, void *buf, uint64_t size)
{
	return cuda_memory_read(cuda_of(memory), offset, buf, size);
}

const struct device_hooks device_cuda_hooks = {
	.export_memory = export_memory,
	.is_lent = lent,
	.import_memory = import_memory,
	.release = release,
	.unmap = unmap,
	.map = map,
	.where = where,
	.read = read_bytes,
};
