/* SPDX-License-Identifier: MIT */
/* Which file systems tests have: for skips, and for what differs by them. */
#pragma once

#include <stdbool.h>

/* Do the file's stamps tell every change? The daemon keeps only such files for
 * later loads: of a tmpfs, none. */
bool stamps_last(const char *path);
