/* SPDX-License-Identifier: MIT */
/*
 * Huge pages of 2 MiB. The machine has one reserve for all, so tests that take
 * of it, or for which there must be nothing in it, take turns.
 */
#pragma once

#include <stdbool.h>

/* The file in the test's $TMPDIR that says how many the machine had reserved,
 * while it is more: tests/run puts that back after a test that could not. */
#define HUGE_BEFORE "huge-pages"
#define HUGE_RESERVE "/proc/sys/vm/nr_hugepages"

/* Waits until no other test uses the reserve; others wait for this one, until
 * huge_pages_give_back(), or its end. */
void huge_pages_turn(void);
/* How many are reserved, and nobody has them. */
unsigned long huge_pages_free(void);

/* In its turn: has so many free, if this process may reserve what lacks. What
 * is added goes back in huge_pages_give_back(), and when the test bails out. */
bool huge_pages_reserve(unsigned long n);
void huge_pages_give_back(void);
