/* SPDX-License-Identifier: MIT */
/*
 * The command is not linked with an MPI, which most machines lack, and which must
 * be the job's own: libtarn-mpi is looked for when mpirun has started the command.
 */
#include "cli/load_together.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include <tarn/error.h>

#include "base/checked.h"

#define LIBRARY "libtarn-mpi.so.0"

/* Open MPI's; that of MPICH and of what has its process manager. */
static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};

static int number(const char *const *names, int n, int otherwise)
{
	for (int i = 0; i < n; i++) {
		const char *text = getenv(names[i]);

		if (text && *text)
			return atoi(text);
	}
	return otherwise;
}

bool load_is_together(void)
{
	return number(sizes, ARRAY_SIZE(sizes), 1) > 1;
}

bool load_speaks(void)
{
	return number(ranks, ARRAY_SIZE(ranks), 0) == 0;
}

int load_together(tarn_store *store, const char *path,
	const struct tarn_mpi_load_options *options,
	struct tarn_mpi_load_info *ret_info)
{
	/* Global: MPI loads parts of itself, which look for its symbols. */
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
	__typeof__(tarn_mpi_load_world) *call;

	call = library ? dlsym(library, "tarn_mpi_load_world") : NULL;
	if (!call) {
		tarn_error_set(ENOENT, "%s", dlerror());
		return 1;
	}
	return call(store, path, options, ret_info);
}
