/* SPDX-License-Identifier: MIT */
/*
 * Checks of a server's replies.
 */
#pragma once

#include "shm/messages.h"

/* Bails where it may not. */
void reply_judge(const struct wire_message *m);
