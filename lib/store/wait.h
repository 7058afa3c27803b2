/* SPDX-License-Identifier: MIT */
/* Sleeping until the control region changes. */
#pragma once

#include <stdint.h>

struct tarn_store;

/* Tests for the event: 1 it has happened, 0 not yet, -EAGAIN not yet and
 * nothing will wake the waiter (the server is being replaced), or an error. */
typedef int (*wait_look)(void *arg);

/* Calls look until it returns 1: 0, an error of look, -ETIMEDOUT without a
 * sentence after timeout_ms (negative: never), or -ECONNRESET when the daemon
 * is gone. look is called at least once. */
int store_wait(
	struct tarn_store *store, int timeout_ms, wait_look look, void *arg);
