/* SPDX-License-Identifier: MIT */
/* Calls of tarn that a test makes on the way to what it asserts. */
#pragma once

/* Bails out with the call and its sentence if it fails; else its result. */
#define must(call) must_succeed((call), #call, __FILE__, __LINE__)
int must_succeed(int r, const char *call, const char *file, int line);

/* It may fail here, and the test asserts what matters by other means. */
#define may_fail(call) ((void)!(call))
