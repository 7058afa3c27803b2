/* SPDX-License-Identifier: MIT */
/*
 * Errors. Every function that can fail returns 0 or a negative errno value;
 * a positive value is a documented outcome of that one function. The library
 * never prints, never exits and never sets errno. What went wrong, with the
 * values that were wrong, is one sentence in tarn_error_message().
 */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TARN_PUBLIC
#define TARN_PUBLIC __attribute__((__visibility__("default")))
#endif

/*
 * The sentence that belongs to the last failure in this thread, "" before the
 * first: "slice: stop 9 is past dimension 1 of shape [4, 8]". It stays valid
 * until the next failing call of this thread, and must not be freed.
 */
TARN_PUBLIC const char *tarn_error_message(void);

/* The library's version, "0.1.0". */
TARN_PUBLIC const char *tarn_version(void);

#ifdef __cplusplus
}
#endif
