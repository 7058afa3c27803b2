/* SPDX-License-Identifier: MIT */
/*
 * How much memory tarn may take: what the machine has, what the cgroups leave,
 * and whether the kernel counts promises.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/headroom_internal.h"
#include "cli/doctor/doctor.h"
#include "cli/size.h"

#define MEMINFO "/proc/meminfo"
#define SEGMENT_LEAST (2ull << 20) /* the smallest that the daemon takes */

/* UINT64_MAX where it is not known. */
static uint64_t find_machine(
	struct findings *findings, const struct machine *machine)
{
	char a[SIZE_TEXT_MAX], b[SIZE_TEXT_MAX];
	uint64_t available, total;

	if (machine_kib(machine, MEMINFO, "MemAvailable:", &available) < 0 ||
		machine_kib(machine, MEMINFO, "MemTotal:", &total) < 0) {
		found_unknown(findings, "memory", "machine",
			MEMINFO " cannot be read");
		return UINT64_MAX;
	}
	found(findings, "memory", "machine", "%s available of %s",
		size_text((double)available, a), size_text((double)total, b));
	return available;
}

struct least {
	struct headroom_limit limit;
	int n;
};

static void consider(void *arg, const struct headroom_limit *limit)
{
	struct least *least = arg;

	if (!least->n++ || limit->room < least->limit.room)
		least->limit = *limit;
}

/* No limit was seen: there is none only where the groups can be seen. */
static void find_no_limit(
	struct findings *findings, const struct machine *machine)
{
	char text[1024];

	if (machine_line(machine, "/proc/self/cgroup", ":", text,
		    sizeof(text)) < 0 ||
		machine_line(machine, "/proc/self/mountinfo", " - cgroup", text,
			sizeof(text)) < 0)
		found_unknown(findings, "memory", "cgroup",
			"no cgroup file system is mounted here");
	else
		found(findings, "memory", "cgroup", "no limit");
}

static void find_cgroup(struct findings *findings,
	const struct machine *machine, uint64_t available)
{
	char left[SIZE_TEXT_MAX], all[SIZE_TEXT_MAX];
	struct least least = {0};
	struct finding *f;

	if (headroom_cgroups(
		    machine->root, machine->process, consider, &least) < 0) {
		found_unknown(findings, "memory", "cgroup", "%s",
			tarn_fail_message());
		return;
	}
	if (!least.n) {
		find_no_limit(findings, machine);
		return;
	}
	f = found(findings, "memory", "cgroup", "%s%s leaves %s of %s%s",
		least.limit.name, machine_whose(machine),
		size_text((double)least.limit.room, left),
		size_text((double)least.limit.limit, all),
		least.n > 1 ? ", the least of several limits" : "");
	if (available != UINT64_MAX && least.limit.room < available / 2)
		advise(f, WORTH_COSTS,
			"The daemon takes at most half of what the group "
			"leaves, though the machine has more.",
			"raise memory.max and memory.high of the group: "
			"systemctl set-property UNIT MemoryMax=SIZE, or "
			"docker run --memory SIZE");
}

/* The group of a process: in v1 that of the memory controller. */
static bool group_of(const struct machine *machine, const char *process,
	char *buf, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%s/cgroup", process);
	return machine_line(machine, path, ":memory:", buf, size) == 0 ||
	       machine_line(machine, path, "^0::", buf, size) == 0;
}

/* Shared memory counts for the group of the process that takes it, and
 * not for those of its readers. */
static void find_charged(
	struct findings *findings, const struct machine *machine)
{
	char here[512], there[512];

	if (!group_of(machine, "self", here, sizeof(here)) ||
		!group_of(machine, machine->process, there, sizeof(there))) {
		found_unknown(findings, "memory", "charged",
			"the groups of processes cannot be read");
		return;
	}
	if (strcmp(here, there) == 0)
		found(findings, "memory", "charged",
			"pools, and what this process publishes, count for %s",
			here);
	else
		found(findings, "memory", "charged",
			"pools count for %s%s; what this process publishes "
			"counts for %s",
			there, machine_whose(machine), here);
}

/* As the daemon asks before it takes a segment. */
static void find_headroom(
	struct findings *findings, const struct machine *machine)
{
	char text[600], half[SIZE_TEXT_MAX];
	struct finding *f;
	uint64_t room;

	if (headroom_at(machine->root, &room, text, sizeof(text)) < 0) {
		found_unknown(findings, "memory", "budget", "%s",
			tarn_fail_message());
		return;
	}
	f = found(findings, "memory", "budget",
		"%s by default, half of what "
		"%s leaves",
		size_text((double)room / 2, half), text);
	if (headroom_check_at(machine->root, SEGMENT_LEAST) < 0)
		advise(f, WORTH_BROKEN,
			"Loads and publications fail with ENOSPC.",
			"free memory, or raise that limit");
}

static void find_overcommit(
	struct findings *findings, const struct machine *machine)
{
	char mode[16], a[SIZE_TEXT_MAX], b[SIZE_TEXT_MAX];
	uint64_t limit = 0, committed = 0;
	struct finding *f;

	if (machine_read(machine, mode, sizeof(mode),
		    "/proc/sys/vm/overcommit_memory") <= 0) {
		found_unknown(findings, "memory", "overcommit",
			"/proc/sys/vm/overcommit_memory cannot be read");
		return;
	}
	if (strcmp(mode, "2")) {
		found(findings, "memory", "overcommit",
			"vm.overcommit_memory is %s", mode);
		return;
	}
	machine_kib(machine, MEMINFO, "CommitLimit:", &limit);
	machine_kib(machine, MEMINFO, "Committed_AS:", &committed);
	f = found(findings, "memory", "overcommit",
		"vm.overcommit_memory is 2: %s of %s are promised",
		size_text((double)committed, a), size_text((double)limit, b));
	advise(f, WORTH_COSTS,
		"Copy-on-write tensors count in full in each process, so they "
		"may be refused although memory is free.",
		"sysctl -w vm.overcommit_memory=0");
}

void find_memory(struct findings *findings, const struct machine *machine)
{
	uint64_t available = find_machine(findings, machine);

	find_cgroup(findings, machine, available);
	find_charged(findings, machine);
	find_headroom(findings, machine);
	find_overcommit(findings, machine);
}
