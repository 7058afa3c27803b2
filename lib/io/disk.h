/* SPDX-License-Identifier: MIT */
/* What sysfs has about the disk below a file system. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The text of an attribute of the disk's queue ("logical_block_size"), as
 * fd_read_text() returns it. The disk is named by a device number, its own or a
 * partition's, and looked up below root, which is "" outside of tests. */
ssize_t disk_queue(const char *root, uint32_t major, uint32_t minor,
	const char *name, char *buf, size_t size);
