/* SPDX-License-Identifier: MIT */
/*
 * Is memory short, so that the server should free what it keeps only as a
 * cache?
 *
 * There are two signs: the kernel reports stalls (loop/psi.h), or the headroom
 * is small. The kernel sends the first when it happens; the server polls the
 * second, which is the only one where PSI cannot be watched.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct server;

/* Below this the headroom is small, and it is filled up to that: what
 * headroom.h leaves for others, once and twice. */
#define PRESSURE_LOW (64ull << 20)
#define PRESSURE_HIGH (128ull << 20)

/* How much to give back when room bytes of headroom are left and reclaimable
 * bytes could be freed; stalled: PSI reports a stall. A stall alone costs an
 * eighth, so that a short one does not cost the whole cache. */
uint64_t relief_wanted(uint64_t room, bool stalled, uint64_t reclaimable);

/* After the keeper has sent all: a former server's triggers may be among it.
 * What cannot be had for now is asked for again every few seconds. */
void pressure_relief_begin(struct server *server);
/* Between turns: looks at the headroom now and then while there is anything to
 * give. */
void pressure_relief_poll(struct server *server);
