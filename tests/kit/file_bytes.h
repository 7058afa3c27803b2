/* SPDX-License-Identifier: MIT */
/* Tensor files in anonymous memory, for tests of the readers. */
#pragma once

#include <stddef.h>

#include <tarn/file.h>

/* A descriptor of a file with these bytes, at its end. */
int bytes_fd(const void *bytes, size_t size);

/* Opens these bytes as a file called name. */
int bytes_open(
	const void *bytes, size_t size, const char *name, tarn_file **ret);

/* A safetensors file of this header and so many bytes of data. The result is
 * malloc'ed. */
char *bytes_safetensors(const char *header, size_t data, size_t *ret_size);

/* A .npy file of that version, header and data. The result is malloc'ed. */
char *bytes_npy(int major, const char *header, size_t data, size_t *ret_size);

/* Looks at all entries and metadata of an open file, and at each layout; under
 * ASan that is the test. Returns a sum that depends on all of it. */
unsigned long bytes_walk(tarn_file *file);
