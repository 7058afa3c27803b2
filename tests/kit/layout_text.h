/* SPDX-License-Identifier: MIT */
/* Layouts in tests: made from text, and printed with all their strides. */
#pragma once

#include <inttypes.h>
#include <stdio.h>

#include <tarn/layout.h>

#include "tests/kit/tap.h"

static inline struct tarn_layout layout_from(const char *spec)
{
	struct tarn_layout l;

	if (tarn_layout_parse(spec, &l) < 0)
		bail("%s: %s", spec, tarn_error_message());
	return l;
}

/* "[2,3]:(3,1)+0"; unlike tarn_layout_format it never leaves strides out. */
static inline const char *layout_full(const struct tarn_layout *l)
{
	static char buf[700];
	FILE *f = fmemopen(buf, sizeof(buf), "w");

	fputc('[', f);
	for (int i = 0; i < l->ndim; i++)
		fprintf(f, "%s%" PRId64, i ? "," : "", l->shape[i]);
	fputs("]:(", f);
	for (int i = 0; i < l->ndim; i++)
		fprintf(f, "%s%" PRId64, i ? "," : "", l->stride[i]);
	fprintf(f, ")%+" PRId64, l->offset);
	fclose(f);
	return buf;
}
