/* SPDX-License-Identifier: MIT */
/* Sleeping until the control region says something new. */
#pragma once

#include <stdint.h>

struct tarn_store;

/* What is waited for: 1 it is there, 0 not yet, -EAGAIN not yet and nothing
 * will wake us (the server is being replaced), or an error. */
typedef int (*wait_look)(void *arg);

/* Looks until it is there: 0, an error of look, -ETIMEDOUT without a sentence
 * after timeout_ms (negative: never), or -ECONNRESET when the daemon is gone.
 * At least one look is taken. */
int store_wait(
	struct tarn_store *store, int timeout_ms, wait_look look, void *arg);
