// SPDX-License-Identifier: MIT
#include "lib/copy/slices.h"

#include "base/checked.h"

/* The multiple of elements that is whole bytes in every dtype. */
enum { PACK_MAX = 4 };

/* The outermost loop whose step is no longer than a slice. */
void slices_begin(struct slices *slices, const struct nest *nest, int64_t bytes)
{
	int64_t inside = 1, room = bytes * 8 / tarn_dtype_bits(nest->dst_dtype);

	*slices = (struct slices) {.level = nest->n - 1, .ended = nest->empty};
	while (slices->level > 0 &&
		inside * nest->extent[slices->level] <= room)
		inside *= nest->extent[slices->level--];
	slices->steps = MAX(room / inside, 1);
	/* Elements of less than a byte stay whole bytes. */
	if (inside == 1 && slices->steps > PACK_MAX)
		slices->steps -= slices->steps % PACK_MAX;
	slices->inside = inside;
}

/* To the next slice; false: there is none. */
static bool advance(
	struct slices *slices, const struct nest *nest, int64_t count)
{
	int i = slices->level - 1;

	slices->first += count;
	if (slices->first < nest->extent[slices->level])
		return true;
	slices->first = 0;
	for (; i >= 0 && ++slices->index[i] == nest->extent[i]; i--)
		slices->index[i] = 0;
	return i >= 0;
}

static uint64_t bytes_of(const struct nest *nest, int64_t elements)
{
	return (uint64_t)(elements * tarn_dtype_bits(nest->dst_dtype)) / 8;
}

uint64_t slices_next(
	struct slices *slices, const struct nest *nest, struct nest *ret)
{
	int64_t count;

	*ret = *nest;
	if (nest->n == 0) {
		slices->ended = true;
		return bytes_of(nest, 1);
	}
	count = MIN(slices->steps, nest->extent[slices->level] - slices->first);
	nest_part(
		nest, slices->level, slices->index, slices->first, count, ret);
	slices->ended = !advance(slices, nest, count);
	return bytes_of(nest, count * slices->inside);
}
