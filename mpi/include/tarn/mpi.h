/* SPDX-License-Identifier: MIT */
/*
 * MPI: the library libtarn-mpi, by which views of tensors go straight from the
 * memory of one process to that of another, on one node or several.
 *
 *	MPI_Datatype type;
 *
 *	r = tarn_mpi_type(t, &type);                    a view as MPI sees it
 *	if (r >= 0)
 *		MPI_Send(tarn_tensor_data(t), 1, type, 1, 0, MPI_COMM_WORLD);
 *
 *	r = tarn_mpi_bcast(t, 0, MPI_COMM_WORLD);       or all ranks at once
 *
 * The memory may be a pool's, as what tarn_store_get and tarn_store_lookup
 * return, or what tarn_store_create made and nobody has published yet, or any
 * other memory of the host. No bytes are copied on the way but by MPI itself, which
 * is slow where elements are not in runs: Open MPI packs a transposed F32 matrix at
 * some 0.05 GB/s, and tarn_tensor_contiguous ten times as fast. Such a view is better
 * copied first, if there is memory for that.
 *
 * tarn_mpi_bcast, tarn_mpi_scatter, tarn_mpi_allgather and tarn_mpi_load are
 * collective: all ranks of the communicator call them, in one order. They first
 * compare dtypes and shapes, so that ranks which disagree, or one which has an
 * error of its own, get the same error on all ranks; its sentence has the rank, and
 * both values. Strides may differ from rank to rank. If a rank ends, MPI
 * decides what becomes of the others: mpirun ends them. A rank that does not
 * call lets the others wait, as in any collective of MPI; tarn_mpi_load alone
 * has a deadline.
 *
 * The communicator is of one group of ranks: an inter-communicator is -EINVAL. MPI is
 * initialised by the caller. The functions may be called from any thread
 * as far as MPI was told so (MPI_Init_thread), and from one at a time for one
 * communicator. Errors of MPI, where the communicator's handler returns them,
 * are -EIO, with MPI's own words.
 */
#pragma once

#include <mpi.h>

#include <tarn/mpi_load.h>
#include <tarn/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Makes a datatype, committed, of which one is all elements of the tensor in C
 * order, counted from tarn_tensor_data(tensor): any strides, also negative ones,
 * any number of elements, also none, and more than INT_MAX. Its basic types are
 * MPI's own (MPI_FLOAT for F32, MPI_UINT8_T for U8, MPI_C_BOOL for BOOL,
 * MPI_C_FLOAT_COMPLEX for C64, ...), so that the other side may be an array of
 * those; elements of which MPI has no type (F16, BF16, F8, F6, F4) are MPI_BYTEs.
 *
 * It depends on the layout alone: it may be used at the address of any tensor of
 * the same dtype, shape and strides. Where strides are 0, or elements overlap, it
 * is good for sending only. The caller frees *ret with MPI_Type_free. -ENOTSUP:
 * the tensor has no address on the host (in a file, on a device); its elements
 * have 4 or 6 bits and do not lie in whole bytes. Local: no other rank is asked.
 */
TARN_PUBLIC int tarn_mpi_type(const tarn_tensor *tensor, MPI_Datatype *ret)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/*
 * The elements of root's tensor become those of all others, which have its dtype
 * and shape. -EINVAL: they do not agree; there is no rank root; a tensor that is
 * written overlaps itself. -EROFS: it may not be written. -ENOTSUP as
 * tarn_mpi_type. Nothing was sent after these.
 */
TARN_PUBLIC int tarn_mpi_bcast(tarn_tensor *tensor, int root, MPI_Comm comm)
	TARN_NONNULL(1) TARN_MUST_CHECK;

/*
 * Cuts root's whole into rows (along dimension 0), and rank after rank gets as
 * many as its part has, which may be none. All parts have whole's dtype and
 * shape, but for dimension 0, whose extents sum up to that of whole. whole is used
 * at root alone, and may be NULL elsewhere. Root's own part may be its rows of
 * whole themselves; otherwise they must share no bytes. Errors are those of
 * tarn_mpi_bcast, and of tarn_copy for root's own part.
 */
TARN_PUBLIC int tarn_mpi_scatter(const tarn_tensor *whole, tarn_tensor *part,
	int root, MPI_Comm comm) TARN_NONNULL(2) TARN_MUST_CHECK;

/*
 * The reverse, for all ranks: whole is the rows of all parts, in the order of the
 * ranks. The parts go around a ring, so that each rank sends and receives what
 * the others have once, however many they are. A rank's part may be its rows of
 * whole themselves; otherwise they must share no bytes. Extents and errors are
 * those of tarn_mpi_scatter; all have a whole of one dtype and shape.
 */
TARN_PUBLIC int tarn_mpi_allgather(const tarn_tensor *part, tarn_tensor *whole,
	MPI_Comm comm) TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/*
 * Loads all tensors of a file on all nodes of comm, and publishes them there as one
 * set, with the field "tarn.file" (set.h): mpi_load.h says what a node is. Each node
 * reads a part of the file into memory that is not published yet, and the parts go
 * around a ring of the nodes, each of which sends and receives what the others read
 * once. If all nodes have the set already, of the same version of the file, nothing
 * is read. store may be NULL, options and ret_info, too.
 *
 * An error of one rank is the error of all, and its sentence has the rank and the
 * node. -EINVAL: the nodes have different files (they compare headers, sizes, and
 * the times of the last change: copy a file with cp -p or rsync -t), or ranks of a
 * node give the set other names; -ENOTSUP: a tensor is not in C order without gaps;
 * -EIO: the bytes on two nodes differ, or an error of MPI; -ETIMEDOUT: see the
 * options; after it memory and a communicator of this call are left behind, which
 * MPI may still use, and another call with comm has no prospect. No node publishes
 * what another one has given up; but if a rank ends or stops just when all of them
 * publish, some nodes have the set, and some have not. Otherwise errors
 * are those of tarn_file_open, tarn_store_open, tarn_store_create, tarn_copy and
 * tarn_set_publish. The deadline cannot end a file system that blocks this process
 * while the file is opened: then the other ranks return, and this one does not.
 * A daemon that does not answer is given ten seconds, also past the deadline.
 */
TARN_PUBLIC int tarn_mpi_load(tarn_store *store, const char *path,
	const struct tarn_mpi_load_options *options, MPI_Comm comm,
	struct tarn_mpi_load_info *ret_info) TARN_NONNULL(2) TARN_MUST_CHECK;

#ifdef __cplusplus
}
#endif
