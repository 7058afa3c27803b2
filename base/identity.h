/* SPDX-License-Identifier: MIT */
/*
 * File identities: which file, and which version of it. They compare the file
 * that a client's parser saw, the file that a loader reads, and the file that a
 * storage was loaded from.
 *
 * Two identities are equal when the file system and all stamps are. That proves
 * equal bytes only where every change changes a stamp:
 *
 * - The kernel stamps a change with a clock that steps once a tick. A file that
 *   changed within the present tick may change again under the same stamp (not
 *   on most file systems from 6.13 on, once a process has read the stamp), so a
 *   loader waits for the next tick: identity_settled(). Some file systems have
 *   coarser stamps; a file there is racy for two seconds. Parsers do not wait:
 *   the digest of the header finds what they may miss.
 * - Some file systems have stamps that stay the same from image to image, and
 *   tmpfs does not stamp all stores through a mapping. Each load of such a file
 *   reads it.
 * - A file system image has the stamps that its builder wrote, often one
 *   constant for all files. They are whole seconds; of the kernel's own stamps
 *   only one in a hundred million is. So a file whose ctime is a whole second
 *   is treated like those.
 * - A write() that is under way, and a mapping whose pages are dirty already,
 *   change bytes without a new stamp. Only a file lease reveals them
 *   (daemon/loader/writers.c).
 *
 * A device number is used again: for the next image that is attached to a loop
 * device, for the next overlayfs. An image can hold any inodes and stamps, its
 * f_fsid included, and any user can mount an overlayfs, in a user namespace,
 * over a file system (FUSE) that shows whatever inodes and times the user
 * likes. So a number that is never used again is compared too. For a disk that
 * is its sequence number (diskseq in sysfs, Linux 5.15): all mounts of one disk
 * share it, and so do containers, which bind-mount one file system at many
 * places. For overlayfs it is the mount's number (Linux 6.8); without it nothing
 * of overlayfs is kept. btrfs, ZFS and bcachefs give a file system a device
 * number of its own, which no disk has: there the manual page warns of images
 * that strangers made.
 *
 * What lies below an overlayfs cannot be seen through it. Over ext4 and its
 * like, which is what container engines use, its stamps are as good as theirs;
 * over tmpfs or FUSE they are no better than those. The manual page documents
 * this.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"

/* Travels in messages, and lies in the table: hence fixed width. */
struct file_identity {
	uint64_t dev;
	uint64_t ino;
	uint64_t size;
	uint64_t mtime; /* ns */
	uint64_t ctime; /* ns */
	uint64_t fsid;  /* f_fsid of fstatfs */
	/* Never used again: the disk's sequence number, which only
	 * identity_settled() asks for; on overlayfs the mount's. 0: unknown. */
	uint64_t instance;
	uint32_t fs;  /* f_type of fstatfs */
	uint32_t pad; /* 0 */
};

/* The file that a parser saw: its identity before it was read, and the digest
 * of the bytes that were parsed, which are the file's first. All zero: nothing
 * is claimed. */
struct file_version {
	struct file_identity identity;
	uint64_t header_size;
	struct digest header;
};

/* The identity of an open file, now. It asks the file system, which may not
 * answer. */
int identity_of(int fd, struct file_identity *ret);
/* The same, after the tick in which the file changed: from here on each change
 * gets a stamp that *ret does not have. A ctime that lies in the future is not
 * waited for. 1: the file changed in every tick for some 20 ms, so the next
 * change may still have the stamp of *ret. */
int identity_settled(int fd, struct file_identity *ret);
/* An unknown instance is equal to any. */
bool identity_same(
	const struct file_identity *a, const struct file_identity *b);
/* Is the file that the caller holds open still at path? Then no other file
 * system has its device number. */
bool identity_is_at(const struct file_identity *id, const char *path);

/* Did the file stay unchanged while its bytes were read? 0; -EBUSY: a process
 * writes it; -ESTALE: its ctime alone is another, as when a save has renamed
 * another file over it. Opened again, its path leads to the file that is to be
 * read. */
int identity_unchanged(int fd, const struct file_identity *was);
/* Does the file still have the bytes that a parser saw, as far as stamps show?
 * 0, or -ESTALE and a sentence with when: "after its header was read". The
 * ctime is not compared: renaming another file over this one, or a chmod,
 * changes it without changing bytes. If somebody sets an mtime back, the
 * header's digest differs, or the header is the same and the data differ. */
int identity_same_bytes(
	int fd, const struct file_identity *was, const char *when);
/* The same for two identities that were read. */
int identity_compare_bytes(const struct file_identity *was,
	const struct file_identity *is, const char *when);

/* Two files are open at the same moment, and have this identity: are they one,
 * whatever its stamps are worth? While a file is open its file system is there,
 * and so no other has its device number; and the kernel has one inode of a
 * number. Not where inodes are numbered by others: FUSE, file servers, and
 * overlayfs, which shows those of several file systems. */
bool identity_is_one_file(const struct file_identity *id);
/* Nothing can change its bytes while it is open: it lies in an image. */
bool identity_is_fixed(const struct file_identity *id);

/* Is its file system served by another machine? File leases there are the
 * server's to give. */
bool identity_is_remote(const struct file_identity *id);

enum identity_worth {
	IDENTITY_LASTS, /* equal stamps, now or later: the same bytes */
	IDENTITY_WEAK,  /* nothing: the next read may find other bytes */
	IDENTITY_RACY,  /* stamps are coarse: it may change without a new one */
	IDENTITY_AHEAD, /* its stamps lie in the future */
};

/* What equal stamps prove of a file whose identity was just read. */
enum identity_worth identity_worth(const struct file_identity *id);
