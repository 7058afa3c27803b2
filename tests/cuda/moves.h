/* SPDX-License-Identifier: MIT */
/*
 * Moves by a device compared with move_run: random layouts in its memory, which
 * two blocks and a stream are there for. For the stand-in and for real devices.
 */
#pragma once

#include "lib/cuda/move.h"
#include "tests/cuda/device_memory.h"
#include "tests/kit/move.h"

#define MOVES_ROOM ((size_t)16 << 20)

extern struct device_memory moves_dst, moves_src;
extern CUstream moves_stream;

void moves_begin(void);
void moves_end(void);

/* cuda_move, with its factors put onto the device. */
int moves_run(const struct move *move, uint64_t dst, uint64_t src);

/* Is it what the pair wants? NaNs that were scaled may differ in their sign and
 * payload. */
bool moves_same(const struct kit_move_pair *pair, const unsigned char *seen,
	bool scaled);

/* n random ones each: of bytes, of any two dtypes, of dtypes that have kernels
 * of their own, with scales and biases. */
void moves_plain(int n);
void moves_converted(int n);
void moves_common_pairs(int n);
void moves_scaled(int n);
