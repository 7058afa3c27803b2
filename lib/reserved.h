/* SPDX-License-Identifier: MIT */
/*
 * Reserved words of the public structs (tarn.h has their purpose): if a
 * caller's are not 0, the call is refused.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* 0, or -EINVAL and a sentence that names the struct and the word. */
int reserved_check(const char *name, const uint64_t *words, size_t n);

/* For options, which may be NULL. */
#define RESERVED_CHECK(name, options)                                          \
	((options) ? reserved_check(name, (options)->reserved,                 \
			     sizeof((options)->reserved) / sizeof(uint64_t))   \
		   : 0)
