// SPDX-License-Identifier: MIT
/*
 * Packing arrays: Tensors, numpy's and memory. A published Tensor, which all
 * clients of the store can read, is sent as it is, if it is not small or lies
 * on a device. Others on devices are copied to the item, through memory.
 */
#include "python/pack.h"

#include <stdlib.h>
#include <string.h>

/* From here on a copy takes longer than a lease of the receiver's. */
#define SEND_MIN (64u << 10)

/* ---- Tensors ------------------------------------------------------- */

/* Its number among the item's tensors, or -1: it is not sent as it is. */
static int64_t send_whole(struct packer *p, PyObject *object)
{
	tarn_storage *storage = tarn_tensor_storage(tensor_of(object));
	unsigned kind = tarn_storage_kind(storage);
	PyObject **sent;

	if (tarn_storage_writable(storage) || p->n_sent >= p->sent_max)
		return -1;
	if (kind != TARN_STORAGE_DEVICE &&
		(kind != TARN_STORAGE_SHARED ||
			tarn_layout_nbytes(layout_of(object)) < SEND_MIN))
		return -1;
	sent = realloc(p->sent, (p->n_sent + 1) * sizeof(*sent));
	if (!sent)
		return -1; /* then it is copied */
	p->sent = sent;
	Py_INCREF(object);
	sent[p->n_sent] = object;
	return (int64_t)(p->n_records + p->n_unused + p->n_sent++);
}

static int pack_tensor(struct packer *p, PyObject *object)
{
	const struct tarn_layout *l = layout_of(object);
	int64_t number = send_whole(p, object);
	struct pack_layout a = {
		.tag = PACK_TENSOR,
		.dtype = l->dtype,
		.ndim = l->ndim,
		.data = tarn_tensor_data(tensor_of(object)),
	};
	struct pack_part *part;
	int r;

	if (number >= 0)
		return pack_tag(p, PACK_WHOLE) < 0 ||
				       pack_number(p, (uint64_t)number) < 0
			       ? -1
			       : 1;
	memcpy(a.shape, l->shape, sizeof(a.shape));
	memcpy(a.strides, l->stride, sizeof(a.strides));
	a.contiguous = a.data && tarn_layout_is_contiguous(l);
	r = tarn_dtype_bits(l->dtype) % 8 ? 0 : pack_as_view(p, &a);
	if (r != 0)
		return r;
	part = pack_new_part(p, (uint64_t)tarn_layout_nbytes(l));
	if (!part || pack_shape(p, &a, false) < 0 ||
		pack_number(p, part->at / PACK_ALIGN) < 0)
		return -1;
	Py_INCREF(object);
	part->owner = object;
	if (a.contiguous)
		part->data = part->size ? a.data : NULL;
	else if (part->size)
		part->steps = tarn_tensor_ref(tensor_of(object));
	return 1;
}

/* ---- numpy, and what else has buffers ------------------------------ */

/* 0: a buffer that no dtype of ours describes. */
static int describe(struct pack_layout *a, const Py_buffer *view)
{
	a->dtype = dtype_from_format(view->format, view->itemsize);
	if (!a->dtype || view->ndim > TARN_NDIM_MAX || view->suboffsets ||
		(view->ndim && !view->shape))
		return 0;
	a->ndim = view->ndim;
	a->data = view->buf;
	a->contiguous = PyBuffer_IsContiguous(view, 'C');
	for (int i = view->ndim; i-- > 0;) {
		a->shape[i] = view->shape[i];
		if (!view->strides)
			return 0;
		if (view->strides[i] % view->itemsize != 0 && a->shape[i] > 1)
			return 0;
		a->strides[i] = view->strides[i] / view->itemsize;
	}
	return 1;
}

static int pack_buffer(struct packer *p, PyObject *object, enum pack_tag tag)
{
	struct pack_layout a = {.tag = tag};
	Py_buffer view;

	if (PyObject_GetBuffer(object, &view, PyBUF_FULL_RO) < 0) {
		PyErr_Clear();
		return 0;
	}
	if (!describe(&a, &view)) {
		PyBuffer_Release(&view);
		return 0;
	}
	return pack_viewed(p, &a, &view);
}

/* Only what is a row of bytes comes back as what it was. */
static int pack_memoryview(struct packer *p, PyObject *object)
{
	struct pack_layout a = {.tag = PACK_MEMORY};
	Py_buffer view;

	if (PyObject_GetBuffer(object, &view, PyBUF_FULL_RO) < 0) {
		PyErr_Clear();
		return 0;
	}
	if (!describe(&a, &view) || a.dtype != TARN_U8 || a.ndim != 1 ||
		!a.contiguous) {
		PyBuffer_Release(&view);
		return 0;
	}
	return pack_viewed(p, &a, &view);
}

int pack_memory(struct packer *p, enum pack_tag tag, PyObject *owner,
	const void *data, uint64_t n)
{
	struct pack_layout a = {
		.tag = tag,
		.dtype = TARN_U8,
		.ndim = 1,
		.shape = {(int64_t)n},
		.strides = {1},
		.data = data,
		.contiguous = true,
	};
	Py_buffer view;

	if (data)
		return pack_owned(p, &a, owner) < 0 ? -1 : 0;
	if (PyObject_GetBuffer(owner, &view, PyBUF_SIMPLE) < 0)
		return -1;
	a.shape[0] = view.len;
	a.data = view.buf;
	return pack_viewed(p, &a, &view) < 0 ? -1 : 0;
}

/* ---- any of them --------------------------------------------------- */

int pack_array(struct packer *p, PyObject *object)
{
	const struct numpy_face *numpy;
	const struct torch_face *torch;
	PyObject *type = (PyObject *)Py_TYPE(object);

	if (is_tensor(object))
		return pack_tensor(p, object);
	if (PyMemoryView_Check(object))
		return pack_memoryview(p, object);
	numpy = numpy_if_imported();
	if (numpy && type == numpy->array)
		return pack_buffer(p, object, PACK_NUMPY);
	torch = torch_if_imported();
	if (torch && type == torch->tensor)
		return pack_torch(p, object, torch);
	if (numpy && PyObject_IsInstance(object, numpy->generic) == 1)
		return pack_buffer(p, object, PACK_NUMPY_SCALAR);
	PyErr_Clear();
	return 0;
}
