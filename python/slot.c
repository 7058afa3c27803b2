// SPDX-License-Identifier: MIT
/*
 * The type Slot: what a producer fills. It ends once, by publish or abandon,
 * or by leaving its block; the tensors in it may be dropped before or after.
 */
#include "python/channel.h"

#include <stdatomic.h>
#include <stdlib.h>

PyTypeObject *slot_type;

struct slot {
	PyObject_HEAD
	/* NULL: it has ended, or a method is at work on it. The thread
		 * that takes it by an exchange is the only one that has it; the
		 * acquire pairs with the release of the thread that puts it
		 * back, so that the fields below are seen. */
	_Atomic(tarn_slot *) slot;
	_Atomic bool ended;
	PyObject *channel;
	struct pack_record *records; /* of the item's tensors */
	/* Of those that lie elsewhere: the item's lease keeps their bytes, but
	 * not where this process sees them, and other memory that came to lie
	 * there would be taken for them. Dropped when the slot ends. */
	tarn_tensor **kept;
	size_t n_records, room;
	/* Tensors that a put has added before it failed cannot be taken back:
	 * they stay before those that another put adds. */
	size_t n_unused;
	bool packed; /* put was the last */
};

static struct slot *self_of(PyObject *self)
{
	return (struct slot *)self;
}

PyObject *slot_wrap_consume(PyObject *channel, tarn_slot *slot)
{
	struct slot *self = PyObject_New(struct slot, slot_type);

	if (!self) {
		tarn_slot_abandon(slot);
		return NULL;
	}
	Py_INCREF(channel);
	self->channel = channel;
	self->records = NULL;
	self->kept = NULL;
	self->n_records = self->room = self->n_unused = 0;
	self->packed = false;
	atomic_init(&self->slot, slot);
	atomic_init(&self->ended, false);
	return (PyObject *)self;
}

static void drop_records(struct slot *self)
{
	for (size_t i = 0; i < self->n_records; i++)
		tarn_tensor_unref(self->kept[i]);
	self->n_records = 0;
}

static void slot_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);
	struct slot *self = self_of(object);

	tarn_slot_abandon(atomic_load(&self->slot));
	drop_records(self);
	Py_DECREF(self->channel);
	free(self->records);
	free(self->kept);
	PyObject_Free(object);
	Py_DECREF((PyObject *)type);
}

/* ---- having it ----------------------------------------------------- */

static tarn_slot *take(struct slot *self, const char *what)
{
	tarn_slot *slot = atomic_exchange(&self->slot, NULL);

	if (!slot && atomic_load(&self->ended))
		PyErr_Format(PyExc_ValueError,
			"%s: the slot was published or abandoned", what);
	else if (!slot)
		PyErr_Format(PyExc_ValueError,
			"%s: another thread is at work on this slot", what);
	return slot;
}

static void put_back(struct slot *self, tarn_slot *slot)
{
	atomic_store(&self->slot, slot);
}

/* The next tensor of the item: the method that has the slot counts them. 0 or
 * -1. */
static int make_record(struct slot *self)
{
	size_t room = self->room ? self->room * 2 : 8;
	struct pack_record *records = self->records;
	tarn_tensor **kept = self->kept;

	if (self->n_records < self->room)
		return 0;
	records = realloc(records, room * sizeof(*records));
	if (records)
		self->records = records;
	kept = realloc(kept, room * sizeof(*kept));
	if (kept)
		self->kept = kept;
	if (!records || !kept) {
		PyErr_NoMemory();
		return -1;
	}
	self->room = room;
	return 0;
}

/* kept: or NULL, if it lies in the slot. */
static void note_record(
	struct slot *self, tarn_tensor *tensor, tarn_tensor *kept)
{
	const struct tarn_layout *l = tarn_tensor_layout(tensor);

	self->kept[self->n_records] = tarn_tensor_ref(kept);
	self->records[self->n_records++] = (struct pack_record) {
		.data = tarn_tensor_data(tensor),
		/* Other tensors cannot be viewed. */
		.size = tarn_layout_is_contiguous(l)
				? (uint64_t)tarn_layout_nbytes(l)
				: 0,
	};
}

/* Was the last put one that failed half way? Then there is an exception: what
 * it has added is no item. */
static bool is_half(struct slot *self, const char *what)
{
	if (self->packed || self->n_unused == 0)
		return false;
	PyErr_Format(PyExc_ValueError,
		"%s: a put failed half way; put something else, or abandon the "
		"slot",
		what);
	return true;
}

/* May there be another tensor? */
static bool may_add(struct slot *self, const char *what, bool put)
{
	if (!self->packed)
		return put || !is_half(self, what);
	PyErr_Format(PyExc_ValueError,
		"%s: put comes after all other tensors of a slot", what);
	return false;
}

static tarn_slot *take_for_tensor(struct slot *self, const char *what, bool put)
{
	tarn_slot *slot = take(self, what);

	if (!slot)
		return NULL;
	if (may_add(self, what, put) && make_record(self) == 0)
		return slot;
	put_back(self, slot);
	return NULL;
}

/* ---- filling ------------------------------------------------------- */

static PyObject *empty(PyObject *object, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"shape", "dtype", NULL};
	struct slot *self = self_of(object);
	int64_t shape[TARN_NDIM_MAX];
	int n, dtype = TARN_F32, r;
	tarn_tensor *tensor;
	PyObject *given[2];
	tarn_slot *slot;

	if (named_arguments("empty", names, 1, args, n_args, keywords, given) <
		0)
		return NULL;
	if (given[1] && given[1] != Py_None)
		dtype = dtype_argument(given[1]);
	n = dtype ? shape_argument("empty", given[0], shape) : -1;
	slot = n < 0 ? NULL : take_for_tensor(self, "empty", false);
	if (!slot)
		return NULL;
	r = tarn_slot_new_tensor(slot, dtype, n, shape, &tensor);
	if (r >= 0)
		note_record(self, tensor, NULL);
	put_back(self, slot);
	return r < 0 ? raise_system(r) : tensor_wrap_consume(tensor);
}

static PyObject *add(PyObject *object, PyObject *tensor)
{
	struct slot *self = self_of(object);
	tarn_slot *slot;
	int r;

	if (!is_tensor(tensor)) {
		PyErr_SetString(PyExc_TypeError,
			"add: a tarn.Tensor is wanted; put takes any array");
		return NULL;
	}
	slot = take_for_tensor(self, "add", false);
	if (!slot)
		return NULL;
	r = tarn_slot_add(slot, tensor_of(tensor));
	if (r >= 0)
		note_record(self, tensor_of(tensor), tensor_of(tensor));
	put_back(self, slot);
	if (r < 0)
		return raise_system(r);
	Py_INCREF(Py_None);
	return Py_None;
}

static PyObject *put(PyObject *object, PyObject *value)
{
	struct slot *self = self_of(object);
	tarn_slot *slot = take_for_tensor(self, "put", true);
	int r;

	if (!slot)
		return NULL;
	r = put_packed(channel_of(self->channel), slot, self->records,
		self->n_records, &self->n_unused, value);
	self->packed = r >= 0;
	put_back(self, slot);
	return r < 0 ? NULL : PyBool_FromLong(r);
}

static int set_tag(PyObject *object, PyObject *value, void *closure)
{
	struct slot *self = self_of(object);
	Py_buffer view;
	tarn_slot *slot;
	int r;

	if (!value) {
		PyErr_SetString(PyExc_AttributeError, "tag: b\"\" is none");
		return -1;
	}
	if (PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0)
		return -1;
	slot = take(self, "tag");
	if (!slot) {
		PyBuffer_Release(&view);
		return -1;
	}
	r = tarn_slot_set_tag(slot, view.buf, (size_t)view.len);
	put_back(self, slot);
	PyBuffer_Release(&view);
	if (r >= 0)
		return 0;
	raise_system(r);
	return -1;
}

static PyObject *get_room(PyObject *object, void *closure)
{
	struct slot *self = self_of(object);
	tarn_slot *slot = take(self, "room");
	uint64_t room;

	if (!slot)
		return NULL;
	room = tarn_slot_room(slot);
	put_back(self, slot);
	return PyLong_FromUnsignedLongLong(room);
}

static PyObject *slot_repr(PyObject *object)
{
	struct slot *self = self_of(object);

	return PyUnicode_FromFormat("<tarn.Slot of channel '%s'%s>",
		tarn_channel_name(channel_of(self->channel)->channel),
		atomic_load(&self->ended) ? ": published or abandoned" : "");
}

/* ---- ending it ----------------------------------------------------- */

static int end(struct slot *self, tarn_slot *slot, bool publish)
{
	int r = 0;

	atomic_store(&self->ended, true);
	if (publish)
		r = tarn_slot_publish(slot);
	else
		tarn_slot_abandon(slot);
	drop_records(self);
	return r;
}

static PyObject *end_none(struct slot *self, tarn_slot *slot, bool publish)
{
	int r = end(self, slot, publish);

	if (r < 0)
		return raise_system(r);
	Py_INCREF(Py_None);
	return Py_None;
}

static PyObject *publish(PyObject *object, PyObject *none)
{
	struct slot *self = self_of(object);
	tarn_slot *slot = take(self, "publish");

	if (!slot)
		return NULL;
	if (!is_half(self, "publish"))
		return end_none(self, slot, true);
	put_back(self, slot);
	return NULL;
}

static PyObject *abandon(PyObject *object, PyObject *none)
{
	tarn_slot *slot = take(self_of(object), "abandon");

	return slot ? end_none(self_of(object), slot, false) : NULL;
}

static PyObject *enter(PyObject *object, PyObject *none)
{
	Py_INCREF(object);
	return object;
}

/* It may have been ended in the block. */
static PyObject *leave(
	PyObject *object, PyObject *const *args, Py_ssize_t n_args)
{
	struct slot *self = self_of(object);
	bool good = n_args == 0 || args[0] == Py_None;
	tarn_slot *slot;

	if (atomic_load(&self->ended)) {
		Py_INCREF(Py_None);
		return Py_None;
	}
	slot = take(self, good ? "publish" : "abandon");
	if (!slot)
		return NULL;
	if (!good || !is_half(self, "publish"))
		return end_none(self, slot, good);
	end(self, slot, false);
	return NULL;
}

/* ---- the type ------------------------------------------------------ */

static PyMethodDef methods[] = {
	{"empty", EXPORT(empty), FAST_KEYWORDS,
		"empty($self, /, shape, dtype='F32')\n--\n\n"
		"A writable tensor in the slot, in C order, aligned to 64\n"
		"bytes, which are as they were left: the next of the item. It\n"
		"is read-only once the slot is published or abandoned; arrays "
		"of\nothers over it (numpy's, PyTorch's, memoryviews) cannot "
		"be made\nso, and must not be written to from then on. OSError "
		"with\nENOSPC: there is no room; E2BIG: the item has as many "
		"tensors\nas it may."},
	{"add", add, METH_O,
		"add($self, tensor, /)\n--\n\n"
		"Sends a tensor as it is, without a copy: of the store, or a\n"
		"view of one of this slot. ValueError: it lies elsewhere."},
	{"put", put, METH_O,
		"put($self, object, /)\n--\n\n"
		"Packs an object as Channel.put does, for Item.get: the last "
		"of\nthe slot's tensors. Arrays over the slot are not copied. "
		"True: it\nis in memory of its own, since the slot has no "
		"room. If it fails half way, only another put can follow."},
	{"publish", publish, METH_NOARGS,
		"publish($self, /)\n--\n\n"
		"Sends the item. What is left of it here keeps nothing: its\n"
		"Tensors are read-only and show what others put there; what is\n"
		"written through arrays that were made of them (numpy's,\n"
		"PyTorch's, memoryviews) changes what the receiver reads, or "
		"what\nthe slot's next producer sends."},
	{"abandon", abandon, METH_NOARGS,
		"abandon($self, /)\n--\n\n"
		"Gives the slot back; nothing is sent."},
	{"__enter__", enter, METH_NOARGS, NULL},
	{"__exit__", EXPORT(leave), FAST, NULL},
	{0},
};

static PyGetSetDef properties[] = {
	{"tag", NULL, set_tag,
		"Up to 64 bytes that go with the item; can only be set.", NULL},
	{"room", get_room, NULL, "Bytes left for tensors.", NULL},
	{0},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "A slot of a channel that is being filled. Leaving its "
		    "block\npublishes it, an exception abandons it."},
	{Py_tp_new, channel_refuse_new},
	{Py_tp_dealloc, slot_dealloc},
	{Py_tp_repr, slot_repr},
	{Py_tp_methods, methods},
	{Py_tp_getset, properties},
	{0, NULL},
};

PyType_Spec slot_spec = {
	.name = "tarn.Slot",
	.basicsize = sizeof(struct slot),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};
