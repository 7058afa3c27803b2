/* SPDX-License-Identifier: MIT */
/* Clients that the test plays, each with a lease page. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/lease.h"
#include "shm/table.h"
#include "shm/wire.h"

#define PEERS 2u         /* clients */
#define PEER_SLOTS 2048u /* leases of one */

struct peer {
	int sock; /* -1: the connection has ended */
	struct wire_partial partial;
	struct lease_page *page;
	uint32_t n_slots; /* of the page, that were used */
	/* What they hold, as far as it was acquired as it should be. */
	uint64_t honest[PEER_SLOTS];
};

extern struct peer peers[PEERS];

/* The keeper lets it in. */
void peer_begin(uint32_t i);
/* Takes a message, and answers as any client would; false: there is none. */
bool peer_receive(struct peer *peer);
/* One frame as it is, and its descriptors, which stay the caller's. */
void peer_send(struct peer *peer, const void *frame, size_t size,
	const int *fds, int n_fds);
void peer_hang_up(struct peer *peer);
/* WIRE_RELEASED of the storage of that lease word. */
void peer_send_released(struct peer *peer, uint64_t lease);
/* The table that it was welcomed to; NULL: it was not. */
const struct table *peer_table(const struct peer *peer);
