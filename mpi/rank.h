/* SPDX-License-Identifier: MIT */
/* What a rank checks of its own arguments; the errors are told to all. */
#pragma once

#include <stdbool.h>

#include "mpi/type.h"

/* Is it one group of ranks? All see the same. */
int rank_check_comm(const char *verb, MPI_Comm comm) _must_check_;

/* May it be sent, or written? */
int rank_check_source(const tarn_tensor *tensor) _must_check_;
int rank_check_target(const tarn_tensor *tensor) _must_check_;

/* Have two tensors of one dtype a byte in common? True when in doubt. */
bool rank_shares_bytes(const tarn_tensor *a, const tarn_tensor *b);

/* Is there such a rank, of size? */
int rank_check_root(int root, int size) _must_check_;
