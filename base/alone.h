/* SPDX-License-Identifier: MIT */
/*
 * Is this the only thread of its process?
 *
 * The idea: the C library knows, and goes by it in its own locks; a locked
 * instruction that keeps out nobody costs as much as one that does.
 */
#pragma once

#include <stdbool.h>

#if defined(__has_include)
#if __has_include(<sys/single_threaded.h>)
#define TARN_KNOWS_ALONE 1
#include <sys/single_threaded.h>
#endif
#endif

/* True: there is no other thread, nor will there be one until the caller makes
 * it. False: there may be. */
static inline bool tarn_is_alone(void)
{
#ifdef TARN_KNOWS_ALONE
	return __libc_single_threaded;
#else
	return false;
#endif
}
