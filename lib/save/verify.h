/* SPDX-License-Identifier: MIT */
/* Shared by verifying a file and verifying a copy of it in memory. */
#pragma once

#include <tarn/save.h>

#include "lib/save/checksums.h"

/* A tensor and what its checksum should be. */
struct claim {
	const struct tarn_file_entry *tensor;
	int result;      /* 0: has a checksum; -ENODATA: none; -EBADMSG: invalid
			  * digits */
	uint64_t wanted; /* if result is 0 */
};

/* The checksum of each tensor according to the file, in their order:
 * malloc'ed. */
int verify_claims(const tarn_file *file, struct claim **ret);

/* Returns -EBADMSG with its sentence. */
int verify_differs(
	const tarn_file *file, const struct claim *claim, uint64_t seen);

/* data is the data range of file, in memory. 0, or -EBADMSG for the first
 * tensor that differs. */
int verify_memory(const tarn_file *file, const void *data);
