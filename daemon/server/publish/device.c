/* SPDX-License-Identifier: MIT */
/*
 * Sources in memory of a device: a descriptor that the device's driver has
 * exported, which the daemon holds.
 *
 * The server cannot ask a driver whether a descriptor is what its client says,
 * and need not: a client that imports it asks the driver. What the server makes
 * sure of is that holding it, sending it and closing it harms nobody else. So it
 * takes no socket, in whose queue other descriptors may lie, no pipe or directory,
 * and no file of a file system, which would keep that mounted: only device files
 * and the kernel's anonymous inodes, which is what drivers export. A memfd would
 * be memory of the host that no quota counts: it is taken only where the
 * administrator's environment says that memfds stand for devices, for tests.
 *
 * No call here may ask a file system, which may be a client's and never answer:
 * AT_STATX_DONT_SYNC takes what the kernel knows already.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/server/publish/internal.h"

static int check_memfd(const struct source *s, uint32_t i)
{
	const char *stand_in = getenv("TARN_DEVICE_MEMFD");
	struct stat st;

	if (!stand_in || strcmp(stand_in, "1") != 0)
		return tarn_fail(EBADF,
			"publish: the descriptor of source %u is a memfd, not "
			"memory of a device",
			i);
	if (fstat(s->fd, &st) < 0 || !S_ISREG(st.st_mode) ||
		(uint64_t)st.st_size < s->size)
		return tarn_fail(EINVAL,
			"publish: the memfd of source %u, which stands for a "
			"device's memory, has %lld bytes, not %llu",
			i, (long long)st.st_size, (unsigned long long)s->size);
	return 0;
}

static int check_fd(const struct source *s, uint32_t i)
{
	int flags = fcntl(s->fd, F_GETFL);
	struct statx st;

	if (flags < 0 || flags & O_PATH)
		return tarn_fail(EBADF,
			"publish: the descriptor of source %u is %s; export "
			"the device's memory as a POSIX file descriptor",
			i, flags < 0 ? "missing" : "an O_PATH one");
	/* Only files in memory have seals: what follows cannot block. */
	if (fcntl(s->fd, F_GET_SEALS) >= 0)
		return check_memfd(s, i);
	if (statx(s->fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE,
		    &st) < 0 ||
		(!S_ISCHR(st.stx_mode) && st.stx_mode & S_IFMT))
		return tarn_fail(EBADF,
			"publish: the descriptor of source %u cannot be memory "
			"of a device: it is neither a device file nor an "
			"anonymous inode",
			i);
	return 0;
}

int publish_check_device(const struct source *s, uint32_t i)
{
	if (!s->size || s->size > DEVICE_SIZE_MAX)
		return tarn_fail(EINVAL,
			"publish: source %u is %llu bytes of a device; 1 to "
			"%llu are possible",
			i, (unsigned long long)s->size, DEVICE_SIZE_MAX);
	return check_fd(s, i);
}

int publish_read_device(
	struct source *s, const struct msg_device *message, uint32_t i)
{
	static const uint8_t none[sizeof(message->uuid)];

	if (message->flags || message->pad)
		return tarn_fail(EINVAL,
			"publish: source %u is a device's with flags %#x, %#x; "
			"none are known",
			i, message->flags, message->pad);
	if (!memcmp(message->uuid, none, sizeof(none)))
		return tarn_fail(EINVAL,
			"publish: source %u is a device's whose UUID is all "
			"zeros",
			i);
	memcpy(s->device, message->uuid, sizeof(s->device));
	return 0;
}

int publish_from_device(struct publish *p, struct source *s)
{
	const struct table_storage entry = publish_own_entry(p, s);
	int r = storage_check_quota(p->domain, &entry, &p->wait);

	if (r != 0)
		return r == MEMORY_LATER ? 0 : r;
	if (!own_has_room(p->domain->server))
		return tarn_fail(EMFILE,
			"publish: there are no descriptors for one more "
			"storage on a device (ulimit -n of the daemon)");
	r = own_add(
		p->domain, &entry, fd_steal(&s->fd), &s->index, &s->generation);
	s->made = r == 0;
	publish_awaited(p, s);
	return r < 0 ? r : 1;
}
