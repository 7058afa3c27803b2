/* SPDX-License-Identifier: MIT */
/*
 * Completions of a client's requests (shm/table.h): written with what they
 * complete, found when a request is sent again, freed when no request that they
 * are of can be sent again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shm/table.h"

struct client;
struct domain;

/* The slots of a client's completions in the table. First those that a server
 * before this one has left, then those that this server answers. */
struct completions {
	uint32_t *slots;
	uint32_t n, room;
	uint32_t n_found; /* of a server before this one */
};

/* The transaction that is open does that request of the client's. storage: what
 * its answer names; only that part of it is read; NULL: none. -ENOSPC, -ENOMEM;
 * after them the transaction can only be aborted. */
int completion_write(struct client *client, uint32_t serial,
	const struct completed *storage);
/* That transaction was committed: storage_commit. */
void completion_committed(struct client *client);

/* A request that was sent again: the number of the commit that has done it; 0:
 * it was not done. ret may be NULL. */
uint64_t completion_find(
	const struct client *client, uint32_t serial, struct completed *ret);
/* The same; the caller queues the answer before the event ends. */
uint64_t completion_take(
	struct client *client, uint32_t serial, struct completed *ret);

/* All answers that were queued for it are in its socket. */
void completions_answered(struct client *client);
/* WIRE_RESENT: what was found and not taken is answered. */
void completions_resent(struct client *client);
/* The client is gone. */
void completions_free(struct client *client);
/* The completions of earlier servers, once all clients are known. */
int completions_rebuild(struct domain *domain);
