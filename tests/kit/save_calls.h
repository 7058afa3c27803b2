/* SPDX-License-Identifier: MIT */
/*
 * The system calls by which a file comes into being are this program's own, so
 * that a test can let one of them fail, or write down what they did. Only the
 * thread engine's writes come by here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum call {
	CALL_OPEN, /* open and openat that make a file, or open one anew */
	CALL_ALLOCATE,
	CALL_WRITE,
	CALL_CHMOD,
	CALL_LINK,
	CALL_SYNC,  /* of a file */
	CALL_CLOSE, /* of a file */
	CALL_RENAME,
	CALL_SYNC_FOLDER,
	CALLS,
};

extern const char *const call_names[CALLS];

/* ---- faults ---------------------------------------------------------- */

#define FAULT_SHORT (-1) /* a write takes half of what it was given */

/* From now on, the n-th such call (from 1) fails with that error. */
void calls_arm(enum call call, unsigned n, int error);

/* How many there were since, and the fault is gone. */
unsigned calls_disarm(void);

/* ---- what was done --------------------------------------------------- */

struct done {
	enum call call; /* ALLOCATE, WRITE, LINK, SYNC, RENAME, SYNC_FOLDER */
	uint64_t file;  /* its number on the file system */
	uint64_t offset, size;   /* of a write; size of an allocation */
	unsigned char *bytes;    /* of a write */
	char to[256], from[256]; /* the last parts of names */
};

/* Writes down; the list is the kit's. */
void calls_record(void);
const struct done *calls_recorded(size_t *ret_n);
void calls_forget(void);
