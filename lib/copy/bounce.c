// SPDX-License-Identifier: MIT
/*
 * Buffers are mapped one by one when they are first needed, and registered
 * then; the most recently returned one is taken first, so that a few copies
 * touch few pages and find them in the CPU's cache.
 */
#include "lib/copy/bounce.h"

#include <assert.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/io/pages.h"

struct bounce {
	struct tarn_io *io;
	unsigned first_slot;
	unsigned count, mapped;
	unsigned n_free;
	struct slot {
		char *addr;
		int slot;
	} * buffers;
	uint16_t free[BOUNCE_MAX]; /* a stack of indices */
};

static_assert(BOUNCE_MAX <= UINT16_MAX, "an index fits");

int bounce_new(struct tarn_io *io, uint64_t bytes, unsigned first_slot,
	struct bounce **ret)
{
	uint64_t count = MAX(bytes / BOUNCE_SIZE, 2);
	struct bounce *b;

	if (count > BOUNCE_MAX)
		return tarn_fail(EINVAL,
			"stream: a buffer of %llu bytes; %llu are the most",
			(unsigned long long)bytes,
			(unsigned long long)BOUNCE_MAX * BOUNCE_SIZE);
	b = malloc(sizeof(*b));
	if (b)
		b->buffers = calloc(count, sizeof(*b->buffers));
	if (!b || !b->buffers) {
		free(b);
		return tarn_fail(ENOMEM, "stream: out of memory");
	}
	b->io = io;
	b->first_slot = first_slot;
	b->count = (unsigned)count;
	b->mapped = 0;
	b->n_free = 0;
	*ret = b;
	return 0;
}

struct bounce *bounce_free(struct bounce *b)
{
	if (!b)
		return NULL;
	assert(b->n_free == b->mapped);
	for (unsigned i = 0; i < b->mapped; i++) {
		if (b->buffers[i].slot >= 0)
			(void)tarn_io_unregister(
				b->io, (unsigned)b->buffers[i].slot);
		io_pages_unmap(b->buffers[i].addr, BOUNCE_SIZE);
	}
	free(b->buffers);
	free(b);
	return NULL;
}

static int map_one(struct bounce *b)
{
	struct slot *s = &b->buffers[b->mapped];
	int slot = (int)(b->first_slot + b->mapped);
	/* Page-aligned; pages on every supported machine are 4096 bytes or a
	 * multiple. */
	void *addr = io_pages_map(BOUNCE_SIZE);

	if (!addr)
		return tarn_fail(ENOMEM,
			"copy: no memory for a buffer of %d bytes",
			BOUNCE_SIZE);
	s->addr = addr;
	s->slot = -1;
	if (slot < TARN_IO_BUFFERS &&
		tarn_io_register(b->io, (unsigned)slot, addr, BOUNCE_SIZE) == 0)
		s->slot = slot;
	b->free[b->n_free++] = (uint16_t)b->mapped++;
	return 0;
}

int bounce_take(struct bounce *b, struct bounce_buffer *ret)
{
	if (b->n_free == 0) {
		int r = b->mapped < b->count ? map_one(b) : 0;

		if (r < 0 && b->mapped == 0)
			return r;
		/* Where memory is short, the existing buffers must do. */
		if (b->n_free == 0)
			return 0;
	}
	ret->index = b->free[--b->n_free];
	ret->addr = b->buffers[ret->index].addr;
	ret->slot = b->buffers[ret->index].slot;
	return 1;
}

void bounce_give(struct bounce *b, const struct bounce_buffer *buffer)
{
	b->free[b->n_free++] = (uint16_t)buffer->index;
}
