/* SPDX-License-Identifier: MIT */
/* A disk of 4 KiB sectors, made of a file. */
#pragma once

#include <stddef.h>

/*
 * Opens a loop device over the file, for reading and writing, without
 * O_DIRECT; its name goes to path. It vanishes when the last descriptor of it
 * is closed. -errno where that is not allowed, which is anywhere but for root
 * outside of containers.
 */
int loop_device(int file, unsigned sector, char *path, size_t size);
