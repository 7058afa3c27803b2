/* SPDX-License-Identifier: MIT */
/* Machines that are made of files, for the test of tarn doctor. */
#pragma once

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "cli/doctor/doctor.h"
#include "tests/kit/put_file.h"
#include "tests/kit/tap.h"

static char root[4096];

#define put(...) put_file(root, __VA_ARGS__)

struct file {
	const char *path, *text;
};

#define SYS_NODE "/sys/devices/system/node/"
#define HUGE_2M "hugepages-2048kB/"
#define RESERVE "/sys/kernel/mm/hugepages/"
#define THP "/sys/kernel/mm/transparent_hugepage/"
#define CGROUP "/sys/fs/cgroup"

/* Two nodes, huge pages, no limit. */
static const struct file large[] = {
	{"/proc/self/limits",
		"Limit          Soft Limit   Hard Limit   Units\n"
		"Max open files      1024    524288       files\n"
		"Max locked memory   8388608 unlimited    bytes\n"},
	{"/proc/self/status",
		"CapEff:\t0000000000000000\nSeccomp:\t0\nSeccomp_filters:\t0\n"
		"Cpus_allowed_list:\t0-31\nMems_allowed_list:\t0-1\n"},
	{"/proc/self/uid_map", "         0          0 4294967295\n"},
	{"/proc/self/cgroup", "0::/user\n"},
	{"/proc/self/mountinfo",
		"30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"},
	{"/proc/meminfo", "MemTotal:       134217728 kB\n"
			  "MemAvailable:   100663296 kB\n"
			  "CommitLimit:     67108864 kB\n"
			  "Committed_AS:    33554432 kB\n"},
	{"/proc/sys/vm/overcommit_memory", "0\n"},
	{"/proc/sys/kernel/io_uring_disabled", "0\n"},
	{"/sys/devices/system/cpu/online", "0-31\n"},
	{SYS_NODE "online", "0-1\n"},
	{SYS_NODE "has_memory", "0-1\n"},
	{SYS_NODE "has_cpu", "0-1\n"},
	{SYS_NODE "node0/cpulist", "0-15\n"},
	{SYS_NODE "node1/cpulist", "16-31\n"},
	{SYS_NODE "node0/meminfo", "Node 0 MemTotal:       67108864 kB\n"},
	{SYS_NODE "node1/meminfo", "Node 1 MemTotal:       67108864 kB\n"},
	{SYS_NODE "node0/hugepages/" HUGE_2M "nr_hugepages", "4\n"},
	{SYS_NODE "node0/hugepages/" HUGE_2M "free_hugepages", "3\n"},
	{SYS_NODE "node1/hugepages/" HUGE_2M "nr_hugepages", "2\n"},
	{SYS_NODE "node1/hugepages/" HUGE_2M "free_hugepages", "0\n"},
	{RESERVE HUGE_2M "nr_hugepages", "6\n"},
	{RESERVE HUGE_2M "free_hugepages", "3\n"},
	{RESERVE "hugepages-1048576kB/nr_hugepages", "0\n"},
	{RESERVE "hugepages-1048576kB/free_hugepages", "0\n"},
	{THP "shmem_enabled", "always within_size [advise] never deny force\n"},
};

/* What a container of the same machine sees in place of that. */
static const struct file container[] = {
	{"/proc/self/status",
		"CapEff:\t00000000a80425fb\nSeccomp:\t2\nSeccomp_filters:\t1\n"
		"Cpus_allowed_list:\t0-1\nMems_allowed_list:\t0\n"},
	{"/proc/self/cgroup", "0::/docker/abc\n"},
	{"/proc/self/limits",
		"Max open files      1024    1024         files\n"
		"Max locked memory   8388608 8388608      bytes\n"},
	{CGROUP "/docker/abc/memory.max", "1073741824\n"},
	{CGROUP "/docker/abc/memory.high", "max\n"},
	{CGROUP "/docker/abc/memory.current", "536870912\n"},
	{CGROUP "/docker/abc/memory.stat", "inactive_file 0\n"},
	{CGROUP "/docker/memory.max", "34359738368\n"},
	{CGROUP "/docker/memory.current", "1073741824\n"},
};

/* And an old one, badly set up. */
static const struct file old[] = {
	{"/proc/self/limits", "Max open files      16    16         files\n"
			      "Max locked memory   65536 65536      bytes\n"},
	{"/proc/meminfo", "MemTotal:       134217728 kB\n"
			  "MemAvailable:       32768 kB\n"
			  "CommitLimit:     67108864 kB\n"
			  "Committed_AS:    33554432 kB\n"},
	{"/proc/sys/vm/overcommit_memory", "2\n"},
	{SYS_NODE "has_memory", "0\n"},
	{"/proc/self/status", "CapEff:\t0000000000000000\nSeccomp:\t0\n"
			      "Cpus_allowed_list:\t3\nMems_allowed_list:\t0\n"},
	{RESERVE HUGE_2M "free_hugepages", "0\n"},
	{THP "shmem_enabled", "always within_size advise [never] deny force\n"},
};

static void put_all(const struct file *files, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put(files[i].path, "%s", files[i].text);
}

#define PUT(files) put_all(files, ARRAY_SIZE(files))

/* A fresh folder, and what system calls answer on a good machine. */
static struct machine make(void)
{
	static int n;
	struct machine machine = {.root = root,
		.process = "self",
		.places_memory = true,
		.engine = {.name = "io_uring", .read = 4096}};

	strcpy(machine.uts.release, "6.8.0-31-generic");
	strcpy(machine.uts.machine, "x86_64");
	snprintf(root, sizeof(root), "%s/%d", test_tmpdir(), n++);
	mkdir(root, 0700);
	return machine;
}

static void refuse(struct machine *machine, int error)
{
	machine->engine = (struct engine_facts) {.name = "threads",
		.why = "io_uring is refused here",
		.uring = error,
		.read = 4096};
}
