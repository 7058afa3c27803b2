/* SPDX-License-Identifier: MIT */
/* A loop device that clears itself away: nothing is left behind even when the
 * test is killed. */
#include "tests/kit/loop_device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"

static int configure(int fd, int file, unsigned sector)
{
	struct loop_config config = {
		.fd = (unsigned)file,
		.block_size = sector,
		.info.lo_flags = LO_FLAGS_AUTOCLEAR,
	};

	return ioctl(fd, LOOP_CONFIGURE, &config) < 0 ? -errno : 0;
}

int loop_device(int file, unsigned sector, char *path, size_t size)
{
	_cleanup_fd_ int control =
		open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	if (control < 0)
		return -errno;
	/* Another may take the free one before us. */
	for (int i = 0; i < 8; i++) {
		int number = ioctl(control, LOOP_CTL_GET_FREE);
		int fd, r;

		if (number < 0)
			return -errno;
		snprintf(path, size, "/dev/loop%d", number);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		r = configure(fd, file, sector);
		if (r == 0)
			return fd;
		fd_close(fd);
		if (r != -EBUSY)
			return r;
	}
	return -EBUSY;
}
