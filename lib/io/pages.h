/* SPDX-License-Identifier: MIT */
/* Memory for the bytes of files. */
#pragma once

#include <stddef.h>

/*
 * Whole pages, zeros, that take no memory before they are used. NULL: out of
 * memory. A child of fork does not have them: if both had them, the kernel
 * might put the bytes of a read into the child's pages.
 */
void *io_pages_map(size_t size);
/* Takes NULL. */
void io_pages_unmap(void *pages, size_t size);
