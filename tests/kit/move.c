// SPDX-License-Identifier: MIT
#include "tests/kit/move.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "tests/kit/tap.h"

uint64_t kit_move_seed = 1;

int64_t kit_move_below(int64_t n)
{
	kit_move_seed =
		kit_move_seed * 6364136223846793005u + 1442695040888963407u;
	return (int64_t)((kit_move_seed >> 33) % (uint64_t)n);
}

/* Few channels, whole vectors, whole tiles, and a little more or less. */
static const int64_t extents[] = {1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 15, 16, 17, 31,
	33, 64, 65, 100, 130, 520, 3000};

static int random_shape(int64_t *shape, int64_t pack, int64_t max)
{
	int ndim = (int)kit_move_below(6);
	int64_t numel = 1;

	for (int i = 0; i < ndim; i++) {
		shape[i] = extents[kit_move_below(ARRAY_SIZE(extents))];
		if (kit_move_below(200) == 0)
			shape[i] = 0;
		if (i == ndim - 1)
			shape[i] *= pack;
		while (shape[i] > pack && numel * shape[i] > max)
			shape[i] -= (shape[i] + pack) / (2 * pack) * pack;
		numel *= MAX(shape[i], 1);
	}
	return ndim;
}

/* In C order three times of four, else in any; rarely with gaps or reversed. A
 * src may stand still in a dimension. Sub-byte dtypes keep the last dimension
 * innermost, and the others in whole packs, when strict. */
static void random_strides(struct tarn_layout *l, bool is_src, int64_t pack)
{
	int order[TARN_NDIM_MAX], n = l->ndim;
	bool strict = pack > 1 && kit_move_below(8) != 0;
	int gaps = kit_move_below(3) == 0 ? 4 : 1000;
	int flips = kit_move_below(3) == 0 ? 3 : 1000;
	int64_t stride = 1;

	for (int i = 0; i < n; i++)
		order[i] = n - 1 - i;
	if (kit_move_below(4) != 0)
		for (int i = n - 1; i > strict; i--) {
			int j = strict + (int)kit_move_below(i + 1 - strict);
			int t = order[i];

			order[i] = order[j];
			order[j] = t;
		}
	for (int i = 0; i < n; i++) {
		int dim = order[i];
		int64_t steps = MAX(l->shape[dim], 1) - 1;
		bool inner = strict && i == 0;

		if (!inner && kit_move_below(gaps) == 0)
			stride += (1 + kit_move_below(5)) * (strict ? pack : 1);
		if (is_src && !inner && kit_move_below(12) == 0)
			continue;
		l->stride[dim] = stride;
		if (!inner && kit_move_below(flips) == 0) {
			l->stride[dim] = -stride;
			l->offset += stride * steps;
		}
		stride *= steps + 1;
	}
	l->offset += kit_move_below(4) == 0 ? pack * kit_move_below(5) : 0;
}

static int64_t bytes_for(const struct tarn_layout *l)
{
	int64_t first, count;

	tarn_layout_bounds(l, &first, &count);
	return ((first + count) * tarn_dtype_bits(l->dtype) + 7) / 8;
}

static unsigned char *random_bytes(int64_t size)
{
	/* Of 0 bytes there is nothing to get. */
	unsigned char *p = malloc((size_t)MAX(size, 1));

	if (!p)
		bail("out of memory");
	for (int64_t i = 0; i < size; i++)
		p[i] = (unsigned char)kit_move_below(256);
	return p;
}

void kit_move_pair_make(
	struct kit_move_pair *ret, int dst_dtype, int src_dtype, int64_t max)
{
	int64_t dst_pack = tarn_dtype_pack(dst_dtype);
	int64_t src_pack = tarn_dtype_pack(src_dtype);
	struct kit_move_pair p = {.dst.dtype = (uint8_t)dst_dtype,
		.src.dtype = (uint8_t)src_dtype};

	p.dst.ndim = p.src.ndim = (uint8_t)random_shape(
		p.dst.shape, MAX(dst_pack, src_pack), max);
	memcpy(p.src.shape, p.dst.shape, sizeof(p.src.shape));
	random_strides(&p.dst, false, dst_pack);
	random_strides(&p.src, true, src_pack);
	kit_move_pair_fill(&p);
	*ret = p;
}

void kit_move_pair_fill(struct kit_move_pair *p)
{
	p->dst_size = bytes_for(&p->dst);
	p->src_size = bytes_for(&p->src);
	p->dst_bytes = random_bytes(p->dst_size);
	p->src_bytes = random_bytes(p->src_size);
	p->wanted = malloc((size_t)MAX(p->dst_size, 1));
	if (!p->wanted)
		bail("out of memory");
	memcpy(p->wanted, p->dst_bytes, (size_t)p->dst_size);
}

void kit_move_pair_free(struct kit_move_pair *pair)
{
	free(pair->dst_bytes);
	free(pair->src_bytes);
	free(pair->wanted);
}

int64_t kit_move_element(const struct tarn_layout *layout, const int64_t *index)
{
	int64_t at = layout->offset;

	for (int i = 0; i < layout->ndim; i++)
		at += layout->stride[i] * index[i];
	return at;
}

void kit_move_each(const struct kit_move_pair *pair,
	void (*fn)(void *arg, const struct kit_move_pair *pair,
		const int64_t *index),
	void *arg)
{
	int64_t index[TARN_NDIM_MAX] = {0};
	int i;

	if (tarn_layout_numel(&pair->dst) == 0)
		return;
	do {
		fn(arg, pair, index);
		for (i = pair->dst.ndim - 1;
			i >= 0 && ++index[i] == pair->dst.shape[i]; i--)
			index[i] = 0;
	} while (i >= 0);
}
