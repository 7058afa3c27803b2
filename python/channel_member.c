// SPDX-License-Identifier: MIT
/*
 * The other part of the type Channel: taking part and leaving, closing, and
 * what is asked.
 */
#include "python/channel.h"

#include <string.h>

static tarn_channel *handle_of(PyObject *self)
{
	return channel_of(self)->channel;
}

/* ---- taking part --------------------------------------------------- */

int channel_role(const char *name, const char *text, unsigned *ret)
{
	*ret = strcmp(text, "producer") == 0   ? TARN_CHANNEL_PRODUCER
	       : strcmp(text, "consumer") == 0 ? TARN_CHANNEL_CONSUMER
					       : 0;
	if (*ret)
		return 0;
	PyErr_Format(PyExc_ValueError,
		"%s: a role is \"producer\" or \"consumer\"", name);
	return -1;
}

/* "producer", "consumer"; without: instead. 0 or -1. */
static int role_argument(const char *name, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords, unsigned instead, unsigned *ret)
{
	static const char *const names[] = {"role", NULL};
	const char *text;
	PyObject *given;

	if (named_arguments(name, names, instead ? 0 : 1, args, n_args,
		    keywords, &given) < 0 ||
		optional_text(given, &text) < 0)
		return -1;
	*ret = instead;
	return text || !instead ? channel_role(name, text ? text : "", ret) : 0;
}

static PyObject *done(int r)
{
	if (r < 0)
		return raise_system(r);
	Py_INCREF(Py_None);
	return Py_None;
}

static PyObject *join(PyObject *self, PyObject *const *args, Py_ssize_t n_args,
	PyObject *keywords)
{
	unsigned roles;
	int r;

	if (role_argument("join", args, n_args, keywords, 0, &roles) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_channel_join(handle_of(self), roles);
	Py_END_ALLOW_THREADS
	return done(r);
}

static PyObject *leave(PyObject *self, PyObject *const *args, Py_ssize_t n_args,
	PyObject *keywords)
{
	unsigned roles;
	int r;

	if (role_argument("leave", args, n_args, keywords,
		    TARN_CHANNEL_PRODUCER | TARN_CHANNEL_CONSUMER, &roles) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_channel_leave(handle_of(self), roles);
	Py_END_ALLOW_THREADS
	return done(r);
}

static PyObject *close_it(PyObject *self, PyObject *none)
{
	int r;

	Py_BEGIN_ALLOW_THREADS
	r = tarn_channel_close(handle_of(self));
	Py_END_ALLOW_THREADS
	return done(r);
}

/* ---- asking -------------------------------------------------------- */

static PyObject *info(PyObject *self, PyObject *none)
{
	struct tarn_channel_info i;
	int r = tarn_channel_info(handle_of(self), &i);

	if (r < 0)
		return raise_system(r);
	return Py_BuildValue("{s:s,s:I,s:I,s:K,s:I,s:I,s:I,s:I,s:I,s:I,s:O,"
			     "s:O,s:K,s:K,s:K}",
		"mode", i.mode == TARN_CHANNEL_QUEUE ? "queue" : "broadcast",
		"slots", i.slots, "tensors", i.tensors, "slot_bytes",
		(unsigned long long)i.slot_bytes, "free", i.free, "filling",
		i.filling, "ready", i.ready, "reading", i.reading, "producers",
		i.producers, "consumers", i.consumers, "closed",
		i.closed ? Py_True : Py_False, "unlinked",
		i.unlinked ? Py_True : Py_False, "published",
		(unsigned long long)i.published, "received",
		(unsigned long long)i.received, "bytes_published",
		(unsigned long long)i.bytes_published);
}

static PyObject *fileno_of(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	unsigned role;
	int r;

	if (role_argument("fileno", args, n_args, keywords,
		    TARN_CHANNEL_CONSUMER, &role) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_channel_fd(handle_of(self), role);
	Py_END_ALLOW_THREADS
	return r < 0 ? raise_system(r) : PyLong_FromLong(r);
}

static PyObject *get_name(PyObject *self, void *closure)
{
	return PyUnicode_FromString(tarn_channel_name(handle_of(self)));
}

static PyObject *get_store(PyObject *self, void *closure)
{
	PyObject *store = channel_of(self)->store;

	Py_INCREF(store);
	return store;
}

PyMethodDef channel_member_methods[] = {
	{"join", EXPORT(join), FAST_KEYWORDS,
		"join($self, /, role)\n--\n\n"
		"Takes part as a \"producer\" or \"consumer\"; the first "
		"acquire\nor receive does it unasked. A broadcast is received "
		"from here on."},
	{"leave", EXPORT(leave), FAST_KEYWORDS,
		"leave($self, /, role=None)\n--\n\n"
		"Takes part no more: slots that are not published are\n"
		"abandoned, items stay until they are dropped. Without a role\n"
		"neither as producer nor as consumer."},
	{"close", close_it, METH_NOARGS,
		"close($self, /)\n--\n\n"
		"Nothing is published any more, by anybody; consumers get what "
		"was,\nand then the end."},
	{"info", info, METH_NOARGS,
		"info($self, /)\n--\n\n"
		"What the channel is, and how it fares, as a dict:\n"
		"mode, slots, slot_bytes, tensors (of one item at most); of\n"
		"the slots now free, filling, ready, reading; producers,\n"
		"consumers, closed, unlinked (its name was removed); items\n"
		"published and received, and bytes_published, since it was\n"
		"made."},
	{"fileno", EXPORT(fileno_of), FAST_KEYWORDS,
		"fileno($self, /, role='consumer')\n--\n\n"
		"A descriptor for event loops, readable while something may "
		"be\nreceived (acquired) or the end has come. Then call with\n"
		"timeout=0 until TimeoutError: that makes it wait again."},
	{0},
};

PyGetSetDef channel_properties[] = {
	{"name", get_name, NULL, "The name that it was opened by.", NULL},
	{"store", get_store, NULL, "The store that it was opened in.", NULL},
	{0},
};
