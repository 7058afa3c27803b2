/* SPDX-License-Identifier: MIT */
/* Tensors over memory of a device that other code has allocated, and that is
 * copied to be published. */
#pragma once

#include "lib/store/publish_plan.h"

/* Is the tensor over such memory? */
bool is_lent(const tarn_tensor *tensor);

/* Copies all such tensors of a publication, and sets their places. */
int plan_lent(struct plan *plan, struct tarn_store *store,
	const struct tarn_publish_item *items, size_t n);
