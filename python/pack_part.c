// SPDX-License-Identifier: MIT
/*
 * The parts of what is packed: the bytes of arrays. The tree gets an array's
 * dtype, shape and place; its bytes are noted here, and copied when their
 * destination is known. An array in memory that the item has already is only
 * referred to.
 */
#include "python/pack.h"

#include <stdlib.h>
#include <string.h>

/* From here on a copy takes longer than giving up the GIL and getting it
 * back. */
#define LONG_COPY (32u << 10)
/* A tensor of PyTorch's of less is copied in the time that holding it takes. */
#define SHORT_COPY (16u << 10)

/* ---- parts to copy ------------------------------------------ */

struct pack_part *pack_new_part(struct packer *p, uint64_t size)
{
	size_t room = p->parts_room ? p->parts_room * 2 : 16;
	struct pack_part *part = p->parts;
	uint64_t end;

	if (p->n_parts == p->parts_room) {
		part = realloc(part, room * sizeof(*part));
		if (!part) {
			PyErr_NoMemory();
			return NULL;
		}
		p->parts = part;
		p->parts_room = room;
	}
	if (__builtin_add_overflow(p->bytes, size, &end) ||
		end > (uint64_t)INT64_MAX / 2) {
		PyErr_SetString(PyExc_OverflowError,
			"put: the arrays have more bytes than any memory");
		return NULL;
	}
	part = &p->parts[p->n_parts++];
	*part = (struct pack_part) {.at = p->bytes, .size = size};
	p->bytes = (end + PACK_ALIGN - 1) / PACK_ALIGN * PACK_ALIGN;
	return part;
}

void pack_drop_part(struct pack_part *part)
{
	if (part->view.obj)
		PyBuffer_Release(&part->view);
	tarn_tensor_unref((tarn_tensor *)part->steps);
	Py_XDECREF(part->owner);
}

static bool is_long(const struct packer *p)
{
	return p->bytes >= LONG_COPY;
}

/* A thread that assigns to a tensor's data while it is copied without the GIL
 * would free the memory that is read: for each that takes a while, a tensor of
 * our own keeps the memory. (That does not help against resize_, which changes
 * the memory itself.) 0 or -1. */
static int hold_parts(struct packer *p)
{
	struct pack_part *part;
	PyObject *held;

	for (size_t i = 0; i < p->n_parts; i++) {
		part = &p->parts[i];
		if (!part->moves || part->held || part->size < SHORT_COPY)
			continue;
		held = pack_torch_hold(part->owner);
		if (!held)
			return -1;
		p->others_ran = true;
		part->held = true;
		Py_DECREF(part->owner);
		part->owner = held;
	}
	return 0;
}

int pack_moved(struct packer *p)
{
	const struct pack_part *part;
	int r = 1;

	if (is_long(p) && hold_parts(p) < 0)
		return -1;
	if (!p->others_ran)
		return 0;
	p->others_ran = false;
	for (size_t i = 0; i < p->n_parts && r == 1; i++) {
		part = &p->parts[i];
		if (part->moves && part->span)
			r = pack_torch_has(
				part->owner, part->first, part->span);
	}
	return r < 0 ? -1 : !r;
}

/* Elements that are not in C order, by tarn's own copy. */
static int copy_steps(const struct pack_part *part, unsigned char *to)
{
	struct tarn_layout layout = *tarn_tensor_layout(part->steps);
	tarn_storage *storage;
	tarn_tensor *dst;
	int r = tarn_layout_contiguous(
		layout.dtype, layout.ndim, layout.shape, &layout);

	if (r >= 0)
		r = tarn_storage_borrow(to, part->size, TARN_BORROW_WRITABLE,
			NULL, NULL, &storage);
	if (r < 0)
		return r;
	r = tarn_tensor_new(storage, 0, &layout, &dst);
	tarn_storage_unref(storage);
	if (r < 0)
		return r;
	r = tarn_copy(dst, part->steps, NULL, NULL);
	tarn_tensor_unref(dst);
	return r;
}

/* Those that may move, or those that stay. */
static int copy_parts(
	const struct packer *p, bool may_move, unsigned char *bytes)
{
	const struct pack_part *part;
	int r;

	for (size_t i = 0; i < p->n_parts; i++) {
		part = &p->parts[i];
		if ((part->moves && !part->held) != may_move)
			continue;
		if (part->data) {
			memcpy(bytes + part->at, part->data, part->size);
			continue;
		}
		r = part->steps ? copy_steps(part, bytes + part->at) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

int pack_copy_parts(const struct packer *p, unsigned char *bytes)
{
	PyThreadState *state = NULL;
	int r = copy_parts(p, true, bytes);

	if (r >= 0 && is_long(p))
		state = PyEval_SaveThread();
	if (r >= 0)
		r = copy_parts(p, false, bytes);
	if (state)
		PyEval_RestoreThread(state);
	if (r >= 0)
		return 0;
	raise_view(r);
	return -1;
}

/* ---- the tree ------------------------------------------------------ */

int pack_shape(struct packer *p, const struct pack_layout *a, bool strided)
{
	unsigned mark = strided ? PACK_STRIDED : 0;

	if (pack_tag(p, a->tag) < 0 ||
		pack_number(p, (unsigned)a->dtype | mark) < 0 ||
		pack_number(p, (uint64_t)a->ndim) < 0)
		return -1;
	for (int i = 0; i < a->ndim; i++)
		if (pack_number(p, (uint64_t)a->shape[i]) < 0)
			return -1;
	for (int i = 0; strided && i < a->ndim; i++)
		if (pack_signed(p, a->strides[i]) < 0)
			return -1;
	return 0;
}

/* The reader checks where it ends. */
int pack_as_view(struct packer *p, const struct pack_layout *a)
{
	const struct pack_record *record = p->records;
	size_t n = 0;

	while (n < p->n_records &&
		(a->data < record[n].data ||
			(uint64_t)(a->data - record[n].data) >= record[n].size))
		n++;
	if (n == p->n_records || !a->data)
		return 0;
	if (pack_tag(p, PACK_VIEW) < 0 || pack_number(p, n) < 0 ||
		pack_signed(p, a->data - record[n].data) < 0 ||
		pack_shape(p, a, true) < 0)
		return -1;
	return 1;
}

/* Are its elements side by side, in the order of other dimensions? PyTorch's
 * channels_last and Fortran order are, and stay so. */
static bool is_dense(const struct pack_layout *a)
{
	bool seen[TARN_NDIM_MAX] = {false};
	int64_t step = 1;
	int i;

	for (int left = a->ndim; left > 0; left--) {
		for (i = 0; i < a->ndim; i++)
			if (!seen[i] &&
				(a->shape[i] == 1 || a->strides[i] == step))
				break;
		if (i == a->ndim || a->strides[i] < 0)
			return false;
		seen[i] = true;
		step *= a->shape[i];
	}
	return true;
}

/* A tensor over memory that lives as long as the part, which notes where that
 * is. */
static int steps_of(
	const struct pack_layout *a, struct pack_part *part, tarn_tensor **ret)
{
	int64_t first, count, size = tarn_dtype_bits(a->dtype) / 8;
	struct tarn_layout layout;
	tarn_storage *storage;
	int r = tarn_layout_strided(
		a->dtype, a->ndim, a->shape, a->strides, 0, &layout);

	if (r < 0)
		return r;
	tarn_layout_bounds(&layout, &first, &count);
	layout.offset = count ? -first : 0;
	part->first = a->data - layout.offset * size;
	part->span = (uint64_t)(count * size);
	r = tarn_storage_borrow((void *)(uintptr_t)part->first, part->span, 0,
		NULL, NULL, &storage);
	if (r < 0)
		return r;
	r = tarn_tensor_new(storage, 0, &layout, ret);
	tarn_storage_unref(storage);
	return r;
}

/* Its bytes, of which it has some. 0 or -1. */
static int pack_bytes_of(struct packer *p, const struct pack_layout *a,
	uint64_t size, struct pack_part **ret)
{
	struct pack_part *part = pack_new_part(p, size);
	bool dense = size && !a->contiguous && is_dense(a);
	tarn_tensor *steps;
	int r;

	if (!part || pack_shape(p, a, dense) < 0 ||
		pack_number(p, part->at / PACK_ALIGN) < 0)
		return -1;
	*ret = part;
	part->moves = a->tag == PACK_TORCH;
	if (a->contiguous || dense || size == 0) {
		part->data = part->first = size ? a->data : NULL;
		part->span = size;
		return 0;
	}
	r = steps_of(a, part, &steps);
	if (r < 0) {
		raise_view(r);
		return -1;
	}
	part->steps = steps;
	return 0;
}

static int array_bytes(const struct pack_layout *a, uint64_t *ret)
{
	struct tarn_layout layout;
	int r = tarn_layout_contiguous(a->dtype, a->ndim, a->shape, &layout);

	if (r < 0) {
		raise_view(r);
		return -1;
	}
	*ret = (uint64_t)tarn_layout_nbytes(&layout);
	return 0;
}

int pack_owned(struct packer *p, const struct pack_layout *a, PyObject *owner)
{
	int r = pack_as_view(p, a);
	struct pack_part *part;
	uint64_t size;

	if (r != 0)
		return r;
	if (array_bytes(a, &size) < 0 || pack_bytes_of(p, a, size, &part) < 0)
		return -1;
	Py_INCREF(owner);
	part->owner = owner;
	return 1;
}

int pack_viewed(struct packer *p, const struct pack_layout *a, Py_buffer *view)
{
	int r = pack_as_view(p, a);
	struct pack_part *part;
	uint64_t size;

	if (r == 0)
		r = array_bytes(a, &size) < 0 ||
				    pack_bytes_of(p, a, size, &part) < 0
			    ? -1
			    : 2;
	if (r == 2)
		part->view = *view;
	else
		PyBuffer_Release(view);
	return r < 0 ? -1 : 1;
}
