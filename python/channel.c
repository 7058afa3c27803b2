// SPDX-License-Identifier: MIT
/*
 * The type Channel: opening, taking part, and the plain face, put and get. A
 * hand-over that does not wait keeps the GIL, since releasing it and taking it
 * again would take longer; everything else releases it.
 */
#include "python/channel.h"

#include <errno.h>
#include <string.h>

/* How long a wait may miss a signal that came just before it began, in
 * milliseconds; others end it at once. */
#define SLICE_MS 500
/* No machine has so much; the library checks the rest. */
#define SLOT_BYTES_MAX (1ull << 47)

PyTypeObject *channel_type;

static tarn_channel *handle_of(PyObject *self)
{
	return channel_of(self)->channel;
}

/* ---- opening ------------------------------------------------------- */

/* A number outside of what fits into 64 bits is no other error than one
 * outside of its limits. 0 or -1. */
static int number_argument(
	const char *name, PyObject *object, uint64_t most, int64_t *ret)
{
	if (!PyIndex_Check(object)) {
		PyErr_Format(PyExc_TypeError,
			"channel: %s is a whole number, not %R", name, object);
		return -1;
	}
	if (int_argument(object, ret) < 0) {
		if (!PyErr_ExceptionMatches(PyExc_OverflowError))
			return -1;
		PyErr_Clear();
	} else if (*ret >= 1 && (uint64_t)*ret <= most) {
		return 0;
	}
	PyErr_Format(PyExc_ValueError,
		"channel: %s is %S, not between 1 and %llu", name, object,
		(unsigned long long)most);
	return -1;
}

/* None, or a number that fits; the library checks the total. 0 or -1. */
static int count_argument(
	const char *name, PyObject *object, uint64_t most, uint64_t *ret)
{
	int64_t number;

	*ret = 0;
	if (!object || object == Py_None)
		return 0;
	if (number_argument(name, object, most, &number) < 0)
		return -1;
	*ret = (uint64_t)number;
	return 0;
}

static int mode_argument(PyObject *object, enum tarn_channel_mode *ret)
{
	const char *text;

	*ret = 0;
	if (!object || object == Py_None)
		return 0;
	text = PyUnicode_Check(object) ? text_argument(object) : "";
	if (!text)
		return -1;
	if (strcmp(text, "queue") == 0)
		*ret = TARN_CHANNEL_QUEUE;
	else if (strcmp(text, "broadcast") == 0)
		*ret = TARN_CHANNEL_BROADCAST;
	if (*ret)
		return 0;
	PyErr_Format(
		PyUnicode_Check(object) ? PyExc_ValueError : PyExc_TypeError,
		"channel: mode is \"queue\" or \"broadcast\", not %R", object);
	return -1;
}

static int take_options(
	PyObject *const *given, struct tarn_channel_options *ret)
{
	uint64_t slots, tensors;
	bool ephemeral, sparse;

	if (count_argument("slots", given[0], TARN_CHANNEL_SLOTS_MAX, &slots) <
			0 ||
		count_argument("slot_bytes", given[1], SLOT_BYTES_MAX,
			&ret->slot_bytes) < 0 ||
		mode_argument(given[2], &ret->mode) < 0 ||
		count_argument("tensors", given[3], TARN_CHANNEL_TENSORS_MAX,
			&tensors) < 0 ||
		optional_flag(given[4], &ephemeral) < 0 ||
		optional_flag(given[5], &sparse) < 0)
		return -1;
	ret->slots = (uint32_t)slots;
	ret->tensors = (uint32_t)tensors;
	ret->flags = (ephemeral ? TARN_CHANNEL_EPHEMERAL : 0) |
		     (sparse ? TARN_CHANNEL_SPARSE : 0);
	return 0;
}

/* Both references are taken over, also when it fails. */
static PyObject *wrap_consume(
	PyTypeObject *type, PyObject *store, tarn_channel *channel, bool plain)
{
	allocfunc alloc = PyType_GetSlot(type, Py_tp_alloc);
	struct tarn_channel_info info;
	int r = tarn_channel_info(channel, &info);
	PyObject *self = r < 0 ? raise_system(r) : alloc(type, 0);

	if (!self) {
		tarn_channel_unref(channel);
		Py_DECREF(store);
		return NULL;
	}
	channel_of(self)->channel = channel;
	channel_of(self)->store = store;
	channel_of(self)->tensors = info.tensors;
	channel_of(self)->queue = info.mode == TARN_CHANNEL_QUEUE;
	channel_of(self)->plain = plain;
	return self;
}

static int join_argument(PyObject *object, unsigned *ret)
{
	const char *text;

	if (optional_text(object, &text) < 0)
		return -1;
	return text ? channel_role("join", text, ret) : 0;
}

/* In one call, which no signal handler of Python's interrupts: an ephemeral channel
 * in which nobody has taken part does not end. */
static int open_and_join(tarn_store *store, const char *name,
	const struct tarn_channel_options *options, unsigned role,
	tarn_channel **ret)
{
	int r = tarn_channel_open(store, name, options, ret);

	if (r < 0 || !role)
		return r;
	r = tarn_channel_join(*ret, role);
	if (r < 0)
		tarn_channel_unref(*ret);
	return r;
}

static PyObject *channel_new(
	PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"store", "name", "slots", "slot_bytes", "mode",
		"tensors", "ephemeral", "create", "pickle", "sparse", "join",
		NULL};
	PyObject *store, *name, *given[7] = {NULL};
	struct tarn_channel_options options = {0};
	int create = 1, pickle = 1, r;
	unsigned role = 0;
	tarn_channel *channel;
	const char *text;

	if (!PyArg_ParseTupleAndKeywords(args, keywords,
		    "O!O|OOOOOppOO:Channel", names, store_type, &store, &name,
		    &given[0], &given[1], &given[2], &given[3], &given[4],
		    &create, &pickle, &given[5], &given[6]) ||
		take_options(given, &options) < 0 ||
		join_argument(given[6], &role) < 0)
		return NULL;
	text = text_argument(name);
	if (!text)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = open_and_join(store_of(store), text, create ? &options : NULL, role,
		&channel);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_lookup(r);
	Py_INCREF(store);
	return wrap_consume(type, store, channel, !pickle);
}

static void channel_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = PyType_GetSlot(type, Py_tp_free);
	tarn_channel *channel = handle_of(self);

	if (channel_of(self)->weak_references)
		PyObject_ClearWeakRefs(self);
	Py_BEGIN_ALLOW_THREADS
	tarn_channel_unref(channel);
	Py_END_ALLOW_THREADS
	Py_DECREF(channel_of(self)->store);
	release(self);
	Py_DECREF((PyObject *)type);
}

/* Another process, which is not a fork of this one, opens it by its name. */
static PyObject *reduce(PyObject *self, PyObject *none)
{
	PyObject *helpers = PyImport_ImportModule("tarn._channel"), *how;

	if (!helpers)
		return NULL;
	how = PyObject_CallMethod(helpers, "_reduce", "OO", self,
		channel_of(self)->plain ? Py_False : Py_True);
	Py_DECREF(helpers);
	return how;
}

/* ---- waiting ------------------------------------------------------- */

/* acquire or receive, of which one pointer is set. */
static int step(tarn_channel *channel, int timeout_ms, tarn_slot **ret_slot,
	tarn_item **ret_item)
{
	return ret_slot ? tarn_channel_acquire(channel, timeout_ms, ret_slot)
			: tarn_channel_receive(channel, timeout_ms, ret_item);
}

static int wait_for(tarn_channel *channel, double deadline,
	tarn_slot **ret_slot, tarn_item **ret_item)
{
	int r = step(channel, 0, ret_slot, ret_item), slice;

	while (r == -ETIMEDOUT || r == -EINTR) {
		if (PyErr_CheckSignals() < 0)
			return r;
		if (deadline_passed(deadline))
			return -ETIMEDOUT;
		slice = deadline_slice(deadline, SLICE_MS);
		Py_BEGIN_ALLOW_THREADS
		r = step(channel, slice, ret_slot, ret_item);
		Py_END_ALLOW_THREADS
	}
	return r;
}

int channel_wait_slot(
	const struct channel *channel, double deadline, tarn_slot **ret)
{
	return wait_for(channel->channel, deadline, ret, NULL);
}

int channel_wait_item(
	const struct channel *channel, double deadline, tarn_item **ret)
{
	return wait_for(channel->channel, deadline, NULL, ret);
}

/* Finding out whether it has a name looks at all of its slots, and a caller
 * that polls would do that many thousand times a second. */
PyObject *channel_raise(const struct channel *channel, double deadline, int r)
{
	struct tarn_channel_info i = {0};

	if (r != -ETIMEDOUT || PyErr_Occurred())
		return raise_system(r);
	if (deadline != DEADLINE_NOW) {
		Py_BEGIN_ALLOW_THREADS
		r = tarn_channel_info(channel->channel, &i);
		Py_END_ALLOW_THREADS
	}
	return raise_timeout("channel", tarn_channel_name(channel->channel),
		r >= 0 && i.unlinked ? "; its name was removed, so that nobody "
				       "else can open it"
				     : "");
}

/* ---- the exact face ------------------------------------------------ */

static int timeout_argument(const char *name, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords, double *ret)
{
	static const char *const names[] = {"timeout", NULL};
	PyObject *given;

	if (named_arguments(name, names, 0, args, n_args, keywords, &given) < 0)
		return -1;
	return deadline_argument(given, ret);
}

static PyObject *acquire(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	tarn_slot *slot;
	double deadline;
	int r;

	if (timeout_argument("acquire", args, n_args, keywords, &deadline) < 0)
		return NULL;
	r = channel_wait_slot(channel_of(self), deadline, &slot);
	return r < 0 ? channel_raise(channel_of(self), deadline, r)
		     : slot_wrap_consume(self, slot);
}

static PyObject *receive(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	tarn_item *item;
	double deadline;
	int r;

	if (timeout_argument("receive", args, n_args, keywords, &deadline) < 0)
		return NULL;
	r = channel_wait_item(channel_of(self), deadline, &item);
	return r < 0 ? channel_raise(channel_of(self), deadline, r)
		     : item_wrap_consume(self, item);
}

/* ---- the plain face ------------------------------------------------ */

static PyObject *put(PyObject *self, PyObject *const *args, Py_ssize_t n_args,
	PyObject *keywords)
{
	static const char *const names[] = {"object", "timeout", NULL};
	PyObject *given[2];
	double deadline;

	if (named_arguments("put", names, 1, args, n_args, keywords, given) <
			0 ||
		deadline_argument(given[1], &deadline) < 0 ||
		put_whole(channel_of(self), deadline, given[0]) < 0)
		return NULL;
	Py_INCREF(Py_None);
	return Py_None;
}

static PyObject *unpack_consume(PyObject *self, tarn_item *item)
{
	PyObject *object = item_unpack(channel_of(self), item);

	tarn_item_unref(item);
	return object;
}

static PyObject *get(PyObject *self, PyObject *const *args, Py_ssize_t n_args,
	PyObject *keywords)
{
	tarn_item *item;
	double deadline;
	int r;

	if (timeout_argument("get", args, n_args, keywords, &deadline) < 0)
		return NULL;
	r = channel_wait_item(channel_of(self), deadline, &item);
	return r < 0 ? channel_raise(channel_of(self), deadline, r)
		     : unpack_consume(self, item);
}

static PyObject *next(PyObject *self)
{
	tarn_item *item;
	double deadline;
	int r = deadline_argument(NULL, &deadline);

	if (r < 0)
		return NULL;
	r = channel_wait_item(channel_of(self), deadline, &item);
	if (r == -EPIPE)
		return NULL; /* the end */
	return r < 0 ? channel_raise(channel_of(self), deadline, r)
		     : unpack_consume(self, item);
}

static PyObject *itself(PyObject *self)
{
	Py_INCREF(self);
	return self;
}

static PyObject *channel_repr(PyObject *self)
{
	return PyUnicode_FromFormat("<tarn.Channel '%s': %s>",
		tarn_channel_name(handle_of(self)),
		channel_of(self)->queue ? "queue" : "broadcast");
}

PyObject *channel_refuse_new(
	PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	PyErr_SetString(PyExc_TypeError,
		"Slots and Items are made by Channel.acquire and .receive");
	return NULL;
}

/* ---- the type ------------------------------------------------------ */

static PyMethodDef methods[] = {
	{"acquire", EXPORT(acquire), FAST_KEYWORDS,
		"acquire($self, /, timeout=None)\n--\n\n"
		"A free Slot, to be filled in place. TimeoutError: none was\n"
		"free; BrokenPipeError: the channel is closed."},
	{"receive", EXPORT(receive), FAST_KEYWORDS,
		"receive($self, /, timeout=None)\n--\n\n"
		"The next Item. TimeoutError: nothing came;\n"
		"BrokenPipeError: the channel is closed, and nothing is left."},
	{"put", EXPORT(put), FAST_KEYWORDS,
		"put($self, /, object, timeout=None)\n--\n\n"
		"Sends any nesting of dicts, lists, tuples, strings, numbers\n"
		"and arrays, of which Tensors, numpy's and PyTorch's come out\n"
		"as what they were. Other objects are pickled, but not the\n"
		"arrays in them. What is larger than a slot is sent in memory\n"
		"of its own; what the store keeps already, as it is. No other\n"
		"thread may resize an array of it meanwhile.\n"
		"TimeoutError and BrokenPipeError as acquire."},
	{"get", EXPORT(get), FAST_KEYWORDS,
		"get($self, /, timeout=None)\n--\n\n"
		"What put has sent. Its arrays are views of the slot, which "
		"is\nused again when the last of them is gone; if this "
		"process\n"
		"dies before, it is sent to another. Of what was larger than "
		"a\n"
		"slot they hold none: it is received once and for all.\n"
		"TimeoutError and BrokenPipeError as receive; ValueError: the\n"
		"item is damaged, or pickled where pickle=False."},
	{"__reduce__", reduce, METH_NOARGS, NULL},
	{0},
};

/* Room for the methods of both parts. */
static PyMethodDef all_methods[16];

static PyMemberDef members[] = {
	{"__weaklistoffset__", T_PYSSIZET,
		offsetof(struct channel, weak_references), READONLY, NULL},
	{0},
};

static PyType_Slot slots[] = {
	{Py_tp_doc,
		"A ring of slots in shared memory, by which processes hand\n"
		"tensors to each other: see Store.channel.\n\n"
		"All that waits takes a timeout in seconds: None waits for\n"
		"ever, 0 only tries. Threads may share a channel, and are one\n"
		"producer and one consumer then; in a forked child it is a\n"
		"participant of its own, and can be sent to other processes."},
	{Py_tp_new, channel_new},
	{Py_tp_dealloc, channel_dealloc},
	{Py_tp_repr, channel_repr},
	{Py_tp_iter, itself},
	{Py_tp_iternext, next},
	{Py_tp_methods, all_methods},
	{Py_tp_getset, channel_properties},
	{Py_tp_members, members},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "tarn.Channel",
	.basicsize = sizeof(struct channel),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

static int add_type(
	PyObject *module, const char *name, PyType_Spec *of, PyTypeObject **ret)
{
	*ret = (PyTypeObject *)PyType_FromSpec(of);
	if (!*ret)
		return -1;
	Py_INCREF((PyObject *)*ret);
	return PyModule_AddObject(module, name, (PyObject *)*ret);
}

int add_channel_types(PyObject *module)
{
	PyMethodDef *const parts[] = {methods, channel_member_methods};
	size_t n = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		for (PyMethodDef *m = parts[i]; m->ml_name; m++)
			all_methods[n++] = *m;
	if (add_type(module, "Channel", &spec, &channel_type) < 0 ||
		add_type(module, "Slot", &slot_spec, &slot_type) < 0)
		return -1;
	return add_type(module, "Item", &item_spec, &item_type);
}
