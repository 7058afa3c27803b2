/* SPDX-License-Identifier: MIT */
/* The common part of "tarn ls" and "tarn channel ls". */
#pragma once

#include "cli/options.h"
#include "cli/store.h"

struct ls {
	bool json;
	const char *prefix; /* NULL: all */
	tarn_store *store;  /* the caller's; NULL: none runs */
};

/* Parses the line of a verb that lists what begins with a prefix, and finds the
 * daemon. ret_long: of the option that only "tarn ls" has; else NULL.
 * OPTIONS_DONE, or the exit status if there is nothing else to do. */
int ls_begin(const char *verb, const char *about, int argc, char **argv,
	bool *ret_long, struct ls *ret);

/* The exit status after n were listed: a script can find out that no name has
 * the given prefix. what: "tensor", "channel". */
int ls_end(const struct ls *ls, size_t n, const char *what);
