/* SPDX-License-Identifier: MIT */
/*
 * What tarn doctor finds on machines that are made of files: a large one with
 * two nodes, a container that is refused nearly everything, an old one, one of
 * which nothing can be read.
 */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "tests/cli/doctor_findings.h"
#include "tests/cli/doctor_machines.h"
#include "tests/kit/tap.h"

static void wants_all(const struct machine *machine, const struct wanted *w,
	size_t n, const char *on)
{
	_cleanup_findings_ struct findings f = doctor_look(machine);

	for (size_t i = 0; i < n; i++)
		doctor_wants(&f, &w[i], on);
}

#define WANTS(machine, wanted, on)                                             \
	wants_all(machine, wanted, ARRAY_SIZE(wanted), on)

/* ---- cases --------------------------------------------------------------- */

static void test_large(void)
{
	static const struct wanted wanted[] = {
		{"kernel", WORTH_GOOD, "6.8.0", 0},
		{"engine", WORTH_GOOD, "io_uring", 0},
		{"memlock", WORTH_GOOD, "no limit", 0},
		{"machine", WORTH_GOOD, "96.00 GiB available of 128.00 GiB", 0},
		{"cgroup", WORTH_GOOD, "no limit", 0},
		{"charged", WORTH_GOOD,
			"pools, and what this process publishes, count for /user",
			0},
		{"budget", WORTH_GOOD, "48.00 GiB by default", 0},
		{"transparent", WORTH_GOOD, "advise", 0},
		{"reserved_2M", WORTH_GOOD,
			"3 of 6 are free; node 0: 3 of 4; node 1: 0 of 2", 0},
		{"reserved_1G", WORTH_GOOD, "none reserved", 0},
		{"numa", WORTH_GOOD,
			"2 nodes; node 0: 64.00 GiB, CPUs 0-15; node 1: 64.00 "
			"GiB, CPUs 16-31",
			0},
		{"cpuset", WORTH_GOOD, "32 of 32 CPUs and memory of 2 of 2", 0},
		{"descriptors", WORTH_GOOD, "524288, enough for 65536", 0},
	};
	struct machine m = make();
	_cleanup_findings_ struct findings f = {0};

	PUT(large);
	WANTS(&m, wanted, "a large machine");
	f = doctor_look(&m);
	is_int((int64_t)f.n, (int64_t)findings_count(&f, WORTH_GOOD),
		"nothing costs anything there");
	doctor_are_whole(&f, "a large machine");
}

static void test_container(void)
{
	static const struct wanted wanted[] = {
		{"engine", WORTH_COSTS,
			"threads; io_uring is refused with Operation not permitted: a seccomp",
			"seccomp profile"},
		{"memlock", WORTH_GOOD, "threads register nothing", 0},
		{"cgroup", WORTH_COSTS,
			"memory.max of /docker/abc leaves 512.00 MiB of 1.00 "
			"GiB, the least of several",
			"MemoryMax="},
		{"budget", WORTH_GOOD, "256.00 MiB by default", 0},
		{"cpuset", WORTH_COSTS, "memory of 1 of 2 nodes",
			"cpuset.mems of the group to 0-1"},
		{"descriptors", WORTH_COSTS, "enough for 128", "LimitNOFILE"},
	};
	struct machine m = make();
	_cleanup_findings_ struct findings f = {0};

	PUT(large);
	PUT(container);
	refuse(&m, -EPERM);
	WANTS(&m, wanted, "a container");
	f = doctor_look(&m);
	doctor_are_whole(&f, "a container");
}

static void test_old(void)
{
	static const struct wanted wanted[] = {
		{"kernel", WORTH_BROKEN, "5.13.9", "5.14"},
		{"architecture", WORTH_BROKEN, "riscv64", "x86_64"},
		{"descriptors", WORTH_BROKEN, "16", "LimitNOFILE"},
		{"engine", WORTH_COSTS, "lacks it", "CONFIG_IO_URING"},
		{"budget", WORTH_BROKEN, "MemAvailable", "free memory"},
		{"overcommit", WORTH_COSTS, "32.00 GiB of 64.00 GiB",
			"vm.overcommit_memory=0"},
		{"transparent", WORTH_COSTS, "never", "echo advise"},
		{"reserved_2M", WORTH_COSTS, "0 of 6", "nr_hugepages"},
		{"numa", WORTH_COSTS, "node 1: no memory, CPUs 16-31",
			"numactl --cpunodebind=0"},
		{"cpuset", WORTH_COSTS, "1 of 32 CPUs", "taskset -c 0-31"},
	};
	struct machine m = make();
	_cleanup_findings_ struct findings f = {0};

	PUT(large);
	PUT(old);
	strcpy(m.uts.release, "5.13.9");
	strcpy(m.uts.machine, "riscv64");
	refuse(&m, -ENOSYS);
	WANTS(&m, wanted, "an old machine");
	f = doctor_look(&m);
	doctor_are_whole(&f, "an old machine");
}

/* The limits that count are those of the process that takes the memory. */
static void test_daemon_elsewhere(void)
{
	static const struct wanted wanted[] = {
		{"cgroup", WORTH_COSTS,
			"memory.max of /job (of tarnd) leaves 512.00 MiB of "
			"1.00 GiB",
			"MemoryMax="},
		{"charged", WORTH_GOOD,
			"pools count for /job (of tarnd); what this process "
			"publishes counts for /user",
			0},
	};
	struct machine m = make();

	PUT(large);
	strcpy(m.process, "77");
	put("/proc/77/cgroup", "0::/job\n");
	put("/proc/77/limits", "Max open files      1024    1024    files\n");
	put(CGROUP "/job/memory.max", "1073741824\n");
	put(CGROUP "/job/memory.current", "536870912\n");
	WANTS(&m, wanted, "a daemon in another cgroup");
}

/* Neither /proc nor /sys. */
static void test_unknown(void)
{
	static const char *const keys[] = {"descriptors", "memlock", "machine",
		"cgroup", "charged", "budget", "overcommit", "transparent",
		"reserved_2M", "reserved_1G", "numa", "cpuset"};
	struct machine m = make();
	_cleanup_findings_ struct findings f = doctor_look(&m);

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		is_int(WORTH_UNKNOWN, doctor_finding(&f, keys[i])->worth,
			"what cannot be read is unknown: %s", keys[i]);
	is_int(ARRAY_SIZE(keys), (int64_t)findings_count(&f, WORTH_UNKNOWN),
		"and nothing else is");
	doctor_are_whole(&f, "nothing to be read");
}

/* The kernel asks the sysctl, then the filters, then the security modules. */
static void test_refusals(void)
{
	static const struct {
		const char *sysctl, *seccomp;
		int error;
		struct wanted wanted;
	} rows[] = {
		{"2\n", "2", -EPERM,
			{"engine", WORTH_COSTS, "io_uring_disabled is 2",
				"sysctl -w kernel.io_uring_disabled=0"}},
		{"1\n", "0", -EPERM,
			{"engine", WORTH_COSTS, "io_uring_disabled is 1",
				"kernel.io_uring_group=GID"}},
		{"0\n", "2", -EPERM,
			{"engine", WORTH_COSTS, "a seccomp filter forbids it",
				"seccomp profile"}},
		{"0\n", "2", -ENOSYS,
			{"engine", WORTH_COSTS, "a seccomp filter hides it",
				"seccomp profile"}},
		{"0\n", "0", -EPERM,
			{"engine", WORTH_COSTS, "a security module",
				"SELinux"}},
		{"0\n", "0", -ENOMEM,
			{"engine", WORTH_COSTS, "memlock", "ulimit -Hl"}},
		{"0\n", "0", -EXDEV,
			{"engine", WORTH_COSTS, "threads", "cross-device"}},
	};
	struct machine m = make();

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		put("/proc/sys/kernel/io_uring_disabled", "%s", rows[i].sysctl);
		put("/proc/self/status", "Seccomp:\t%s\n", rows[i].seccomp);
		refuse(&m, rows[i].error);
		wants_all(&m, &rows[i].wanted, 1, "refused");
	}
}

static void test_asked(void)
{
	static const struct wanted costs = {
		"engine", WORTH_COSTS, "threads: ", "unset TARN_ENGINE"};
	static const struct wanted broken = {
		"engine", WORTH_BROKEN, "none: no", "unset TARN_ENGINE"};
	static const struct wanted mute = {
		"engine", WORTH_BROKEN, "io_uring", "TARN_ENGINE=threads"};
	struct machine m = make();

	refuse(&m, 0);
	wants_all(&m, &costs, 1, "threads that were asked for");
	m.engine = (struct engine_facts) {.any = -EPERM, .why = "no"};
	wants_all(&m, &broken, 1, "an io_uring that was insisted on");
	m.engine = (struct engine_facts) {.name = "io_uring", .read = -EIO};
	wants_all(&m, &mute, 1, "a read that fails");
}

static void test_memlock(void)
{
	static const struct wanted limited = {
		"memlock", WORTH_COSTS, "64.00 KiB", "ulimit -Hl"};
	static const struct wanted capable = {
		"memlock", WORTH_GOOD, "CAP_IPC_LOCK", 0};
	static const struct wanted enough = {
		"memlock", WORTH_GOOD, "64.00 GiB (of tarnd)", 0};
	struct machine m = make();

	PUT(large);
	PUT(old);
	put("/proc/meminfo", "MemTotal: 134217728 kB\n"
			     "MemAvailable: 100663296 kB\n");
	wants_all(&m, &limited, 1, "an ordinary user");
	put("/proc/self/status", "CapEff:\t0000000000004000\n");
	wants_all(&m, &capable, 1, "a user with the capability");
	put("/proc/self/uid_map", "         0     100000      65536\n");
	wants_all(&m, &limited, 1, "root of a user namespace");
	strcpy(m.process, "77");
	put("/proc/77/limits", "Max locked memory  1 68719476736 bytes\n");
	wants_all(&m, &enough, 1, "a daemon with a limit of its own");
}

static void test_nodes(void)
{
	static const struct wanted unplaced = {
		"numa", WORTH_COSTS, "2 nodes", "--cap-add SYS_NICE"};
	static const struct {
		const char *list;
		int after, next;
	} lists[] = {{"0-3,8", -1, 0}, {"0-3,8", 2, 3}, {"0-3,8", 3, 8},
		{"0-3,8", 8, -1}, {"", -1, -1}, {"5", -1, 5}, {"x", -1, -1}};
	struct machine m = make();

	PUT(large);
	m.places_memory = false;
	wants_all(&m, &unplaced, 1, "a container without CAP_SYS_NICE");
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		is_int(lists[i].next, list_next(lists[i].list, lists[i].after),
			"'%s' after %d", lists[i].list, lists[i].after);
}

static void test_pages(void)
{
	static const struct wanted size = {
		"transparent", WORTH_GOOD, "never, but on for a size", 0};
	static const struct wanted none = {
		"reserved_1G", WORTH_GOOD, "none of that size", 0};
	static const struct wanted small = {
		"transparent", WORTH_COSTS, "is never", "echo advise"};
	static const struct wanted asked = {"transparent", WORTH_COSTS,
		"never, but pools ask for each", "echo advise"};
	struct machine m = make();

	PUT(old);
	wants_all(&m, &small, 1, "no huge pages of any kind");
	m.collapses = true;
	wants_all(
		&m, &asked, 1, "huge pages when the kernel is asked for each");
	put(THP "hugepages-2048kB/shmem_enabled",
		"always inherit within_size [advise] never\n");
	wants_all(&m, &size, 1, "a switch of one size");
	wants_all(&m, &none, 1, "no pages of 1 GiB");
}

static void test_cuda(void)
{
	static const struct wanted good = {
		"cuda", WORTH_GOOD, "2 devices, CUDA 12.4, NVIDIA UNIX", 0};
	static const struct wanted absent = {
		"cuda", WORTH_COSTS, "550.54.15", "--gpus all"};
	static const struct wanted failed = {
		"cuda", WORTH_COSTS, "550.54.15", "cuInit returned 100"};
	static const struct wanted none = {
		"cuda", WORTH_GOOD, "tarn needs none", 0};
	struct machine m = make();

	wants_all(&m, &none, 1, "no GPU");
	put("/proc/driver/nvidia/version",
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15\n");
	wants_all(&m, &absent, 1, "a driver without its library");
	m.cuda = (struct cuda_facts) {.library = true, .init = 100};
	wants_all(&m, &failed, 1, "a library without a device");
	m.cuda = (struct cuda_facts) {
		.library = true, .version = 12040, .devices = 2};
	wants_all(&m, &good, 1, "two GPUs");
}

/* One line for each, by what it can do. */
static void test_devices(void)
{
	static const struct {
		struct cuda_traits traits;
		struct wanted wanted;
		const char *what;
		bool registers;
	} cases[] = {
		{{.registers = true, .registers_read_only = true},
			{"device", WORTH_GOOD,
				"GPU-00000000-0000-0000-0000-000000000000: "
				"reads them in place, registered",
				0},
			"a device that registers read-only memory", false},
		{{.registers = true, .reads_pageable = true},
			{"device", WORTH_GOOD, "by page faults", 0},
			"a device that reads what is not registered", false},
		{{.reads_pageable = true, .host_page_tables = true},
			{"device", WORTH_GOOD, "by the host's page tables", 0},
			"a device that shares the host's page tables", false},
		{{.registers = true},
			{"device", WORTH_COSTS, "mutable ones in place",
				"open kernel modules"},
			"a device that registers writable memory alone", false},
		{{.registers = true},
			{"device", WORTH_COSTS, "mutable ones in place",
				"tarnd --register"},
			"a device that needs pools of kind register", false},
		{{.registers = true},
			{"device", WORTH_GOOD,
				"in place, registered before they are "
				"protected",
				0},
			"a device that has a pool of kind register", true},
		{{.name = "Stand-in"},
			{"device", WORTH_COSTS, "reads none in place",
				"open kernel modules"},
			"a device that registers nothing, with such a pool",
			true},
		{{.name = "Stand-in", .pci = "0000:3b:00.0"},
			{"device", WORTH_COSTS, "Stand-in at 0000:3b:00.0, GPU",
				"open kernel modules"},
			"a device that reads nothing in place", false},
	};
	struct machine m = make();

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		m.cuda = (struct cuda_facts) {.library = true,
			.version = 12040,
			.devices = 1,
			.n_traits = 1,
			.traits = {cases[i].traits}};
		m.registers = cases[i].registers;
		wants_all(&m, &cases[i].wanted, 1, cases[i].what);
	}
}

static void test_disks(void)
{
	static const struct wanted turns = {
		"disk", WORTH_COSTS, "sda1, a hard disk", "SSD"};
	static const struct wanted nvme = {
		"disk", WORTH_GOOD, "nvme0n1, NVMe", 0};
	static const struct wanted none = {"disk", WORTH_UNKNOWN, "0:45", 0};
	static const struct wanted guest = {
		"disk", WORTH_UNKNOWN, "vda, a virtual disk", 0};
	_cleanup_findings_ struct findings a = {0}, b = {0}, c = {0}, d = {0};
	struct machine m = make();
	char link[8192];

	put("/sys/devices/sda/queue/rotational", "1\n");
	put("/sys/devices/sda/sda1/partition", "1\n");
	put("/sys/devices/nvme0n1/queue/rotational", "0\n");
	put("/sys/devices/vda/queue/rotational", "1\n");
	put("/sys/dev/block/README", "\n");
	snprintf(link, sizeof(link), "%s/sys/dev/block/8:1", root);
	if (symlink("../../devices/sda/sda1", link) < 0)
		bail("%s: %m", link);
	snprintf(link, sizeof(link), "%s/sys/dev/block/259:0", root);
	if (symlink("../../devices/nvme0n1", link) < 0)
		bail("%s: %m", link);
	snprintf(link, sizeof(link), "%s/sys/dev/block/254:0", root);
	if (symlink("../../devices/vda", link) < 0)
		bail("%s: %m", link);
	find_disk(&a, &m, "/x", 8, 1);
	doctor_wants(&a, &turns, "a partition");
	find_disk(&b, &m, "/x", 259, 0);
	doctor_wants(&b, &nvme, "a disk");
	find_disk(&c, &m, "/x", 0, 45);
	doctor_wants(&c, &none, "no disk");
	find_disk(&d, &m, "/x", 254, 0);
	doctor_wants(&d, &guest, "a guest's disk");
	is_str("/x", a.at[0].path, "a finding about a disk has its path");
}

/* What is made is below root: harness's folder, file by file. */
static void clean(void)
{
	char command[4200];

	snprintf(command, sizeof(command), "rm -rf '%s'/*", test_tmpdir());
	if (system(command) != 0)
		diag("%s is left", test_tmpdir());
}

int main(void)
{
	unsetenv("TARN_ENGINE");
	test_large();
	test_container();
	test_old();
	test_daemon_elsewhere();
	test_unknown();
	test_refusals();
	test_asked();
	test_memlock();
	test_nodes();
	test_pages();
	test_cuda();
	test_devices();
	test_disks();
	clean();
	return done(92);
}
