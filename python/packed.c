// SPDX-License-Identifier: MIT
/*
 * The output of packing: the tree, byte by byte, and all of it, once its
 * destination is known.
 */
#include "python/pack.h"

#include <stdlib.h>
#include <string.h>

/* ---- the tree ------------------------------------------------------ */

static unsigned char *make_room(struct packer *p, size_t n)
{
	size_t room = p->room ? p->room : 512;
	unsigned char *tree;

	if (n <= p->room - p->used)
		return p->tree + p->used;
	if (n > PY_SSIZE_T_MAX / 4 || p->used > PY_SSIZE_T_MAX / 4) {
		PyErr_NoMemory();
		return NULL;
	}
	while (room < p->used + n)
		room *= 2;
	tree = realloc(p->tree, room);
	if (!tree) {
		PyErr_NoMemory();
		return NULL;
	}
	p->tree = tree;
	p->room = room;
	return tree + p->used;
}

int pack_raw(struct packer *p, const void *data, size_t n)
{
	unsigned char *to = make_room(p, n);

	if (!to)
		return -1;
	memcpy(to, data, n);
	p->used += n;
	return 0;
}

int pack_tag(struct packer *p, enum pack_tag tag)
{
	unsigned char byte = (unsigned char)tag;

	return pack_raw(p, &byte, 1);
}

int pack_number(struct packer *p, uint64_t number)
{
	unsigned char *to = make_room(p, 10);
	size_t n = 0;

	if (!to)
		return -1;
	for (; number >= 0x80; number >>= 7)
		to[n++] = (unsigned char)(number | 0x80);
	to[n++] = (unsigned char)number;
	p->used += n;
	return 0;
}

int pack_signed(struct packer *p, int64_t number)
{
	uint64_t sign = number < 0 ? UINT64_MAX : 0;

	return pack_number(p, ((uint64_t)number << 1) ^ sign);
}

/* ---- all of it ----------------------------------------------------- */

static uint64_t bytes_begin(const struct packer *p)
{
	uint64_t end = sizeof(struct pack_head) + p->used;

	return (end + PACK_ALIGN - 1) / PACK_ALIGN * PACK_ALIGN;
}

uint64_t pack_size(const struct packer *p)
{
	return bytes_begin(p) + p->bytes;
}

int pack_write(const struct packer *p, void *dst)
{
	struct pack_head head = {
		.magic = PACK_MAGIC,
		.tree = p->used,
		.bytes = bytes_begin(p),
		.size = pack_size(p),
	};

	memcpy(dst, &head, sizeof(head));
	memcpy((unsigned char *)dst + sizeof(head), p->tree, p->used);
	return pack_copy_parts(p, (unsigned char *)dst + head.bytes);
}

void pack_drop(struct packer *p)
{
	for (size_t i = 0; i < p->n_parts; i++)
		pack_drop_part(&p->parts[i]);
	for (size_t i = 0; i < p->n_sent; i++)
		Py_DECREF(p->sent[i]);
	free(p->parts);
	free(p->sent);
	free(p->tree);
}

/* ---- by themselves ------------------------------------------------- */

static PyObject *pack_alone(PyObject *module, PyObject *object)
{
	struct packer p = {0};
	PyObject *whole = NULL;
	tarn_tensor *tensor;
	int64_t size;
	int r;

	if (pack_value(&p, object) == 0) {
		size = (int64_t)pack_size(&p);
		r = new_tensor(TARN_U8, 1, &size, &tensor);
		if (r < 0)
			raise_view(r);
		else if (pack_write(&p, tarn_tensor_data(tensor)) < 0)
			tarn_tensor_unref(tensor);
		else
			whole = tensor_wrap_consume(tensor);
	}
	pack_drop(&p);
	return whole;
}

/* whole, and what its views are of; or none. */
static PyObject *unpack_alone(
	PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
	if (n_args < 1 || n_args > 2 || !is_tensor(args[0]) ||
		(n_args == 2 && !PyTuple_Check(args[1]))) {
		PyErr_SetString(PyExc_TypeError,
			"_unpack: a Tensor, and a tuple of Tensors");
		return NULL;
	}
	for (Py_ssize_t i = 0; n_args == 2 && i < PyTuple_Size(args[1]); i++) {
		if (is_tensor(PyTuple_GetItem(args[1], i)))
			continue;
		PyErr_SetString(PyExc_TypeError, "_unpack: that is no Tensor");
		return NULL;
	}
	return unpack(args[0], n_args == 2 ? args[1] : NULL, false);
}

/* The bytes that slot.put would take of an empty slot. */
static PyObject *packed_size(PyObject *module, PyObject *object)
{
	struct packer p = {0};
	PyObject *size = NULL;

	if (pack_value(&p, object) == 0)
		size = PyLong_FromUnsignedLongLong(pack_size(&p));
	pack_drop(&p);
	return size;
}

PyMethodDef pack_functions[] = {
	{"_pack", pack_alone, METH_O, "An object as a Tensor of bytes."},
	{"_packed_size", packed_size, METH_O,
		"The bytes of a slot that put of this object takes."},
	{"_unpack", EXPORT(unpack_alone), FAST,
		"The object of _pack, whose arrays are views of the Tensor."},
	{0},
};
