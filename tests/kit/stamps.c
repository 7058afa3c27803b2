/* SPDX-License-Identifier: MIT */
#include "tests/kit/stamps.h"

#include <fcntl.h>

#include "base/fd.h"
#include "base/identity.h"
#include "tests/kit/tap.h"

bool stamps_last(const char *path)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct file_identity id;

	if (fd < 0)
		bail("%s: %m", path);
	return identity_settled(fd, &id) >= 0 &&
	       identity_worth(&id) == IDENTITY_LASTS;
}
