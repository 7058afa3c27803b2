/* SPDX-License-Identifier: MIT */
/* The command, run beside a test. */
#pragma once

#include <sys/types.h>

/* tarn with these arguments, at most seven and NULL; what it prints is not the
 * test's. $TARN names the command. */
pid_t kit_tarn_start(const char *const args[]);
