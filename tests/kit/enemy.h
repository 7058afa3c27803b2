/* SPDX-License-Identifier: MIT */
/* Processes of another user, which do harm. */
#pragma once

#include <sys/types.h>

/* This child of the test belongs to that user from here on, and to no group
 * but that of the same number; its folder is the test's, of which it could not
 * search the path. It ends with the test. */
void become_enemy(uid_t uid);
/* A child of that user, who may be this one, takes what it can, and then keeps
 * it until it is killed. Returns when it has that. */
pid_t begin_hoarder(uid_t uid, void (*take)(void));
