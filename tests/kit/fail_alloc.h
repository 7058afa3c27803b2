/* SPDX-License-Identifier: MIT */
/*
 * Memory that runs out once, in one process, at a chosen moment.
 *
 * tests/.libs/libfail_alloc.so, preloaded, counts what a process takes: heap
 * blocks, and what the kernel gives (memfds, mappings of files, pairs of
 * sockets, processes, room to send a message, copies of descriptors). Which
 * process and which of its calls is to fail lies in a page that all share who
 * were started with the environment that fail_open makes.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FAIL_ALLOC_FILE "TARN_TEST_FAIL_ALLOC" /* the page's path */

struct fail_page {
	_Atomic int32_t pid;    /* the process that counts; 0: none */
	_Atomic int32_t left;   /* calls until the one that fails */
	_Atomic uint32_t hits;  /* calls that were failed */
	_Atomic int64_t blocks; /* heap blocks of that process since then */
	char what[32];          /* the call that was failed */
};

/* Makes the page, and the environment for processes to come. False: the
 * module cannot be preloaded here, and why it was skipped has been said. */
bool fail_open(const char *folder, struct fail_page **ret);
void fail_close(const char *folder); /* removes its file */
/* The n-th call from now on, from 1, of process pid fails. */
void fail_arm(struct fail_page *page, pid_t pid, int n);
/* No call fails any more: has one? */
bool fail_disarm(struct fail_page *page);
