// SPDX-License-Identifier: MIT
/*
 * NUMA nodes: replicas of published tensors, and names that move. The copies
 * run without the GIL, and Ctrl-C ends them.
 */
#include "python/device.h"

#include <errno.h>
#include <limits.h>

#include <tarn/node.h>

int node_argument(PyObject *object, int *ret)
{
	long n;

	*ret = -1;
	if (!object || object == Py_None)
		return 0;
	n = PyLong_AsLong(object);
	if (n == -1 && PyErr_Occurred() &&
		!PyErr_ExceptionMatches(PyExc_OverflowError))
		return -1;
	PyErr_Clear();
	/* What is no node is refused by its number. */
	*ret = n < 0 || n > INT_MAX ? INT_MAX : (int)n;
	return 0;
}

static PyObject *copy_to_node(PyObject *self, PyObject *name_object,
	PyObject *node_object, PyObject *call, bool moves)
{
	struct progress_call progress = {0};
	const struct tarn_replicate_options options = {
		.progress = progress_step, .arg = &progress};
	const char *name = text_argument(name_object);
	uint64_t bytes = 0;
	int node, r;

	if (!name || node_argument(node_object, &node) < 0 ||
		optional_callable(call, &progress.call) < 0)
		return NULL;
	progress.state = PyEval_SaveThread();
	r = (moves ? tarn_store_migrate : tarn_store_replicate)(
		store_of(self), name, node, &options, &bytes);
	r = progress_end(&progress, r);
	return r < 0 ? raise_lookup(r) : PyLong_FromUnsignedLongLong(bytes);
}

static PyObject *replicate(
	PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	if (n_args != 3) {
		PyErr_SetString(PyExc_TypeError, "_replicate takes three");
		return NULL;
	}
	return copy_to_node(self, args[0], args[1], args[2], false);
}

static PyObject *migrate(
	PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
	if (n_args != 3) {
		PyErr_SetString(PyExc_TypeError, "_migrate takes three");
		return NULL;
	}
	return copy_to_node(self, args[0], args[1], args[2], true);
}

static PyObject *drop_replicas(PyObject *self, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"name", "node", NULL};
	PyObject *given[2];
	const char *name;
	int node, r;

	if (named_arguments("drop_replicas", names, 1, args, n_args, keywords,
		    given) < 0)
		return NULL;
	name = text_argument(given[0]);
	if (!name || node_argument(given[1], &node) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_store_drop_replicas(store_of(self), name, node);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_lookup(r);
	Py_INCREF(Py_None);
	return Py_None;
}

static PyObject *nodes_of(PyObject *self, PyObject *key)
{
	const char *name = text_argument(key);
	PyObject *tuple, *number;
	uint64_t nodes;
	Py_ssize_t n = 0;
	int r;

	if (!name)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = tarn_store_nodes(store_of(self), name, &nodes);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_lookup(r);
	tuple = PyTuple_New(__builtin_popcountll(nodes));
	for (int node = 0; tuple && node < 64; node++) {
		if (!(nodes & 1ull << node))
			continue;
		number = PyLong_FromLong(node);
		if (number && PyTuple_SetItem(tuple, n++, number) == 0)
			continue;
		Py_DECREF(tuple);
		return NULL;
	}
	return tuple;
}

PyMethodDef nodes_methods[] = {
	{"_replicate", EXPORT(replicate), FAST, "Store.replicate."},
	{"_migrate", EXPORT(migrate), FAST, "Store.migrate."},
	{"drop_replicas", EXPORT(drop_replicas), FAST_KEYWORDS,
		"drop_replicas($self, /, name, node=None)\n--\n\n"
		"Drops the replicas on that NUMA node, or on all nodes, of "
		"what\nreplicate(name) would replicate. A process that has one "
		"open\nkeeps it."},
	{"nodes", nodes_of, METH_O,
		"nodes($self, name, /)\n--\n\n"
		"The NUMA nodes on which the tensor of that name has all its "
		"bytes:\nits own, where that is known, and those of its "
		"replicas. A tuple\nof numbers."},
	{0},
};

/* ---- devices ------------------------------------------------------- */

static PyObject *node_of_pci(PyObject *module, PyObject *object)
{
	const char *address;
	int node, r;

	if (!PyUnicode_Check(object))
		return PyErr_Format(PyExc_TypeError,
			"node_of_pci: an address is wanted, like "
			"'0000:65:00.0', not %R",
			object);
	address = text_argument(object);
	if (!address)
		return NULL;
	r = tarn_node_of_pci(address, &node);
	if (r == -ENODATA)
		Py_RETURN_NONE;
	return r < 0 ? raise_system(r) : PyLong_FromLong(node);
}

static PyObject *node_of_device(PyObject *module, PyObject *object)
{
	struct place place;
	int node, r;

	if (place_argument("node_of_device", object, &place) < 0)
		return NULL;
	if (!place.on_device) {
		PyErr_SetString(PyExc_ValueError,
			"node_of_device: \"cpu\" is no device of CUDA");
		return NULL;
	}
	r = tarn_cuda_node(&place.device, &node);
	if (r == -ENODATA)
		Py_RETURN_NONE;
	return r < 0 ? raise_system(r) : PyLong_FromLong(node);
}

PyMethodDef nodes_functions[] = {
	{"node_of_device", node_of_device, METH_O,
		"node_of_device(device, /)\n--\n\n"
		"The NUMA node to which a GPU is attached; None: it is not "
		"known. The\ndevice is named as in Tensor.to. See "
		"node_of_pci."},
	{"node_of_pci", node_of_pci, METH_O,
		"node_of_pci(address, /)\n--\n\n"
		"The NUMA node to which a PCI device, like a GPU, is attached; "
		"None:\nthe kernel does not know it. The address is written "
		"as in\n\"0000:65:00.0\". FileNotFoundError: there is no such "
		"device.\nstore.node = tarn.node_of_pci(address) has that store "
		"load and open\nwhat is nearest to the device."},
	{0},
};
