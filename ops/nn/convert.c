// SPDX-License-Identifier: MIT
/* Dtypes and devices: each slot says what it asks for, and a state is made so
 * before it becomes the present one. Tied tensors are neighbours in an order of
 * the slots, so that they are converted once, and stay tied. */
#include <errno.h>
#include <string.h>

#include "ops/nn/tree.h"

DEFINE_CLEANUP(tarn_storage *, tarn_storage_unref);

#define ALIGN 256u /* of a tensor on a device: what cudaMalloc gives */

static int compare(uintptr_t a, uintptr_t b)
{
	return (a > b) - (a < b);
}

int tied_order(const tarn_tensor *a, const tarn_tensor *b)
{
	int order = compare((uintptr_t)tarn_tensor_storage(a),
		(uintptr_t)tarn_tensor_storage(b));

	if (order == 0)
		order = compare(tarn_tensor_base(a), tarn_tensor_base(b));
	if (order == 0)
		order = memcmp(tarn_tensor_layout(a), tarn_tensor_layout(b),
			sizeof(struct tarn_layout));
	return order;
}

/* By their names: "F32", "BF16". */
bool is_float(enum tarn_dtype dtype)
{
	const char *name = tarn_dtype_name(dtype);

	return name && (name[0] == 'F' || strncmp(name, "BF", 2) == 0);
}

/* ---- what is to be done ------------------------------------------------- */

struct change {
	tarn_tensor *from; /* the slot's */
	size_t at;         /* the slot's index */
	struct target target;
	bool tied; /* to that before it, which has the same target */
	tarn_tensor *made;
};

static int change_of(const struct slot *slot, size_t at, struct change *ret)
{
	const struct tarn_layout *l = tarn_tensor_layout(slot->tensor);
	struct tarn_cuda_device device = {.reserved = {0}};
	struct target now = {.dtype = l->dtype}, then = slot->wish;
	int r = tarn_storage_device(tarn_tensor_storage(slot->tensor), &device);

	if (r < 0)
		return r;
	now.place = r == 1 ? PLACE_DEVICE : PLACE_HOST;
	memcpy(now.uuid, device.uuid, sizeof(now.uuid));
	if (then.place == PLACE_ANY)
		then = now;
	then.dtype = slot->wish.dtype && is_float(l->dtype) ? slot->wish.dtype
							    : now.dtype;
	*ret = (struct change) {.from = slot->tensor, .at = at, .target = then};
	return memcmp(&now, &then, sizeof(now)) != 0;
}

static int in_tied_order(const void *a, const void *b)
{
	const struct change *x = a, *y = b;
	int order = tied_order(x->from, y->from);

	return order ? order
		     : memcmp(&x->target, &y->target, sizeof(x->target));
}

static int changes_of(
	const tarn_state *state, struct change *changes, size_t *n)
{
	for (size_t i = 0; i < state->n; i++) {
		int r = change_of(&state->slots[i], i, &changes[*n]);

		if (r < 0)
			return r;
		*n += (size_t)r;
	}
	qsort(changes, *n, sizeof(changes[0]), in_tied_order);
	for (size_t i = 1; i < *n; i++)
		changes[i].tied =
			in_tied_order(&changes[i - 1], &changes[i]) == 0;
	return 0;
}

/* ---- doing it ----------------------------------------------------------- */

/* What goes to the device of the first has its place behind the others that do,
 * in one storage, since each storage has granules of 2 MiB. Called first for
 * their size, without storage. */
static int put_on_device(struct change *changes, size_t n,
	tarn_storage *storage, uint64_t *ret_size)
{
	const uint8_t *uuid = changes[0].target.uuid;
	uint64_t at = 0, end;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct change *c = &changes[i];
		const struct tarn_layout *from = tarn_tensor_layout(c->from);
		struct tarn_layout l;

		if (c->tied || memcmp(c->target.uuid, uuid, 16) != 0)
			continue;
		r = tarn_layout_contiguous(
			c->target.dtype, from->ndim, from->shape, &l);
		if (r >= 0 && storage)
			r = tarn_tensor_new(storage, at, &l, &c->made);
		if (r >= 0 &&
			(add_u64(at, (uint64_t)tarn_layout_nbytes(&l), &end) ||
				round_up_u64(end, ALIGN, &at)))
			r = tarn_error_set(EOVERFLOW,
				"to: the tensors have more than 2^64 bytes");
	}
	*ret_size = at;
	return r;
}

static int make_on_device(struct change *changes, size_t n)
{
	_cleanup_(tarn_storage_unrefp) tarn_storage *storage = NULL;
	struct tarn_cuda_device device = {.reserved = {0}};
	uint64_t size;
	int r = put_on_device(changes, n, NULL, &size);

	memcpy(device.uuid, changes[0].target.uuid, sizeof(device.uuid));
	if (r >= 0)
		r = tarn_cuda_alloc(&device, MAX(size, ALIGN), &storage);
	return r < 0 ? r : put_on_device(changes, n, storage, &size);
}

static int make(struct change *changes, size_t n)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct change *c = &changes[i];
		const struct tarn_layout *l = tarn_tensor_layout(c->from);

		if (c->tied)
			c->made = tarn_tensor_ref(changes[i - 1].made);
		else if (c->target.place == PLACE_HOST)
			r = tarn_tensor_zeros(
				c->target.dtype, l->ndim, l->shape, &c->made);
		else if (!c->made)
			r = make_on_device(c, n - i);
		if (r >= 0 && !c->tied)
			r = tarn_copy(c->made, c->from, NULL, NULL);
	}
	return r;
}

int state_convert(tarn_state *state)
{
	_cleanup_free_ struct change *changes =
		calloc(state->n + 1, sizeof(changes[0]));
	size_t n = 0;
	int r = changes ? changes_of(state, changes, &n) : tree_no_memory();

	if (r >= 0)
		r = make(changes, n);
	for (size_t i = 0; i < n; i++) {
		if (r >= 0)
			slot_set(&state->slots[changes[i].at], changes[i].made);
		tarn_tensor_unref(changes[i].made);
	}
	return r;
}

/* ---- asking for it ------------------------------------------------------ */

struct wish {
	tarn_state *state;
	struct target target;
};

static int wish_for(
	enum tarn_dtype dtype, const char *device, struct target *ret)
{
	struct tarn_cuda_device found;
	int r;

	*ret = (struct target) {.dtype = dtype};
	if (dtype != TARN_DTYPE_NONE && !is_float(dtype))
		return tarn_error_set(EINVAL,
			"to: dtype %s is not a floating one",
			tarn_dtype_name(dtype) ? tarn_dtype_name(dtype)
					       : "(invalid)");
	if (device)
		ret->place =
			strcmp(device, "cpu") == 0 ? PLACE_HOST : PLACE_DEVICE;
	if (ret->place != PLACE_DEVICE)
		return 0;
	if (strcmp(device, "cuda") == 0)
		device = "0";
	else if (strncmp(device, "cuda:", 5) == 0)
		device += 5;
	r = tarn_cuda_device(device, &found);
	if (r >= 0)
		memcpy(ret->uuid, found.uuid, sizeof(ret->uuid));
	return r;
}

static int mark(void *arg, tarn_parameter *p)
{
	const struct wish *wish = arg;
	struct target *target = &wish->state->slots[p->slot].wish;
	uint32_t dtype = target->dtype;

	if (wish->target.place != PLACE_ANY)
		*target = wish->target;
	target->dtype = wish->target.dtype ? wish->target.dtype : dtype;
	return 0;
}

int tarn_module_to(tarn_module *m, enum tarn_dtype dtype, const char *device)
{
	struct wish wish;
	int r = wish_for(dtype, device, &wish.target);

	while (r >= 0) {
		_cleanup_state_ tarn_state *base = tarn_module_hold(m),
					   *next = NULL;

		r = state_copy(base, base->n, &next);
		if (r < 0)
			return r;
		wish.state = next;
		r = tarn_module_each(m, mark, &wish);
		if (r >= 0)
			r = state_convert(next);
		if (r >= 0 && state_swap(m->tree, base, STEAL(next)))
			return 0;
	}
	return r;
}
