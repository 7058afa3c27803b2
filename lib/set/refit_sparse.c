/* SPDX-License-Identifier: MIT */
/*
 * New values at some positions: the old tensor is copied, then values are
 * written over it. Positions are copied first, and the copy is checked before
 * anything else is done, so that nothing is ever written outside of the tensor
 * whatever other threads do to the caller's.
 */
#include "base/checked.h"
#include "base/fail.h"
#include "lib/cuda/list_steps.h"
#include "lib/cuda/work.h"
#include "lib/layout/layout.h"
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

static void check_here(
	const tarn_tensor *positions, struct cuda_list *list, uint64_t ret[2])
{
	ret[0] = 0;
	list->positions = (uintptr_t)tarn_tensor_data(positions);
	list->out = (uintptr_t)ret;
	for (uint64_t i = 0; i < list->n && !ret[0]; i++)
		list_check(list, i);
}

/* Is each of them a position of so many elements? */
static int check_positions(
	const tarn_tensor *positions, int64_t numel, void *cuda_stream)
{
	struct cuda_list list = list_of(positions);
	uint64_t bad[2] = {0, 0};
	int r = 0;

	list.limit = (uint64_t)numel;
	if (!list.n)
		return 0;
	if (positions->storage->on_device)
		r = check_there(positions, &list, cuda_stream, bad);
	else
		check_here(positions, &list, bad);
	if (r >= 0 && bad[0])
		return tarn_fail(ERANGE,
			"there is no element at position %lld; it has %lld",
			(long long)bad[1], (long long)numel);
	return r;
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
		r = check_positions(ret->at, tarn_layout_numel(&to->layout),
			refit->cuda_stream);
	if (r >= 0)
		r = set_place_copy(&place, values, to->layout.dtype,
			refit->cuda_stream, &ret->new);
	if (r < 0)
		drop_lists(ret);
	return r;
}

static int sparse(struct tarn_refit *refit, const char *name,
	const tarn_tensor *positions, const tarn_tensor *values)
{
	struct lists lists = {NULL, NULL};
	struct refit_name *to;
	int r = refit_check(refit);

	if (r >= 0)
		r = refit_find_free(refit, name, &to);
	if (r >= 0)
		r = check_lists(&positions->layout, &values->layout, to);
	if (r < 0)
		return r;
	r = refit_take(refit, to, true);
	if (r < 0)
		return r;
	r = copy_lists(refit, to, positions, values, &lists);
	if (r == -ENOMEM && refit_make_room(refit) == 1)
		r = copy_lists(refit, to, positions, values, &lists);
	if (r < 0) {
		to->leader->taken = NULL;
		refit_unplace(refit, to->leader);
		return r;
	}
	return refit_add_piece(
		refit, to, to->old, false, 0, -1, lists.at, lists.new);
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
	const tarn_tensor *values, void *cuda_stream, struct cuda_list *list)
{
	struct set_work work;
	int r = set_work_begin(&work, dst, cuda_stream);

	if (r >= 0)
		r = set_device_address(dst, &list->dst);
	if (r >= 0)
		r = set_device_address(positions, &list->positions);
	if (r >= 0)
		r = set_device_address(values, &list->src);
	if (r >= 0)
		r = cuda_queue_list(work.queue, CUDA_L_scatter, list);
	if (r >= 0)
		r = set_work_wait(&work);
	set_work_end(&work);
	return r;
}

int refit_scatter(const tarn_tensor *dst, const tarn_tensor *positions,
	const tarn_tensor *values, void *cuda_stream)
{
	struct cuda_list list = list_of(positions);

	set_target(&list, &dst->layout);
	if (!list.n)
		return 0;
	if (dst->storage->on_device)
		return scatter_there(
			dst, positions, values, cuda_stream, &list);
	list.dst = (uintptr_t)tarn_tensor_data(dst);
	list.src = (uintptr_t)tarn_tensor_data(values);
	list.positions = (uintptr_t)tarn_tensor_data(positions);
	for (uint64_t i = 0; i < list.n; i++)
		list_scatter(&list, i);
	return 0;
}
