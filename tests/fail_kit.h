/* SPDX-License-Identifier: MIT */
/*
 * What a client does in its life, for memory to run out in: of the client, or
 * of the daemon that serves it.
 */
#pragma once

#include <tarn/tarn.h>

#include "tests/fail_alloc.h"

/* Before each: makes the file. */
void scenario_prepare(const char *path);
/* Connects, loads, looks up, views, prints, lists, publishes twice, removes,
 * leaves. Wrong bytes bail out; the first error is returned. */
int scenario(const char *socket, const char *path);
/* What the books are when nobody but store is connected any more. */
void scenario_settle(tarn_store *store, struct tarn_store_status *ret);
/* Removes what was left; do the daemon's books come to what is wanted? */
bool scenario_tidy(tarn_store *store, const struct tarn_store_status *wanted);
