/* SPDX-License-Identifier: MIT */
/*
 * Files out of the page cache, for tests of what is done with cold ones.
 *
 * POSIX_FADV_DONTNEED alone drops no page that is dirty, mapped, under way to
 * or from the disk (a reader that was cancelled leaves such), or in another
 * processor's batch, and it does not tell.
 */
#pragma once

#include <stdint.h>

/* Once, as far as it goes: for a test that passes with a warm file, too. */
void cold_try(int fd);

/* Nothing of these bytes of a file is in the page cache, nor on the way there,
 * when this returns NULL; it tries for long. Else it returns why that cannot
 * be, for skip(). A page that holds other bytes too is not looked at, and
 * nobody may have the others mapped. */
const char *cold_make(int fd, uint64_t begin, uint64_t end);

/* A test that asks about a cold file by RWF_NOWAIT has the kernel read a page; on
 * a busy machine that is there when the call looks for it: the answer is wrong
 * now and then, not time after time. */
enum { COLD_TRIES = 20 };
