// SPDX-License-Identifier: MIT
/*
 * Dtype names: all 22 read back as themselves, numpy's and PyTorch's aliases
 * mean what they mean there, and the dangerous neighbours ("f4" and "F4",
 * "u8" and "U8", big-endian) are not mixed up.
 */
#include "tests/kit/tap.h"

#include <errno.h>

#include <tarn/dtype.h>

static void named(int wanted, const char *name)
{
	enum tarn_dtype dtype = TARN_DTYPE_NONE;

	if (tarn_dtype_from_name(name, &dtype) < 0)
		diag("%s", tarn_error_message());
	is_int(wanted, dtype, "\"%s\" is read as %s", name,
		tarn_dtype_name(wanted));
}

static void refused(const char *name, const char *why)
{
	enum tarn_dtype dtype = TARN_DTYPE_NONE;

	is_int(-EINVAL, tarn_dtype_from_name(name, &dtype),
		"\"%s\" is refused as a dtype", name);
	has_str(why, tarn_error_message(), "the error names the reason");
	is_int(TARN_DTYPE_NONE, dtype,
		"a refused name does not change the output");
}

int main(void)
{
	for (int i = 1; i <= TARN_DTYPE_MAX; i++) {
		int bits = tarn_dtype_bits(i);

		named(i, tarn_dtype_name(i));
		is_int(0, bits * tarn_dtype_pack(i) % 8,
			"a pack of %s has whole bytes", tarn_dtype_name(i));
	}
	named(TARN_F32, "f4");
	named(TARN_F32, "<f4");
	named(TARN_F32, "float32");
	named(TARN_F32, "torch.float32");
	named(TARN_F4, "F4");
	named(TARN_U64, "u8");
	named(TARN_U8, "U8");
	named(TARN_U8, "|u1");
	named(TARN_BOOL, "|b1");
	named(TARN_BF16, "bfloat16");
	named(TARN_F8_E4M3, "float8_e4m3fn");
	named(TARN_C64, "<c8");
	refused(">f4", "big-endian");
	refused("<bfloat16", "<bfloat16");
	refused("float", "\"float\"");
	refused("", "\"\"");
	is_int(0, tarn_dtype_bits(0), "no dtype has no bits");
	is_int(0, tarn_dtype_bits(23), "a dtype past the last has no bits");
	ok(!tarn_dtype_name(-1), "dtype -1 has no name");
	is_int(2, tarn_dtype_pack(TARN_F4), "a byte packs two elements of F4");
	is_int(4, tarn_dtype_pack(TARN_F6_E2M3),
		"three bytes pack four elements of F6");
	return done(73);
}
