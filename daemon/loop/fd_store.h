/* SPDX-License-Identifier: MIT */
/*
 * Descriptors by what they are of: those that the keeper holds for the next
 * server, and the server's own of the same.
 */
#pragma once

#include "daemon/messages.h"

/* Descriptors that there is room for, if this process may have so many: 40 MiB
 * of addresses, of which what is used becomes memory. Picked. */
#define FD_STORE_MAX (1u << 20)

struct stored_fd {
	uint32_t next; /* in its bucket: descriptor + 1, 0 ends it */
	int fd;
	struct msg_fd_key key;
};

/* All zeroes is an empty one. */
struct fd_store {
	struct stored_fd *records; /* by descriptor */
	uint32_t room;             /* of them */
	uint32_t *buckets;         /* descriptor + 1 */
	uint32_t n_buckets;        /* a power of two */
	uint32_t n;
};

/* Reserves the records of all descriptors that this process may have: from then
 * on keeping one cannot fail. Otherwise the first one does it. -ENOMEM. */
int fd_store_reserve(struct fd_store *store);
/* What fd_store_put() of that fd may lack: after this it does not fail.
 * -ENOMEM. */
int fd_store_make_room(struct fd_store *store, int fd);
/* Takes fd, also when it fails; in the place of one that was there. -ENOMEM. */
int fd_store_put(struct fd_store *store, const struct msg_fd_key *key, int fd);
/* Borrowed; -1: there is none. */
int fd_store_get(const struct fd_store *store, const struct msg_fd_key *key);
/* The caller closes it; -1: there is none. */
int fd_store_take(struct fd_store *store, const struct msg_fd_key *key);
/* The same, and closes it. */
void fd_store_drop(struct fd_store *store, const struct msg_fd_key *key);
/* fn may drop the one that it is called for, and no other. */
void fd_store_each(struct fd_store *store,
	void (*fn)(void *arg, const struct stored_fd *stored), void *arg);
void fd_store_free(struct fd_store *store);
