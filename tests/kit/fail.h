/* SPDX-License-Identifier: MIT */
/*
 * The calls of a client's life, during which memory runs out: the client's, or
 * that of the daemon that serves it.
 */
#pragma once

#include <tarn/tarn.h>

#include "tests/kit/fail_alloc.h"

/* Before each: makes the file. */
void scenario_prepare(const char *path);
/* Connects, loads, looks up, views, prints, lists, publishes twice, removes,
 * leaves. Wrong bytes bail out; the first error is returned. */
int scenario(const char *socket, const char *path);
/* The daemon's books when store is the only client. */
void scenario_settle(tarn_store *store, struct tarn_report_daemon *ret);
/* Removes what was left; do the daemon's books come to what is wanted? */
bool scenario_tidy(tarn_store *store, const struct tarn_report_daemon *wanted);
