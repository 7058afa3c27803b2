/* SPDX-License-Identifier: MIT */
/* A table of all operations that write a tensor, each on some small operands. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <tarn/ops.h>

/* op: of an operation that is many, from 0 on; each is done. */
typedef int call_fn(int op, tarn_tensor **out);

extern const struct operation {
	const char *name; /* of the function */
	call_fn *call;
	int ops;     /* how many there are */
	bool writes; /* a part of a tensor that is there: *out is not NULL */
} operations[];
extern const size_t operations_count;

/* Makes the operands, and drops them. */
void operations_begin(void);
void operations_end(void);

/* What is there before a part of it is written. */
const tarn_tensor *operations_before(void);
