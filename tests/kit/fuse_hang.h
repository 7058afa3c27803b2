/* SPDX-License-Identifier: MIT */
/*
 * A file system that stops answering: a few files served by a child of the
 * test over /dev/fuse, which are ordinary until they are armed. From then on
 * the operation after which a file is named is never answered, until the
 * whole file system is cut off.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define HANG_FILES 6

enum hang_file {
	HANG_NEVER,
	HANG_GETATTR,
	HANG_READ,
	HANG_DEEP,
	HANG_DEEPER, /* as deep, and no load of it hangs yet */
	HANG_FLUSH
};

/* Mounts it, in a mount namespace of this process; NULL, or why it cannot be
 * done here. */
const char *hang_begin(void);
/* The path of a file, static. */
const char *hang_path(enum hang_file file);
uint64_t hang_size(enum hang_file file);
void hang_arm(void);
unsigned hang_caught(void);
/* Has an operation been left without an answer, so many times at least? */
bool hang_has_caught(unsigned n);
/* Every process that waits gets an error; the mount is gone. */
void hang_end(void);
