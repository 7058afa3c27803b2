/* SPDX-License-Identifier: MIT */
/*
 * Events on stderr, one line each: "tarnd[12]: server: load done bytes=5".
 * A line is one write, so that lines of several processes never mix.
 */
#pragma once

#include "base/cleanup.h"

/* keeper, server or loader; static. */
void log_role(const char *role);
void log_event(const char *fmt, ...) _printf_(1, 2);
