/* SPDX-License-Identifier: MIT */
/*
 * Whether this thread is the only one of its process.
 *
 * The C library knows it, and relies on it in its own locks. A locked
 * instruction costs the same whether or not another thread exists, so a caller
 * that is alone can leave it out.
 */
#pragma once

#include <stdbool.h>

#if defined(__has_include)
#if __has_include(<sys/single_threaded.h>)
#define TARN_KNOWS_SINGLE_THREADED 1
#include <sys/single_threaded.h>
#endif
#endif

/* True: there is no other thread, and there will be none until the caller
 * starts one. False: there may be others. */
static inline bool tarn_is_single_threaded(void)
{
#ifdef TARN_KNOWS_SINGLE_THREADED
	return __libc_single_threaded;
#else
	return false;
#endif
}
