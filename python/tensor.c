// SPDX-License-Identifier: MIT
/*
 * The type Tensor: a counted reference to a tarn_tensor. It holds no Python
 * object, so the garbage collector need not know of it, and it never changes,
 * so that nothing needs a lock. Its methods are in the other files, by parts,
 * and put together here.
 */
#include "python/device.h"
#include "python/module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *tensor_type;

/* ---- making and dropping one --------------------------------------- */

PyObject *tensor_wrap_consume(tarn_tensor *tensor)
{
	struct tensor *self = PyObject_New(struct tensor, tensor_type);

	if (!self) {
		tarn_tensor_unref(tensor);
		return NULL;
	}
	self->tensor = tensor;
	self->weak_references = NULL;
	return (PyObject *)self;
}

PyObject *tensor_wrap_result(int r, tarn_tensor *const *tensor)
{
	return r < 0 ? raise_view(r) : tensor_wrap_consume(*tensor);
}

PyObject *tensor_view(PyObject *self, int r, const struct tarn_layout *layout)
{
	tarn_tensor *view = NULL;

	if (r >= 0)
		r = tarn_tensor_with_layout(tensor_of(self), layout, &view);
	return tensor_wrap_result(r, &view);
}

static void tensor_dealloc(PyObject *self)
{
	struct tensor *t = (struct tensor *)self;
	PyTypeObject *type = Py_TYPE(self);

	if (t->weak_references)
		PyObject_ClearWeakRefs(self);
	tarn_tensor_unref(t->tensor);
	PyObject_Free(self);
	Py_DECREF((PyObject *)type);
}

static PyObject *tensor_refuse_new(
	PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	PyErr_SetString(PyExc_TypeError,
		"Tensor is not made by itself; call tarn.tensor, tarn.zeros, "
		"tarn.from_numpy, tarn.open or tarn.load");
	return NULL;
}

/* ---- asking -------------------------------------------------------- */

PyObject *numbers_tuple(int n, const int64_t *numbers, int64_t factor)
{
	PyObject *tuple = PyTuple_New(n);

	for (int i = 0; tuple && i < n; i++) {
		PyObject *number = PyLong_FromLongLong(numbers[i] * factor);

		if (number && PyTuple_SetItem(tuple, i, number) == 0)
			continue;
		Py_DECREF(tuple);
		return NULL;
	}
	return tuple;
}

static PyObject *get_shape(PyObject *self, void *closure)
{
	const struct tarn_layout *l = layout_of(self);

	return numbers_tuple(l->ndim, l->shape, 1);
}

static PyObject *get_strides(PyObject *self, void *closure)
{
	const struct tarn_layout *l = layout_of(self);

	return numbers_tuple(l->ndim, l->stride, 1);
}

static PyObject *get_dtype(PyObject *self, void *closure)
{
	return dtype_object(layout_of(self)->dtype);
}

static PyObject *get_ndim(PyObject *self, void *closure)
{
	return PyLong_FromLong(layout_of(self)->ndim);
}

static PyObject *get_device(PyObject *self, void *closure)
{
	struct place place = place_of(tensor_of(self));

	return place_name(&place);
}

static PyObject *dim(PyObject *self, PyObject *none)
{
	return get_ndim(self, NULL);
}

static PyObject *get_offset(PyObject *self, void *closure)
{
	return PyLong_FromLongLong(layout_of(self)->offset);
}

static PyObject *get_numel(PyObject *self, void *closure)
{
	return PyLong_FromLongLong(tarn_layout_numel(layout_of(self)));
}

static PyObject *get_nbytes(PyObject *self, void *closure)
{
	return PyLong_FromLongLong(tarn_layout_nbytes(layout_of(self)));
}

static PyObject *get_itemsize(PyObject *self, void *closure)
{
	int bits = tarn_dtype_bits(layout_of(self)->dtype);

	if (bits % 8 == 0)
		return PyLong_FromLong(bits / 8);
	return PyFloat_FromDouble(bits / 8.0);
}

static PyObject *numel(PyObject *self, PyObject *none)
{
	return get_numel(self, NULL);
}

static PyObject *element_size(PyObject *self, PyObject *none)
{
	return get_itemsize(self, NULL);
}

static PyObject *get_readonly(PyObject *self, void *closure)
{
	return PyBool_FromLong(
		!tarn_storage_writable(tarn_tensor_storage(tensor_of(self))));
}

static PyObject *get_storage_kind(PyObject *self, void *closure)
{
	static const char *const kinds[] = {
		[TARN_STORAGE_OWNED] = "owned",
		[TARN_STORAGE_BORROWED] = "borrowed",
		[TARN_STORAGE_SHARED] = "shared",
		[TARN_STORAGE_FILE] = "file",
		[TARN_STORAGE_MAPPED] = "mapped",
		[TARN_STORAGE_COW] = "cow",
		[TARN_STORAGE_DEVICE] = "device",
	};
	unsigned kind = tarn_storage_kind(tarn_tensor_storage(tensor_of(self)));

	if (kind >= sizeof(kinds) / sizeof(kinds[0]) || !kinds[kind])
		return PyUnicode_FromString("other");
	return PyUnicode_FromString(kinds[kind]);
}

static Py_ssize_t tensor_length(PyObject *self)
{
	const struct tarn_layout *l = layout_of(self);

	if (l->ndim > 0)
		return (Py_ssize_t)l->shape[0];
	PyErr_SetString(PyExc_TypeError, "len() of a tensor of rank 0");
	return -1;
}

/* ---- printing ------------------------------------------------------ */

static PyObject *tensor_text(PyObject *self)
{
	PyObject *text;
	char *buf;
	int r;

	Py_BEGIN_ALLOW_THREADS
	r = tarn_tensor_format(tensor_of(self), 0, &buf);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_view(r);
	text = PyUnicode_FromString(buf);
	free(buf);
	return text;
}

static PyObject *get_node(PyObject *self, void *closure)
{
	int node, r;

	(void)closure;
	r = tarn_tensor_node(tensor_of(self), &node);
	if (r == -ENOTSUP || r == -ENODATA || (r >= 0 && node < 0))
		Py_RETURN_NONE;
	return r < 0 ? raise_system(r) : PyLong_FromLong(node);
}

/* ", device='cuda:0'", or nothing in the memory of the host. */
static PyObject *place_text(PyObject *self)
{
	struct place place = place_of(tensor_of(self));
	PyObject *name, *text;

	if (!place.on_device)
		return PyUnicode_FromString("");
	name = place_name(&place);
	text = name ? PyUnicode_FromFormat(", device=%R", name) : NULL;
	Py_XDECREF(name);
	return text;
}

/* Lines below the first are moved in under "Tensor("; without elements the
 * values do not tell the shape. */
static PyObject *tensor_repr(PyObject *self)
{
	const struct tarn_layout *l = layout_of(self);
	PyObject *text = tensor_text(self), *lines = NULL, *shape = NULL;
	PyObject *newline = PyUnicode_FromString("\n");
	PyObject *indented = PyUnicode_FromString("\n       ");
	PyObject *repr = NULL, *place = NULL;

	if (text && newline && indented)
		lines = PyUnicode_Replace(text, newline, indented, -1);
	if (lines && tarn_layout_numel(l) == 0)
		shape = get_shape(self, NULL);
	if (lines && !PyErr_Occurred())
		place = place_text(self);
	if (shape && place)
		repr = PyUnicode_FromFormat("Tensor(%U, shape=%R, dtype=%s%U)",
			lines, shape, tarn_dtype_name(l->dtype), place);
	else if (place)
		repr = PyUnicode_FromFormat("Tensor(%U, dtype=%s%U)", lines,
			tarn_dtype_name(l->dtype), place);
	Py_XDECREF(text);
	Py_XDECREF(newline);
	Py_XDECREF(indented);
	Py_XDECREF(lines);
	Py_XDECREF(shape);
	Py_XDECREF(place);
	return repr;
}

/* ---- the type ------------------------------------------------------ */

static PyGetSetDef properties[] = {
	{"shape", get_shape, NULL, "The sizes, as a tuple.", NULL},
	{"strides", get_strides, NULL,
		"Steps between neighbours, in elements (numpy counts bytes).",
		NULL},
	{"dtype", get_dtype, NULL,
		"The dtype's name, \"F32\". On the left of == it equals "
		"numpy's\nand PyTorch's dtype, too: see tarn.Dtype.",
		NULL},
	{"ndim", get_ndim, NULL, "The number of dimensions.", NULL},
	{"device", get_device, NULL,
		"\"cpu\", also for a file; or \"cuda:0\": the index of a GPU "
		"in this\nprocess. If the process does not see that GPU, its "
		"UUID.",
		NULL},
	{"offset", get_offset, NULL,
		"The element of the storage at index (0, 0, ...).", NULL},
	{"size", get_numel, NULL, "The number of elements, as numpy calls it.",
		NULL},
	{"nbytes", get_nbytes, NULL, "Bytes of the elements, packed.", NULL},
	{"itemsize", get_itemsize, NULL,
		"Bytes of one element; 0.5 and 0.75 for the 4- and 6-bit "
		"types.",
		NULL},
	{"readonly", get_readonly, NULL,
		"Is writing refused? So it is for files and what is published.",
		NULL},
	{"T", tensor_transposed, NULL, "All dimensions in reverse order.",
		NULL},
	{"storage_kind", get_storage_kind, NULL,
		"Where the bytes are: \"owned\", \"borrowed\", \"shared\",\n"
		"\"mapped\", \"cow\" (copy-on-write), \"file\" or \"device\".",
		NULL},
	{"node", get_node, NULL,
		"The NUMA node on which all of its bytes lie; None if they are "
		"on\nseveral, in a file, or it is not known.",
		NULL},
	{0},
};

static PyMethodDef asking_methods[] = {
	{"dim", dim, METH_NOARGS,
		"dim($self, /)\n--\n\n"
		"ndim, as PyTorch calls it."},
	{"numel", numel, METH_NOARGS,
		"numel($self, /)\n--\n\n"
		"The number of elements, as PyTorch calls it."},
	{"element_size", element_size, METH_NOARGS,
		"element_size($self, /)\n--\n\n"
		"itemsize, as PyTorch calls it; 0.5 or 0.75 for F4 and F6."},
	{0},
};

static PyMemberDef members[] = {
	{"__weaklistoffset__", T_PYSSIZET,
		offsetof(struct tensor, weak_references), READONLY, NULL},
	{0},
};

/* Room for the methods and properties of all parts. */
static PyMethodDef all_methods[112];
static PyGetSetDef all_properties[24];

static const PyType_Slot slots[] = {
	{Py_tp_doc,
		"A view of elements that are somewhere: in memory, in a pool\n"
		"that processes share, in a file. It never changes itself;\n"
		"views share its bytes, and keep them as long as they live."},
	{Py_tp_new, tensor_refuse_new},
	{Py_tp_dealloc, tensor_dealloc},
	{Py_tp_repr, tensor_repr},
	{Py_tp_str, tensor_text},
	{Py_tp_iter, tensor_iterate},
	{Py_tp_methods, all_methods},
	{Py_tp_getset, all_properties},
	{Py_tp_members, members},
	{Py_mp_length, tensor_length},
	{Py_mp_subscript, tensor_subscript},
	{Py_mp_ass_subscript, tensor_assign_subscript},
	{Py_sq_length, tensor_length},
	{Py_sq_item, tensor_item_at},
	{Py_sq_contains, tensor_contains},
	{Py_nb_bool, tensor_truth},
	{Py_nb_float, tensor_float},
	{Py_nb_int, tensor_int},
	{Py_nb_index, tensor_index},
	{Py_bf_getbuffer, tensor_get_buffer},
	{Py_bf_releasebuffer, tensor_release_buffer},
	{0, NULL},
};

/* Those, and the operators. */
static PyType_Slot all_slots[80];

static void join_parts(void)
{
	PyMethodDef *const parts[] = {asking_methods, view_methods,
		shape_methods, element_methods, copy_methods, gather_methods,
		lock_methods, array_methods, dlpack_methods, device_methods,
		set_tensor_methods, standard_methods};
	PyGetSetDef *const more[] = {
		properties, array_properties, standard_properties};
	size_t n = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		for (PyMethodDef *m = parts[i]; m->ml_name; m++)
			all_methods[n++] = *m;
	n = 0;
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		for (PyGetSetDef *p = more[i]; p->name; p++)
			all_properties[n++] = *p;
	n = 0;
	for (const PyType_Slot *slot = slots; slot->slot; slot++)
		all_slots[n++] = *slot;
	for (const PyType_Slot *slot = operator_slots; slot->slot; slot++)
		all_slots[n++] = *slot;
}

static PyType_Spec spec = {
	.name = "tarn.Tensor",
	.basicsize = sizeof(struct tensor),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = all_slots,
};

int add_tensor_type(PyObject *module)
{
	join_parts();
	tensor_type = (PyTypeObject *)PyType_FromSpec(&spec);
	if (!tensor_type)
		return -1;
	Py_INCREF((PyObject *)tensor_type);
	return PyModule_AddObject(module, "Tensor", (PyObject *)tensor_type);
}
