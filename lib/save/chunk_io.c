/* SPDX-License-Identifier: MIT */
/*
 * Bytes as tensors: a chunk of a file and a chunk of memory are both one
 * dimension of U8, and moved by tarn_copy like everything else.
 */
#include "lib/save/chunk_io.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/io/pages.h"

void chunk_count(struct tarn_copy_info *sum, struct chunk_failure *failure,
	const struct tarn_completion *c)
{
	sum->read += c->info.read;
	sum->written += c->info.written;
	sum->cached += c->info.cached;
	sum->direct += c->info.direct;
	sum->requests += c->info.requests;
	if (c->result < 0 && !failure->error) {
		failure->error = c->result;
		memcpy(failure->message, c->message, sizeof(failure->message));
	}
}

/* Mapped separately: released at once, whatever the heap does. */
struct mapping {
	void *memory;
	size_t size;
};

static void unmap(void *arg)
{
	struct mapping *m = arg;

	io_pages_unmap(m->memory, m->size);
	free(m);
}

static int map(struct mapping *m, tarn_storage **ret)
{
	int r;

	m->memory = io_pages_map(m->size);
	if (!m->memory) {
		r = tarn_fail(
			ENOMEM, "no memory for a piece of %zu bytes", m->size);
		free(m);
		return r;
	}
	r = tarn_storage_borrow(
		m->memory, m->size, TARN_BORROW_WRITABLE, unmap, m, ret);
	if (r < 0)
		unmap(m);
	return r;
}

int chunk_memory(tarn_storage **storage, uint64_t size)
{
	uint64_t room = MAX(chunk_round(size), CHUNK_SIZE);
	struct mapping *m;

	if (*storage && tarn_storage_size(*storage) >= room)
		return 0;
	*storage = tarn_storage_unref(*storage);
	m = malloc(sizeof(*m));
	if (!m)
		return tarn_fail(ENOMEM, "no memory for a piece of a file");
	m->size = room;
	return map(m, storage);
}

int chunk_view(
	tarn_storage *storage, uint64_t base, uint64_t size, tarn_tensor **ret)
{
	struct tarn_layout layout;
	int64_t extent = (int64_t)size;
	int r = tarn_layout_contiguous(TARN_U8, 1, &extent, &layout);

	return r < 0 ? r : tarn_tensor_new(storage, base, &layout, ret);
}

void chunk_free_stream(tarn_stream *stream)
{
	char text[TARN_MESSAGE_MAX];

	memcpy(text, tarn_fail_message(), sizeof(text));
	tarn_stream_free(stream);
	tarn_fail_verbatim(0, text);
}
