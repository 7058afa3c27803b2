// SPDX-License-Identifier: MIT
/*
 * A broadcast. Where all ranks have contiguous tensors these are sent as bytes,
 * which MPI cuts into segments to have all links at work at once; otherwise as one
 * element of each rank's datatype.
 */
#include <errno.h>

#include <tarn/mpi.h>

#include "base/checked.h"
#include "mpi/agree.h"
#include "mpi/rank.h"

#define VERB "tarn_mpi_bcast"
#define PIECE (INT64_C(1) << 30) /* bytes; MPI counts in ints */

enum { STRIDED = 0, CONTIGUOUS = 1 };

static int send_bytes(char *at, int64_t size, int root, MPI_Comm comm)
{
	for (int64_t done = 0; done < size; done += PIECE) {
		int r = mpi_check(
			MPI_Bcast(at + done, (int)MIN(size - done, PIECE),
				MPI_BYTE, root, comm),
			VERB);

		if (r < 0)
			return r;
	}
	return 0;
}

static int check(const tarn_tensor *tensor, int root, MPI_Comm comm)
{
	int rank, size, r;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	r = rank_check_root(root, size);
	if (r >= 0)
		r = rank == root ? rank_check_source(tensor)
				 : rank_check_target(tensor);
	return r;
}

TARN_PUBLIC int tarn_mpi_bcast(tarn_tensor *tensor, int root, MPI_Comm comm)
{
	const struct tarn_layout *layout = tarn_tensor_layout(tensor);
	_cleanup_type_ MPI_Datatype type = MPI_DATATYPE_NULL;
	struct form form = form_of(VERB, root, tensor, 0);
	struct said mine = {.good = tarn_layout_is_contiguous(layout)
					    ? CONTIGUOUS
					    : STRIDED};
	int r = rank_check_comm(VERB, comm), least;

	if (r >= 0)
		r = form_compare(&form, comm, &mine);
	if (r < 0)
		return r;
	r = check(tensor, root, comm);
	if (r >= 0)
		r = tarn_mpi_type(tensor, &type);
	if (r < 0)
		said_failed(&mine, r);
	r = said_by_all(VERB, &mine, comm, NULL, &least);
	if (r < 0 || !tarn_layout_numel(layout))
		return r;
	if (least == CONTIGUOUS)
		return send_bytes(tarn_tensor_data(tensor),
			tarn_layout_nbytes(layout), root, comm);
	return mpi_check(
		MPI_Bcast(tarn_tensor_data(tensor), 1, type, root, comm), VERB);
}
