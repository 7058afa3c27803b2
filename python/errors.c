// SPDX-License-Identifier: MIT
/*
 * Exceptions: the library's number decides the class, and its sentence is the
 * message. The class also depends on the operation: an index that is out of
 * range is an IndexError, a disk that is full an OSError.
 */
#include "python/module.h"

#include <errno.h>
#include <string.h>

static PyObject *not_found;

/* The name that the Python caller gave, in raise_view_as; "": none. */
static _Thread_local const char *called;

/* Behind the name of the function that the library's sentence begins with. */
static const char *behind_name(const char *text)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz_");

	return n > 0 && strncmp(text + n, ": ", 2) == 0 ? text + n + 2 : text;
}

/* Sentences may hold paths, which need not be UTF-8. */
static PyObject *sentence(void)
{
	const char *text = tarn_error_message();

	if (called) {
		text = behind_name(text);
		return PyUnicode_FromFormat(
			"%s%s%s", called, *called ? ": " : "", text);
	}
	return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *raise_as(PyObject *type)
{
	PyObject *text = sentence();

	if (text)
		PyErr_SetObject(type, text);
	Py_XDECREF(text);
	return NULL;
}

/* OSError chooses its subclass by the number itself. */
static PyObject *raise_number(PyObject *type, int err)
{
	PyObject *text = sentence(), *error = NULL;

	if (text)
		error = PyObject_CallFunction(type, "iO", err, text);
	if (error)
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_XDECREF(text);
	Py_XDECREF(error);
	return NULL;
}

PyObject *raise_view(int r)
{
	if (PyErr_Occurred())
		return NULL;
	switch (-r) {
	case ERANGE:
		return raise_as(PyExc_IndexError);
	case ENOMEM:
		return raise_as(PyExc_MemoryError);
	case EINVAL:
	case EOVERFLOW:
	case ENOTSUP:
	case EROFS:
	case E2BIG:
		return raise_as(PyExc_ValueError);
	default:
		return raise_number(PyExc_OSError, -r);
	}
}

PyObject *raise_view_as(const char *name, int r)
{
	called = name;
	raise_view(r);
	called = NULL;
	return NULL;
}

PyObject *raise_too_large(void)
{
	if (!PyErr_Occurred())
		PyErr_SetString(
			PyExc_OverflowError, behind_name(tarn_error_message()));
	return NULL;
}

PyObject *raise_system(int r)
{
	/* A callback that raised has set the exception. */
	if (PyErr_Occurred())
		return NULL;
	switch (-r) {
	case ENOMEM:
		return raise_as(PyExc_MemoryError);
	case EINVAL:
	case ERANGE:
	case EOVERFLOW:
	case ENOTSUP:
	case EBADMSG:
		return raise_as(PyExc_ValueError);
	default:
		return raise_number(PyExc_OSError, -r);
	}
}

PyObject *raise_timeout(const char *what, const char *name, const char *more)
{
	PyObject *error =
		PyObject_CallFunction(PyExc_TimeoutError, "iN", ETIMEDOUT,
			PyUnicode_FromFormat("%s '%s': nothing in time%s", what,
				name, more));

	if (error)
		PyErr_SetObject(PyExc_TimeoutError, error);
	Py_XDECREF(error);
	return NULL;
}

PyObject *raise_lookup(int r)
{
	if (r != -ENOENT || PyErr_Occurred())
		return raise_system(r);
	return raise_number(not_found, ENOENT);
}

PyObject *raise_missing(int r, PyObject *mapping, PyObject *name)
{
	PyObject *text, *helpers, *error = NULL;

	if (r != -ENOENT || PyErr_Occurred())
		return raise_system(r);
	text = sentence();
	helpers = text ? PyImport_ImportModule("tarn._names") : NULL;
	if (helpers)
		error = PyObject_CallMethod(helpers, "missing", "OOiO", mapping,
			name, ENOENT, text);
	if (error)
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_XDECREF(text);
	Py_XDECREF(helpers);
	Py_XDECREF(error);
	return NULL;
}

int add_errors(PyObject *module)
{
	PyObject *bases =
		PyTuple_Pack(2, PyExc_FileNotFoundError, PyExc_KeyError);

	if (!bases)
		return -1;
	not_found = PyErr_NewExceptionWithDoc("tarn.NotFoundError",
		"No tensor of that name: a FileNotFoundError, as errors of "
		"the\n"
		"library are, and a KeyError, as mappings raise.",
		bases, NULL);
	Py_DECREF(bases);
	if (!not_found)
		return -1;
	Py_INCREF(not_found);
	return PyModule_AddObject(module, "NotFoundError", not_found);
}
