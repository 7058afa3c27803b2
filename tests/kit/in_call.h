/* SPDX-License-Identifier: MIT */
/* What a thread is doing, as far as the kernel tells. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Is the thread, or the first one of a process, asleep in that system call? True
 * where nobody tells: not every kernel does, nor everybody. */
bool is_in_call(pid_t tid, long call);
