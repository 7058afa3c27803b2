// SPDX-License-Identifier: MIT
/*
 * A load by all processes that mpirun has started, for programs that are not built
 * with an MPI: they know none but by this library.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <tarn/mpi.h>

#include "mpi/type.h"

#define VERB "tarn_mpi_load_world"

static pid_t owner; /* the process that initialised MPI: not its children */

static void finalize(void)
{
	int done;

	MPI_Finalized(&done);
	if (owner == getpid() && !done)
		MPI_Finalize();
}

static int initialize(void)
{
	int have, r;

	MPI_Finalized(&have);
	if (have)
		return tarn_error_set(EINVAL,
			"%s: MPI was finalised before, and can be initialised "
			"once only; load before MPI_Finalize",
			VERB);
	MPI_Initialized(&have);
	if (have)
		return 0;
	r = mpi_check(
		MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &have), VERB);
	if (r >= 0)
		owner = getpid();
	if (r >= 0 && atexit(finalize))
		r = tarn_error_set(ENOMEM, "%s: atexit", VERB);
	return r;
}

TARN_PUBLIC int tarn_mpi_load_world(tarn_store *store, const char *path,
	const struct tarn_mpi_load_options *options,
	struct tarn_mpi_load_info *ret_info)
{
	int r = initialize();

	if (r >= 0)
		r = tarn_mpi_load(
			store, path, options, MPI_COMM_WORLD, ret_info);
	/* The others may never come: finalising would wait for them. */
	if (r == -ETIMEDOUT)
		owner = 0;
	return r;
}
