/* SPDX-License-Identifier: MIT */
/*
 * Headroom in machines that are made of files: v1, v2, hybrids, containers
 * with and without a cgroup namespace, limits at every level, and files that
 * are missing. Each case says which limit must win, and by how much.
 */
#include "base/headroom.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fail.h"
#include "base/headroom_internal.h"
#include "tests/kit/put_file.h"
#include "tests/kit/tap.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static char root[4096];
static int n_roots;

/* A fresh machine: 16 GiB, 8 of them available. */
static void machine(void);

#define put(...) put_file(root, __VA_ARGS__)

static void machine(void)
{
	snprintf(root, sizeof(root), "%s/%d", test_tmpdir(), n_roots++);
	mkdir(root, 0700);
	put("/proc/meminfo",
		"MemTotal:       16777216 kB\nMemFree:         1000000 kB\n"
		"MemAvailable:    8388608 kB\nBuffers:           12345 kB\n");
}

#define V2_MOUNT                                                               \
	"23 1 0:22 / /sys rw - sysfs sysfs rw\n"                               \
	"30 23 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n"

/* A group of v2; limits as the files have them. */
static void group(const char *path, const char *max, const char *high,
	unsigned long long current, unsigned long long inactive)
{
	char name[512];

	snprintf(name, sizeof(name), "/sys/fs/cgroup%s/memory.max", path);
	put(name, "%s\n", max);
	snprintf(name, sizeof(name), "/sys/fs/cgroup%s/memory.high", path);
	put(name, "%s\n", high);
	snprintf(name, sizeof(name), "/sys/fs/cgroup%s/memory.current", path);
	put(name, "%llu\n", current);
	snprintf(name, sizeof(name), "/sys/fs/cgroup%s/memory.stat", path);
	put(name, "anon 1\nfile 2\ninactive_anon 4096\ninactive_file %llu\n",
		inactive);
}

static void group_v1(const char *mount, const char *path,
	unsigned long long limit, unsigned long long usage,
	unsigned long long inactive)
{
	char name[512];

	snprintf(name, sizeof(name), "%s%s/memory.limit_in_bytes", mount, path);
	put(name, "%llu\n", limit);
	snprintf(name, sizeof(name), "%s%s/memory.usage_in_bytes", mount, path);
	put(name, "%llu\n", usage);
	snprintf(name, sizeof(name), "%s%s/memory.stat", mount, path);
	put(name,
		"inactive_file 1\nhierarchical_memory_limit 5\n"
		"total_inactive_file %llu\n",
		inactive);
}

static void wants(uint64_t bytes, const char *words, const char *what)
{
	char text[600] = "";
	uint64_t seen = 0;
	int r = headroom_at(root, &seen, text, sizeof(text));

	if (r < 0)
		diag("%s", tarn_fail_message());
	is_int((int64_t)bytes, r < 0 ? r : (int64_t)seen,
		"%s: the headroom has the expected bytes", what);
	is_str(words, text, "%s: the headroom names the limit", what);
}

static void no_groups(void)
{
	machine();
	wants(8 * GIB, "MemAvailable (16 GiB, 8 GiB in use)",
		"a machine without cgroups");
	is_int(0, headroom_check_at(root, 8 * GIB - 64 * MIB),
		"all but the reserve may be taken");
	is_int(-ENOSPC, headroom_check_at(root, 8 * GIB - 64 * MIB + 1),
		"no byte of the reserve may be taken");
	put("/proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 1024 kB\n");
	is_int(-ENOSPC, headroom_check_at(root, 1),
		"a machine with less than the reserve has no headroom");
	has_str("and 1 MiB of that stay free", tarn_fail_message(),
		"the headroom below the reserve is what is left");
}

static void v2(void)
{
	machine();
	put("/proc/self/cgroup", "0::/user.slice/x\n");
	put("/proc/self/mountinfo", V2_MOUNT);
	group("/user.slice/x", "268435456", "max", 12 * MIB, 0);
	group("/user.slice", "max", "max", 4 * GIB, 0);
	wants(244 * MIB, "memory.max of /user.slice/x (256 MiB, 12 MiB in use)",
		"a group of v2 with a limit");
	is_int(0, headroom_check_at(root, 228 * MIB),
		"all of a v2 limit but a sixteenth may be taken");
	is_int(-ENOSPC, headroom_check_at(root, 228 * MIB + 1),
		"a byte more than a v2 limit leaves is refused");
	is_str("no room for 512 MiB: memory.max of /user.slice/x (256 MiB, "
	       "12 MiB in use) leaves 244 MiB, and 16 MiB of that stay free "
	       "for others",
		(headroom_check_at(root, 512 * MIB), tarn_fail_message()),
		"the error names the v2 limit and what is left");

	group("/user.slice/x", "268435456", "max", 256 * MIB, 100 * MIB);
	wants(100 * MIB,
		"memory.max of /user.slice/x (256 MiB, 256 MiB in use)",
		"v2: inactive file pages can be reclaimed");
	group("/user.slice/x", "268435456", "104857600", 50 * MIB, 0);
	wants(50 * MIB, "memory.high of /user.slice/x (100 MiB, 50 MiB in use)",
		"v2: memory.high counts");
	group("/user.slice", "1073741824", "max", GIB - 5 * MIB, 0);
	wants(5 * MIB, "memory.max of /user.slice (1 GiB, 1019 MiB in use)",
		"v2: the limit of the parent is the tighter one");
	group("/user.slice", "1073741824", "max", 2 * GIB, MIB);
	wants(0, "memory.max of /user.slice (1 GiB, 2 GiB in use)",
		"v2: usage is beyond the limit already");
	group("/user.slice/x", "max", "max", 0, 0);
	group("/user.slice", "max", "max", 0, 0);
	wants(8 * GIB, "MemAvailable (16 GiB, 8 GiB in use)",
		"v2: all limits are 'max'");
}

/* What the kernel cannot reclaim, and no process that runs need have. */
static void shared(void)
{
	machine();
	put("/proc/meminfo",
		"MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\n"
		"Shmem:           1048576 kB\n");
	wants(8 * GIB,
		"MemAvailable (16 GiB, 8 GiB in use, 1 GiB of it shared memory)",
		"the machine's shared memory");
	put("/proc/self/cgroup", "0::/x\n");
	put("/proc/self/mountinfo", V2_MOUNT);
	group("/x", "1073741824", "max", GIB - 100 * MIB, 0);
	put("/sys/fs/cgroup/x/memory.stat",
		"anon 1\nshmem_thp 5\nshmem %llu\ninactive_file 0\n",
		800 * MIB);
	is_str("no room for 512 MiB: memory.max of /x (1 GiB, 924 MiB in use, "
	       "800 MiB of it shared memory) leaves 100 MiB, and 64 MiB of "
	       "that stay free for others",
		(headroom_check_at(root, 512 * MIB), tarn_fail_message()),
		"the error says how much of a group is shared memory");
}

static void v2_namespaces(void)
{
	machine();
	put("/proc/self/cgroup", "0::/\n");
	put("/proc/self/mountinfo", V2_MOUNT);
	group("", "536870912", "max", MIB, 0);
	wants(511 * MIB, "memory.max of / (512 MiB, 1 MiB in use)",
		"a namespace whose root is the limited group");

	put("/proc/self/mountinfo", "30 23 0:26 /docker/abc /sys/fs/cgroup rw "
				    "- cgroup2 cgroup rw\n");
	put("/proc/self/cgroup", "0::/docker/abc\n");
	wants(511 * MIB, "memory.max of / (512 MiB, 1 MiB in use)",
		"no namespace, but a mount of the same group");
	put("/proc/self/cgroup", "0::/docker/abc/job\n");
	group("/job", "max", "268435456", 6 * MIB, 0);
	wants(250 * MIB, "memory.high of /job (256 MiB, 6 MiB in use)",
		"a nested group in a container");
	put("/proc/self/cgroup", "0::/docker/abcdef\n");
	wants(511 * MIB, "memory.max of / (512 MiB, 1 MiB in use)",
		"a group with a name that only begins alike");
	put("/proc/self/cgroup", "0::/../elsewhere\n");
	put("/proc/self/mountinfo", V2_MOUNT);
	wants(511 * MIB, "memory.max of / (512 MiB, 1 MiB in use)",
		"a path that leads out of the namespace");
}

static void v1(void)
{
	const char *mount = "/sys/fs/cgroup/memory";

	machine();
	put("/proc/self/cgroup", "9:cpu,cpuacct:/other\n4:memory:/a/b\n");
	put("/proc/self/mountinfo",
		"32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
		"35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup "
		"rw,memory\n");
	group_v1(mount, "", 0x7ffffffffffff000ull, 9 * GIB, 0);
	group_v1(mount, "/a", 0x7ffffffffffff000ull, 9 * GIB, 0);
	group_v1(mount, "/a/b", 256 * MIB, 200 * MIB, 44 * MIB);
	wants(100 * MIB,
		"memory.limit_in_bytes of /a/b (256 MiB, 200 MiB in use)",
		"a group of v1 with a limit");
	group_v1(mount, "/a", GIB, GIB - MIB, 0);
	wants(MIB, "memory.limit_in_bytes of /a (1 GiB, 1023 MiB in use)",
		"v1: the limit of the parent is the tighter one");
	put("/proc/self/cgroup", "4:memory:/a/b/gone\n");
	wants(MIB, "memory.limit_in_bytes of /a (1 GiB, 1023 MiB in use)",
		"v1: the own folder is hidden, those above are not");
}

static void hybrid(void)
{
	machine();
	put("/proc/self/cgroup", "4:memory:/m\n1:cpu:/\n0::/user.slice/x\n");
	put("/proc/self/mountinfo",
		"31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
		"35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup "
		"rw,memory\n"
		"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 "
		"rw\n");
	group_v1("/sys/fs/cgroup/memory", "/m", 300 * MIB, 0, 0);
	put("/sys/fs/cgroup/unified/cgroup.procs", "1\n");
	wants(300 * MIB, "memory.limit_in_bytes of /m (300 MiB, 0 KiB in use)",
		"a hybrid where v1 has the controller");

	machine();
	put("/proc/self/cgroup", "1:cpu:/\n0::/x\n");
	put("/proc/self/mountinfo",
		"32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
		"41 31 0:38 / /sys/fs/cgroup/my\\040v2 rw - cgroup2 none rw\n");
	put("/sys/fs/cgroup/my v2/x/memory.max", "%llu\n", 200 * MIB);
	put("/sys/fs/cgroup/my v2/x/memory.current", "0\n");
	wants(200 * MIB, "memory.max of /x (200 MiB, 0 KiB in use)",
		"a hybrid where v2 has it, with a blank in its path and no "
		"stat");
}

/* The same hierarchy may be mounted many times, of some only a part. */
static void many_mounts(void)
{
	machine();
	put("/proc/self/cgroup", "0::/a/b\n");
	put("/proc/self/mountinfo",
		"30 23 0:26 /other /mnt/other rw - cgroup2 none rw\n"
		"31 23 0:26 /a/b /mnt/part rw - cgroup2 none rw\n"
		"32 23 0:26 / /mnt/whole rw - cgroup2 none rw\n"
		"33 23 0:26 /a /mnt/half rw - cgroup2 none rw\n");
	put("/mnt/whole/a/memory.max", "%llu\n", 128 * MIB);
	put("/mnt/whole/a/memory.current", "%llu\n", 28 * MIB);
	put("/mnt/other/memory.max", "4096\n");
	put("/mnt/other/memory.current", "0\n");
	wants(100 * MIB, "memory.max of /a (128 MiB, 28 MiB in use)",
		"several mounts, of which one shows the most");
}

static void broken(void)
{
	uint64_t bytes = 7;

	machine();
	put("/proc/self/cgroup", "garbage\n:::\n0:\n\n0::/x\n");
	put("/proc/self/mountinfo",
		"nonsense\n - cgroup2\n1 2 3 - cgroup2 a b\n" V2_MOUNT);
	put("/sys/fs/cgroup/x/memory.max", "soon\n");
	put("/sys/fs/cgroup/x/memory.current", "1\n");
	put("/sys/fs/cgroup/memory.max", "4096\n");
	wants(8 * GIB, "MemAvailable (16 GiB, 8 GiB in use)",
		"malformed limits and limits without a usage do not limit");

	put("/proc/meminfo", "MemTotal: 16 kB\n");
	is_int(-ENODATA, headroom_at(root, &bytes, NULL, 0),
		"a machine without MemAvailable has no known headroom");
	has_str("MemAvailable", tarn_fail_message(),
		"the error contains 'MemAvailable'");
	snprintf(root, sizeof(root), "%s/none", test_tmpdir());
	is_int(-ENOENT, headroom_at(root, &bytes, NULL, 0),
		"a machine without /proc has no known headroom");
	is_int(7, (int64_t)bytes, "a failure returns no headroom");
}

/* Stalls are ours where a limit of ours is nearly reached, page cache counted:
 * 16 GiB are nearly used up when less than one is free. */
static void tight(void)
{
	machine();
	ok(headroom_is_tight_at(root),
		"a machine with little free memory is tight");
	put("/proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 2097152 kB\n"
			     "MemAvailable: 8388608 kB\n");
	ok(!headroom_is_tight_at(root),
		"a machine with much free memory is not tight");
	put("/proc/self/cgroup", "0::/a/b\n");
	put("/proc/self/mountinfo", V2_MOUNT);
	group("/a", "max", "max", 512 * MIB, 0);
	group("/a/b", "536870912", "max", 256 * MIB, 0);
	ok(!headroom_is_tight_at(root),
		"a group with half of its limit left is not tight");
	group("/a", "max", "536870912", 512 * MIB, 500 * MIB);
	ok(headroom_is_tight_at(root),
		"a group below one that is at its limit is tight");
	put("/proc/meminfo", "MemTotal: 16777216 kB\n");
	group("/a", "max", "max", 512 * MIB, 0);
	ok(headroom_is_tight_at(root),
		"a machine whose memory is unknown may be tight");
}

static void in_earnest(void)
{
	uint64_t bytes = 0;
	char text[600] = "";
	int r = headroom(&bytes, text, sizeof(text));

	diag("this machine: %llu bytes, %s", (unsigned long long)bytes, text);
	ok(r == 0 && bytes > 0, "this machine has some headroom");
	is_int(0, headroom_check(0), "zero bytes may always be taken");
	is_int(-ENOSPC, headroom_check(1ull << 60),
		"an exbibyte may not be taken");
}

int main(void)
{
	char command[4200];

	no_groups();
	v2();
	shared();
	v2_namespaces();
	v1();
	hybrid();
	many_mounts();
	broken();
	tight();
	in_earnest();
	snprintf(command, sizeof(command), "rm -rf '%s'", test_tmpdir());
	if (system(command))
		diag("%s is left behind", test_tmpdir());
	return done(60);
}
