/* SPDX-License-Identifier: MIT */
/*
 * The digest of a tensor. A device sums up what is contiguous there. On the
 * host a tensor is cut along its outer dimensions, until a part is contiguous in
 * memory, and is read where it is, or is small enough to be packed into a buffer
 * that stays in the CPU's cache; what is in a file, or on a device without
 * kernels, comes through the same buffer.
 */
#include "lib/set/digest.h"

#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/cuda/list_steps.h"
#include "lib/cuda/work.h"
#include "lib/reserved.h"
#include "lib/set/place.h"
#include "lib/tensor/tensor.h"

/* Of the buffer. Picked: half of a common L2; and what one read of a file is long
 * enough for. */
#define PART_MEMORY ((uint64_t)512 << 10)
#define PART_FILE ((uint64_t)8 << 20)

/* ---- bytes --------------------------------------------------------------- */

static void add_words(struct digest_state *s, const void *bytes, uint64_t words)
{
	word_sums_add(&s->sums, bytes, words, s->size / 8);
	s->size += words * 8;
}

void set_digest_add(struct digest_state *s, const void *bytes, size_t size)
{
	const unsigned char *p = bytes;
	unsigned held = (unsigned)(s->size % 8);
	size_t n;

	if (held) {
		n = MIN(size, (size_t)(8 - held));
		memcpy(s->word + held, p, n);
		s->size += n;
		p += n;
		size -= n;
		if (s->size % 8)
			return;
		s->size -= 8;
		add_words(s, s->word, 1);
	}
	n = size % 8;
	add_words(s, p, size / 8);
	memcpy(s->word, p + size - n, n);
	s->size += n;
}

struct tarn_digest set_digest_of(const struct word_sums *sums, uint64_t size)
{
	return (struct tarn_digest) {{
		size * WORD_STEP_A + sums->a,
		size * WORD_STEP_B + sums->b,
	}};
}

struct tarn_digest set_digest_end(struct digest_state *s)
{
	unsigned held = (unsigned)(s->size % 8);

	if (held) {
		memset(s->word + held, 0, 8 - held);
		word_sums_add(&s->sums, s->word, 1, s->size / 8);
	}
	return set_digest_of(&s->sums, s->size);
}

/* ---- on the host --------------------------------------------------------- */

struct parts {
	struct digest_state state;
	struct tarn_copy_options options;
	tarn_storage *buffer;
	uint64_t room;
};

static int take_part(struct parts *p, const tarn_tensor *part)
{
	const struct tarn_layout *l = tarn_tensor_layout(part);
	_cleanup_tensor_ tarn_tensor *packed = NULL;
	struct tarn_layout layout;
	int r = tarn_layout_contiguous(l->dtype, l->ndim, l->shape, &layout);

	if (r >= 0)
		r = tarn_tensor_new(p->buffer, 0, &layout, &packed);
	if (r >= 0)
		r = tarn_copy(packed, part, &p->options, NULL);
	if (r >= 0)
		set_digest_add(&p->state, tarn_storage_data(p->buffer),
			(size_t)tarn_layout_nbytes(l));
	return r;
}

static int take(struct parts *p, tarn_tensor *tensor);

/* By parts along the outermost dimension of more than one step. */
static int take_cut(struct parts *p, tarn_tensor *tensor, uint64_t size)
{
	const struct tarn_layout *l = tarn_tensor_layout(tensor);
	int dim = 0;
	int64_t step, pack;
	int r = 0;

	while (l->shape[dim] == 1)
		dim++;
	/* Elements that share bytes are adjacent in the last dimension. */
	pack = dim == l->ndim - 1 ? tarn_dtype_pack(l->dtype) : 1;
	step = (int64_t)(p->room / (size / (uint64_t)l->shape[dim] + 1));
	step = MAX(step - step % pack, pack);
	for (int64_t i = 0; r >= 0 && i < l->shape[dim]; i += step) {
		_cleanup_tensor_ tarn_tensor *part = NULL;

		r = tarn_tensor_narrow(
			tensor, dim, i, MIN(step, l->shape[dim] - i), &part);
		if (r >= 0)
			r = take(p, part);
	}
	return r;
}

static int take(struct parts *p, tarn_tensor *tensor)
{
	const struct tarn_layout *l = tarn_tensor_layout(tensor);
	uint64_t size = (uint64_t)tarn_layout_nbytes(l);

	if (!size)
		return 0;
	if (storage_by_address(tensor->storage) &&
		tarn_layout_is_contiguous(l)) {
		set_digest_add(
			&p->state, tarn_tensor_data(tensor), (size_t)size);
		return 0;
	}
	if (size <= p->room)
		return take_part(p, tensor);
	return take_cut(p, tensor, size);
}

static int digest_host(const tarn_tensor *tensor,
	const struct tarn_copy_options *options, struct tarn_digest *ret)
{
	struct parts p = {.options = *options};
	tarn_tensor *own =
		(tarn_tensor *)tensor; /* narrowing takes a reference */
	int r;

	p.room = storage_by_address(tensor->storage) ? PART_MEMORY : PART_FILE;
	r = tarn_storage_alloc(p.room, &p.buffer);
	if (r >= 0)
		r = take(&p, own);
	tarn_storage_unref(p.buffer);
	if (r >= 0)
		*ret = set_digest_end(&p.state);
	return r;
}

/* ---- on a device --------------------------------------------------------- */

/* Blocks leave their sums in a slot. */
static int sum_up(const struct set_work *work, uint64_t at, uint64_t size,
	struct tarn_digest *ret)
{
	struct cuda_list list = {
		.src = at, .n = size, .blocks = cuda_list_blocks(size / 32)};
	const uint64_t *of = cuda_slot_memory(work->slot);
	struct word_sums sums = {0, 0};
	int r = set_work_slot(work, &list.out);

	if (r >= 0)
		r = cuda_queue_list(work->queue, CUDA_L_sums, &list);
	if (r >= 0)
		r = set_work_wait(work);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < list.blocks; i++) {
		sums.a += of[2 * i];
		sums.b += of[2 * i + 1];
	}
	*ret = set_digest_of(&sums, size);
	return 0;
}

static int digest_packed(const tarn_tensor *tensor,
	const struct tarn_copy_options *options, struct tarn_digest *ret)
{
	uint64_t size = (uint64_t)tarn_layout_nbytes(&tensor->layout), at;
	struct set_work work;
	int r = set_work_begin(&work, tensor, options->cuda_stream);

	if (r >= 0)
		r = set_device_address(tensor, &at);
	if (r >= 0)
		r = sum_up(&work, at, size, ret);
	set_work_end(&work);
	return r;
}

static int digest_device(const tarn_tensor *tensor,
	const struct tarn_copy_options *options, struct tarn_digest *ret)
{
	const struct tarn_layout *l = tarn_tensor_layout(tensor);
	struct set_place place = set_place_of(tensor);
	_cleanup_tensor_ tarn_tensor *packed = NULL;
	int r;

	if (tarn_layout_is_contiguous(l))
		return digest_packed(tensor, options, ret);
	r = set_place_tensor(
		NULL, &place, l->dtype, l->ndim, l->shape, &packed);
	if (r >= 0)
		r = tarn_copy(packed, tensor, options, NULL);
	return r < 0 ? r : digest_packed(packed, options, ret);
}

int tarn_tensor_digest(const tarn_tensor *tensor,
	const struct tarn_copy_options *options, struct tarn_digest *ret)
{
	struct tarn_copy_options own = {0};
	int r = RESERVED_CHECK("tarn_copy_options", options);

	if (options) {
		own.io_mode = options->io_mode;
		own.engine = options->engine;
		own.cuda_stream = options->cuda_stream;
	}
	if (r >= 0) {
		/* Without kernels the bytes come to the host. */
		r = tarn_layout_nbytes(&tensor->layout) &&
				    tensor->storage->on_device
			    ? digest_device(tensor, &own, ret)
			    : -ENOTSUP;
		if (r == -ENOTSUP)
			r = digest_host(tensor, &own, ret);
	}
	return r < 0 ? tarn_fail_prefix(r, "digest: ") : 0;
}
