/* SPDX-License-Identifier: MIT */
/* What "tarn ls" and "tarn channel ls" begin with. */
#pragma once

#include "cli/options.h"
#include "cli/store.h"

/* Who asks, and for what. */
struct ls {
	bool json;
	const char *prefix; /* NULL: all */
	tarn_store *store;  /* the caller's; NULL: none runs */
};

/* Parses the line of a verb that lists what begins with a prefix, and finds the
 * daemon. OPTIONS_DONE, or the exit status if there is nothing else to do. */
int ls_begin(const char *verb, const char *about, int argc, char **argv,
	struct ls *ret);
