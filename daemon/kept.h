/* SPDX-License-Identifier: MIT */
/*
 * Descriptors by what they are of: those that the keeper holds for the next
 * server, and the server's own of the same.
 */
#pragma once

#include "daemon/internal.h"

/* Descriptors that there is room for, if this process may have so many: 40 MiB
 * of addresses, of which what is used becomes memory. Picked. */
#define KEPT_MAX (1u << 20)

struct kept {
	uint32_t next; /* in its bucket: descriptor + 1, 0 ends it */
	int fd;
	struct msg_keep key;
};

/* All zeroes is an empty one. */
struct kept_table {
	struct kept *records; /* by descriptor */
	uint32_t room;	      /* of them */
	uint32_t *buckets;    /* descriptor + 1 */
	uint32_t n_buckets;   /* a power of two */
	uint32_t n;
};

/* Takes the room that all descriptors need which this process may have: from
 * then on nothing that is kept fails. Else the first one does it. -ENOMEM. */
int kept_begin(struct kept_table *table);
/* Takes fd, also when it fails; in the place of one that was there. -ENOMEM. */
int kept_put(struct kept_table *table, const struct msg_keep *key, int fd);
/* Borrowed; -1: there is none. */
int kept_get(const struct kept_table *table, const struct msg_keep *key);
void kept_drop(struct kept_table *table, const struct msg_keep *key);
/* fn may drop the one that it is called for, and no other. */
void kept_each(struct kept_table *table,
	void (*fn)(void *arg, const struct kept *kept), void *arg);
void kept_free(struct kept_table *table);
