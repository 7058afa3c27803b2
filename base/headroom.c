/* SPDX-License-Identifier: MIT */
/*
 * How much memory may still be taken: the least of what the machine has
 * available and what each cgroup of this process leaves. Each call reads
 * everything afresh, since other processes take memory too. That costs a few
 * small files for each call, and there is one call for each segment.
 */
#include "base/headroom.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/headroom_internal.h"

/* The kernel makes no process wait before less than about a hundredth is left;
 * usage approaches a group's limit in leaps. Picked. */
#define TIGHT_SHARE 16u

/* headroom_check and headroom_is_tight treat the reserve differently, so their
 * answers may differ: the least room, and the least that is left when the
 * reserve is kept. */
struct least {
	struct headroom_limit room;
	struct headroom_limit usable;
};

static uint64_t reserve_of(const struct headroom_limit *limit)
{
	return MIN(HEADROOM_RESERVE, limit->limit / 16);
}

static uint64_t usable_of(const struct headroom_limit *limit)
{
	return limit->room - MIN(limit->room, reserve_of(limit));
}

static void consider(void *arg, const struct headroom_limit *limit)
{
	struct least *least = arg;

	if (limit->room < least->room.room)
		least->room = *limit;
	if (usable_of(limit) < usable_of(&least->usable))
		least->usable = *limit;
}

/* "Name:    123 kB" */
static int meminfo_line(const char *text, const char *name, uint64_t *ret)
{
	const char *line = strstr(text, name);
	uint64_t kib;

	if (!line ||
		sscanf(line + strlen(name), " %" SCNu64 " kB", &kib) != 1 ||
		mul_u64(kib, 1024, ret))
		return tarn_fail(ENODATA, "/proc/meminfo has no line %s", name);
	return 0;
}

/* For systems where /proc shows processes alone (systemd's ProcSubset=pid). The
 * kernel reports what is free, not what it could drop for this process. That is
 * less, and safe. */
static int machine_by_sysinfo(struct headroom_limit *ret)
{
	struct sysinfo info;

	if (sysinfo(&info) < 0)
		return tarn_fail(errno, "/proc/meminfo is missing; sysinfo: %s",
			tarn_errno_text(errno));
	ret->limit = (uint64_t)info.totalram * info.mem_unit;
	ret->room = ((uint64_t)info.freeram + info.bufferram) * info.mem_unit;
	ret->used = ret->limit - MIN(ret->limit, ret->room);
	ret->shmem = (uint64_t)info.sharedram * info.mem_unit;
	snprintf(ret->name, sizeof(ret->name), "free memory");
	return 0;
}

/* The machine as a limit. which names the figure that counts as left. */
static int machine(
	const char *root, const char *which, struct headroom_limit *ret)
{
	char path[4096], text[16384];
	ssize_t n;
	int r;

	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	n = fd_read_text(path, text, sizeof(text));
	if (n == -ENOENT && !*root)
		return machine_by_sysinfo(ret);
	if (n < 0)
		return tarn_fail(
			(int)-n, "%s: %s", path, tarn_errno_text((int)n));
	r = meminfo_line(text, "MemTotal:", &ret->limit);
	if (r >= 0)
		r = meminfo_line(text, which, &ret->room);
	if (r < 0)
		return r;
	ret->used = ret->limit - MIN(ret->limit, ret->room);
	/* It names which memory is taken, and limits nothing. */
	if (meminfo_line(text, "Shmem:", &ret->shmem) < 0)
		ret->shmem = 0;
	snprintf(ret->name, sizeof(ret->name), "MemAvailable");
	return 0;
}

static int find_least(const char *root, struct least *ret)
{
	int r = machine(root, "MemAvailable:", &ret->room);

	if (r < 0)
		return r;
	ret->usable = ret->room;
	return headroom_cgroups(root, "self", consider, ret);
}

/* 1.5 GiB, 12 MiB, 640 KiB */
static const char *human(char buf[static 32], uint64_t n)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
	unsigned unit = 0;
	double value = (double)n / 1024;

	while (value >= 1024 && unit + 1 < ARRAY_SIZE(units)) {
		value /= 1024;
		unit++;
	}
	if (value >= 100 || value == (double)(uint64_t)value)
		snprintf(buf, 32, "%.0f %s", value, units[unit]);
	else
		snprintf(buf, 32, "%.1f %s", value, units[unit]);
	return buf;
}

static void describe(
	const struct headroom_limit *limit, char *buf, unsigned long size)
{
	char a[32], b[32], c[32];

	/* Shared memory is charged to the group of the process that took it,
	 * and stays when that has ended: the kernel cannot reclaim it, so it is
	 * what to look for. */
	if (limit->shmem)
		snprintf(buf, size,
			"%s (%s, %s in use, %s of it shared memory)",
			limit->name, human(a, limit->limit),
			human(b, limit->used), human(c, limit->shmem));
	else
		snprintf(buf, size, "%s (%s, %s in use)", limit->name,
			human(a, limit->limit), human(b, limit->used));
}

int headroom_at(
	const char *root, uint64_t *ret_bytes, char *buf, unsigned long size)
{
	struct least least;
	int r = find_least(root, &least);

	if (r < 0)
		return r;
	if (buf && size)
		describe(&least.room, buf, size);
	*ret_bytes = least.room.room;
	return 0;
}

int headroom_check_at(const char *root, uint64_t want)
{
	char text[600], a[32], b[32], c[32];
	struct least least;
	int r = find_least(root, &least);

	if (r < 0)
		return r;
	if (want <= usable_of(&least.usable))
		return 0;
	describe(&least.usable, text, sizeof(text));
	return tarn_fail(ENOSPC,
		"no room for %s: %s leaves %s, and %s of that stay free for "
		"others",
		human(a, want), text, human(b, least.usable.room),
		human(c, MIN(least.usable.room, reserve_of(&least.usable))));
}

static bool is_nearly_used_up(const struct headroom_limit *limit)
{
	return limit->limit - MIN(limit->limit, limit->used) <
	       limit->limit / TIGHT_SHARE;
}

static void consider_tight(void *arg, const struct headroom_limit *limit)
{
	*(bool *)arg |= is_nearly_used_up(limit);
}

bool headroom_is_tight_at(const char *root)
{
	struct headroom_limit all;
	bool tight;

	if (machine(root, "MemFree:", &all) < 0)
		return true;
	tight = is_nearly_used_up(&all);
	return headroom_cgroups(root, "self", consider_tight, &tight) < 0 ||
	       tight;
}

int headroom(uint64_t *ret_bytes, char *buf, unsigned long size)
{
	return headroom_at("", ret_bytes, buf, size);
}

int headroom_check(uint64_t want)
{
	return headroom_check_at("", want);
}

bool headroom_is_tight(void)
{
	return headroom_is_tight_at("");
}
