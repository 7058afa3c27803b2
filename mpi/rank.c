// SPDX-License-Identifier: MIT
#include "mpi/rank.h"

#include <errno.h>

int rank_check_comm(const char *verb, MPI_Comm comm)
{
	int two;
	int r = mpi_check(MPI_Comm_test_inter(comm, &two), verb);

	if (r < 0 || !two)
		return r;
	return tarn_error_set(EINVAL,
		"%s: the communicator has two groups of ranks; make one of "
		"them with MPI_Intercomm_merge",
		verb);
}

int rank_check_root(int root, int size)
{
	if (root >= 0 && root < size)
		return 0;
	return tarn_error_set(EINVAL,
		"there is no rank %d to be the root; the communicator has %d",
		root, size);
}

int rank_check_source(const tarn_tensor *tensor)
{
	if (tarn_tensor_data(tensor) ||
		!tarn_layout_numel(tarn_tensor_layout(tensor)))
		return 0;
	return tarn_error_set(ENOTSUP,
		"its tensor has no address on the host, which MPI needs; copy "
		"it to memory first");
}

int rank_check_target(const tarn_tensor *tensor)
{
	int r = rank_check_source(tensor);

	if (r < 0)
		return r;
	if (!tarn_storage_writable(tarn_tensor_storage(tensor)))
		return tarn_error_set(EROFS,
			"its tensor, which would be written, is read-only");
	if (tarn_layout_overlaps_itself(tarn_tensor_layout(tensor)))
		return tarn_error_set(EINVAL,
			"its tensor, which would be written, has elements that "
			"share bytes");
	return 0;
}

/* As a layout of memory whose byte 0 is at from. False: no element of it would be at
 * a whole number of elements. */
static bool layout_from(
	const tarn_tensor *tensor, const char *from, struct tarn_layout *ret)
{
	int64_t bits = ((const char *)tarn_tensor_data(tensor) - from) * 8,
		of_one = tarn_dtype_bits(tarn_tensor_layout(tensor)->dtype);

	*ret = *tarn_tensor_layout(tensor);
	ret->offset = bits / of_one;
	return bits % of_one == 0;
}

bool rank_shares_bytes(const tarn_tensor *a, const tarn_tensor *b)
{
	const char *from = tarn_tensor_data(a);
	int64_t first_x, first_y, n_x, n_y;
	struct tarn_layout x, y;

	layout_from(a, from, &x);
	if (layout_from(b, from, &y))
		return tarn_layout_overlaps(&x, &y);
	/* Their offsets are rounded towards 0. */
	tarn_layout_bounds(&x, &first_x, &n_x);
	tarn_layout_bounds(&y, &first_y, &n_y);
	return n_x && n_y && first_x <= first_y + n_y &&
	       first_y <= first_x + n_x;
}
