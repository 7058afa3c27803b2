/* SPDX-License-Identifier: MIT */
/*
 * A daemon with quotas for this user, whose own section binds even root, and a
 * store of it. There is one at a time.
 */
#pragma once

#include <stdint.h>

#include <tarn/tarn.h>

#include "tests/kit/pool.h"

extern struct pool_kit kit_quota_pool;
extern tarn_store *kit_quota_store;

/* Starts one with these lines of the section. */
void kit_quota_begin(const char *quota);
/* An assertion: it ends without an error. */
void kit_quota_end(const char *what);

/* Loads a file of its own, and publishes it as name/t. */
int kit_quota_load(const char *name, uint64_t size);
