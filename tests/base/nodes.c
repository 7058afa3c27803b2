/* SPDX-License-Identifier: MIT */
/*
 * NUMA nodes of machines that are made of files: which have memory and CPUs,
 * which a cpuset allows, how far apart they are, and how much a node has left.
 * Lists that the kernel would not write are refused, and not half believed.
 */
#include "base/nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory_policy.h"
#include "tests/kit/put_file.h"
#include "tests/kit/tap.h"

#define NODE "/sys/devices/system/node/"
#define MIB (1ull << 20)

static char root[4096];
static int n_roots;

#define put(...) put_file(root, __VA_ARGS__)

static void machine(void)
{
	snprintf(root, sizeof(root), "%s/%d", test_tmpdir(), n_roots++);
	mkdir(root, 0700);
}

/* Node 1 has no memory, node 3 no CPU. */
static void four_nodes(void)
{
	machine();
	put(NODE "online", "0-3\n");
	put(NODE "has_memory", "0,2-3\n");
	put(NODE "has_cpu", "0-2\n");
	put(NODE "node0/distance", "10 20 30 40\n");
	put(NODE "node1/distance", "30 10 20 40\n");
	put(NODE "node2/distance", "30 20 10 40\n");
	put(NODE "node3/distance", "40 40 40 10\n");
}

static void lists(void)
{
	static const struct {
		const char *text;
		uint64_t set;
		bool good;
	} rows[] = {
		{"0\n", 1, true},
		{"0-3\n", 0xf, true},
		{"0-1,3\n", 0xb, true},
		{"\t0,2", 5, true},
		{"", 0, true},
		{"\n", 0, true},
		{"63\n", 1ull << 63, true},
		{"1,64-255\n", 2, true},
		{"3-1\n", 0, false},
		{"0,\n", 0, false},
		{"0-\n", 0, false},
		{"-1\n", 0, false},
		{"0 1\n", 0, false},
		{"0-1-2\n", 0, false},
		{"node0\n", 0, false},
		{"0xf\n", 0, false},
		{"99999999\n", 0, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char shown[64];
		uint64_t set;
		bool good = node_list_parse(rows[i].text, &set);

		snprintf(shown, sizeof(shown), "%.*s",
			(int)strcspn(rows[i].text, "\n"), rows[i].text);
		is_int(rows[i].good, good, "'%s' is %s list of nodes", shown,
			rows[i].good ? "a" : "no");
		if (rows[i].good)
			is_hex(rows[i].set, set, "the nodes of '%s'", shown);
	}
}

static void machines(void)
{
	struct nodes nodes;
	char text[256];

	four_nodes();
	nodes_read(root, &nodes);
	is_hex(0xf, nodes.online, "four nodes are online");
	is_hex(0xd, nodes.memory, "three nodes have memory");
	is_hex(0x7, nodes.cpus, "three nodes have CPUs");
	is_int(0, nodes_nearest(&nodes, 0, nodes.memory),
		"a node with memory is the nearest to itself");
	is_int(2, nodes_nearest(&nodes, 1, nodes.memory),
		"a node without memory has the nearest one that has");
	is_int(0, nodes_nearest(&nodes, 3, 5),
		"of two that are as far the lower one counts");
	is_int(-1, nodes_nearest(&nodes, 0, 0), "there may be none");
	is_int(2, nodes_nearest(&nodes, -1, 4),
		"from an unknown node each is as near");

	is_str("0, 2 and 3", nodes_text(0xd, text), "nodes are named");
	is_str("2", nodes_text(4, text), "one is named");
	is_str("none", nodes_text(0, text), "none is named");

	machine();
	nodes_read(root, &nodes);
	is_hex(1, nodes.memory,
		"where there is nothing to read, there is one node");
	put(NODE "online", "0-1\n");
	put(NODE "has_memory", "0-1 and more\n");
	put(NODE "has_cpu", "0-1\n");
	nodes_read(root, &nodes);
	is_hex(1, nodes.memory, "a list that is none is not half believed");
}

static void cpusets(void)
{
	struct nodes nodes;

	four_nodes();
	nodes_read(root, &nodes);
	is_hex(0xd, nodes_allowed(root, &nodes),
		"where no cpuset can be read, all nodes with memory count");
	put("/proc/self/status", "Name:\tx\nMems_allowed_list:\t0-1,3\n");
	is_hex(0x9, nodes_allowed(root, &nodes),
		"the nodes that a cpuset allows, and that have memory");
	put("/proc/self/status", "Mems_allowed_list:\t1\n");
	is_hex(0, nodes_allowed(root, &nodes),
		"a cpuset may allow no node with memory");
}

static void room(void)
{
	four_nodes();
	is_hex(UINT64_MAX, node_room(root, 0, 4096),
		"the room of a node that says nothing is not known");
	put(NODE "node0/meminfo", "Node 0 MemTotal:       1048576 kB\n"
				  "Node 0 MemFree:         102400 kB\n"
				  "Node 0 Active(file):     10240 kB\n"
				  "Node 0 Inactive(file):   20480 kB\n"
				  "Node 0 SReclaimable:      4096 kB\n");
	is_int((100 + 5 + 10 + 2 - 64) * (int64_t)MIB,
		(int64_t)node_room(root, 0, 4096),
		"what is free and what the kernel can drop, less the reserve");
	put("/proc/zoneinfo",
		"Node 0, zone      DMA\n  per-node stats\n  pages free 9\n"
		"        min      1\n        high     256\n"
		"  high:  7\n"
		"Node 0, zone   Normal\n        high     512\n"
		"Node 1, zone   Normal\n        high     4096\n");
	is_int((100 + 5 + 10 + 2 - 64) * (int64_t)MIB -
			768 * (int64_t)sysconf(_SC_PAGESIZE),
		(int64_t)node_room(root, 0, 4096),
		"what the kernel keeps free for itself is not counted");
	put(NODE "node0/hugepages/hugepages-2048kB/free_hugepages", "7\n");
	is_int(14 * (int64_t)MIB, (int64_t)node_room(root, 0, 2 * MIB),
		"of huge pages the node's part of the reserve counts");
}

static void threads(void)
{
	cpu_set_t set;

	four_nodes();
	put(NODE "node2/cpulist", "0-1023\n");
	put(NODE "node3/cpulist", "\n");
	ok(node_cpus(root, 2, &set) && CPU_COUNT(&set) > 0,
		"a node's CPUs are those that this thread may use");
	ok(!node_cpus(root, 3, &set), "a node without CPUs has none");
	ok(!node_cpus(root, 1, &set), "a node that lists no CPUs has none");
}

/* On this machine, however many nodes it has. */
static void here(void)
{
	long page = sysconf(_SC_PAGESIZE);
	uint64_t counts[NODES_MAX], elsewhere, size = 16 * (uint64_t)page;
	void *addr = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct nodes nodes;
	int r, node;

	nodes_read("", &nodes);
	node = nodes_nearest(&nodes, node_here(), nodes_allowed("", &nodes));
	ok(node >= 0, "a node with memory may be used: %d", node);
	r = addr == MAP_FAILED ? -1 : memory_bind(addr, size, 1ull << node);
	if (r < 0) {
		skip(3, "memory cannot be bound here: %s", strerror(-r));
		return;
	}
	r = madvise(addr, size / 2, MADV_POPULATE_WRITE);
	is_int(0, r, "bound memory can be had");
	memory_count(addr, size, (uint64_t)page, counts, &elsewhere);
	is_int(8, (int64_t)counts[node], "it is on the node it was bound to");
	is_int(8, (int64_t)elsewhere, "pages that are not there are on none");
	munmap(addr, size);
}

int main(void)
{
	char command[4200];

	lists();
	machines();
	cpusets();
	room();
	threads();
	here();
	snprintf(command, sizeof(command), "rm -rf '%s'/*", test_tmpdir());
	if (system(command))
		diag("%s is left behind", test_tmpdir());
	return done(52);
}
