/* SPDX-License-Identifier: MIT */
#pragma once

#include "mpi/nodes.h"
#include "mpi/source.h"

/*
 * Fills memory, a tensor U8 of all bytes, on the first ranks of all nodes, which are
 * ranks of comm: each reads a part of the file, and sends it around. An error of this rank's file is noted in said, and
 * the ring goes on; -EIO and -ETIMEDOUT break it. After -ETIMEDOUT MPI and the kernel
 * may still write into memory. *ret_read: bytes that this rank has read.
 */
int ring_fill(const struct source *source, tarn_tensor *memory, MPI_Comm comm,
	const struct nodes *nodes, const struct mpi_deadline *deadline,
	struct said *said, uint64_t *ret_read) _must_check_;
