/* SPDX-License-Identifier: MIT */
/* Memory of many MiB that will be used at once. */
#pragma once

#include <stddef.h>

/* The least size for which this pays off: a huge page on nearly all
 * machines. */
#define HUGE_LEAST ((size_t)2 << 20)

/* size bytes, at least one; NULL: out of memory. Untouched pages take no
 * memory. */
void *huge_alloc(size_t size);
/* size is that of the allocation. Takes NULL. */
void huge_free(void *at, size_t size);
