// SPDX-License-Identifier: MIT
/*
 * Layouts as datatypes: what a process sends itself from one random layout to
 * another is what a plain loop over all indices copies, and no byte beside it is
 * touched. The vectors of vectors that more than 2^30 elements need are made with
 * a limit of 3.
 */
#include <mpi.h>
#include <string.h>

#include <tarn/mpi.h>

#include "base/checked.h"
#include "mpi/type.h"
#include "tests/kit/tap.h"
#include "tests/mpi/ranks.h"
#include "tests/ops/views.h"

#define NDIM 5

static const enum tarn_dtype dtypes[] = {TARN_BOOL, TARN_U8, TARN_I8,
	TARN_F8_E4M3, TARN_I16, TARN_U16, TARN_F16, TARN_BF16, TARN_I32,
	TARN_U32, TARN_F32, TARN_C64, TARN_F64, TARN_I64, TARN_U64};

/* Bytes from the first element to that of a C-order position. */
static int64_t bytes_to(const struct tarn_layout *l, int64_t position)
{
	int64_t at = 0;

	for (int i = l->ndim - 1; i >= 0; i--) {
		at += position % l->shape[i] * l->stride[i];
		position /= l->shape[i];
	}
	return at * tarn_dtype_bits(l->dtype) / 8;
}

/* The oracle: onto a copy of dst's storage. */
static void plain_copy(
	unsigned char *bytes, const tarn_tensor *dst, const tarn_tensor *src)
{
	const struct tarn_layout *d = tarn_tensor_layout(dst),
				 *s = tarn_tensor_layout(src);
	size_t size = (size_t)tarn_dtype_bits(d->dtype) / 8;
	unsigned char *base = tarn_storage_data(tarn_tensor_storage(dst));
	int64_t first = (unsigned char *)tarn_tensor_data(dst) - base;
	const char *from = tarn_tensor_data(src);

	for (int64_t i = 0; i < tarn_layout_numel(d); i++)
		memcpy(bytes + first + bytes_to(d, i), from + bytes_to(s, i),
			size);
}

static void send_self(
	tarn_tensor *dst, MPI_Datatype to, tarn_tensor *src, MPI_Datatype from)
{
	MPI_Sendrecv(tarn_tensor_data(src), 1, from, rank, 0,
		tarn_tensor_data(dst), 1, to, rank, 0, MPI_COMM_WORLD,
		MPI_STATUS_IGNORE);
}

static tarn_tensor *random_view(
	enum tarn_dtype dtype, int ndim, const int64_t *shape, unsigned flags)
{
	return view_random(dtype, ndim, shape, flags | VIEW_WIDE | VIEW_SKEW);
}

static bool one_case(unsigned n)
{
	enum tarn_dtype dtype = dtypes[view_below(ARRAY_SIZE(dtypes))];
	int64_t shape[NDIM], most = view_below(2) ? 3 : INT64_C(1) << 30;
	int ndim = (int)view_below(NDIM + 1);
	tarn_tensor *src, *dst;
	unsigned char *wanted;
	MPI_Datatype from, to;
	uint64_t size;
	MPI_Count sent;
	bool good;

	for (int i = 0; i < ndim; i++)
		shape[i] = (int64_t)view_below(view_below(30) ? 8 : 60);
	src = random_view(dtype, ndim, shape, VIEW_REPEATED);
	dst = random_view(dtype, ndim, shape, 0);
	size = tarn_storage_size(tarn_tensor_storage(dst));
	wanted = malloc(size + 1);
	memcpy(wanted, tarn_storage_data(tarn_tensor_storage(dst)), size);
	plain_copy(wanted, dst, src);
	must(type_of_layout(tarn_tensor_layout(src), most, &from));
	must(type_of_layout(tarn_tensor_layout(dst), most, &to));
	MPI_Type_size_x(from, &sent);
	send_self(dst, to, src, from);
	good = sent == tarn_layout_nbytes(tarn_tensor_layout(src)) &&
	       !memcmp(wanted, tarn_storage_data(tarn_tensor_storage(dst)),
		       size);
	if (!good) {
		char a[400], b[400];

		tarn_layout_format(tarn_tensor_layout(src), a, sizeof(a));
		tarn_layout_format(tarn_tensor_layout(dst), b, sizeof(b));
		diag("case %u, at most %lld: from %s to %s, %lld bytes", n,
			(long long)most, a, b, (long long)sent);
	}
	MPI_Type_free(&from);
	MPI_Type_free(&to);
	free(wanted);
	tarn_tensor_unref(src);
	tarn_tensor_unref(dst);
	return good;
}

static void random_layouts(void)
{
	unsigned n = test_cases(3000), good = 0;

	view_seed(17);
	for (unsigned i = 0; i < n; i++)
		good += one_case(i);
	is_int(n, good, "random layouts move as a plain loop moves them");
}

/* ---- extents that no memory has -------------------------------------- */

static void huge(const char *spec, int64_t bytes, int64_t first, int64_t reach)
{
	MPI_Count size, lower, extent;
	struct tarn_layout l;
	MPI_Datatype type;

	must(tarn_layout_parse(spec, &l));
	must(type_of_layout(&l, INT64_C(1) << 30, &type));
	MPI_Type_size_x(type, &size);
	MPI_Type_get_true_extent_x(type, &lower, &extent);
	is_int(bytes, size, "the bytes of %s", spec);
	is_int(first, lower, "where they begin");
	is_int(reach, extent, "how far they reach");
	MPI_Type_free(&type);
}

static void huge_layouts(void)
{
	huge("U8[5000000000]", 5000000000, 0, 5000000000);
	huge("F32[3000000001]:(-2)+6000000000", 12000000004,
		-INT64_C(24000000000), 24000000004);
	huge("F64[3, 2147483649]:(1, 4)", INT64_C(51539607576), 0,
		INT64_C(68719476760));
	huge("I16[1099511627776]:(0)", INT64_C(2199023255552), 0, 2);
}

/* ---- elements of less than a byte ------------------------------------ */

static void packs(const char *spec, const char *wanted)
{
	char from[] = "0123456789abcdef", to[sizeof(from)] = "................";
	tarn_storage *storage;
	struct tarn_layout l;
	MPI_Datatype type;
	tarn_tensor *t;

	must(tarn_storage_borrow(from, 16, 0, NULL, NULL, &storage));
	must(tarn_layout_parse(spec, &l));
	must(tarn_tensor_new(storage, 0, &l, &t));
	must(tarn_mpi_type(t, &type));
	MPI_Sendrecv(tarn_tensor_data(t), 1, type, rank, 0, to, 16, MPI_BYTE,
		rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	is_str(wanted, to, "%s", spec);
	MPI_Type_free(&type);
	tarn_tensor_unref(t);
	tarn_storage_unref(storage);
}

int main(int argc, char **argv)
{
	ranks_begin(&argc, &argv);
	random_layouts();
	huge_layouts();
	packs("F4[3, 4]:(8, 1)+2", "12569a..........");
	packs("F4[2, 4]:(-8, 1)+8", "4501............");
	packs("F6_E2M3[2, 4]:(8, 1)+4", "3459ab..........");
	packs("F4[0, 4]", "................");
	/* A dimension of one element has any stride, and comes after the bytes. */
	packs("F4[2, 2, 1]:(4, 1, 7)", "02..............");
	packs("F6_E3M2[2, 4, 1, 1]:(4, 1, 1, 1)", "012345..........");
	return ranks_end(1 + 12 + 6);
}
