/* SPDX-License-Identifier: MIT */
/*
 * Versions: the one that a program is compiled with, and the one that it runs
 * with.
 *
 *	#if TARN_VERSION_NUMBER >= 1000
 *	printf("compiled with %d.%d.%d, runs with %s\n", TARN_VERSION_MAJOR,
 *		TARN_VERSION_MINOR, TARN_VERSION_MICRO, tarn_version());
 *	#endif
 */
#pragma once

#include <tarn/attributes.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARN_VERSION_MAJOR 0
#define TARN_VERSION_MINOR 1
#define TARN_VERSION_MICRO 0

/* For comparisons: 1.2.3 is 1002003. */
#define TARN_VERSION_NUMBER                                                    \
	(TARN_VERSION_MAJOR * 1000000 + TARN_VERSION_MINOR * 1000 +            \
		TARN_VERSION_MICRO)

/* The version of the library that runs, "0.1.0". Static. */
TARN_PUBLIC const char *tarn_version(void) TARN_CONST TARN_NOT_NULL;

#ifdef __cplusplus
}
#endif
