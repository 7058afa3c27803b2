/* SPDX-License-Identifier: MIT */
/* The alignment that direct I/O on a file requires. */
#pragma once

#include <stdint.h>

/* Powers of two; both 0 when the file has no direct I/O. */
struct tarn_direct {
	uint32_t offset; /* of file offset and size */
	uint32_t memory; /* of the address; often far smaller */
};

/*
 * It may touch the file system, and so block where that does. Never fails:
 * where nothing is known both are 4096, which suits every disk sold today, and
 * the first request shows whether it works.
 */
struct tarn_direct tarn_direct_ask(int fd);

/* One number that serves for both. */
uint32_t tarn_direct_alignment(int fd);
