/* SPDX-License-Identifier: MIT */
/* Which tarnd a client starts. */
#pragma once

#include <limits.h>

/* $TARN_DAEMON, the one that lies with this library, or the configured one.
 * The result may be buf. */
const char *daemon_path(char buf[PATH_MAX]);
