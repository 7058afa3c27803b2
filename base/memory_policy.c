/* SPDX-License-Identifier: MIT */
#include "base/memory_policy.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/policy_calls.h"

/* Pages that one call is asked for: 16 KiB of addresses and answers. */
#define BATCH 1024

static int set_policy(void *addr, uint64_t size, int mode, uint64_t nodes)
{
	return policy_set(addr, size, mode, nodes) < 0 ? -errno : 0;
}

int memory_bind(void *addr, uint64_t size, uint64_t nodes)
{
	return set_policy(addr, size, MPOL_BIND, nodes);
}

int memory_interleave(void *addr, uint64_t size, uint64_t nodes)
{
	return set_policy(addr, size, MPOL_INTERLEAVE, nodes);
}

int memory_prefer(void *addr, uint64_t size, int node)
{
	return set_policy(addr, size, MPOL_PREFERRED, 1ull << node);
}

int memory_count(void *addr, uint64_t size, uint64_t page,
	uint64_t counts[static NODES_MAX], uint64_t *ret_elsewhere)
{
	char *at = addr, *end = at + size;
	void *pages[BATCH];
	int nodes[BATCH];

	memset(counts, 0, NODES_MAX * sizeof(counts[0]));
	*ret_elsewhere = 0;
	while (at < end) {
		unsigned long n = 0;

		for (; n < BATCH && at < end; at += page)
			pages[n++] = at;
		if (policy_find(n, pages, nodes) < 0)
			return -errno;
		for (unsigned long i = 0; i < n; i++)
			if (nodes[i] >= 0 && nodes[i] < (int)NODES_MAX)
				counts[nodes[i]]++;
			else
				++*ret_elsewhere;
	}
	return 0;
}

int memory_node(const void *addr)
{
	int node;

	return policy_find_one(addr, &node) < 0 ? -errno : node;
}

bool memory_policy_works(void)
{
	uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE), elsewhere;
	uint64_t counts[NODES_MAX];
	void *page = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct nodes nodes;
	bool works;

	if (page == MAP_FAILED)
		return false;
	nodes_read("", &nodes);
	works = memory_bind(page, size, nodes_allowed("", &nodes)) == 0 &&
		madvise(page, size, MADV_POPULATE_WRITE) == 0 &&
		memory_count(page, size, size, counts, &elsewhere) == 0 &&
		!elsewhere;
	munmap(page, size);
	return works;
}
