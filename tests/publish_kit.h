/* SPDX-License-Identifier: MIT */
/* Publications that lie, beside an innocent client. */
#pragma once

#include <stdint.h>

#include "tests/daemon_helper.h"
#include "tests/parcel.h"
#include "tests/witness.h"

#define MIB (1u << 20)

extern struct daemon kit_daemon;
extern struct witness kit_witness;

void kit_begin(void);
/* The books are what they were. */
void kit_end(void);

/* One that is right: 64 bytes under a name. */
struct parcel kit_good(void);
/* One that brings memory of that size by a descriptor, as "brought". */
struct parcel kit_brings(enum source_kind kind, uint64_t size, int fd);

int kit_memfd(uint64_t size);
void kit_fill(int fd, uint64_t size, int byte);

/* It is answered by that error, and by a sentence that has this part. */
void kit_refused(
	const struct parcel *p, int error, const char *part, const char *what);
