// SPDX-License-Identifier: MIT
#include "lib/copy/parts.h"

#include <string.h>

#include <tarn/copy.h>

#include "base/checked.h"

/* The multiple of elements that is whole bytes in every dtype. */
enum { PACK_MAX = 4 };

static uint64_t magnitude(int64_t n)
{
	return n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
}

/* Dimensions from the largest to the smallest stride. */
static void sort_dims(const struct tarn_layout *l, int *order)
{
	for (int i = 0; i < l->ndim; i++) {
		int j = i;

		for (; j > 0 && magnitude(l->stride[order[j - 1]]) <
					magnitude(l->stride[i]);
			j--)
			order[j] = order[j - 1];
		order[j] = i;
	}
}

/* Finds the outermost dimension of which some steps fit into a window. */
void parts_begin(struct parts *parts, const struct tarn_layout *dst,
	const struct tarn_layout *src, const struct tarn_layout *by,
	int channel_dim, uint64_t window)
{
	int64_t room =
		(int64_t)window * 8 /
		MAX(tarn_dtype_bits(dst->dtype), tarn_dtype_bits(src->dtype));
	int64_t inside = 1;

	*parts = (struct parts) {
		.dst = *dst, .src = *src, .channel_dim = channel_dim};
	sort_dims(by, parts->order);
	parts->level = dst->ndim - 1;
	while (parts->level > 0 &&
		inside * dst->shape[parts->order[parts->level]] <=
			room / PACK_MAX)
		inside *= dst->shape[parts->order[parts->level--]];
	parts->steps = room / inside / PACK_MAX * PACK_MAX;
	if (dst->ndim > 0)
		inside *= MIN(
			parts->steps, dst->shape[parts->order[parts->level]]);
	parts->elements = (uint64_t)inside;
}

/* Narrows to the part at the index. Returns the steps of its cut dimension. */
static int64_t narrow(const struct parts *parts, struct part *ret)
{
	int64_t count = 1;

	ret->dst = parts->dst;
	ret->src = parts->src;
	ret->channel = 0;
	for (int l = 0; ret->dst.ndim && l <= parts->level; l++) {
		int64_t at = parts->index[l];
		int dim = parts->order[l];

		count = l < parts->level
				? 1
				: MIN(parts->steps, ret->dst.shape[dim] - at);
		ret->dst.offset += at * ret->dst.stride[dim];
		ret->src.offset += at * ret->src.stride[dim];
		ret->dst.shape[dim] = ret->src.shape[dim] = count;
		if (dim == parts->channel_dim)
			ret->channel = at;
	}
	return count;
}

bool parts_next(struct parts *parts, struct part *ret)
{
	int64_t *index = parts->index, count;
	int i = parts->level;

	if (parts->ended)
		return false;
	count = narrow(parts, ret);
	parts->ended = parts->dst.ndim == 0;
	if (parts->ended)
		return true;
	for (index[i] += count; index[i] >= parts->dst.shape[parts->order[i]];
		index[i]++) {
		index[i] = 0;
		if (--i < 0) {
			parts->ended = true;
			break;
		}
	}
	return true;
}

void part_lay_out(const struct tarn_layout *side, struct tarn_layout *ret)
{
	int order[TARN_NDIM_MAX];
	int64_t acc = 1;

	*ret = *side;
	ret->offset = 0;
	sort_dims(side, order);
	for (int i = side->ndim - 1; i >= 0; i--) {
		int dim = order[i];

		ret->stride[dim] = 0;
		if (side->stride[dim] == 0)
			continue;
		ret->stride[dim] = side->stride[dim] < 0 ? -acc : acc;
		if (side->stride[dim] < 0)
			ret->offset += acc * (side->shape[dim] - 1);
		acc *= side->shape[dim];
	}
}

void part_shrink(struct tarn_layout *layout, const struct tarn_layout *side)
{
	for (int i = 0; i < side->ndim; i++)
		if (side->stride[i] == 0)
			layout->shape[i] = 1;
}

void part_options(const struct part *part, int channel_dim,
	struct tarn_copy_options *options)
{
	options->engine = NULL;
	options->threads = 0;
	options->progress = NULL;
	options->channels = 1;
	options->channel_dim = channel_dim;
	if (channel_dim < 0)
		return;
	options->channels = part->dst.shape[channel_dim];
	if (options->scale)
		options->scale += part->channel;
	if (options->bias)
		options->bias += part->channel;
}
