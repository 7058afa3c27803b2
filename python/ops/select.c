// SPDX-License-Identifier: MIT
/* Elements by their numbers, and in other places. */
#include "python/ops/methods.h"

/* Both tensors, and a dimension before the second where with_dim is true. */
struct selection {
	PyObject *x, *index, *out;
	int dim;
	tarn_tensor *to;
};

static int selection_open(const char *name, bool with_dim, PyObject *x,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords,
	struct selection *ret)
{
	static const char *const plain[] = {"index", "out", NULL};
	static const char *const along[] = {"dim", "index", "out", NULL};
	PyObject *given[3];

	*ret = (struct selection) {0};
	if (lent->named_arguments(name, with_dim ? along : plain,
		    with_dim ? 2 : 1, args, n_args, keywords, given) < 0 ||
		(with_dim && lent->dim_argument(name, given[0], &ret->dim) < 0))
		return -1;
	ret->out = given[with_dim + 1];
	if (out_argument(name, ret->out, &ret->to) < 0)
		return -1;
	ret->x = tensor_argument(name, x);
	ret->index = ret->x ? tensor_argument(name, given[with_dim]) : NULL;
	return ret->index ? 0 : -1;
}

static PyObject *selection_close(
	const char *name, struct selection *s, int r, bool opened)
{
	PyObject *result =
		opened ? result_object(name, r, s->out, s->to) : NULL;

	Py_XDECREF(s->x);
	Py_XDECREF(s->index);
	return result;
}

/* A view in which the extents of 1 are those of the other, but for dim. */
static PyObject *repeated(PyObject *object, const tarn_tensor *other, int dim)
{
	const struct tarn_layout *l = tarn_tensor_layout(tensor_of(object));
	const struct tarn_layout *o = tarn_tensor_layout(other);
	int64_t shape[TARN_NDIM_MAX] = {0};
	tarn_tensor *view;
	int r;

	for (int i = 0; i < l->ndim; i++)
		shape[i] = l->shape[i] == 1 && i != dim ? o->shape[i]
							: l->shape[i];
	r = tarn_tensor_expand(tensor_of(object), l->ndim, shape, &view);
	if (r < 0)
		return lent->raise_view_as("take_along_dim", r);
	return lent->tensor_wrap_consume(view);
}

/* Both broadcast to each other. What has another number of dimensions is the
 * operation's to refuse. 0 or -1. */
static int repeat_both(struct selection *s)
{
	int ndim = tarn_tensor_layout(tensor_of(s->x))->ndim;
	int dim = s->dim < 0 ? s->dim + ndim : s->dim;
	PyObject *x, *index;

	if (ndim != tarn_tensor_layout(tensor_of(s->index))->ndim)
		return 0;
	x = repeated(s->x, tensor_of(s->index), dim);
	index = x ? repeated(s->index, tensor_of(s->x), dim) : NULL;
	if (!index) {
		Py_XDECREF(x);
		return -1;
	}
	Py_DECREF(s->x);
	Py_DECREF(s->index);
	s->x = x;
	s->index = index;
	return 0;
}

static PyObject *index_core(const char *name, int op, PyObject *x,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	struct selection s;
	int r = selection_open(name, op > 1, x, args, n_args, keywords, &s);
	bool opened = r >= 0 && (op < 3 || repeat_both(&s) >= 0);

	if (opened) {
		const tarn_tensor *t = tensor_of(s.x), *i = tensor_of(s.index);

		WITHOUT_GIL(
			i, r = op == 0   ? tarn_take(t, i, &s.to)
			       : op == 1 ? tarn_masked_select(t, i, &s.to)
			       : op == 2 ? tarn_index_select(t, s.dim, i, &s.to)
					 : tarn_take_along(t, s.dim, i, &s.to));
	}
	return selection_close(name, &s, r, opened);
}

/* Methods that write: self, which they return. op 0, 1: masks; 2, 3: numbers. */
static PyObject *put_core(const char *name, int op, PyObject *self,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const masks[] = {"mask", "value", NULL};
	static const char *const along[] = {"dim", "index", "value", NULL};
	PyObject *given[3], *index;
	struct operand value;
	int dim = 0, r;

	if (lent->named_arguments(name, op > 1 ? along : masks, op > 1 ? 3 : 2,
		    args, n_args, keywords, given) < 0 ||
		(op > 1 && lent->dim_argument(name, given[0], &dim) < 0))
		return NULL;
	index = tensor_argument(name, given[op > 1]);
	if (!index)
		return NULL;
	r = operand_from(given[1 + (op > 1)], &value);
	if (r > 0) {
		tarn_tensor *t = tensor_of(self);
		const tarn_tensor *i = tensor_of(index);

		WITHOUT_GIL(i,
			r = op == 0   ? tarn_masked_fill(t, i, value.operand)
			    : op == 1 ? tarn_masked_put(t, i, value.operand)
			    : op == 2
				    ? tarn_index_put(t, dim, i, value.operand)
				    : tarn_put_along(t, dim, i, value.operand));
		operand_drop(&value);
		Py_DECREF(index);
		return result_object(name, r, self, NULL);
	}
	if (r == 0)
		PyErr_Format(PyExc_TypeError,
			"%s: a tensor or a number is wanted, not %R", name,
			given[1 + (op > 1)]);
	Py_DECREF(index);
	return NULL;
}

static PyObject *nonzero_core(const char *name, int op, PyObject *object,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"out", NULL};
	PyObject *out, *x, *result;
	tarn_tensor *to;
	int r;

	if (lent->named_arguments(
		    name, names, 0, args, n_args, keywords, &out) < 0 ||
		out_argument(name, out, &to) < 0)
		return NULL;
	x = tensor_argument(name, object);
	if (!x)
		return NULL;
	WITHOUT_GIL(tensor_of(x), r = tarn_nonzero(tensor_of(x), &to));
	result = result_object(name, r, out, to);
	Py_DECREF(x);
	return result;
}

/* ---- several tensors ------------------------------------------------------- */

static PyObject *join(const char *name, PyObject *list, int dim, PyObject *out,
	int (*fn)(const tarn_tensor *const *tensors, size_t n, int dim,
		tarn_tensor **out))
{
	PyObject *tuple = PySequence_Tuple(list), *made, *held, *result = NULL;
	const tarn_tensor **tensors;
	Py_ssize_t n = tuple ? PyTuple_Size(tuple) : -1, i;
	tarn_tensor *to;
	int r;

	if (n < 0 || out_argument(name, out, &to) < 0) {
		Py_XDECREF(tuple);
		return NULL;
	}
	held = PyTuple_New(n);
	tensors = PyMem_Malloc((size_t)(n ? n : 1) * sizeof(*tensors));
	for (i = 0; held && tensors && i < n; i++) {
		made = tensor_argument(name, PyTuple_GetItem(tuple, i));
		if (!made || PyTuple_SetItem(held, i, made) < 0)
			break;
		tensors[i] = tensor_of(made);
	}
	if (held && tensors && i == n) {
		Py_BEGIN_ALLOW_THREADS
		r = fn(tensors, (size_t)n, dim, &to);
		Py_END_ALLOW_THREADS
		result = result_object(name, r, out, to);
	} else if (!PyErr_Occurred())
		PyErr_NoMemory();
	PyMem_Free(tensors);
	Py_XDECREF(held);
	Py_DECREF(tuple);
	return result;
}

/* cat(tensors, dim=0, out=None), and stack. */
static PyObject *join_function(const char *name, bool stacks,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {
		"tensors", "dim", "out", "axis", NULL};
	PyObject *given[4], *where;
	int dim = 0;

	if (lent->named_arguments(
		    name, names, 1, args, n_args, keywords, given) < 0)
		return NULL;
	where = given[1] ?: given[3];
	if (where && lent->dim_argument(name, where, &dim) < 0)
		return NULL;
	return join(
		name, given[0], dim, given[2], stacks ? tarn_stack : tarn_cat);
}

static PyObject *cat(PyObject *module, PyObject *const *args, Py_ssize_t n_args,
	PyObject *keywords)
{
	return join_function("cat", false, args, n_args, keywords);
}

static PyObject *stack(PyObject *module, PyObject *const *args,
	Py_ssize_t n_args, PyObject *keywords)
{
	return join_function("stack", true, args, n_args, keywords);
}

/* ---- other places ------------------------------------------------------------ */

static int pad_mode(const char *text, enum tarn_pad_mode *ret)
{
	static const char *const modes[] = {
		"constant", "reflect", "replicate", "circular"};

	for (int i = 0; i < 4; i++) {
		if (PyOS_stricmp(text, modes[i]) == 0) {
			*ret = (enum tarn_pad_mode)i;
			return 0;
		}
	}
	PyErr_Format(PyExc_ValueError,
		"pad: mode is \"constant\", \"reflect\", \"replicate\" or "
		"\"circular\", not \"%s\"",
		text);
	return -1;
}

/* Pairs as PyTorch has them: those of the last dimension first. */
static int pad_pairs(PyObject *object, int64_t (*ret)[2])
{
	PyObject *tuple = PySequence_Tuple(object);
	Py_ssize_t n = tuple ? PyTuple_Size(tuple) : -1;

	if (n < 0)
		return -1;
	if (n % 2 || n > 2 * TARN_NDIM_MAX) {
		PyErr_Format(PyExc_ValueError,
			"pad: at most %d pairs of numbers are wanted, not %zd "
			"numbers",
			TARN_NDIM_MAX, n);
		n = -1;
	}
	for (Py_ssize_t i = 0; i < n; i++)
		if (lent->int_argument(PyTuple_GetItem(tuple, i),
			    &ret[n / 2 - 1 - i / 2][i % 2]) < 0)
			n = -1;
	Py_DECREF(tuple);
	return n < 0 ? -1 : (int)n / 2;
}

static PyObject *pad_core(const char *name, int op, PyObject *object,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {
		"pad", "mode", "value", "out", NULL};
	int64_t pads[TARN_NDIM_MAX][2];
	enum tarn_pad_mode mode = TARN_PAD_CONSTANT;
	struct operand value = {.operand = tarn_int(0)};
	PyObject *given[4], *x, *result;
	const char *text;
	tarn_tensor *to;
	int n, r;

	if (lent->named_arguments(
		    name, names, 1, args, n_args, keywords, given) < 0 ||
		out_argument(name, given[3], &to) < 0)
		return NULL;
	text = given[1] ? PyUnicode_AsUTF8AndSize(given[1], NULL) : "constant";
	n = text && pad_mode(text, &mode) >= 0 ? pad_pairs(given[0], pads) : -1;
	if (n < 0)
		return NULL;
	if (given[2] && given[2] != Py_None &&
		operand_from(given[2], &value) <= 0) {
		if (!PyErr_Occurred())
			PyErr_Format(PyExc_TypeError,
				"pad: the value is a number, not %R", given[2]);
		return NULL;
	}
	x = tensor_argument(name, object);
	if (!x) {
		operand_drop(&value);
		return NULL;
	}
	WITHOUT_GIL(tensor_of(x),
		r = tarn_pad(tensor_of(x), n, (const int64_t(*)[2])pads, mode,
			value.operand, &to));
	result = result_object(name, r, given[3], to);
	operand_drop(&value);
	Py_DECREF(x);
	return result;
}

static PyObject *roll_core(const char *name, int op, PyObject *object,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"shifts", "dims", "out", NULL};
	int64_t shifts[TARN_NDIM_MAX];
	int dims[TARN_NDIM_MAX];
	PyObject *given[3], *x, *result;
	tarn_tensor *to;
	int n, m, r;

	if (lent->named_arguments(
		    name, names, 2, args, n_args, keywords, given) < 0 ||
		out_argument(name, given[2], &to) < 0)
		return NULL;
	n = lent->shape_argument(name, given[0], shifts);
	m = n < 0 ? -1 : dims_argument(name, given[1], dims);
	if (m < 0)
		return NULL;
	if (n != m) {
		PyErr_Format(PyExc_ValueError,
			"roll: %d shifts for %d dimensions", n, m);
		return NULL;
	}
	x = tensor_argument(name, object);
	if (!x)
		return NULL;
	WITHOUT_GIL(tensor_of(x),
		r = tarn_roll(tensor_of(x), n, shifts, dims, &to));
	result = result_object(name, r, given[2], to);
	Py_DECREF(x);
	return result;
}

static PyObject *triangle_core(const char *name, int op, PyObject *object,
	PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
	static const char *const names[] = {"diagonal", "out", NULL};
	PyObject *given[2], *x, *result;
	int64_t k = 0;
	tarn_tensor *to;
	int r;

	if (lent->named_arguments(
		    name, names, 0, args, n_args, keywords, given) < 0 ||
		(given[0] && lent->int_argument(given[0], &k) < 0) ||
		out_argument(name, given[1], &to) < 0)
		return NULL;
	x = tensor_argument(name, object);
	if (!x)
		return NULL;
	WITHOUT_GIL(tensor_of(x), r = tarn_triangle((enum tarn_triangle)op,
					  tensor_of(x), k, &to));
	result = result_object(name, r, given[1], to);
	Py_DECREF(x);
	return result;
}

/* ---- tables ------------------------------------------------------------------ */

FUNCTION_AND_METHOD(index_core, take, 0)
FUNCTION_AND_METHOD(index_core, masked_select, 1)
FUNCTION_AND_METHOD(index_core, index_select, 2)
FUNCTION_AND_METHOD(index_core, take_along_dim, 3)
FUNCTION_AND_METHOD(nonzero_core, nonzero, 0)
FUNCTION_AND_METHOD(pad_core, pad, 0)
FUNCTION_AND_METHOD(roll_core, roll, 0)
FUNCTION_AND_METHOD(triangle_core, tril, TARN_LOWER)
FUNCTION_AND_METHOD(triangle_core, triu, TARN_UPPER)

#define METHOD_ALONE(core, name, op)                                           \
	static PyObject *name##method(PyObject *self, PyObject *const *args,   \
		Py_ssize_t n, PyObject *keywords)                              \
	{                                                                      \
		return core(#name, op, self, args, n, keywords);               \
	}
METHOD_ALONE(put_core, masked_fill_, 0)
METHOD_ALONE(put_core, masked_scatter_, 1)
METHOD_ALONE(put_core, index_copy_, 2)
METHOD_ALONE(put_core, scatter_, 3)

#define SELECTIONS(X, first)                                                   \
	X(take, "take(" first ", /, index, out=None)\n--\n\nElements by "      \
		"their numbers in C order of all.")                            \
	X(masked_select, "masked_select(" first ", /, index, out=None)\n--"    \
			 "\n\nThe elements where a mask (BOOL) is true.")      \
	X(index_select, "index_select(" first ", /, dim, index, out=None)"     \
			"\n--\n\nSlices along dim by their numbers; the "      \
			"index's shape takes\nthe place of dim.")              \
	X(take_along_dim, "take_along_dim(" first ", /, dim, index, "          \
			  "out=None)\n--\n\nElements by their numbers along "  \
			  "dim; in the others both\nbroadcast, or the index "  \
			  "lies within the tensor, as torch.gather's.")        \
	X(nonzero, "nonzero(" first ", /, out=None)\n--\n\nThe indices of "    \
		   "what is not 0, a row for each.")                           \
	X(pad, "pad(" first ", /, pad, mode='constant', value=0, out=None)"    \
	       "\n--\n\nElements before and behind, in pairs, those of the "   \
	       "last\ndimension first, as torch.nn.functional.pad has them.")  \
	X(roll, "roll(" first ", /, shifts, dims, out=None)\n--\n\nShifted; "  \
		"what leaves the end enters at the beginning.")                \
	X(tril, "tril(" first ", /, diagonal=0, out=None)\n--\n\nWhat lies "   \
		"up to a diagonal; the rest is 0.")                            \
	X(triu, "triu(" first ", /, diagonal=0, out=None)\n--\n\nWhat lies "   \
		"from a diagonal on; the rest is 0.")

PyMethodDef select_functions[] = {
	SELECTIONS(FUNCTION_ENTRY, "x") {"cat", EXPORT(cat), FAST_KEYWORDS,
		"cat(tensors, dim=0, out=None, axis=None)\n--\n\n"
		"One after the other."},
	{"stack", EXPORT(stack), FAST_KEYWORDS,
		"stack(tensors, dim=0, out=None, axis=None)\n--\n\n"
		"One after the other along a new dimension."},
	{0}};

PyMethodDef select_methods[] = {
	SELECTIONS(METHOD_ENTRY, "$self") {"masked_fill_",
		EXPORT(masked_fill_method), FAST_KEYWORDS,
		"masked_fill_($self, /, mask, value)\n--\n\n"
		"Writes value where the mask is true."},
	{"masked_scatter_", EXPORT(masked_scatter_method), FAST_KEYWORDS,
		"masked_scatter_($self, /, mask, value)\n--\n\n"
		"Writes elements one after the other where the mask is "
		"true."},
	{"index_copy_", EXPORT(index_copy_method), FAST_KEYWORDS,
		"index_copy_($self, /, dim, index, value)\n--\n\n"
		"Writes slices along dim by their numbers."},
	{"scatter_", EXPORT(scatter_method), FAST_KEYWORDS,
		"scatter_($self, /, dim, index, value)\n--\n\n"
		"Writes elements by their numbers along dim."},
	{0}};
