/* SPDX-License-Identifier: MIT */
/*
 * Two ends of a socket. Messages into the first are written by hand, or by a
 * writer of the test.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "shm/messages.h"

#define BIG 300001 /* bytes: a message with a long body */

extern int socks[2];
extern unsigned char big[BIG]; /* each a function of its place */

void kit_wire_begin(void);
/* A test: of all descriptors, none is left. */
void kit_wire_end(void);

/* Another pair, in place of the last. */
void fresh(void);

/* A header with nothing wrong, of serial 7. */
struct wire_header head(uint16_t type, uint32_t size);
/* A datagram as no honest peer sends it: size bytes follow, of big, and so many
 * descriptors, whatever the header says. */
void frame(struct wire_header header, size_t size, int n_fds);
/* The same of a long body, whose memfd is the last of so many descriptors. */
void frame_long(struct wire_header header, int n_fds, int fd);
/* A memfd of the first bytes of big, with these seals. */
#define SEALED (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
int memory_of(size_t size, int seals);
