/* SPDX-License-Identifier: MIT */
/*
 * The memory limits of this process's control groups.
 *
 * Two files locate them. /proc/self/cgroup has the process's place in a
 * hierarchy. /proc/self/mountinfo has the mount point of that hierarchy, and
 * the group that is its root there. Together they give a folder; that folder
 * and each one above it, up to the mount point, may hold limits. v1 has a
 * hierarchy for memory alone, v2 one for all, and a hybrid system has both with
 * the memory controller in either: a folder without the files of its version
 * limits nothing.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/headroom_internal.h"

/* v1 writes the largest number of whole pages for "no limit"; so any value
 * above an exbibyte means none. */
#define UNLIMITED (1ull << 60)

struct hierarchy {
	const char *type;       /* of the file system */
	const char *controller; /* among the super block's options; NULL */
	const char *limits[2];
	const char *usage;
	/* Lines of memory.stat: reclaimable bytes, shared memory. */
	const char *inactive, *shmem;
};

static const struct hierarchy hierarchies[] = {
	{"cgroup", "memory", {"memory.limit_in_bytes", NULL},
		"memory.usage_in_bytes", "total_inactive_file", "total_shmem"},
	{"cgroup2", NULL, {"memory.max", "memory.high"}, "memory.current",
		"inactive_file", "shmem"},
};

struct walk {
	const char *root;
	const struct hierarchy *hierarchy;
	char path[4096];  /* the process's group, from /proc/self/cgroup */
	char mount[4096]; /* where the hierarchy is mounted */
	char top[4096];   /* the group that is the root of that mount */
	bool mounted;
	void (*fn)(void *arg, const struct headroom_limit *limit);
	void *arg;
};

/* Is word one of the comma-separated words of list? */
static bool list_has(const char *list, const char *word)
{
	size_t size = strlen(word);

	for (; list; list = strchr(list, ','), list = list ? list + 1 : NULL)
		if (!strncmp(list, word, size) &&
			(list[size] == ',' || !list[size]))
			return true;
	return false;
}

/* Is path top itself, or below it? Returns the rest of path. */
static const char *below(const char *path, const char *top)
{
	size_t size = strlen(top);

	while (size && top[size - 1] == '/')
		size--;
	if (strncmp(path, top, size) || (path[size] && path[size] != '/'))
		return NULL;
	return path + size;
}

/* "4:cpu,memory:/path" for v1, "0::/path" for v2. */
static bool parse_membership(struct walk *walk, char *line)
{
	char *controllers = strchr(line, ':');
	char *path = controllers ? strchr(controllers + 1, ':') : NULL;
	const char *controller = walk->hierarchy->controller;

	if (!path)
		return false;
	*path++ = '\0';
	controllers++;
	if (controller ? !list_has(controllers, controller) : *controllers)
		return false;
	snprintf(walk->path, sizeof(walk->path), "%s", path);
	return true;
}

/* Undoes the \040 that the kernel writes for blanks. */
static void unescape(char *text)
{
	char *to = text;

	while (*text) {
		unsigned c;

		if (text[0] == '\\' && sscanf(text + 1, "%3o", &c) == 1 &&
			strspn(text + 1, "01234567") >= 3) {
			*to++ = (char)c;
			text += 4;
		} else {
			*to++ = *text++;
		}
	}
	*to = '\0';
}

/*
 * "36 35 98:0 /top /mount opts shared:1 - cgroup name super,opts". Of several
 * mounts, the best is the one that shows the process's group and the most
 * groups above it.
 */
static bool parse_mount(struct walk *walk, char *line)
{
	char *tail = strstr(line, " - "), *words[5], *save = NULL;
	char type[32], super[1024];
	bool shows;

	if (!tail || sscanf(tail, " - %31s %*s %1023s", type, super) != 2 ||
		strcmp(type, walk->hierarchy->type))
		return false;
	if (walk->hierarchy->controller &&
		!list_has(super, walk->hierarchy->controller))
		return false;
	for (int i = 0; i < 5; i++) {
		words[i] = strtok_r(i ? NULL : line, " ", &save);
		if (!words[i])
			return false;
	}
	unescape(words[3]);
	unescape(words[4]);
	shows = below(walk->path, words[3]);
	if (walk->mounted &&
		(!shows || (below(walk->path, walk->top) &&
				   strlen(words[3]) >= strlen(walk->top))))
		return false;
	snprintf(walk->top, sizeof(walk->top), "%s", words[3]);
	snprintf(walk->mount, sizeof(walk->mount), "%s", words[4]);
	walk->mounted = true;
	return true;
}

/* Passes each line of a file below root to parse; returns whether parse
 * accepted one. */
static bool parse_lines(struct walk *walk, const char *name,
	bool (*parse)(struct walk *walk, char *line))
{
	char path[4096];
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	bool taken = false;
	FILE *file;

	snprintf(path, sizeof(path), "%s%s", walk->root, name);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (getline(&line, &size, file) > 0) {
		line[strcspn(line, "\n")] = '\0';
		taken |= parse(walk, line);
	}
	fclose(file);
	return taken;
}

/* A file that holds one number or "max". */
static bool read_number(const char *dir, const char *name, uint64_t *ret)
{
	char path[8192], text[64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return fd_read_text(path, text, sizeof(text)) > 0 &&
	       sscanf(text, "%" SCNu64, ret) == 1;
}

/* One line of memory.stat; 0 where there is none. */
static uint64_t read_stat(const char *dir, const char *name)
{
	char path[8192], text[16384];
	size_t size = strlen(name);
	uint64_t n;

	snprintf(path, sizeof(path), "%s/memory.stat", dir);
	if (fd_read_text(path, text, sizeof(text)) < 0)
		return 0;
	for (const char *line = text; line && *line;) {
		if (!strncmp(line, name, size) &&
			sscanf(line + size, " %" SCNu64, &n) == 1)
			return n;
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return 0;
}

/* The limits of one group; path is its name for people. */
static void visit(struct walk *walk, const char *dir, const char *path)
{
	const struct hierarchy *h = walk->hierarchy;
	struct headroom_limit limit;
	uint64_t used, inactive;

	for (int i = 0; i < 2 && h->limits[i]; i++) {
		if (!read_number(dir, h->limits[i], &limit.limit) ||
			limit.limit >= UNLIMITED ||
			!read_number(dir, h->usage, &used))
			continue;
		inactive = MIN(used, read_stat(dir, h->inactive));
		limit.used = used;
		limit.shmem = MIN(used, read_stat(dir, h->shmem));
		limit.room = limit.limit - MIN(limit.limit, used - inactive);
		snprintf(limit.name, sizeof(limit.name), "%s of %.400s",
			h->limits[i], *path ? path : "/");
		walk->fn(walk->arg, &limit);
	}
}

/* From the process's group up to the mount point. */
static void climb(struct walk *walk)
{
	const char *rest = below(walk->path, walk->top);
	char dir[8192 + 16];
	size_t mount;

	/* In a namespace the process's group may be outside of the mount. The
	 * mount point is then the nearest group that can be seen. The same
	 * holds if "/.." leads out of the namespace. */
	if (!rest || strstr(rest, "/.."))
		rest = "";
	mount = (size_t)snprintf(
		dir, sizeof(dir), "%.4000s%.4000s", walk->root, walk->mount);
	while (mount && dir[mount - 1] == '/')
		dir[--mount] = '\0';
	snprintf(dir + mount, sizeof(dir) - mount, "%s", rest);
	for (size_t end = strlen(dir); end > mount && dir[end - 1] == '/';)
		dir[--end] = '\0';
	for (;;) {
		char *slash;

		visit(walk, dir, dir + mount);
		if (!dir[mount])
			return;
		slash = strrchr(dir + mount, '/');
		if (!slash)
			return;
		*slash = '\0';
	}
}

int headroom_cgroups(const char *root, const char *process,
	void (*fn)(void *arg, const struct headroom_limit *limit), void *arg)
{
	struct walk *walk = malloc(sizeof(*walk));
	char groups[64];

	if (!walk)
		return tarn_fail(ENOMEM, "no memory to ask for memory limits");
	snprintf(groups, sizeof(groups), "/proc/%s/cgroup", process);
	for (size_t i = 0; i < ARRAY_SIZE(hierarchies); i++) {
		*walk = (struct walk) {.root = root,
			.hierarchy = &hierarchies[i],
			.fn = fn,
			.arg = arg};
		if (parse_lines(walk, groups, parse_membership) &&
			parse_lines(walk, "/proc/self/mountinfo", parse_mount))
			climb(walk);
	}
	free(walk);
	return 0;
}
