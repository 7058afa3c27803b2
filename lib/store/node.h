/* SPDX-License-Identifier: MIT */
/* Where a pool's memory lies, as the daemon has found it. */
#pragma once

#include "shm/table.h"

/* The node of those bytes of a pool, or TARN_NODE_SEVERAL; -ENODATA: it is not
 * known. */
int store_place_node(const struct table *table, uint32_t pool, uint64_t base,
	uint64_t size, int *ret_node);
