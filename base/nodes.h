/* SPDX-License-Identifier: MIT */
/*
 * The NUMA nodes of the machine: which have memory, which have CPUs, which this
 * process may use, and how far apart they are. A set of nodes is a word with a
 * bit for each, so nodes from NODES_MAX on are left out; the kernel numbers
 * those of memory expanders and GPUs last.
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#define NODES_MAX 64u

struct nodes {
	uint64_t online, memory, cpus;
	/* As the firmware states them, 10 for a node itself; 0: not known. */
	uint8_t distance[NODES_MAX][NODES_MAX];
};

/* The ranges of a list of the kernel's, "0-3,8": true, and *at is behind it;
 * false at the end, and where the text is no such list (*at is not at its end
 * then). */
bool node_list_next(const char **at, unsigned *ret_from, unsigned *ret_to);
/* The nodes of such a list; false: it is none. An empty one has none. */
bool node_list_parse(const char *text, uint64_t *ret);

/* Reads "/sys/devices/system/node" below root ("" outside of tests). Where that
 * cannot be read there is one node, number 0, with all memory and CPUs. */
void nodes_read(const char *root, struct nodes *ret);
/* Those whose memory the cpusets of this process allow; all that have memory
 * where that cannot be read. Cpusets change: each call reads it afresh. */
uint64_t nodes_allowed(const char *root, const struct nodes *nodes);

/* Of those nodes the nearest to one, which may be itself; of several the lowest
 * number. -1: there is none. */
int nodes_nearest(const struct nodes *nodes, int from, uint64_t among);
/* "0, 1 and 3"; "none". */
const char *nodes_text(uint64_t set, char buf[static 256]);

/* The node of the CPU that this thread runs on; -1: it is not known. */
int node_here(void);
/* The CPUs of a node, without those that this thread may not use: false, where
 * none is left. */
bool node_cpus(const char *root, int node, cpu_set_t *ret);
/* This thread runs on those CPUs from now on, if it may; it goes on as it is
 * where that is not allowed. */
void node_stay(int node);

/*
 * Bytes of a node's memory that can be had: what is free and what the kernel
 * can drop, less a reserve. page is the size of its pages: of hugetlb pages, of
 * which only the reserve counts, or the machine's own. UINT64_MAX: not known.
 */
uint64_t node_room(const char *root, int node, uint64_t page);
