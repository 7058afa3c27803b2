/* SPDX-License-Identifier: MIT */
/* Small texts of /proc and /sys, of the machine or of one that is made up. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fd.h"
#include "cli/doctor/doctor.h"

#define PATH_SIZE 4096

ssize_t machine_read(const struct machine *machine, char *buf, size_t size,
	const char *fmt, ...)
{
	char name[PATH_SIZE / 2], path[PATH_SIZE];
	va_list ap;
	ssize_t n;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	snprintf(path, sizeof(path), "%s%s", machine->root, name);
	n = fd_read_text(path, buf, size);
	if (n > 0 && buf[n - 1] == '\n')
		buf[--n] = '\0';
	return n;
}

/* What is behind them; NULL: the line does not have them. */
static const char *find_words(const char *line, const char *words)
{
	const char *at;

	if (*words == '^')
		return strncmp(line, words + 1, strlen(words + 1)) == 0
			       ? line + strlen(words + 1)
			       : NULL;
	at = strstr(line, words);
	return at ? at + strlen(words) : NULL;
}

int machine_line(const struct machine *machine, const char *path,
	const char *words, char *buf, size_t size)
{
	_cleanup_free_ char *line = NULL;
	char full[PATH_SIZE];
	size_t space = 0;
	int r = -ENODATA;
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", machine->root, path);
	file = fopen(full, "re");
	if (!file)
		return -errno;
	while (r < 0 && getline(&line, &space, file) > 0) {
		const char *at = find_words(line, words);

		if (!at)
			continue;
		at += strspn(at, " \t");
		snprintf(buf, size, "%.*s", (int)strcspn(at, "\n"), at);
		r = 0;
	}
	fclose(file);
	return r;
}

int machine_process_line(const struct machine *machine, const char *file,
	const char *words, char *buf, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%s/%s", machine->process, file);
	return machine_line(machine, path, words, buf, size);
}

const char *machine_whose(const struct machine *machine)
{
	return strcmp(machine->process, "self") ? " (of tarnd)" : "";
}

int machine_kib(const struct machine *machine, const char *path,
	const char *words, uint64_t *ret)
{
	char text[64];
	uint64_t kib;
	int r = machine_line(machine, path, words, text, sizeof(text));

	if (r < 0)
		return r;
	return sscanf(text, "%" SCNu64 " kB", &kib) != 1 ||
			       mul_u64(kib, 1024, ret)
		       ? -ENODATA
		       : 0;
}

int machine_limit(
	const struct machine *machine, const char *words, uint64_t *ret)
{
	char text[128], hard[32];
	int r = machine_process_line(
		machine, "limits", words, text, sizeof(text));

	if (r < 0)
		return r;
	if (sscanf(text, "%*s %31s", hard) != 1)
		return -ENODATA;
	if (strcmp(hard, "unlimited") == 0) {
		*ret = UINT64_MAX;
		return 0;
	}
	return sscanf(hard, "%" SCNu64, ret) == 1 ? 0 : -ENODATA;
}

int list_next(const char *list, int after)
{
	char *end;

	for (; *list; list = *end ? end + 1 : end) {
		long from = strtol(list, &end, 10), to = from;

		if (end == list)
			return -1;
		if (*end == '-')
			to = strtol(end + 1, &end, 10);
		if (to > after)
			return (int)MAX(from, after + 1L);
	}
	return -1;
}
