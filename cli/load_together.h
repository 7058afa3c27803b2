/* SPDX-License-Identifier: MIT */
/* tarn load, run by mpirun: a file for all nodes of the job. */
#pragma once

#include <stdbool.h>

#include <tarn/mpi_load.h>

/* Has mpirun, or the like, started this process with others? */
bool load_is_together(void);

/* Is this the one that speaks for all? */
bool load_speaks(void);

/*
 * Loads with all others. 1: there is no libtarn-mpi, and tarn_error_message() says
 * why. Otherwise as tarn_mpi_load_world.
 */
int load_together(tarn_store *store, const char *path,
	const struct tarn_mpi_load_options *options,
	struct tarn_mpi_load_info *ret_info);
