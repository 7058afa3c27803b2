/* SPDX-License-Identifier: MIT */
/*
 * All invalid saves are refused here, before there is a file.
 *
 * A .npy file may be in Fortran order. Its part then has its dimensions
 * reversed, on both sides: the file is in C order for all later steps.
 */
#include "lib/save/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/copy/copy_op.h"
#include "lib/reserved.h"
#include "lib/save/transposed.h"

static int about(int r, const struct tarn_save_item *item)
{
	char shown[FILE_TEXT_MAX];

	if (!item->name)
		return r;
	return tarn_fail_prefix(r, "tensor '%s': ",
		file_clean(item->name, strlen(item->name), shown));
}

static int is_npy(const char *path, const char *format, bool *ret)
{
	size_t n = path ? strlen(path) : 0;

	if (format && strcmp(format, "npy") && strcmp(format, "safetensors"))
		return tarn_fail(EINVAL,
			"there is no format '%.40s'; it must be safetensors or "
			"npy",
			format);
	*ret = format ? !strcmp(format, "npy")
		      : n >= 4 && !strcmp(path + n - 4, ".npy");
	return 0;
}

static int check_options(const struct tarn_save_options *o, bool npy,
	const struct tarn_save_item *items, size_t n)
{
	int r = RESERVED_CHECK("tarn_save_options", o);

	for (size_t i = 0; i < n && r >= 0; i++)
		r = RESERVED_CHECK("tarn_save_item", &items[i]);
	for (size_t i = 0; i < o->n_pairs && r >= 0; i++)
		r = RESERVED_CHECK("tarn_save_pair", &o->pairs[i]);
	if (r < 0)
		return r;
	if (o->align & (o->align - 1))
		return tarn_fail(EINVAL,
			"an alignment of %u is no power of two", o->align);
	if (npy && n != 1)
		return tarn_fail(EINVAL,
			"a .npy file holds one tensor, these are %zu: save "
			"them as safetensors",
			n);
	for (size_t i = 0; i < n && !o->checksums; i++)
		if (items[i].checksum)
			return about(tarn_fail(EINVAL,
					     "a checksum to compare with needs "
					     "checksums"),
				&items[i]);
	if (npy && (o->checksums || o->n_pairs))
		return tarn_fail(EINVAL,
			"a .npy file has no room for %s: save it as "
			"safetensors",
			o->checksums ? "checksums" : "metadata");
	return 0;
}

/* ---- the head -------------------------------------------------------- */

/* Its layout in the file. */
static int file_layout(
	const struct tarn_save_item *item, bool npy, struct tarn_layout *ret)
{
	const struct tarn_layout *l = tarn_tensor_layout(item->tensor);
	int dtype = item->dtype ? item->dtype : l->dtype;

	if (!tarn_dtype_name(dtype))
		return tarn_fail(EINVAL, "there is no dtype %d", dtype);
	if (npy && tarn_layout_is_fortran(l) && !tarn_layout_is_contiguous(l))
		return tarn_layout_fortran(dtype, l->ndim, l->shape, ret);
	return tarn_layout_contiguous(dtype, l->ndim, l->shape, ret);
}

static int list_tensors(const struct tarn_save_item *items, size_t n, bool npy,
	struct head_tensor *ret)
{
	for (size_t i = 0; i < n; i++) {
		int r;

		if (!items[i].name && !npy)
			return tarn_fail(EINVAL, "tensor %zu has no name", i);
		if (!items[i].tensor)
			return tarn_fail(EINVAL, "item %zu has no tensor", i);
		ret[i].name = items[i].name ? items[i].name : "";
		ret[i].item = i;
		r = file_layout(&items[i], npy, &ret[i].layout);
		if (r < 0)
			return about(r, &items[i]);
	}
	return 0;
}

/* From this many bytes of tensors on, the blanks in the header that align them
 * for direct I/O cost nothing compared with what that saves. */
enum { ALIGN_FROM = 4 << 20, ALIGN = 4096 };

static uint64_t alignment(const struct head_tensor *tensors, size_t n,
	const struct tarn_save_options *o)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += (uint64_t)tarn_layout_nbytes(&tensors[i].layout);
	return o->align || bytes < ALIGN_FROM ? o->align : ALIGN;
}

static int make_head(struct head_tensor *tensors, size_t n, bool npy,
	const struct tarn_save_options *o, struct head *ret)
{
	_cleanup_free_ struct file_pair *pairs = NULL;
	struct head_options options = {
		.align = alignment(tensors, n, o),
		.checksums = o->checksums,
		.n_pairs = o->n_pairs,
	};

	if (npy)
		return npy_head(tensors, options.align, ret);
	options.pairs = pairs = calloc(o->n_pairs + 1, sizeof(*pairs));
	if (!pairs)
		return file_no_memory("metadata");
	for (size_t i = 0; i < o->n_pairs; i++)
		pairs[i] =
			(struct file_pair) {o->pairs[i].key, o->pairs[i].value};
	return safetensors_head(tensors, n, &options, ret);
}

/* ---- the parts ------------------------------------------------------- */

/* Reverses the dimensions of both. */
static int turn_round(struct part *p, int *channel_dim)
{
	_cleanup_tensor_ tarn_tensor *src = p->src;
	struct tarn_layout turned;
	int dims[TARN_NDIM_MAX], ndim = p->file.ndim, r;

	for (int i = 0; i < ndim; i++)
		dims[i] = ndim - 1 - i;
	p->src = NULL;
	r = tarn_layout_permute(&p->file, ndim, dims, &p->file);
	if (r >= 0)
		r = tarn_layout_permute(
			tarn_tensor_layout(src), ndim, dims, &turned);
	if (r >= 0)
		r = tarn_tensor_with_layout(src, &turned, &p->src);
	if (r >= 0 && *channel_dim >= 0)
		*channel_dim = ndim - 1 - *channel_dim;
	return r;
}

static bool scales(const struct tarn_copy_options *o)
{
	return o->scale || o->bias;
}

/* Checked against the whole tensor: chunks of it will be copied. */
static int take_options(struct part *p, const struct tarn_save_options *o)
{
	struct tarn_copy_options *c = &p->convert;
	int64_t extent;
	int r = RESERVED_CHECK("tarn_copy_options", p->item->convert);

	if (r < 0)
		return r;
	if (p->item->convert)
		*c = *p->item->convert;
	c->io_mode = o->io_mode;
	c->engine = NULL; /* the stream's engine is used */
	c->progress = NULL;
	if (!scales(c) || c->channels == 1) {
		c->channel_dim = -1;
		return 0;
	}
	if (c->channel_dim < 0)
		c->channel_dim += p->file.ndim;
	if (c->channel_dim < 0 || c->channel_dim >= p->file.ndim)
		return tarn_fail(EINVAL,
			"channel dimension %d is none of its %d",
			p->item->convert->channel_dim, p->file.ndim);
	extent = p->file.shape[c->channel_dim];
	if (c->channels != extent)
		return tarn_fail(EINVAL,
			"scale and bias for %lld channels, but dimension %d "
			"has %lld; give as many, or 1 for all",
			(long long)c->channels, c->channel_dim,
			(long long)extent);
	return 0;
}

/* Determines the facts that copying chunks relies on. */
static void look_at(struct part *p)
{
	const struct tarn_layout *l = tarn_tensor_layout(p->src);

	p->pack = (unsigned)tarn_dtype_pack(p->file.dtype);
	p->unit = p->pack * (unsigned)tarn_dtype_bits(p->file.dtype) / 8;
	p->memory = medium_of(p->src->storage) == MEDIUM_MEMORY;
	if (p->memory && l->dtype == p->file.dtype && !scales(&p->convert) &&
		tarn_layout_is_contiguous(l))
		p->bytes = tarn_tensor_data(p->src);
	p->transposed = transposed_bytes(p);
}

static int make_part(const struct tarn_save_item *item,
	const struct head_tensor *t, const struct tarn_save_options *o,
	struct part *p)
{
	bool fortran = !tarn_layout_is_contiguous(&t->layout);
	int r;

	*p = (struct part) {
		.item = item,
		.src = tarn_tensor_ref((tarn_tensor *)item->tensor),
		.file = t->layout,
		.offset = t->offset,
		.nbytes = t->nbytes,
		.digits = t->digits,
	};
	r = take_options(p, o);
	if (r >= 0 && fortran)
		r = turn_round(p, &p->convert.channel_dim);
	if (r >= 0)
		look_at(p);
	return r;
}

int save_plan_make(const char *path, const struct tarn_save_item *items,
	size_t n, const struct tarn_save_options *options,
	struct save_plan *plan)
{
	static const struct tarn_save_options plain;
	const struct tarn_save_options *o = options ? options : &plain;
	_cleanup_free_ struct head_tensor *tensors = NULL;
	bool npy = false;
	int r = is_npy(path, o->format, &npy);

	if (r >= 0)
		r = check_options(o, npy, items, n);
	if (r < 0)
		return r;
	tensors = calloc(n + 1, sizeof(*tensors));
	plan->parts = calloc(n + 1, sizeof(*plan->parts));
	if (!tensors || !plan->parts)
		return file_no_memory("the tensors of a file");
	r = list_tensors(items, n, npy, tensors);
	if (r >= 0)
		r = make_head(tensors, n, npy, o, &plan->head);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		const struct head_tensor *t = &tensors[i];

		r = make_part(&items[t->item], t, o, &plan->parts[i]);
		if (r < 0)
			r = about(r, &items[t->item]);
		plan->bytes += t->nbytes;
		plan->work += plan->parts[i].transposed;
		plan->n++;
	}
	plan->work += plan->head.file_size;
	return r;
}

void save_plan_free(struct save_plan *plan)
{
	for (size_t i = 0; i < plan->n; i++)
		tarn_tensor_unref(plan->parts[i].src);
	free(plan->parts);
	free(plan->head.bytes);
	*plan = (struct save_plan) {0};
}

size_t save_plan_find(const struct save_plan *plan, uint64_t offset)
{
	size_t low = 0, high = plan->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct part *p = &plan->parts[middle];

		if (p->offset + p->nbytes > offset)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}
