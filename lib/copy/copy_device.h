/* SPDX-License-Identifier: MIT */
/* Copies of which one side, or both, is on a device. */
#pragma once

#include "lib/copy/copy_op.h"

/* The device reaches both sides, or copy_through_new. */
int copy_device_new(
	struct copy_env *env, const struct copy_op *head, struct copy_op **ret);

/* Through slots: one side is in memory that is not registered, in a file, or on
 * another device; or the device cannot do the move, and the host converts. */
int copy_through_new(
	struct copy_env *env, const struct copy_op *head, struct copy_op **ret);
