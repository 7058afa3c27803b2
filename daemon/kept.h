/* SPDX-License-Identifier: MIT */
/*
 * Descriptors by what they are of: those that the keeper holds for the next
 * server, and the server's own of the same.
 */
#pragma once

#include "daemon/internal.h"

struct kept {
	struct kept *next; /* in its bucket */
	struct msg_keep key;
	int fd;
};

/* All zeroes is an empty one. */
struct kept_table {
	struct kept **buckets;
	uint32_t n_buckets; /* a power of two */
	uint32_t n;
};

/* Takes fd, also when it fails; in the place of one that was there. -ENOMEM. */
int kept_put(struct kept_table *table, const struct msg_keep *key, int fd);
/* Borrowed; -1: there is none. */
int kept_get(const struct kept_table *table, const struct msg_keep *key);
void kept_drop(struct kept_table *table, const struct msg_keep *key);
/* fn may drop the one that it is called for, and no other. */
void kept_each(struct kept_table *table,
	void (*fn)(void *arg, const struct kept *kept), void *arg);
void kept_free(struct kept_table *table);
