/* SPDX-License-Identifier: MIT */
/*
 * New values at some positions: the old tensor is copied, or the pages that change
 * (refit_patch.c), then values are written over it. Positions are copied first, and the copy is checked before
 * anything else is done, so that nothing is ever written outside of the tensor
 * whatever other threads do to the caller's.
 */
#include "base/checked.h"
#include "base/fail.h"
#include "lib/cuda/work.h"
#include "lib/layout/layout.h"
#include "lib/set/elements.h"
#include "lib/set/refit.h"

static bool is_wide(const tarn_tensor *positions)
{
	return positions->layout.dtype == TARN_I64;
}

static struct cuda_list list_of(const tarn_tensor *positions)
{
	uint64_t n = (uint64_t)tarn_layout_numel(&positions->layout);

	return (struct cuda_list) {
		.n = n,
		.wide = is_wide(positions),
		.blocks = cuda_list_blocks(n),
	};
}

/* ---- checking ------------------------------------------------------------ */

static int check_there(const tarn_tensor *positions, struct cuda_list *list,
	void *cuda_stream, uint64_t ret[2])
{
	struct set_work work;
	uint64_t *out;
	int r = set_work_begin(&work, positions, cuda_stream);

	if (r >= 0)
		r = set_work_slot(&work, &list->out);
	if (r >= 0)
		r = set_device_address(positions, &list->positions);
	if (r >= 0) {
		out = cuda_slot_memory(work.slot);
		out[0] = 0;
		r = cuda_queue_list(work.queue, CUDA_L_check, list);
	}
	if (r >= 0)
		r = set_work_wait(&work);
	if (r >= 0) {
		ret[0] = out[0];
		ret[1] = out[1];
	}
	set_work_end(&work);
	return r;
}

static int check_on_device(
	const tarn_tensor *positions, uint64_t numel, void *cuda_stream)
{
	struct cuda_list list = list_of(positions);
	uint64_t bad[2] = {0, 0};
	int r;

	list.limit = numel;
	r = check_there(positions, &list, cuda_stream, bad);
	return r >= 0 && bad[0] ? elements_bad((int64_t)bad[1], numel) : r;
}

/* Is each of them a position of such a tensor? */
static int check_positions(const tarn_tensor *positions,
	const struct tarn_layout *to, void *cuda_stream)
{
	struct elements e;

	if (!positions->layout.shape[0])
		return 0;
	if (positions->storage->on_device)
		return check_on_device(positions,
			(uint64_t)tarn_layout_numel(to), cuda_stream);
	elements_of(positions, positions, to, &e);
	return elements_check(&e);
}

static int check_lists(const struct tarn_layout *positions,
	const struct tarn_layout *values, const struct refit_name *to)
{
	enum tarn_dtype dtype = to->layout.dtype;

	if (!to->old)
		return tarn_fail_constant(
			EINVAL, "it has no old elements to keep");
	if (positions->dtype != TARN_I64 && positions->dtype != TARN_I32)
		return tarn_fail(EINVAL,
			"positions are %s; I64 or I32 is wanted",
			tarn_dtype_name(positions->dtype));
	if (positions->ndim != 1 || values->ndim != 1 ||
		positions->shape[0] != values->shape[0])
		return tarn_fail(EINVAL,
			"positions of shape %s, and values of shape %s; one "
			"dimension of as many is wanted",
			LAYOUT_TEXT(positions), LAYOUT_TEXT(values));
	if (tarn_dtype_pack(dtype) > 1)
		return tarn_fail(ENOTSUP,
			"elements of %s share bytes: put the tensor whole",
			tarn_dtype_name(dtype));
	return 0;
}

/* Where the new tensor will be. */
struct lists {
	tarn_tensor *at, *new;
};

static void drop_lists(struct lists *lists)
{
	lists->at = tarn_tensor_unref(lists->at);
	lists->new = tarn_tensor_unref(lists->new);
}

/* ---- putting ------------------------------------------------------------- */

/* Copies of both, of which the positions are checked. */
static int copy_lists(const struct tarn_refit *refit,
	const struct refit_name *to, const tarn_tensor *positions,
	const tarn_tensor *values, struct lists *ret)
{
	const struct set_place place =
		refit->has_place ? refit->place : set_place_of(to->old);
	int r = set_place_copy(&place, positions, positions->layout.dtype,
		refit->cuda_stream, &ret->at);

	if (r >= 0)
		r = check_positions(ret->at, &to->layout, refit->cuda_stream);
	if (r >= 0)
		r = set_place_copy(&place, values, to->layout.dtype,
			refit->cuda_stream, &ret->new);
	if (r < 0)
		drop_lists(ret);
	return r;
}

/* Takes the lists, also after an error. */
static int put_whole(
	struct tarn_refit *refit, struct refit_name *to, struct lists *lists)
{
	return refit_add_piece(refit, to, to->old, false, 0, -1,
		STEAL(lists->at), STEAL(lists->new));
}

/* As they are, if they can be read like that; they are read by this call alone. */
static int plain_lists(const struct tarn_refit *refit,
	const struct refit_name *to, const tarn_tensor *positions,
	const tarn_tensor *values, struct lists *ret)
{
	if (!tensor_is_plain(positions) || !tensor_is_plain(values) ||
		values->layout.dtype != to->layout.dtype)
		return copy_lists(refit, to, positions, values, ret);
	ret->at = tarn_tensor_ref((tarn_tensor *)positions);
	ret->new = tarn_tensor_ref((tarn_tensor *)values);
	return 0;
}

static int sparse_here(struct tarn_refit *refit, struct refit_name *to,
	const tarn_tensor *positions, const tarn_tensor *values)
{
	struct lists lists = {NULL, NULL};
	int r = plain_lists(refit, to, positions, values, &lists);

	if (r >= 0)
		r = refit_patch_put(refit, to, lists.at, lists.new);
	drop_lists(&lists);
	if (r != 0)
		return MIN(r, 0);
	r = copy_lists(refit, to, positions, values, &lists);
	if (r >= 0)
		r = refit_take(refit, to, false);
	if (r >= 0)
		return put_whole(refit, to, &lists);
	drop_lists(&lists);
	return r;
}

/* The bucket gets its memory before the lists take what there is. */
static int sparse_there(struct tarn_refit *refit, struct refit_name *to,
	const tarn_tensor *positions, const tarn_tensor *values)
{
	struct lists lists = {NULL, NULL};
	int r = refit_take(refit, to, true);

	if (r < 0)
		return r;
	r = copy_lists(refit, to, positions, values, &lists);
	if (r == -ENOMEM && refit_make_room(refit) == 1)
		r = copy_lists(refit, to, positions, values, &lists);
	if (r >= 0)
		return put_whole(refit, to, &lists);
	to->leader->taken = NULL;
	refit_unplace(refit, to->leader);
	return r;
}

static int sparse(struct tarn_refit *refit, const char *name,
	const tarn_tensor *positions, const tarn_tensor *values)
{
	struct refit_name *to;
	int r = refit_check(refit);

	if (r >= 0)
		r = refit_find_free(refit, name, &to);
	if (r >= 0)
		r = check_lists(&positions->layout, &values->layout, to);
	if (r < 0)
		return r;
	return refit->has_place || to->old->storage->on_device
		       ? sparse_there(refit, to, positions, values)
		       : sparse_here(refit, to, positions, values);
}

int tarn_refit_sparse(tarn_refit *refit, const char *name,
	const tarn_tensor *positions, const tarn_tensor *values)
{
	int r = sparse(refit, name, positions, values);

	return r < 0 ? tarn_fail_prefix(r, "refit: '%.200s': ", name) : 0;
}

/* ---- writing ------------------------------------------------------------- */

static void set_target(struct cuda_list *list, const struct tarn_layout *l)
{
	int64_t size = tarn_dtype_bits(l->dtype) / 8;

	list->size = (uint32_t)size;
	if (tarn_layout_is_contiguous(l)) {
		list->ndim = 1;
		list->extent[0] = tarn_layout_numel(l);
		list->stride[0] = size;
		return;
	}
	list->ndim = l->ndim;
	for (int i = 0; i < l->ndim; i++) {
		list->extent[i] = l->shape[l->ndim - 1 - i];
		list->stride[i] = l->stride[l->ndim - 1 - i] * size;
	}
}

static int scatter_there(const tarn_tensor *dst, const tarn_tensor *positions,
	const tarn_tensor *values, void *cuda_stream)
{
	struct cuda_list list = list_of(positions);
	struct set_work work;
	int r = set_work_begin(&work, dst, cuda_stream);

	set_target(&list, &dst->layout);
	if (r >= 0)
		r = set_device_address(dst, &list.dst);
	if (r >= 0)
		r = set_device_address(positions, &list.positions);
	if (r >= 0)
		r = set_device_address(values, &list.src);
	if (r >= 0)
		r = cuda_queue_list(work.queue, CUDA_L_scatter, &list);
	if (r >= 0)
		r = set_work_wait(&work);
	set_work_end(&work);
	return r;
}

int refit_scatter(const tarn_tensor *dst, const tarn_tensor *positions,
	const tarn_tensor *values, void *cuda_stream)
{
	struct elements e;

	if (!positions->layout.shape[0])
		return 0;
	if (dst->storage->on_device)
		return scatter_there(dst, positions, values, cuda_stream);
	elements_of(positions, values, &dst->layout, &e);
	return elements_write(&e, tarn_tensor_data(dst));
}
