/* SPDX-License-Identifier: MIT */
/* Memory for the bytes of files. */
#pragma once

#include <stddef.h>

/*
 * Whole pages, zeros, that take no memory before they are used. NULL: there is
 * no more. A child of fork does not have them: as long as both had them, the
 * kernel might put what it is reading into the child's.
 */
void *io_pages_map(size_t size);
/* Takes NULL. */
void io_pages_unmap(void *pages, size_t size);
