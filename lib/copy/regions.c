// SPDX-License-Identifier: MIT
/*
 * A list of address ranges and their numbers in the engine. One buffer of the
 * engine holds 1 GiB at most, so a larger storage has several: a request across
 * a border is not found, and goes unregistered.
 */
#include "lib/copy/regions.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"

struct region {
	uintptr_t addr;
	size_t size;
};

struct regions {
	struct tarn_io *io;
	unsigned limit, n;
	tarn_storage **storages; /* owner of the region, or NULL: the previous
				  * one's */
	struct region *list;     /* indexed like the engine's buffers */
};

int regions_new(struct tarn_io *io, unsigned limit, struct regions **ret)
{
	struct regions *g = calloc(1, sizeof(*g));

	if (!g)
		return tarn_fail(ENOMEM, "stream: out of memory");
	g->io = io;
	g->limit = limit;
	*ret = g;
	return 0;
}

static void forget_from(struct regions *g, unsigned first)
{
	while (g->n > first) {
		(void)tarn_io_unregister(g->io, --g->n);
		tarn_storage_unref(g->storages[g->n]);
	}
}

struct regions *regions_free(struct regions *g)
{
	if (!g)
		return NULL;
	forget_from(g, 0);
	free(g->storages);
	free(g->list);
	free(g);
	return NULL;
}

static int make_room(struct regions *g, unsigned count)
{
	void *list = reallocarray(g->list, count, sizeof(*g->list));
	void *storages;

	if (list)
		g->list = list;
	storages = reallocarray(g->storages, count, sizeof(*g->storages));
	if (storages)
		g->storages = storages;
	if (!list || !storages)
		return tarn_fail(ENOMEM, "stream: out of memory");
	return 0;
}

int regions_add(struct regions *g, tarn_storage *storage)
{
	uint64_t chunks = storage->size / TARN_IO_BUFFER_MAX +
			  (storage->size % TARN_IO_BUFFER_MAX != 0);
	unsigned first = g->n;
	char *addr = storage->data;
	uint64_t left = storage->size;
	int r;

	if (chunks > g->limit - g->n) {
		tarn_fail(ENOSPC,
			"stream: %llu bytes are %llu more buffers than the %u "
			"that an engine registers",
			(unsigned long long)storage->size,
			(unsigned long long)(g->n + chunks - g->limit),
			g->limit);
		return 1;
	}
	r = chunks ? make_room(g, g->n + (unsigned)chunks) : 0;
	while (r == 0 && left) {
		size_t size = MIN(left, (uint64_t)TARN_IO_BUFFER_MAX);

		r = tarn_io_register(g->io, g->n, addr, size);
		/* Read-only memory cannot be pinned. */
		if (r == -EFAULT)
			r = 1;
		if (r != 0)
			break;
		g->list[g->n] = (struct region) {(uintptr_t)addr, size};
		g->storages[g->n++] = left == storage->size
					      ? tarn_storage_ref(storage)
					      : NULL;
		addr += size;
		left -= size;
	}
	if (r != 0)
		forget_from(g, first);
	return r;
}

int regions_find(const struct regions *g, const void *addr, size_t size)
{
	uintptr_t at = (uintptr_t)addr;

	for (unsigned i = 0; g && i < g->n; i++)
		if (at >= g->list[i].addr && size <= g->list[i].size &&
			at - g->list[i].addr <= g->list[i].size - size)
			return (int)i;
	return -1;
}
