/* SPDX-License-Identifier: MIT */
/* A partition has no queue directory of its own; its folder is in its disk's.
 */
#include "lib/io/disk.h"

#include <errno.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/fd.h"

ssize_t disk_queue(const char *root, uint32_t major, uint32_t minor,
	const char *name, char *buf, size_t size)
{
	static const char *const where[] = {"", "/.."};
	ssize_t n = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(where) && n <= 0; i++) {
		char path[4096];

		snprintf(path, sizeof(path),
			"%s/sys/dev/block/%u:%u%s/queue/%s", root, major, minor,
			where[i], name);
		n = fd_read_text(path, buf, size);
	}
	return n;
}
