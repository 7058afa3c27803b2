/* SPDX-License-Identifier: MIT */
/*
 * Ownership by scope: a variable marked _cleanup_ releases its value when it
 * goes out of scope. STEAL takes the value out and leaves the variable empty.
 */
#pragma once

#include <stdlib.h>

#define _cleanup_(fn) __attribute__((__cleanup__(fn)))
#define _printf_(fmt, args) __attribute__((__format__(printf, fmt, args)))
#define _must_check_ __attribute__((__warn_unused_result__))

/* Defines name##p(T **), the cleanup form of a destructor that takes NULL. */
#define DEFINE_CLEANUP(type, fn)                                               \
	static inline void fn##p(type *p)                                      \
	{                                                                      \
		if (*p)                                                        \
			fn(*p);                                                \
	}                                                                      \
	struct fn##_cleanup_is_defined

#define STEAL(p)                                                               \
	({                                                                     \
		__typeof__(p) *_steal = &(p);                                  \
		__typeof__(p) _stolen = *_steal;                               \
		*_steal = NULL;                                                \
		_stolen;                                                       \
	})

static inline void freep(void *p)
{
	free(*(void **)p);
}

#define _cleanup_free_ _cleanup_(freep)
