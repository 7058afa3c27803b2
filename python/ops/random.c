// SPDX-License-Identifier: MIT
/*
 * Random numbers. Without a seed the system gives one; with one they are the
 * same numbers always, and position goes on in the sequence.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "python/ops/methods.h"

enum { RANDOM, UNIFORM, NORMAL, INTEGERS };

/* Where the numbers go, and which ones of the sequence. */
struct sequence {
	uint64_t seed, position;
	int dtype, ndim;
	int64_t shape[TARN_NDIM_MAX];
	PyObject *out;
	tarn_tensor *to;
};

static int unsigned_argument(
	const char *name, const char *what, PyObject *object, uint64_t *ret)
{
	unsigned long long value;

	if (!PyLong_Check(object)) {
		PyErr_Format(PyExc_TypeError, "%s: %s is an int, not %R", name,
			what, object);
		return -1;
	}
	value = PyLong_AsUnsignedLongLong(object);
	if (value == (unsigned long long)-1 && PyErr_Occurred()) {
		PyErr_Format(PyExc_OverflowError,
			"%s: %s is %R; 0 to 2 ** 64 - 1 are possible", name,
			what, object);
		return -1;
	}
	*ret = value;
	return 0;
}

static int seed_argument(const char *name, PyObject *object, uint64_t *ret)
{
	if (object && object != Py_None)
		return unsigned_argument(name, "seed", object, ret);
	if (getentropy(ret, sizeof(*ret)) == 0)
		return 0;
	PyErr_SetFromErrno(PyExc_OSError);
	return -1;
}

/* given: shape, dtype, seed, position, out. What is not said is out's. */
static int sequence_arguments(const char *name, PyObject *const *given,
	int dtype, struct sequence *ret)
{
	const struct tarn_layout *l;
	PyObject *shape = given[0] ?: Py_None;
	bool typed = given[1] && given[1] != Py_None;

	*ret = (struct sequence) {.dtype = dtype, .out = given[4]};
	if (out_argument(name, given[4], &ret->to) < 0 ||
		seed_argument(name, given[2], &ret->seed) < 0 ||
		(given[3] && unsigned_argument(name, "position", given[3],
				     &ret->position) < 0))
		return -1;
	l = ret->to ? tarn_tensor_layout(ret->to) : NULL;
	if (typed)
		ret->dtype = lent->dtype_argument(given[1]);
	else if (l)
		ret->dtype = l->dtype;
	if (!ret->dtype)
		return -1;
	if (shape != Py_None) {
		ret->ndim = lent->shape_argument(name, shape, ret->shape);
	} else if (l) {
		ret->ndim = l->ndim;
		memcpy(ret->shape, l->shape, sizeof(ret->shape));
	}
	return ret->ndim < 0 ? -1 : 0;
}

static int fill(int op, struct sequence *s, double a, double b)
{
	enum tarn_dtype dtype = (enum tarn_dtype)s->dtype;

	if (op == NORMAL)
		return tarn_random_normal(s->seed, s->position, a, b, dtype,
			s->ndim, s->shape, &s->to);
	return tarn_random_uniform(
		s->seed, s->position, a, b, dtype, s->ndim, s->shape, &s->to);
}

static PyObject *floats(const char *name, int op, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[][8] = {
		[RANDOM] = {"shape", "dtype", "seed", "position", "out", NULL},
		[UNIFORM] = {"low", "high", "shape", "dtype", "seed",
			"position", "out", NULL},
		[NORMAL] = {"mean", "std", "shape", "dtype", "seed", "position",
			"out", NULL}};
	PyObject *given[7];
	double a = 0, b = 1;
	struct sequence s;
	int r;

	if (lent->named_arguments(
		    name, names[op], 0, args, n_args, keywords, given) < 0)
		return NULL;
	if (op != RANDOM &&
		((given[0] && lent->real_argument(name, given[0], &a) < 0) ||
			(given[1] &&
				lent->real_argument(name, given[1], &b) < 0)))
		return NULL;
	if (sequence_arguments(
		    name, op == RANDOM ? given : given + 2, TARN_F32, &s) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = fill(op, &s, a, b);
	Py_END_ALLOW_THREADS
	return result_object(name, r, s.out, s.to);
}

/* As in PyTorch and numpy, high is not one of them. */
static PyObject *integers(const char *name, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"low", "high", "shape", "dtype",
		"seed", "position", "out", NULL};
	PyObject *given[7];
	int64_t low, high;
	struct sequence s;
	int r;

	if (lent->named_arguments(
		    name, names, 2, args, n_args, keywords, given) < 0 ||
		lent->int_argument(given[0], &low) < 0 ||
		lent->int_argument(given[1], &high) < 0 ||
		sequence_arguments(name, given + 2, TARN_I64, &s) < 0)
		return NULL;
	if (low >= high) {
		PyErr_Format(PyExc_ValueError,
			"%s: from %lld on and below %lld there are none", name,
			(long long)low, (long long)high);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	r = tarn_random_int(s.seed, s.position, low, high - 1,
		(enum tarn_dtype)s.dtype, s.ndim, s.shape, &s.to);
	Py_END_ALLOW_THREADS
	return result_object(name, r, s.out, s.to);
}

#define FLOATS(fn, name, op)                                                   \
	static PyObject *fn(PyObject *module, PyObject *const *args,           \
		Py_ssize_t n, PyObject *keywords)                              \
	{                                                                      \
		return floats(name, op, args, n, keywords);                    \
	}
FLOATS(random_numbers, "random", RANDOM)
FLOATS(uniform, "uniform", UNIFORM)
FLOATS(normal, "normal", NORMAL)

static PyObject *randint(PyObject *module, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	return integers("randint", args, n_args, keywords);
}

#define REST "shape=None, dtype=None, seed=None, position=0, out=None)\n--\n\n"
#define SEEDED "\nThe same seed gives the same numbers; those of position on."

PyMethodDef random_functions[] = {
	{"random", EXPORT(random_numbers), FAST_KEYWORDS,
		"random(" REST "From 0 on and below 1." SEEDED},
	{"uniform", EXPORT(uniform), FAST_KEYWORDS,
		"uniform(low=0, high=1, " REST
		"From low on and below high, of floats." SEEDED},
	{"normal", EXPORT(normal), FAST_KEYWORDS,
		"normal(mean=0, std=1, " REST "Normal ones, of floats." SEEDED},
	{"randint", EXPORT(randint), FAST_KEYWORDS,
		"randint(low, high, " REST
		"Integers from low on and below high." SEEDED},
	{0},
};
