/* SPDX-License-Identifier: MIT */
/*
 * A tensor file in two versions of the same size: "a" is all 1 and "b" all 2
 * in both, but the first has a in front and the second b. A header of one
 * version with the bytes of the other shows as wrong tensors.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <tarn/tarn.h>

#define VERSIONS_BYTES 65536u /* of each tensor */

/* The bytes of version 0 or 1; how many. */
size_t version_bytes(int version, unsigned char **ret);
/* A new file, version 0; static. */
const char *version_file(const char *folder, const char *name);
/* Over what is there, by one pwrite; the file stays the same inode. */
void kit_version_write(const char *path, int version);
/* Is a all 1, and b all 2? */
bool version_is_right(tarn_tensor *all, tarn_file *file);
