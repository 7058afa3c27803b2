/* SPDX-License-Identifier: MIT */
/*
 * Pieces that go from memory to memory as they are: the kernel copies them to
 * pages that it need not clear, nor map. Elements of a sparse update are written in
 * between, while their bytes are in the cache, as far as their positions are in
 * order.
 */
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/layout/layout.h"
#include "lib/set/elements.h"
#include "lib/set/refit.h"
#include "lib/store/created.h"
#include "lib/tensor/tensor.h"

/* Of the old tensor at once: fits a processor's own cache. */
#define CHUNK (256u << 10)

static bool can_write(const struct refit_piece *p)
{
	const struct tarn_layout *to = &p->name->layout;

	return created_of(p->name->leader->bucket->storage) &&
	       tensor_is_plain(p->src) && p->src->layout.dtype == to->dtype &&
	       tarn_layout_is_contiguous(to) &&
	       (p->rows < 0 || tarn_dtype_pack(to->dtype) == 1);
}

/* The byte of the bucket. */
static uint64_t begin_of(const struct refit_piece *p)
{
	const struct refit_name *name = p->name;
	uint64_t rows = p->rows < 0 ? 0 : (uint64_t)name->layout.shape[0];

	return name->leader->at +
	       (rows ? name->leader->size / rows * (uint64_t)p->start : 0);
}

int refit_piece_room(const struct refit_piece *p, const tarn_tensor *dst)
{
	tarn_storage *to = p->name->leader->bucket->storage;
	uint64_t size;
	void *at;

	tensor_reach(dst, &at, &size);
	if (!created_of(to) || !size)
		return 0;
	return created_populate(
		to, (uint64_t)((char *)at - (char *)to->data), size);
}

/* Those that are left lie anywhere. */
static int write_rest(
	const struct refit_piece *p, struct elements *e, uint64_t i)
{
	_cleanup_tensor_ tarn_tensor *dst = NULL;
	int r = refit_piece_dst(p, &dst);

	if (r >= 0)
		r = refit_piece_room(p, dst);
	if (r < 0)
		return r;
	e->positions = (const char *)e->positions + i * (e->wide ? 8 : 4);
	e->values = (const char *)e->values + i * e->size;
	e->n -= i;
	return elements_write(e, tarn_tensor_data(dst));
}

static int write_sparse(const struct refit_piece *p, uint64_t size)
{
	tarn_storage *to = p->name->leader->bucket->storage;
	_cleanup_free_ unsigned char *chunk = malloc(CHUNK);
	const unsigned char *src = tarn_tensor_data(p->src);
	uint64_t i = 0, begin = begin_of(p);
	struct elements e;
	int r = 0;

	if (!chunk)
		return tarn_fail_constant(ENOMEM, "out of memory for a chunk");
	elements_of(p->positions, p->values, &p->name->layout, &e);
	for (uint64_t at = 0; r >= 0 && at < size; at += CHUNK) {
		uint64_t n = MIN(size - at, (uint64_t)CHUNK);

		memcpy(chunk, src + at, n);
		r = elements_write_range(
			&e, &i, at / e.size, n / e.size, chunk);
		if (r >= 0)
			r = created_write(to, begin + at, chunk, n);
	}
	return r >= 0 && i < e.n ? write_rest(p, &e, i) : r;
}

int refit_piece_write(const struct refit_piece *p)
{
	uint64_t size = (uint64_t)tarn_layout_nbytes(&p->src->layout);
	int r;

	if (!can_write(p))
		return 0;
	if (p->positions)
		r = write_sparse(p, size);
	else
		r = created_write(p->name->leader->bucket->storage, begin_of(p),
			tarn_tensor_data(p->src), size);
	return r < 0 ? r : 1;
}
