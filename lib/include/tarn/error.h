/* SPDX-License-Identifier: MIT */
/*
 * Errors. Every function that can fail returns 0 or a negative errno value; a
 * positive value is a documented outcome of that one function. The library
 * never prints, never exits and never sets errno. tarn_error_message() has the
 * cause, with the values that were wrong, as one sentence.
 */
#pragma once

#include <tarn/attributes.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The sentence that belongs to the last failure in this thread, "" before the
 * first: "slice: stop 9 is past dimension 1 of shape [4, 8]". It stays valid
 * until the next failing call of this thread, and must not be freed.
 */
TARN_PUBLIC const char *tarn_error_message(void)
	TARN_NOT_NULL;

/*
 * For libraries that are built on this one: sets the sentence of this thread
 * and returns -err, so that a caller finds the message of either library in one
 * place. err is a positive errno value; format is printf's. The result may be
 * ignored: it is what was given. Any thread.
 */
TARN_PUBLIC int tarn_error_set(int err, const char *format, ...)
	TARN_NONNULL(2) TARN_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif
