/* SPDX-License-Identifier: MIT */
/*
 * Attributes: what the other headers declare about their functions. Each macro
 * stands behind a declaration, so that the declaration reads as plain C.
 */
#pragma once

#ifndef TARN_PUBLIC
#define TARN_PUBLIC __attribute__((__visibility__("default")))
#endif

/* The arguments of these numbers, which count from 1, are not NULL. */
#define TARN_NONNULL(...) __attribute__((__nonnull__(__VA_ARGS__)))
/* The result is not NULL. */
#define TARN_NOT_NULL __attribute__((__returns_nonnull__))
/* To ignore the result is a fault: a failure would go unnoticed. */
#define TARN_MUST_CHECK __attribute__((__warn_unused_result__))
/* The argument of the first number is a format of printf's, for those from the
 * second on. */
#define TARN_PRINTF(format, first)                                             \
	__attribute__((__format__(__printf__, format, first)))
/* The result depends on the arguments alone (const), or on them and on what
 * they point to (pure). */
#define TARN_CONST __attribute__((__const__))
#define TARN_PURE __attribute__((__pure__))
