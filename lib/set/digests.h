/* SPDX-License-Identifier: MIT */
/* The digests of a set's tensors, which are published with them. */
#pragma once

#include "lib/set/form.h"

/* Those of n tensors, by the names of the items: malloc'ed, with names of the
 * items. Errors are those of tarn_tensor_digest. */
int set_digests_make(const struct tarn_publish_item *items, size_t n,
	struct set_digest **ret) _must_check_;

/* Memory for n; -ENOMEM with its sentence. */
int set_digests_new(size_t n, struct set_digest **ret) _must_check_;
