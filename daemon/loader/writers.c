/* SPDX-License-Identifier: MIT */
/*
 * Does any process have the file open for writing, or mapped writable?
 *
 * The kernel grants a read lease only if none has: so the loader takes
 * one, on the descriptor that it reads from, and gives it back at once. The
 * kernel counts open file descriptions, so descriptors that io_uring has, or
 * that are under way in a socket, count too, and so does a mapping, which
 * holds the description that it was made from.
 *
 * Why this, and the stamps, prove that the bytes that are read are one version
 * (where stamps are worth it: base/identity.h). In this order:
 *
 *	S1	the file's stamps, after the tick of its last change
 *	L	the lease: no process has the file open for writing
 *	R	all reads
 *	S2	the stamps again, equal to S1
 *
 * A writer sets the stamps first, then changes bytes: a write() before it
 * copies, a mapping at the first store to a clean page. Take any change of a
 * byte.
 * - Its writer had closed the file, and its mapping was gone, before L: all
 *   that it changed was there before R. If its stamp came before S1, S1 is the
 *   stamp of these very bytes; if it came between S1 and L, S2 differs.
 * - Its writer had the file open at L: then there is no lease.
 * - Its writer opened the file after L: its first stamp came after S1, in a
 *   later tick, so it differs from S1. If R saw the change, the stamp came
 *   before S2, and S2 differs. If not, later opens find other stamps than S1.
 * The last one also covers a process that opens the file later: bytes kept
 * under S1 are shared only where the file's stamps are S1 and no process
 * writes.
 *
 * Where writers cannot be detected, the bytes are kept all the same, as the
 * manual documents: the file is another user's and the daemon lacks CAP_LEASE,
 * or its file system has no leases (NFS). On overlayfs a mapping whose
 * descriptor is closed holds the file below, which this lease does not see; nor
 * does it see a process that opened the file below by another path. And no call
 * shows a page of the file that is the target of a direct read under way, into
 * a mapping that is gone: its stamp is old, and its bytes are still to come.
 *
 * A writer that opens the file while the loader has the lease waits until it
 * is given back, some microseconds (with O_NONBLOCK it fails with EAGAIN). The
 * client's own lease is left alone: the open file description is shared with
 * the client, and what it has proves the same.
 */
#include <errno.h>
#include <fcntl.h>

#include "daemon/loader/internal.h"

enum loader_writers loader_writers(int fd)
{
	/* Any lease of the client's: no other process had the file open for
	 * writing when it was granted, and it is broken before one has. A
	 * holder that can write may be a writer itself. Its lease is a write
	 * lease, but reads as a read lease while a reader waits for it. */
	int lease = fcntl(fd, F_GETLEASE);

	if (lease == F_RDLCK || lease == F_WRLCK)
		return (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY
			       ? WRITERS_NONE
			       : WRITERS_SOME;
	if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
		return errno == EAGAIN ? WRITERS_SOME : WRITERS_UNKNOWN;
	fcntl(fd, F_SETLEASE, F_UNLCK);
	return WRITERS_NONE;
}
