/* SPDX-License-Identifier: MIT */
/* Huge pages: those that the kernel makes by itself, and those in reserve. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/shmem_huge.h"
#include "cli/doctor/doctor.h"

#define NODES "/sys/devices/system/node/"
#define RESERVE "/sys/kernel/mm/hugepages"
#define THP "/sys/kernel/mm/transparent_hugepage/shmem_enabled"

/* Of "always [never]", the word that is set. */
static void selected(const char *text, char *buf, size_t size)
{
	const char *at = strchr(text, '[');

	at = at ? at + 1 : text;
	snprintf(buf, size, "%.*s", (int)strcspn(at, "]"), at);
}

static void find_transparent(
	struct findings *findings, const struct machine *machine)
{
	int offered = shmem_huge_pages(machine->root);
	char text[128], word[32];
	struct finding *f;
	bool off;

	if (offered < 0 || machine_read(machine, text, sizeof(text), THP) < 0) {
		found_unknown(findings, "pages", "transparent",
			THP " cannot be read");
		return;
	}
	selected(text, word, sizeof(word));
	off = !strcmp(word, "never") || !strcmp(word, "deny");
	f = found(findings, "pages", "transparent", "shmem_enabled is %s%s",
		word,
		offered && off                   ? ", but on for a size"
		: !offered && machine->collapses ? ", but pools ask for each"
						 : "");
	if (!offered && machine->collapses)
		advise(f, WORTH_COSTS,
			"Tensors that programs create have pages of 4 KiB: "
			"reads all over a large one take longer.",
			"echo advise > " THP);
	else if (!offered)
		advise(f, WORTH_COSTS,
			"Pools have pages of 4 KiB: first loads take longer, "
			"and so do reads all over a large tensor.",
			"echo advise > " THP);
}

/* ---- the reserve --------------------------------------------------------- */

struct reserve {
	const char *key;
	const char *name; /* of the kernel's folder */
	const char *size; /* as tarnd.conf(5) has it */
};

static const struct reserve reserves[] = {
	{"reserved_2M", "hugepages-2048kB", "2m"},
	{"reserved_1G", "hugepages-1048576kB", "1g"},
};

struct count {
	unsigned long free, all;
};

static bool read_count(const struct machine *machine, const char *folder,
	const char *name, const char *file, unsigned long *ret)
{
	char text[32], *end;

	if (machine_read(machine, text, sizeof(text), "%s/%s/%s", folder, name,
		    file) <= 0)
		return false;
	*ret = strtoul(text, &end, 10);
	return end > text;
}

static bool read_counts(const struct machine *machine, const char *folder,
	const char *name, struct count *ret)
{
	return read_count(machine, folder, name, "nr_hugepages", &ret->all) &&
	       read_count(machine, folder, name, "free_hugepages", &ret->free);
}

/* "; node 0: 3 of 4" for each node, where there are several. */
static void append_nodes(
	const struct machine *machine, const char *name, char *buf, size_t size)
{
	char online[128], folder[128];
	size_t at = strlen(buf);
	struct count c;

	if (machine_read(machine, online, sizeof(online), NODES "online") < 0 ||
		list_next(online, list_next(online, -1)) < 0)
		return;
	for (int n = -1; (n = list_next(online, n)) >= 0 && at < size;) {
		snprintf(folder, sizeof(folder), NODES "node%d/hugepages", n);
		if (read_counts(machine, folder, name, &c))
			at += (size_t)snprintf(buf + at, size - at,
				"; node %d: %lu of %lu", n, c.free, c.all);
		else
			at += (size_t)snprintf(
				buf + at, size - at, "; node %d: not known", n);
	}
}

static bool has_folder(const struct machine *machine, const char *name)
{
	char path[4096];
	struct stat st;

	snprintf(path, sizeof(path), "%s" RESERVE "%s%s", machine->root,
		*name ? "/" : "", name);
	return stat(path, &st) == 0;
}

static void find_reserve(struct findings *findings,
	const struct machine *machine, const struct reserve *reserve)
{
	struct finding *f;
	struct count c;

	if (!has_folder(machine, "") ||
		(has_folder(machine, reserve->name) &&
			!read_counts(machine, RESERVE, reserve->name, &c))) {
		found_unknown(findings, "pages", reserve->key,
			RESERVE "/%s cannot be read", reserve->name);
		return;
	}
	if (!has_folder(machine, reserve->name)) {
		found(findings, "pages", reserve->key,
			"this machine has none of that size");
		return;
	}
	if (!c.all) {
		found(findings, "pages", reserve->key,
			"none reserved; only pools with pages = %s take "
			"them",
			reserve->size);
		return;
	}
	f = found(findings, "pages", reserve->key, "%lu of %lu are free",
		c.free, c.all);
	append_nodes(machine, reserve->name, f->value, sizeof(f->value));
	if (!c.free)
		advise(f, WORTH_COSTS,
			"A pool with pages of that size cannot grow.",
			"echo N > " RESERVE "/%s/nr_hugepages", reserve->name);
}

void find_pages(struct findings *findings, const struct machine *machine)
{
	find_transparent(findings, machine);
	for (size_t i = 0; i < ARRAY_SIZE(reserves); i++)
		find_reserve(findings, machine, &reserves[i]);
}
