/* SPDX-License-Identifier: MIT */
/*
 * Leases that a process goes on holding for a child which could get none of its
 * own: until the child, and whatever it has forked, has ended.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct lease_pin {
	struct lease_pin *next;
	int end;       /* of a pipe; it is closed at the other end when they
			* have ended */
	int child_end; /* that other end; -1: this process does not have it */
	uint32_t n;
	uint64_t words[]; /* lease_word() of each */
};

/* With room for n leases, before a fork; NULL: without descriptors or memory
 * there is none. */
struct lease_pin *lease_pin_new(uint32_t n);
struct lease_pin *lease_pin_free(struct lease_pin *pin);
