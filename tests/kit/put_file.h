/* SPDX-License-Identifier: MIT */
/* Machines that are made of files: a root with the /proc and /sys that a probe
 * is to see. */
#pragma once

/* Writes a file below the root, and makes the folders that lead to it. */
void put_file(const char *root, const char *path, const char *fmt, ...)
	__attribute__((__format__(printf, 3, 4)));
