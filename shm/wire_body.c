/* SPDX-License-Identifier: MIT */
/*
 * Long bodies: a memfd that its sender has filled and sealed.
 *
 * The idea: what is sealed against writing, growing and shrinking stays what it
 * is, so it is checked once and then read into private memory, in as many steps
 * as the receiver likes.
 *
 * The receiver may be the server, in which nothing may block for ever, and a
 * peer may send any descriptor. So before anything else is done with it, its
 * seals are asked for (F_GET_SEALS). The kernel answers that itself, by looking
 * which operations the file has: only files of tmpfs and hugetlbfs have seals,
 * all others are -EINVAL, and no file system is asked, as it would be by
 * fstat() or pread(). F_SEAL_WRITE can only be set on what memfd_create() has
 * made to be sealed: a file that was opened in a mounted tmpfs or hugetlbfs has
 * F_SEAL_SEAL from the beginning.
 *
 * Nor can pread() of such a file wait for its sender. userfaultfd concerns
 * mappings, not read(); no process can punch a hole into it or map it for
 * writing any more; pages that were swapped out come back from a swap device of
 * the machine. A memfd of huge pages (MFD_HUGETLB) reads the same way, so it
 * needs no refusal of its own.
 *
 * A body with holes is refused. Its sender would pay for none of its pages, and
 * the receiver for all: the server would spend the time of all clients reading
 * zeros.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/file_limit.h"
#include "shm/wire_internal.h"

#define WIRE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int wire_body_put(const void *bytes, size_t size, int *ret_fd)
{
	_cleanup_fd_ int fd = -1;
	int r = file_limit_check(size);

	if (r < 0)
		return r;
	fd = fd_memory("tarn-message");
	if (fd < 0)
		return tarn_fail(-fd, "a memfd for a message of %zu bytes: %s",
			size, tarn_errno_text(fd));
	r = fd_write_all(fd, bytes, size);
	if (r < 0)
		return tarn_fail(r == -ENOSPC ? ENOMEM : -r,
			"writing a message of %zu bytes into a memfd: %s", size,
			tarn_errno_text(r));
	if (fcntl(fd, F_ADD_SEALS, WIRE_SEALS) < 0)
		return tarn_fail(errno, "sealing a message of %zu bytes: %s",
			size, tarn_errno_text(errno));
	*ret_fd = fd_steal(&fd);
	return 0;
}

/* The order matters: see above. */
int wire_body_check(int fd, uint32_t size)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & WIRE_SEALS) != WIRE_SEALS)
		return tarn_fail(EPROTO,
			"the body of a message is not in a memfd that is "
			"sealed against changes");
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != size)
		return tarn_fail(EPROTO,
			"the memfd of a message's body has %lld bytes instead "
			"of %u",
			(long long)st.st_size, size);
	if ((uint64_t)st.st_blocks * 512 < size)
		return tarn_fail(EPROTO,
			"the memfd of a message's body of %u bytes has holes",
			size);
	return 0;
}

int wire_read_on(struct wire_message *m, uint32_t most)
{
	uint32_t want = MIN(most, m->unread);
	ssize_t n;

	if (!m->body)
		m->body = malloc(m->size);
	if (!m->body)
		return tarn_fail(
			ENOMEM, "no memory for a message of %u bytes", m->size);
	n = fd_pread(m->long_fd, m->body + (m->size - m->unread), want,
		m->size - m->unread);
	/* For example EBADF: it was opened for writing only. */
	if (n != (ssize_t)want)
		return tarn_fail(n == -ENOMEM ? ENOMEM : EPROTO,
			"reading the memfd of a message of %u bytes: %s",
			m->size,
			n < 0 ? tarn_errno_text((int)n) : "it ends early");
	m->unread -= want;
	return m->unread == 0;
}
