/* SPDX-License-Identifier: MIT */
/* The uid that stands for users unknown to a namespace. */
#include "base/overflow_uid.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"

#define PATH "/proc/sys/kernel/overflowuid"
#define MAP "/proc/self/uid_map"
#define USUAL 65534u     /* the kernel's DEFAULT_OVERFLOWUID */
#define UIDS 4294967295u /* all that there are; -1 is no uid */

static uint32_t read_it(void)
{
	char text[32], *end;
	unsigned long uid;

	if (fd_read_text(PATH, text, sizeof(text)) <= 0)
		return USUAL;
	uid = strtoul(text, &end, 10);
	/* 0 is not an overflow uid: it stands for "not read yet". */
	return end > text && uid && uid < UINT32_MAX ? (uint32_t)uid : USUAL;
}

uint32_t overflow_uid(void)
{
	static _Atomic uint32_t known;
	/* Relaxed, here and below: the number guards no other data, and two
	 * threads that both read the file find the same one. */
	uint32_t uid = atomic_load_explicit(&known, memory_order_relaxed);

	if (!uid) {
		uid = read_it();
		atomic_store_explicit(&known, uid, memory_order_relaxed);
	}
	return uid;
}

/* The kernel lets a namespace map no uid that its parent does not map, so one
 * row of all uids means that every user of the machine has one here. */
static bool maps_every_uid(void)
{
	unsigned inside, outside, n;
	char text[64];

	return fd_read_text(MAP, text, sizeof(text)) > 0 &&
	       sscanf(text, "%u %u %u", &inside, &outside, &n) == 3 &&
	       n == UIDS;
}

bool uid_is_one_user(uint32_t uid)
{
	return uid != overflow_uid() || maps_every_uid();
}

int overflow_uid_check(const char *what)
{
	if (uid_is_one_user(geteuid()))
		return 0;
	return tarn_fail(EPERM,
		"%s must not run as uid %u in this user namespace: it stands "
		"for every user that the namespace does not map, and any of "
		"them could pass for this one; use another uid, or map it "
		"(unshare --map-root-user, newuidmap)",
		what, (unsigned)geteuid());
}
