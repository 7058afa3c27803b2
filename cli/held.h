/* SPDX-License-Identifier: MIT */
/*
 * Published tensors, held: all that stood under a name and below it at one
 * moment. They stay what they are whatever is published afterwards.
 */
#pragma once

#include <tarn/store.h>

struct held_one {
	char *name;		/* as it is published */
	const char *short_name; /* behind the prefix; in name */
	struct tarn_descriptor descriptor;
	uint64_t version;
	tarn_tensor *tensor;
};

/* Begins as zeroes. */
struct held {
	struct held_one *at; /* by name */
	size_t n, size;
};

void held_free(struct held *held);
#define _cleanup_held_ __attribute__((__cleanup__(held_free)))

/* What is published as prefix, or below it as a folder; with a '/' at its end,
 * only below. Exit status, after saying what is wrong: also that there is
 * nothing. */
int held_take(tarn_store *store, const char *prefix, struct held *ret);
