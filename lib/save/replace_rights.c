/* SPDX-License-Identifier: MIT */
/*
 * The new file may be used by the same users as the old one, and by no others:
 * its mode, its access control list, its owner where that is allowed.
 *
 * With a list, the group bits of the mode are the mask of the whole list.
 * Without the list they would be the group's own rights; so where a list cannot
 * be read or copied, the group gets the rights of others.
 */
#include <endian.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <linux/xattr.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "lib/save/replace.h"

enum { ENTRIES_MAX = 1000 };

struct list {
	struct posix_acl_xattr_header header;
	struct posix_acl_xattr_entry entries[ENTRIES_MAX];
	size_t size; /* in bytes; 0: there is none */
};

/* Through a descriptor opened for reading, or by its name in /proc; O_PATH is
 * not enough. */
static ssize_t read_old(const struct replacement *r, void *list, size_t size)
{
	_cleanup_fd_ int fd = openat(r->folder, r->name,
		O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char path[64 + NAME_MAX];

	if (fd >= 0)
		return fgetxattr(fd, XATTR_NAME_POSIX_ACL_ACCESS, list, size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", r->folder, r->name);
	return lgetxattr(path, XATTR_NAME_POSIX_ACL_ACCESS, list, size);
}

static int read_list(const struct replacement *r, struct list *list)
{
	ssize_t n = read_old(r, list, offsetof(struct list, size));

	list->size = n < 0 ? 0 : (size_t)n;
	if (n < 0)
		return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -errno;
	return list->size < sizeof(list->header) ? -EINVAL : 0;
}

static struct posix_acl_xattr_entry *entry_of(struct list *list, int tag)
{
	size_t n =
		(list->size - sizeof(list->header)) / sizeof(list->entries[0]);

	for (size_t i = 0; i < n; i++)
		if (le16toh(list->entries[i].e_tag) == tag)
			return &list->entries[i];
	return NULL;
}

/* For when the group is another one now. */
static void narrow(struct list *list)
{
	struct posix_acl_xattr_entry *group = entry_of(list, ACL_GROUP_OBJ),
				     *other = entry_of(list, ACL_OTHER);

	if (group && other)
		group->e_perm &= other->e_perm;
}

/* Drops the list that the folder's default gave the new file, when the old one
 * had none. */
static int drop_list(const struct replacement *r)
{
	if (fremovexattr(r->fd, XATTR_NAME_POSIX_ACL_ACCESS) == 0 ||
		fgetxattr(r->fd, XATTR_NAME_POSIX_ACL_ACCESS, NULL, 0) <= 0)
		return 0;
	return tarn_fail(errno,
		"taking the folder's access control list off the new file: %s",
		tarn_errno_text(errno));
}

int replace_rights(const struct replacement *r)
{
	mode_t mode = r->old.st_mode & 0777;
	struct list list;
	bool same = fchown(r->fd, r->old.st_uid, r->old.st_gid) == 0 ||
		    fchown(r->fd, (uid_t)-1, r->old.st_gid) == 0;
	int err = read_list(r, &list);

	if (err >= 0 && list.size) {
		if (!same)
			narrow(&list);
		/* The list contains the mode. */
		if (fsetxattr(r->fd, XATTR_NAME_POSIX_ACL_ACCESS, &list,
			    list.size, 0) == 0)
			return 0;
	}
	if (!same || err < 0 || list.size)
		mode = (mode & ~(mode_t)070) | (mode & mode << 3 & 070);
	err = drop_list(r);
	if (err >= 0 && fchmod(r->fd, mode) < 0)
		err = tarn_fail(errno,
			"giving the new file the rights %03o of the old: %s",
			(unsigned)mode, tarn_errno_text(errno));
	return err;
}
