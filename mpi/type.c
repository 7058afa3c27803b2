// SPDX-License-Identifier: MIT
/*
 * A layout as a datatype: the basic type, and around it one vector for each
 * dimension, from the last to the first. Strides are in bytes, and counted from
 * element to element, so that the extents of what is inside do not matter.
 *
 * MPI counts in ints. A dimension with more elements than that is a vector of
 * vectors of as many as fit, and one of what is left.
 */
#include "mpi/type.h"

#include <errno.h>
#include <stdbool.h>

#include <tarn/mpi.h>

#include "base/checked.h"

/* Of elements in one vector; a power of two below INT_MAX. */
#define COUNT_MAX (INT64_C(1) << 30)

#define MAKING "making a datatype"

int mpi_check(int code, const char *what)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int size;

	if (code == MPI_SUCCESS)
		return 0;
	MPI_Error_string(code, text, &size);
	return tarn_error_set(EIO, "%s: MPI: %s", what, text);
}

static bool is_named(MPI_Datatype type)
{
	int integers, addresses, types, combiner;

	MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
	return combiner == MPI_COMBINER_NAMED;
}

void type_free(MPI_Datatype *type)
{
	if (*type != MPI_DATATYPE_NULL && !is_named(*type))
		MPI_Type_free(type);
	*type = MPI_DATATYPE_NULL;
}

/* Replaces a type by one that was made of it. */
static int replace(int code, MPI_Datatype *type, const MPI_Datatype *made)
{
	int r = mpi_check(code, MAKING);

	if (r < 0)
		return r;
	type_free(type);
	*type = *made;
	return 0;
}

/* ---- dimensions ------------------------------------------------------ */

/* Open MPI 4 and 5 take a stride of -1 byte for one that was not given. */
#define NO_STRIDE (-1)

/* At most 2 for that stride. */
static int repeat_few(
	MPI_Datatype type, int64_t n, MPI_Aint stride, MPI_Datatype *ret)
{
	if (stride == NO_STRIDE && n == 2)
		return MPI_Type_create_struct(2, (int[]) {1, 1},
			(MPI_Aint[]) {0, stride}, (MPI_Datatype[]) {type, type},
			ret);
	if (stride == NO_STRIDE)
		return MPI_Type_contiguous((int)n, type, ret);
	return MPI_Type_create_hvector((int)n, 1, stride, type, ret);
}

/* A type, and another one behind it, at that byte. */
static int join(MPI_Datatype *type, MPI_Aint at, MPI_Datatype other)
{
	MPI_Datatype both[2] = {*type, other}, made;

	return replace(MPI_Type_create_struct(2, (int[]) {1, 1},
			       (MPI_Aint[]) {0, at}, both, &made),
		type, &made);
}

/* n of *type, stride bytes apart. */
static int repeat(MPI_Datatype *type, int64_t n, MPI_Aint stride, int64_t most)
{
	const int64_t few = stride == NO_STRIDE ? 2 : most;
	_cleanup_type_ MPI_Datatype left = MPI_DATATYPE_NULL;
	int64_t turns = n / few, rest = n % few;
	MPI_Datatype made;
	int r = 0;

	if (n <= few)
		return replace(
			repeat_few(*type, n, stride, &made), type, &made);
	if (rest)
		r = mpi_check(repeat_few(*type, rest, stride, &left), MAKING);
	if (r >= 0)
		r = replace(repeat_few(*type, few, stride, &made), type, &made);
	if (r >= 0)
		r = repeat(type, turns, few * stride, most);
	if (r >= 0 && rest)
		r = join(type, (MPI_Aint)(n - rest) * stride, left);
	return r;
}

/* ---- elements -------------------------------------------------------- */

static MPI_Datatype named_type(enum tarn_dtype dtype)
{
	switch (dtype) {
	case TARN_BOOL:
		return MPI_C_BOOL;
	case TARN_U8:
		return MPI_UINT8_T;
	case TARN_I8:
		return MPI_INT8_T;
	case TARN_U16:
		return MPI_UINT16_T;
	case TARN_I16:
		return MPI_INT16_T;
	case TARN_U32:
		return MPI_UINT32_T;
	case TARN_I32:
		return MPI_INT32_T;
	case TARN_U64:
		return MPI_UINT64_T;
	case TARN_I64:
		return MPI_INT64_T;
	case TARN_F32:
		return MPI_FLOAT;
	case TARN_F64:
		return MPI_DOUBLE;
	case TARN_C64:
		return MPI_C_FLOAT_COMPLEX;
	default:
		return MPI_DATATYPE_NULL;
	}
}

/* Dimensions that walk as one become one; those of one element go. */
static void merge(struct tarn_layout *l)
{
	int n = 0;

	for (int i = 0; i < l->ndim; i++) {
		if (l->shape[i] == 1)
			continue;
		if (n && l->stride[n - 1] == l->shape[i] * l->stride[i]) {
			l->shape[n - 1] *= l->shape[i];
			l->stride[n - 1] = l->stride[i];
			continue;
		}
		l->shape[n] = l->shape[i];
		l->stride[n] = l->stride[i];
		n++;
	}
	l->ndim = (uint8_t)n;
}

/* A merged layout in units of whole bytes: elements, or packs of those that have
 * fewer bits. */
static int in_units(struct tarn_layout *l)
{
	int pack = tarn_dtype_pack(l->dtype), last = l->ndim - 1;

	if (pack == 1)
		return 0;
	if (last < 0 || l->stride[last] != 1 || l->shape[last] % pack)
		return tarn_error_set(ENOTSUP,
			"the last dimension of %s elements does not lie in "
			"whole bytes",
			tarn_dtype_name(l->dtype));
	l->shape[last] /= pack;
	for (int i = 0; i < last; i++) {
		if (l->stride[i] % pack)
			return tarn_error_set(ENOTSUP,
				"a stride of %lld %s elements is no whole "
				"number of bytes",
				(long long)l->stride[i],
				tarn_dtype_name(l->dtype));
		l->stride[i] /= pack;
	}
	return 0;
}

static int with_dimensions(
	const struct tarn_layout *l, int unit, int64_t most, MPI_Datatype *type)
{
	int r = 0;

	for (int i = l->ndim - 1; r >= 0 && i >= 0; i--)
		r = repeat(type, l->shape[i], (MPI_Aint)(l->stride[i] * unit),
			most);
	return r;
}

int type_of_layout(
	const struct tarn_layout *layout, int64_t most, MPI_Datatype *ret)
{
	_cleanup_type_ MPI_Datatype type = named_type(layout->dtype);
	int pack = tarn_dtype_pack(layout->dtype);
	int unit = tarn_dtype_bits(layout->dtype) * pack / 8;
	bool empty = !tarn_layout_numel(layout);
	struct tarn_layout l = *layout;
	MPI_Datatype made;
	int r = 0;

	if (!empty) {
		merge(&l);
		r = in_units(&l);
	}
	if (r < 0)
		return r;
	if (type == MPI_DATATYPE_NULL)
		r = replace(MPI_Type_contiguous(unit, MPI_BYTE, &made), &type,
			&made);
	if (r >= 0 && empty)
		r = replace(
			MPI_Type_contiguous(0, MPI_BYTE, &made), &type, &made);
	else if (r >= 0)
		r = with_dimensions(&l, unit, most, &type);
	/* One of MPI's own must be none of ours to free. */
	if (r >= 0 && is_named(type))
		r = replace(MPI_Type_dup(type, &made), &type, &made);
	if (r >= 0)
		r = mpi_check(MPI_Type_commit(&type), "committing a datatype");
	if (r < 0)
		return r;
	*ret = type;
	type = MPI_DATATYPE_NULL;
	return 0;
}

TARN_PUBLIC int tarn_mpi_type(const tarn_tensor *tensor, MPI_Datatype *ret)
{
	const struct tarn_layout *layout = tarn_tensor_layout(tensor);

	if (tarn_layout_numel(layout) && !tarn_tensor_data(tensor))
		return tarn_error_set(ENOTSUP,
			"the tensor has no address on the host, which MPI "
			"needs; copy it to memory first");
	return type_of_layout(layout, COUNT_MAX, ret);
}
