/* SPDX-License-Identifier: MIT */
/* FILE and FILE:TENSOR, as the verbs that read files meet them. */
#pragma once

#include <tarn/file.h>

/* The file of an address: the shortest part before a ':' that is one;
 * malloc'ed. *ret_tensor is what follows. NULL: there is none. */
char *address_file(const char *address, const char **ret_tensor);

/* Says that path is a file, and which tensors it has. Returns EXIT_FAILED. */
int address_no_tensor(const char *path);

/* FILE:TENSOR of a file with one tensor; malloc'ed. NULL after saying what else
 * the file has. */
char *address_of_one(const char *path);

/* Says which tensor of file may have been meant. */
void address_hint(const tarn_file *file, const char *tensor);

/* The tensor of FILE:TENSOR, or of a FILE that has just one, read from where
 * it is. EXIT_DONE, or EXIT_FAILED after saying why. */
int address_open(const char *address, tarn_tensor **ret);
