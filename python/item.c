// SPDX-License-Identifier: MIT
/*
 * The type Item: what a consumer received. Its tensors, and the arrays over
 * them, keep the slot by themselves; leaving the block, or release, ends only
 * the Item's own claim.
 */
#include "python/channel.h"

#include <stdatomic.h>

PyTypeObject *item_type;

struct item {
	PyObject_HEAD
	tarn_item *item;
	/* Methods at work, and one while it is not released; at 0 the library's
	 * item goes. The decrement releases what was read of it, and pairs with
	 * the acquire of the one that gets to 0 and drops it. */
	_Atomic unsigned users;
	_Atomic bool released;
	PyObject *channel;
};

static struct item *self_of(PyObject *self)
{
	return (struct item *)self;
}

PyObject *item_wrap_consume(PyObject *channel, tarn_item *item)
{
	struct item *self = PyObject_New(struct item, item_type);

	if (!self) {
		tarn_item_unref(item);
		return NULL;
	}
	Py_INCREF(channel);
	self->channel = channel;
	self->item = item;
	atomic_init(&self->users, 1);
	atomic_init(&self->released, false);
	return (PyObject *)self;
}

/* ---- using it ------------------------------------------------------ */

/* NULL with an exception: it was released. */
static tarn_item *use(struct item *self)
{
	unsigned users = atomic_load(&self->users);

	while (users && !atomic_load(&self->released))
		if (atomic_compare_exchange_weak(
			    &self->users, &users, users + 1))
			return self->item;
	PyErr_SetString(PyExc_ValueError, "the item was released");
	return NULL;
}

static void unuse(struct item *self)
{
	if (atomic_fetch_sub(&self->users, 1) == 1)
		tarn_item_unref(self->item);
}

static void release_item(struct item *self)
{
	if (!atomic_exchange(&self->released, true))
		unuse(self);
}

static void item_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);
	struct item *self = self_of(object);

	release_item(self);
	Py_DECREF(self->channel);
	PyObject_Free(object);
	Py_DECREF((PyObject *)type);
}

/* ---- its tensors --------------------------------------------------- */

static Py_ssize_t item_length(PyObject *object)
{
	struct item *self = self_of(object);
	tarn_item *item = use(self);
	Py_ssize_t n;

	if (!item)
		return -1;
	n = (Py_ssize_t)tarn_item_count(item);
	unuse(self);
	return n;
}

/* A tensor in the slot is there in less time than releasing the GIL takes; for
 * another the daemon may be asked. The caller uses the item throughout. */
static int find_tensor(tarn_item *item, uint32_t i, tarn_tensor **ret)
{
	int r;

	if (!tarn_item_has_stored(item))
		return tarn_item_tensor(item, i, ret);
	Py_BEGIN_ALLOW_THREADS
	r = tarn_item_tensor(item, i, ret);
	Py_END_ALLOW_THREADS
	return r;
}

static PyObject *tensor_at(tarn_item *item, int64_t i)
{
	int64_t n = (int64_t)tarn_item_count(item);
	int64_t at = i < 0 ? i + n : i;
	tarn_tensor *tensor;
	int r;

	if (at < 0 || at >= n)
		return PyErr_Format(PyExc_IndexError,
			"index %lld of an item of %lld tensors", (long long)i,
			(long long)n);
	r = find_tensor(item, (uint32_t)at, &tensor);
	return r < 0 ? raise_system(r) : tensor_wrap_consume(tensor);
}

static PyObject *item_subscript(PyObject *object, PyObject *key)
{
	struct item *self = self_of(object);
	PyObject *tensor;
	tarn_item *item;
	int64_t i;

	if (int_argument(key, &i) < 0)
		return NULL;
	item = use(self);
	if (!item)
		return NULL;
	tensor = tensor_at(item, i);
	unuse(self);
	return tensor;
}

/* For iteration, which ends with IndexError. */
static PyObject *item_at(PyObject *object, Py_ssize_t i)
{
	struct item *self = self_of(object);
	tarn_item *item = use(self);
	PyObject *tensor;

	if (!item)
		return NULL;
	tensor = tensor_at(item, i);
	unuse(self);
	return tensor;
}

/* ---- what put packed ----------------------------------------------- */

/* A tuple of all but the last, or NULL without an exception: there are none. */
static PyObject *records_of(tarn_item *item, int64_t n)
{
	PyObject *records = n ? PyTuple_New((Py_ssize_t)n) : NULL, *tensor;

	for (int64_t i = 0; records && i < n; i++) {
		tensor = tensor_at(item, i);
		if (tensor &&
			PyTuple_SetItem(records, (Py_ssize_t)i, tensor) == 0)
			continue;
		Py_DECREF(records);
		return NULL;
	}
	return records;
}

PyObject *item_unpack(const struct channel *channel, tarn_item *item)
{
	int64_t n = (int64_t)tarn_item_count(item);
	PyObject *whole, *records = NULL, *object = NULL;

	if (n == 0) {
		PyErr_SetString(PyExc_ValueError,
			"get: the item has no tensor, so put has not made it");
		return NULL;
	}
	whole = tensor_at(item, n - 1);
	if (!whole)
		return NULL;
	/* Only then are they of any use. */
	if (unpack_knows(tensor_of(whole)))
		records = records_of(item, n - 1);
	if (!PyErr_Occurred())
		object = unpack(whole, records, channel->plain);
	Py_XDECREF(records);
	Py_DECREF(whole);
	return object;
}

static PyObject *get(PyObject *object, PyObject *none)
{
	struct item *self = self_of(object);
	tarn_item *item = use(self);
	PyObject *value;

	if (!item)
		return NULL;
	value = item_unpack(channel_of(self->channel), item);
	unuse(self);
	return value;
}

/* ---- what goes with them ------------------------------------------- */

static PyObject *get_tag(PyObject *object, void *closure)
{
	struct item *self = self_of(object);
	tarn_item *item = use(self);
	const void *tag;
	PyObject *bytes;
	size_t size;

	if (!item)
		return NULL;
	tag = tarn_item_tag(item, &size);
	bytes = PyBytes_FromStringAndSize(tag, (Py_ssize_t)size);
	unuse(self);
	return bytes;
}

static PyObject *get_position(PyObject *object, void *closure)
{
	struct item *self = self_of(object);
	tarn_item *item = use(self);
	uint64_t position;

	if (!item)
		return NULL;
	position = tarn_item_position(item);
	unuse(self);
	return PyLong_FromUnsignedLongLong(position);
}

static PyObject *get_redelivered(PyObject *object, void *closure)
{
	struct item *self = self_of(object);
	tarn_item *item = use(self);
	bool redelivered;

	if (!item)
		return NULL;
	redelivered = tarn_item_redelivered(item);
	unuse(self);
	return PyBool_FromLong(redelivered);
}

static PyObject *get_has_tensors(PyObject *object, void *closure)
{
	struct item *self = self_of(object);
	tarn_item *item = use(self);
	bool has;

	if (!item)
		return NULL;
	has = tarn_item_has_tensors(item);
	unuse(self);
	return PyBool_FromLong(has);
}

/* Looking at a released item is no error. */
static PyObject *item_repr(PyObject *object)
{
	struct item *self = self_of(object);
	const char *name =
		tarn_channel_name(channel_of(self->channel)->channel);
	Py_ssize_t n = item_length(object);

	if (n >= 0)
		return PyUnicode_FromFormat(
			"<tarn.Item of channel '%s': %zd tensor%s>", name, n,
			n == 1 ? "" : "s");
	PyErr_Clear();
	return PyUnicode_FromFormat(
		"<tarn.Item of channel '%s': released>", name);
}

/* ---- ending it ----------------------------------------------------- */

static PyObject *release(PyObject *object, PyObject *none)
{
	release_item(self_of(object));
	Py_INCREF(Py_None);
	return Py_None;
}

static PyObject *enter(PyObject *object, PyObject *none)
{
	Py_INCREF(object);
	return object;
}

static PyObject *leave(
	PyObject *object, PyObject *const *args, Py_ssize_t n_args)
{
	return release(object, NULL);
}

/* ---- the type ------------------------------------------------------ */

static PyMethodDef methods[] = {
	{"get", get, METH_NOARGS,
		"get($self, /)\n--\n\n"
		"The object that put packed into the slot."},
	{"release", release, METH_NOARGS,
		"release($self, /)\n--\n\n"
		"Ends this claim on the slot, as leaving the block does. It "
		"is\nused again when the last array over it is gone."},
	{"__enter__", enter, METH_NOARGS, NULL},
	{"__exit__", EXPORT(leave), FAST, NULL},
	{0},
};

static PyGetSetDef properties[] = {
	{"tag", get_tag, NULL, "The bytes that the producer gave it.", NULL},
	{"position", get_position, NULL,
		"Its number among all that was published in the channel.",
		NULL},
	{"redelivered", get_redelivered, NULL,
		"Was it received before, by a consumer that died or left with it?",
		NULL},
	{"has_tensors", get_has_tensors, NULL,
		"Are there arrays over its slot, so that it stays in use after "
		"release?",
		NULL},
	{0},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "An item that was received: a sequence of Tensors. They "
		    "may be\nwritten in a queue, and are read-only in a "
		    "broadcast."},
	{Py_tp_new, channel_refuse_new},
	{Py_tp_dealloc, item_dealloc},
	{Py_tp_repr, item_repr},
	{Py_tp_methods, methods},
	{Py_tp_getset, properties},
	{Py_mp_length, item_length},
	{Py_mp_subscript, item_subscript},
	{Py_sq_length, item_length},
	{Py_sq_item, item_at},
	{0, NULL},
};

PyType_Spec item_spec = {
	.name = "tarn.Item",
	.basicsize = sizeof(struct item),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};
