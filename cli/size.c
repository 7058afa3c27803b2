/* SPDX-License-Identifier: MIT */
/* Sizes, as a person reads them. */
#include "cli/size.h"

#include <stdio.h>

const char *size_text(double n, char buf[SIZE_TEXT_MAX])
{
	static const char *const units[] = {
		"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	size_t unit = 0;

	/* From 1023.995 on, two digits behind the point would round up. */
	while (n >= 1023.995 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		n /= 1024;
		unit++;
	}
	snprintf(buf, SIZE_TEXT_MAX, unit ? "%.2f %s" : "%.0f %s", n,
		units[unit]);
	return buf;
}
