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

static bool is_float(enum tarn_dtype dtype)
{
	switch (dtype) {
	case TARN_F4:
	case TARN_F6_E2M3:
	case TARN_F6_E3M2:
	case TARN_F8_E5M2:
	case TARN_F8_E4M3:
	case TARN_F8_E8M0:
	case TARN_F8_E4M3FNUZ:
	case TARN_F8_E5M2FNUZ:
	case TARN_F16:
	case TARN_BF16:
	case TARN_F32:
	case TARN_F64:
		return true;
	default:
		return false;
	}
}

/* ---- what is to be done ------------------------------------------------- */

struct change {
	const struct slot *slot;
	size_t at; /* the slot's index */
	bool needed;
	bool tied; /* to that before it, which has the same target */
	enum tarn_dtype dtype;
	bool on_device;
	struct tarn_cuda_device device;
	uint64_t bytes; /* on the device */
	tarn_tensor *made;
};

static bool same_target(const struct change *a, const struct change *b)
{
	return a->dtype == b->dtype && a->on_device == b->on_device &&
	       memcmp(a->device.uuid, b->device.uuid, sizeof(a->device.uuid)) ==
		       0;
}

static int change_of(const struct slot *slot, size_t at, struct change *ret)
{
	const struct tarn_layout *l = tarn_tensor_layout(slot->tensor);
	struct tarn_cuda_device now = {.reserved = {0}};
	int r = tarn_storage_device(tarn_tensor_storage(slot->tensor), &now);

	if (r < 0)
		return r;
	*ret = (struct change) {.slot = slot, .at = at};
	ret->dtype = slot->dtype && is_float(l->dtype) ? slot->dtype : l->dtype;
	ret->on_device =
		slot->place == PLACE_ANY ? r == 1 : slot->place == PLACE_DEVICE;
	if (ret->on_device)
		ret->device = slot->place == PLACE_ANY ? now : slot->device;
	ret->needed = ret->dtype != l->dtype || ret->on_device != (r == 1) ||
		      memcmp(now.uuid, ret->device.uuid, sizeof(now.uuid)) != 0;
	return 0;
}

static int in_tied_order(const void *a, const void *b)
{
	const struct change *x = a, *y = b;
	int order = tied_order(x->slot->tensor, y->slot->tensor);

	/* One that asks for the same as another is beside that. */
	if (order == 0)
		order = memcmp(
			x->device.uuid, y->device.uuid, sizeof(x->device.uuid));
	if (order == 0)
		order = (x->on_device > y->on_device) -
			(x->on_device < y->on_device);
	return order ? order : (x->dtype > y->dtype) - (x->dtype < y->dtype);
}

static int changes_of(
	const tarn_state *state, struct change *changes, size_t *n)
{
	for (size_t i = 0; i < state->n; i++) {
		int r = change_of(&state->slots[i], i, &changes[*n]);

		if (r < 0)
			return r;
		*n += changes[*n].needed;
	}
	qsort(changes, *n, sizeof(changes[0]), in_tied_order);
	for (size_t i = 1; i < *n; i++)
		changes[i].tied = tied_order(changes[i].slot->tensor,
					  changes[i - 1].slot->tensor) == 0 &&
				  same_target(&changes[i], &changes[i - 1]);
	return 0;
}

/* ---- doing it ----------------------------------------------------------- */

static int layout_of(const struct change *c, struct tarn_layout *ret)
{
	const struct tarn_layout *l = tarn_tensor_layout(c->slot->tensor);

	return tarn_layout_contiguous(c->dtype, l->ndim, l->shape, ret);
}

/* Room for all that go to the device of the first: one storage, since each has
 * granules of 2 MiB. */
static int device_room(struct change *changes, size_t n, tarn_storage **ret)
{
	uint64_t total = 0;

	for (size_t i = 0; i < n; i++) {
		struct tarn_layout l;
		int r = layout_of(&changes[i], &l);

		if (r < 0)
			return r;
		if (changes[i].tied || changes[i].made ||
			!same_target(&changes[i],
				&(struct change) {.dtype = changes[i].dtype,
					.on_device = true,
					.device = changes[0].device}))
			continue;
		if (round_up_u64((uint64_t)tarn_layout_nbytes(&l), ALIGN,
			    &changes[i].bytes) ||
			add_u64(total, changes[i].bytes, &total))
			return tarn_error_set(EOVERFLOW,
				"to: the tensors have more than 2^64 bytes");
	}
	return tarn_cuda_alloc(&changes[0].device, MAX(total, ALIGN), ret);
}

static int make_on_device(struct change *changes, size_t n)
{
	_cleanup_(tarn_storage_unrefp) tarn_storage *storage = NULL;
	struct tarn_cuda_device device = changes[0].device;
	uint64_t at = 0;
	int r = device_room(changes, n, &storage);

	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct change *c = &changes[i];
		struct tarn_layout l;

		if (!c->on_device || c->tied || c->made ||
			memcmp(c->device.uuid, device.uuid,
				sizeof(device.uuid)) != 0)
			continue;
		r = layout_of(c, &l);
		if (r >= 0)
			r = tarn_tensor_new(storage, at, &l, &c->made);
		at += c->bytes;
	}
	return r;
}

static int make_on_host(struct change *c)
{
	const struct tarn_layout *l = tarn_tensor_layout(c->slot->tensor);

	return tarn_tensor_zeros(c->dtype, l->ndim, l->shape, &c->made);
}

static int make(struct change *changes, size_t n)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct change *c = &changes[i];

		if (c->tied)
			c->made = tarn_tensor_ref(changes[i - 1].made);
		else if (!c->on_device)
			r = make_on_host(c);
		else if (!c->made)
			r = make_on_device(c, n - i);
		if (r >= 0 && !c->tied)
			r = tarn_copy(c->made, c->slot->tensor, NULL, NULL);
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
	enum tarn_dtype dtype;
	enum place place;
	struct tarn_cuda_device device;
};

static int wish_for(enum tarn_dtype dtype, const char *device, struct wish *ret)
{
	*ret = (struct wish) {.dtype = dtype};
	if (dtype != TARN_DTYPE_NONE && !is_float(dtype))
		return tarn_error_set(EINVAL,
			"to: dtype %s is not a floating one",
			tarn_dtype_name(dtype) ? tarn_dtype_name(dtype)
					       : "(invalid)");
	if (!device)
		return 0;
	ret->place = strcmp(device, "cpu") == 0 ? PLACE_HOST : PLACE_DEVICE;
	if (ret->place == PLACE_HOST)
		return 0;
	if (strcmp(device, "cuda") == 0)
		device = "0";
	else if (strncmp(device, "cuda:", 5) == 0)
		device += 5;
	return tarn_cuda_device(device, &ret->device);
}

static int mark(void *arg, tarn_parameter *p)
{
	const struct wish *wish = arg;
	struct slot *slot = &wish->state->slots[p->slot];

	if (wish->dtype != TARN_DTYPE_NONE)
		slot->dtype = wish->dtype;
	if (wish->place != PLACE_ANY) {
		slot->place = wish->place;
		slot->device = wish->device;
	}
	return 0;
}

int tarn_module_to(tarn_module *m, enum tarn_dtype dtype, const char *device)
{
	struct wish wish;
	int r = wish_for(dtype, device, &wish);

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
