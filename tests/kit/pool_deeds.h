/* SPDX-License-Identifier: MIT */
/*
 * The actions of a pool's user, in a child with that uid: each is for
 * kit_pool_as(), with a wish.
 */
#pragma once

#include "tests/kit/pool.h"

struct wish {
	const char *pool, *file, *name;
	struct tarn_descriptor descriptor;
};

/* The wish's pool, opened. */
int wish_open(
	const struct pool_kit *k, const struct wish *wish, tarn_store **ret);

/* Opens the pool, and finds the name in it, or just the pool. */
void deed_look(const struct pool_kit *k, struct seen *seen, void *arg);
/* Loads the file under the name. */
void deed_load(const struct pool_kit *k, struct seen *seen, void *arg);
/* Removes the name. */
void deed_drop(const struct pool_kit *k, struct seen *seen, void *arg);
/* Counts the pool's names. */
void deed_list(const struct pool_kit *k, struct seen *seen, void *arg);
/* Loads like deed_load, but kills the server when the child has the pool: n is
 * set if the next one served it. */
void deed_take_over(const struct pool_kit *k, struct seen *seen, void *arg);
