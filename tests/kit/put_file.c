/* SPDX-License-Identifier: MIT */
#include "tests/kit/put_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/kit/tap.h"

void put_file(const char *root, const char *path, const char *fmt, ...)
{
	char full[8192];
	FILE *file;
	va_list ap;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(full, 0700);
		*p = '/';
	}
	file = fopen(full, "w");
	if (!file)
		bail("%s: %m", full);
	va_start(ap, fmt);
	vfprintf(file, fmt, ap);
	va_end(ap);
	if (fclose(file) != 0)
		bail("%s: %m", full);
}
