/* SPDX-License-Identifier: MIT */
/*
 * Published tensors, held: all those under a name and below it at one moment.
 * They stay as they are, no matter what is published afterwards.
 */
#pragma once

#include <tarn/snapshot.h>

struct held_one {
	const char *name;       /* as it is published */
	const char *short_name; /* behind the prefix; in name */
	tarn_tensor *tensor;    /* the snapshot's */
};

/* Begins as zeroes. */
struct held {
	struct tarn_snapshot *snapshot;
	struct held_one *at; /* by name */
	size_t n;
};

void held_free(struct held *held);
#define _cleanup_held_ __attribute__((__cleanup__(held_free)))

/* The tensors published as prefix, or below it as a folder; with a '/' at its
 * end, only below. Returns the exit status, after an error message: also when
 * there is nothing. */
int held_take(tarn_store *store, const char *prefix, struct held *ret);
