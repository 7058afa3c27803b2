/* SPDX-License-Identifier: MIT */
/*
 * The verdicts of the reference reader of safetensors on 61 small files. tarn
 * must agree with each, except that it refuses a header that names a tensor
 * twice.
 *
 * The files are those of $TARN_TEST_CASES, with a verdicts.tsv among them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/file.h>

#include "tests/kit/tap.h"

static void check_case(const char *folder, const char *name, bool accepted)
{
	const bool twice = strstr(name, "dup_tensor");
	char path[4096];
	tarn_file *file = NULL;
	int r;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	r = tarn_file_open(path, &file);
	if (twice) {
		is_int(-EBADMSG, r,
			"%s: a header with a duplicate name is refused", name);
		has_str("names 'a' twice", tarn_error_message(),
			"%s: the error says that a name is duplicate", name);
	} else if (accepted) {
		is_int(0, r,
			"%s: a file that the reference accepts is accepted",
			name);
		if (r < 0)
			diag("%s", tarn_error_message());
	} else {
		is_int(-EBADMSG, r,
			"%s: a file that the reference refuses is refused",
			name);
		has_str(name, tarn_error_message(),
			"%s: the error has the name of the file", name);
	}
	tarn_file_unref(file);
}

int main(void)
{
	const char *folder = getenv("TARN_TEST_CASES");
	char line[256], name[200], verdict[16];
	int n = 0;
	FILE *f;

	if (!folder)
		folder = "../shared/safetensors-cases";
	snprintf(line, sizeof(line), "%s/verdicts.tsv", folder);
	f = fopen(line, "r");
	if (!f)
		skip_all("no %s; TARN_TEST_CASES tells where it is", line);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%199s %15s", name, verdict) != 2)
			bail("verdicts.tsv: %s", line);
		check_case(folder, name, !strcmp(verdict, "ACCEPT"));
		n++;
	}
	fclose(f);
	is_int(61, n, "all 61 cases of the reference were found");
	return done(100);
}
