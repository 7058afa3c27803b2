/* SPDX-License-Identifier: MIT */
/* A process in which io_uring is refused. */
#pragma once

/* As containers do it: the call is there, and returns EPERM, from now on and in
 * all children. -1: no filter can be set here. */
int refuse_io_uring(void);
