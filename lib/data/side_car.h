/* SPDX-License-Identifier: MIT */
/*
 * Files that are kept beside others, to save the time of computing them again:
 * one tensor, as a .npy whatever its name is. They help or are ignored: a folder
 * that cannot be written, and a file that is not what it should be, are no errors.
 */
#pragma once

#include <tarn/tensor.h>

/* The tensor in the file; -ENOENT, or another error: there is none of use. */
int side_car_read(const char *path, tarn_tensor **ret);
/* Writes it, whole or not at all. */
void side_car_write(const char *path, const tarn_tensor *tensor);
