// SPDX-License-Identifier: MIT
/*
 * Converts a run from standard input to standard output, for
 * tests/lib/convert_numpy.py. usage: convert_tool SRC DST cut|even [SCALE BIAS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/number/convert.h"

#define MAX_BYTES (8 << 20)

int main(int argc, char **argv)
{
	static char in[MAX_BYTES], out[MAX_BYTES];
	double scale = argc > 5 ? strtod(argv[4], NULL) : 1;
	double bias = argc > 5 ? strtod(argv[5], NULL) : 0;
	enum tarn_dtype src, dst;
	struct convert c;
	size_t n;

	if (argc < 4 || tarn_dtype_from_name(argv[1], &src) < 0 ||
		tarn_dtype_from_name(argv[2], &dst) < 0 ||
		convert_plan(&c, dst, src,
			strcmp(argv[3], "even") ? TARN_ROUND_TRUNCATE
						: TARN_ROUND_EVEN,
			argc > 5 ? &scale : NULL,
			argc > 5 ? &bias : NULL) < 0) {
		fprintf(stderr, "convert_tool: %s\n", tarn_error_message());
		return 1;
	}
	n = fread(in, 1, sizeof(in), stdin) * 8 / (size_t)tarn_dtype_bits(src);
	if (c.plain || n * (size_t)tarn_dtype_bits(dst) / 8 > sizeof(out))
		return 1;
	convert_run(&c, out, in, n, 0, 0);
	fwrite(out, 1, n * (size_t)tarn_dtype_bits(dst) / 8, stdout);
	return fflush(stdout) ? 1 : 0;
}
