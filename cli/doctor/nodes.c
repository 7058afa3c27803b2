/* SPDX-License-Identifier: MIT */
/* NUMA nodes, and the part of the machine that a cpuset leaves. */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "cli/doctor/doctor.h"
#include "cli/size.h"

#define NODES "/sys/devices/system/node/"
#define POPULATORS 4 /* threads that take memory: daemon/keeper/populate.c */

static bool is_in(const char *list, int n)
{
	return list_next(list, n - 1) == n;
}

static int count(const char *list)
{
	int k = 0;

	for (int n = -1; (n = list_next(list, n)) >= 0;)
		k++;
	return k;
}

/* ---- nodes --------------------------------------------------------------- */

struct lists {
	char online[128], memory[128], cpus[128];
};

static bool read_lists(const struct machine *machine, struct lists *ret)
{
	return machine_read(machine, ret->online, sizeof(ret->online),
		       NODES "online") > 0 &&
	       machine_read(machine, ret->memory, sizeof(ret->memory),
		       NODES "has_memory") >= 0 &&
	       machine_read(machine, ret->cpus, sizeof(ret->cpus),
		       NODES "has_cpu") >= 0;
}

/* "; node 1: 64.00 GiB, CPUs 16-31" */
static size_t describe(const struct machine *machine, const struct lists *lists,
	int n, char *buf, size_t size)
{
	char path[128], text[SIZE_TEXT_MAX] = "no memory", cpus[128] = "";
	uint64_t bytes;

	snprintf(path, sizeof(path), NODES "node%d/meminfo", n);
	if (is_in(lists->memory, n)) {
		if (machine_kib(machine, path, "MemTotal:", &bytes) == 0)
			size_text((double)bytes, text);
		else
			snprintf(text, sizeof(text), "some memory");
	}
	machine_read(machine, cpus, sizeof(cpus), NODES "node%d/cpulist", n);
	return (size_t)snprintf(buf, size, "; node %d: %s, %s%s", n, text,
		*cpus ? "CPUs " : "no CPU", cpus);
}

static int without_memory(const struct lists *lists)
{
	int n = -1;

	do
		n = list_next(lists->cpus, n);
	while (n >= 0 && is_in(lists->memory, n));
	return n;
}

static void find_numa(struct findings *findings, const struct machine *machine)
{
	struct lists lists;
	struct finding *f;
	size_t at;
	int all;

	if (!read_lists(machine, &lists)) {
		found_unknown(findings, "nodes", "numa",
			NODES "online cannot be read");
		return;
	}
	all = count(lists.online);
	f = found(findings, "nodes", "numa", "%d node%s", all,
		all == 1 ? "" : "s");
	at = strlen(f->value);
	for (int n = -1;
		(n = list_next(lists.online, n)) >= 0 && at < sizeof(f->value);)
		at += describe(machine, &lists, n, f->value + at,
			sizeof(f->value) - at);
	if (count(lists.memory) > 1 && !machine->places_memory)
		advise(f, WORTH_COSTS,
			"The kernel forbids mbind or move_pages here: pools "
			"cannot be placed on a node.",
			"docker run --cap-add SYS_NICE, or start tarnd "
			"outside of the container");
	else if (without_memory(&lists) >= 0)
		advise(f, WORTH_COSTS,
			"Processes on a node without memory read all of it "
			"from other nodes.",
			"numactl --cpunodebind=%s COMMAND", lists.memory);
}

/* ---- cpusets ------------------------------------------------------------- */

static void find_cpuset(
	struct findings *findings, const struct machine *machine)
{
	char cpus[256], mems[256], all_cpus[256], all_mems[256];
	struct finding *f;

	if (machine_process_line(machine, "status", "Cpus_allowed_list:", cpus,
		    sizeof(cpus)) < 0 ||
		machine_process_line(machine, "status",
			"Mems_allowed_list:", mems, sizeof(mems)) < 0) {
		found_unknown(findings, "nodes", "cpuset",
			"/proc/%s/status cannot be read", machine->process);
		return;
	}
	if (machine_read(machine, all_cpus, sizeof(all_cpus),
		    "/sys/devices/system/cpu/online") <= 0 ||
		machine_read(machine, all_mems, sizeof(all_mems),
			NODES "has_memory") <= 0) {
		found_unknown(findings, "nodes", "cpuset",
			"CPUs %s and nodes %s may be used; how many there are "
			"cannot be read",
			cpus, mems);
		return;
	}
	f = found(findings, "nodes", "cpuset",
		"%d of %d CPUs and memory of %d of %d node%s may be used",
		MIN(count(cpus), count(all_cpus)), count(all_cpus),
		MIN(count(mems), count(all_mems)), count(all_mems),
		count(all_mems) == 1 ? "" : "s");
	if (count(mems) < count(all_mems))
		advise(f, WORTH_COSTS,
			"Pools have the memory, and the speed, of these nodes "
			"alone.",
			"set cpuset.mems of the group to %s, or docker run "
			"--cpuset-mems %s",
			all_mems, all_mems);
	else if (count(cpus) < MIN(count(all_cpus), POPULATORS))
		advise(f, WORTH_COSTS,
			"Fewer CPUs take and fill memory than could.",
			"set cpuset.cpus of the group to %s, or taskset -c %s "
			"COMMAND",
			all_cpus, all_cpus);
}

void find_nodes(struct findings *findings, const struct machine *machine)
{
	find_numa(findings, machine);
	find_cpuset(findings, machine);
}
