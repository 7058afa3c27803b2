/* SPDX-License-Identifier: MIT */
/* The launcher of closers, when its owner has ended. */
#pragma once

#include <sys/types.h>

/* Closes memory, rings, pipes, and the sockets that the keeper made, in this
 * order. Needs no /proc. */
void closer_end(pid_t keeper);
