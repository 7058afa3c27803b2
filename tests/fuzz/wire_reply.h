/* SPDX-License-Identifier: MIT */
/*
 * What a server may answer.
 */
#pragma once

#include "shm/messages.h"

/* Bails where it may not. */
void reply_judge(const struct wire_message *m);
