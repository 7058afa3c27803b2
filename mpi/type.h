/* SPDX-License-Identifier: MIT */
/* Layouts as datatypes of MPI. */
#pragma once

#include <mpi.h>

#include <tarn/tensor.h>

#include "base/cleanup.h"

/* As tarn_mpi_type, of a layout; no count that MPI is given is above most. */
int type_of_layout(const struct tarn_layout *layout, int64_t most,
	MPI_Datatype *ret) _must_check_;

/* Frees a type that was made; not one of MPI's own, nor MPI_DATATYPE_NULL. */
void type_free(MPI_Datatype *type);
#define _cleanup_type_ _cleanup_(type_free)

DEFINE_CLEANUP(tarn_tensor *, tarn_tensor_unref);
#define _cleanup_tensor_ _cleanup_(tarn_tensor_unrefp)

/* 0, or -EIO with MPI's words for what was tried. */
int mpi_check(int code, const char *what);
