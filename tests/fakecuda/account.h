/* SPDX-License-Identifier: MIT */
/* What the stand-in knows of its caller's debts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct registration {
	uintptr_t start;
	size_t size;
	unsigned flags;
	int device; /* whose context registered it */
};

/* A setting of one device, or of all; device -1: of all. */
int setting(const char *name, int device, int otherwise);

/* To be called first by each function: counts, and notes calls after a fork. */
void account_call(void);
void account_fault(const char *fmt, ...)
	__attribute__((__format__(printf, 1, 2)));
void account_retained(int device, int change);
void account_pushed(int change);

/* The registration with any of those bytes; NULL: none. */
const struct registration *account_find(uintptr_t start, size_t size);
bool account_add(const struct registration *registration);
bool account_remove(uintptr_t start);

/* May all those bytes be read, and written? */
bool account_mapped(uintptr_t start, size_t size, bool *ret_writable);
