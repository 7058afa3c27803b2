/* SPDX-License-Identifier: MIT */
/*
 * What a user of a pool does, in a child that is him: each is for kit_as(),
 * with a wish.
 */
#pragma once

#include "tests/pool_kit.h"

struct wish {
	const char *pool, *file, *name;
	struct tarn_descriptor descriptor;
};

/* Opens the pool, and finds the name in it, or just the pool. */
void deed_look(const struct pool_kit *k, struct seen *seen, void *arg);
/* Loads the file under the name. */
void deed_load(const struct pool_kit *k, struct seen *seen, void *arg);
/* Removes the name. */
void deed_drop(const struct pool_kit *k, struct seen *seen, void *arg);
/* Counts the pool's names. */
void deed_list(const struct pool_kit *k, struct seen *seen, void *arg);
/* Loads like deed_load, but kills the server when he has the pool: n says that
 * the next one served him. */
void deed_take_over(const struct pool_kit *k, struct seen *seen, void *arg);
