/* SPDX-License-Identifier: MIT */
/*
 * What sysfs says about NUMA nodes. The daemon and clients read it, so the
 * three system calls that place memory (memory_policy.c) and this take the
 * place of libnuma, which would be one more library for each client.
 */
#include "base/nodes.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fd.h"
#include "base/headroom.h"

#define NODES "/sys/devices/system/node"
#define LIST_MAX 4096 /* of 8,192 CPUs, every second one alone */

/* ---- lists ------------------------------------------------------------- */

static bool number(const char **at, unsigned *ret)
{
	unsigned long n;
	char *end;

	if (!isdigit((unsigned char)**at))
		return false;
	n = strtoul(*at, &end, 10);
	if (end - *at > 6) /* the kernel has no number of seven digits */
		return false;
	*at = end;
	*ret = (unsigned)n;
	return true;
}

bool node_list_next(const char **at, unsigned *ret_from, unsigned *ret_to)
{
	const char *p = *at;
	unsigned from, to;

	if (!number(&p, &from))
		return false;
	to = from;
	if (*p == '-') {
		p++;
		if (!number(&p, &to) || to < from)
			return false;
	}
	if (*p == ',' && isdigit((unsigned char)p[1]))
		p++;
	else if (*p && *p != '\n')
		return false;
	*at = p;
	*ret_from = from;
	*ret_to = to;
	return true;
}

bool node_list_parse(const char *text, uint64_t *ret)
{
	unsigned from, to;

	*ret = 0;
	while (isspace((unsigned char)*text))
		text++;
	while (node_list_next(&text, &from, &to))
		for (; from <= to && from < NODES_MAX; from++)
			*ret |= 1ull << from;
	return !*text || *text == '\n';
}

/* ---- the machine ------------------------------------------------------- */

static bool read_set(const char *root, const char *name, uint64_t *ret)
{
	char path[4096], text[LIST_MAX];

	snprintf(path, sizeof(path), "%s" NODES "/%s", root, name);
	return fd_read_text(path, text, sizeof(text)) >= 0 &&
	       node_list_parse(text, ret);
}

/* "10 21 31": of the nodes that are online, in their order. */
static void read_distances(const char *root, int from, struct nodes *nodes)
{
	char path[4096], text[LIST_MAX], *at = text, *end;

	snprintf(path, sizeof(path), "%s" NODES "/node%d/distance", root, from);
	if (fd_read_text(path, text, sizeof(text)) < 0)
		return;
	for (unsigned to = 0; to < NODES_MAX; to++) {
		unsigned long n;

		if (!(nodes->online & 1ull << to))
			continue;
		n = strtoul(at, &end, 10);
		if (end == at)
			return;
		nodes->distance[from][to] = (uint8_t)MIN(n, 255ul);
		at = end;
	}
}

void nodes_read(const char *root, struct nodes *ret)
{
	*ret = (struct nodes) {0};
	if (!read_set(root, "online", &ret->online) ||
		!read_set(root, "has_memory", &ret->memory) ||
		!read_set(root, "has_cpu", &ret->cpus) || !ret->memory) {
		*ret = (struct nodes) {.online = 1, .memory = 1, .cpus = 1};
		return;
	}
	for (int n = 0; n < (int)NODES_MAX; n++)
		if (ret->online & 1ull << n)
			read_distances(root, n, ret);
}

uint64_t nodes_allowed(const char *root, const struct nodes *nodes)
{
	static const char key[] = "Mems_allowed_list:";
	char path[4096], text[16384];
	const char *line;
	uint64_t set;

	snprintf(path, sizeof(path), "%s/proc/self/status", root);
	if (fd_read_text(path, text, sizeof(text)) < 0)
		return nodes->memory;
	line = strstr(text, key);
	if (!line || !node_list_parse(line + strlen(key), &set))
		return nodes->memory;
	return set & nodes->memory;
}

int nodes_nearest(const struct nodes *nodes, int from, uint64_t among)
{
	int best = -1;
	unsigned least = UINT32_MAX;

	for (int n = 0; n < (int)NODES_MAX; n++) {
		unsigned far = n == from ? 0 : 256;

		if (!(among & 1ull << n))
			continue;
		if (n != from && from >= 0 && from < (int)NODES_MAX &&
			nodes->distance[from][n])
			far = nodes->distance[from][n];
		if (far < least) {
			least = far;
			best = n;
		}
	}
	return best;
}

const char *nodes_text(uint64_t set, char buf[static 256])
{
	size_t at = 0;

	snprintf(buf, 256, "none");
	for (int n = 0; n < (int)NODES_MAX; n++) {
		uint64_t rest = n < 63 ? set >> (n + 1) : 0;

		if (!(set & 1ull << n) || at >= 250)
			continue;
		at += (size_t)snprintf(buf + at, 256 - at, "%s%d",
			!at    ? ""
			: rest ? ", "
			       : " and ",
			n);
	}
	return buf;
}

/* ---- threads ----------------------------------------------------------- */

int node_here(void)
{
	unsigned cpu, node;

	return getcpu(&cpu, &node) == 0 && node < NODES_MAX ? (int)node : -1;
}

bool node_cpus(const char *root, int node, cpu_set_t *ret)
{
	char path[4096], text[LIST_MAX];
	const char *at = text;
	unsigned from, to;
	cpu_set_t mine;

	CPU_ZERO(ret);
	snprintf(path, sizeof(path), "%s" NODES "/node%d/cpulist", root, node);
	if (fd_read_text(path, text, sizeof(text)) < 0)
		return false;
	while (node_list_next(&at, &from, &to))
		for (; from <= to && from < CPU_SETSIZE; from++)
			CPU_SET(from, ret);
	if (sched_getaffinity(0, sizeof(mine), &mine) < 0)
		return false;
	CPU_AND(ret, ret, &mine);
	return CPU_COUNT(ret) > 0;
}

void node_stay(int node)
{
	cpu_set_t set;

	if (node >= 0 && node_cpus("", node, &set))
		(void)sched_setaffinity(0, sizeof(set), &set);
}

/* ---- room -------------------------------------------------------------- */

/* "Node 0 MemFree:    123 kB" */
static bool node_line(const char *text, const char *name, uint64_t *ret)
{
	const char *line = strstr(text, name);
	uint64_t kib;

	return line && sscanf(line + strlen(name), " %" SCNu64, &kib) == 1 &&
	       !mul_u64(kib, 1024, ret);
}

static uint64_t reserved_room(const char *root, int node, uint64_t page)
{
	char path[4096], text[64];
	uint64_t bytes;

	snprintf(path, sizeof(path),
		"%s" NODES "/node%d/hugepages/hugepages-%llukB/free_hugepages",
		root, node, (unsigned long long)page / 1024);
	if (fd_read_text(path, text, sizeof(text)) < 0 ||
		mul_u64(strtoull(text, NULL, 10), page, &bytes))
		return UINT64_MAX;
	return bytes;
}

/*
 * What the kernel keeps free for itself: the high watermarks of the node's
 * zones. Where it makes transparent huge pages that is 20 MiB a zone and more,
 * and a process that may take of one node alone is killed before they are
 * touched.
 */
static uint64_t watermarks(const char *root, int node)
{
	char path[4096], head[32], *line = NULL;
	uint64_t sum = 0, pages;
	bool inside = false;
	size_t room = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/proc/zoneinfo", root);
	snprintf(head, sizeof(head), "Node %d,", node);
	f = fopen(path, "re");
	while (f && getline(&line, &room, f) > 0) {
		if (strncmp(line, "Node ", 5) == 0)
			inside = strncmp(line, head, strlen(head)) == 0;
		else if (inside && sscanf(line, " high %" SCNu64, &pages) == 1)
			sum += pages * (uint64_t)sysconf(_SC_PAGESIZE);
	}
	free(line);
	if (f)
		fclose(f);
	return sum;
}

uint64_t node_room(const char *root, int node, uint64_t page)
{
	/* As MemAvailable counts: not all of it can be dropped. */
	static const struct {
		const char *name;
		uint64_t share;
	} parts[] = {{" MemFree:", 1}, {" Active(file):", 2},
		{" Inactive(file):", 2}, {" SReclaimable:", 2}};
	char path[4096], text[8192];
	uint64_t total, sum = 0, part;

	if (page > (uint64_t)sysconf(_SC_PAGESIZE))
		return reserved_room(root, node, page);
	snprintf(path, sizeof(path), "%s" NODES "/node%d/meminfo", root, node);
	if (fd_read_text(path, text, sizeof(text)) < 0 ||
		!node_line(text, " MemTotal:", &total))
		return UINT64_MAX;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (node_line(text, parts[i].name, &part))
			sum += part / parts[i].share;
	part = MIN(HEADROOM_RESERVE, total / 16) + watermarks(root, node);
	return sum - MIN(sum, part);
}
