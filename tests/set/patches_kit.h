/* SPDX-License-Identifier: MIT */
/* Sparse versions of a set, "set", whose tensors are of U16. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tarn/tarn.h>

enum { PAGES = 4096, PAGE_ELEMENTS = 2048 };
enum { ELEMENTS = PAGES * PAGE_ELEMENTS };

extern tarn_store *patches_store; /* the test opens it */

/* In the store, and not published. */
tarn_tensor *patches_created(enum tarn_dtype dtype, int64_t n);
/* Takes the tensor. */
void patches_publish(const char *name, tarn_tensor *t);
tarn_tensor *patches_found(const char *name);
/* A refit with the smallest buckets. */
tarn_refit *patches_begun(void);
/* And frees it. */
void patches_commit(tarn_refit *refit);
/* n elements from one on, step apart, become value; *plain, too, if given. The
 * second returns the error. */
void patches_put(tarn_refit *refit, const char *name, int64_t from,
	int64_t step, int64_t n, uint16_t value, uint16_t *plain);
int patches_try_to_put(tarn_refit *refit, const char *name, int64_t from,
	int64_t step, int64_t n, uint16_t value, uint16_t *plain);
bool patches_is_patch(const char *name);
/* A test: the set is removed, and nothing of it is left. */
void patches_all_goes(void);
