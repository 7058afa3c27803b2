/* SPDX-License-Identifier: MIT */
/*
 * The overflow uid. A process in a user namespace sees it in place of every uid
 * that its namespace does not map: as the owner of files, as the peer of a
 * socket, and, if its own uid is not mapped, as its own. So two processes with
 * this uid need not belong to one user, and having it makes no process trusted.
 *
 * Where the namespace maps every uid, as the initial one does, it stands for no
 * other uid. There it is one user, usually named nobody, and containers without
 * a user namespace run services under it.
 *
 * Uid 0 is different. Uid 0, as seen here, is the root of this namespace, and
 * never the machine's root seen from a namespace that does not map it. A
 * process that has this uid outside of the namespace is trusted as well: it may
 * trace those processes of the namespace's root that run there, so it can do
 * whatever they can.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* /proc/sys/kernel/overflowuid, read once; 65534 where it cannot be read. */
uint32_t overflow_uid(void);

/* Does that uid, as this process sees it, belong to one user? False where that
 * cannot be found out. A process that changes its namespace must call again. */
bool uid_is_one_user(uint32_t uid);

/* Returns 0, or -EPERM with a sentence if this process's own uid may stand for
 * any user. what: the subject of the sentence, which this process could not be
 * distinguished from. */
int overflow_uid_check(const char *what);
