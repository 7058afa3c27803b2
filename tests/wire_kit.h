/* SPDX-License-Identifier: MIT */
/*
 * Two ends of a socket, and a reader of what comes out of the second one. What
 * goes into the first is written by hand, or by a writer of one's own.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "shm/wire.h"

#define BIG 300001 /* bytes: a message of several frames */

extern int socks[2];
extern struct wire_reader *reader; /* of socks[1] */
extern unsigned char big[BIG];     /* each a function of its place */

void kit_begin(void);
/* A test: of all descriptors, none is left. */
void kit_end(void);

/* Another pair and another reader, in place of the last. */
void fresh(void);

/* A header with nothing wrong, of serial 7. */
struct wire_header head(uint16_t type, uint32_t size);
/* A frame as no honest peer sends it: size bytes follow, of big, and so many
 * descriptors, whatever the header says. */
void frame(struct wire_header header, size_t size, int n_fds);
