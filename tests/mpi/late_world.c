/* SPDX-License-Identifier: MIT */
/*
 * A module in place of libtarn-mpi, as rank 0 makes it look that is stuck in a file
 * system: the others give up waiting for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/error.h>
#include <tarn/mpi_load.h>

int tarn_mpi_load_world(tarn_store *store, const char *path,
	const struct tarn_mpi_load_options *options,
	struct tarn_mpi_load_info *ret_info)
{
	const char *rank = getenv("OMPI_COMM_WORLD_RANK");

	(void)store;
	(void)path;
	(void)options;
	(void)ret_info;
	if (!rank)
		rank = getenv("PMI_RANK");
	while (rank && !strcmp(rank, "0"))
		pause();
	return tarn_error_set(
		ETIMEDOUT, "tarn_mpi_load: rank 0 did not answer");
}
