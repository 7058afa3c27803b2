/* SPDX-License-Identifier: MIT */
/* The part of this process's environment that a started daemon gets. */
#pragma once

/* Ends with NULL; free() it, the strings belong to environ. NULL: out of
 * memory. */
char **daemon_environment(void);
