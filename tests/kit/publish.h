/* SPDX-License-Identifier: MIT */
/* Publications that lie, beside an innocent client. */
#pragma once

#include <stdint.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/publish_msg.h"
#include "tests/kit/witness.h"

#define MIB (1u << 20)

extern struct daemon kit_publish_daemon;
extern struct witness kit_publish_witness;

void kit_publish_begin(void);
/* The books are what they were. */
void kit_publish_end(void);

/* One that is right: 64 bytes under a name. */
struct publish_msg kit_publish_good(void);
/* One that brings memory of that size by a descriptor, as "brought". */
struct publish_msg kit_publish_brings(
	enum source_kind kind, uint64_t size, int fd);

int kit_publish_memfd(uint64_t size);
void kit_publish_fill(int fd, uint64_t size, int byte);

/* It is answered by that error, and by a sentence that has this part. */
void kit_publish_refused(const struct publish_msg *p, int error,
	const char *part, const char *what);
