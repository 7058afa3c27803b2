/* SPDX-License-Identifier: MIT */
/* Memory of mebibytes that will be used at once. */
#pragma once

#include <stddef.h>

/* From here on it is worth while: a huge page of nearly all machines. */
#define LARGE_LEAST ((size_t)2 << 20)

/* Size bytes, more than none; NULL: there is no memory. What is not touched
 * costs none. */
void *large_alloc(size_t size);
/* Of the same size. Takes NULL. */
void large_free(void *at, size_t size);
