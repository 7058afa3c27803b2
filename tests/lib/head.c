/* SPDX-License-Identifier: MIT */
/*
 * The heads of files, byte for byte, as safetensors 0.8 and numpy 1.24 write
 * them for the same tensors. And the heads that are refused: duplicate names,
 * names that are not UTF-8, sizes and alignments that readers do not accept.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/file/write_head.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static struct head_tensor tensor(
	const char *name, int dtype, int ndim, const int64_t *shape)
{
	struct head_tensor t = {.name = name};

	if (tarn_layout_contiguous(dtype, ndim, shape, &t.layout) < 0)
		bail("%s", tarn_fail_message());
	return t;
}

#define T(name, dtype, ...)                                                    \
	tensor(name, dtype,                                                    \
		sizeof((int64_t[]) {0, ##__VA_ARGS__}) / sizeof(int64_t) - 1,  \
		(int64_t[]) {0, ##__VA_ARGS__} + 1)

static uint64_t length_of(const struct head *h)
{
	uint64_t n;

	memcpy(&n, h->bytes, sizeof(n));
	return n;
}

static void test_as_the_reference(void)
{
	static const char wanted[] =
		"{\"__metadata__\":{\"k\":\"v\xc3\xa9\\n\\\"/\",\"a\":\"\x7f\"}"
		",\"c\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]}"
		",\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],"
		"\"data_offsets\":[8,32]}"
		",\"e\":{\"dtype\":\"I16\",\"shape\":[0,4],"
		"\"data_offsets\":[32,32]}"
		",\"a\":{\"dtype\":\"U8\",\"shape\":[4],"
		"\"data_offsets\":[32,36]}}    ";
	struct file_pair pairs[] = {
		{"k", "v\xc3\xa9\n\"/"}, {"xxh3:b", "stale"}, {"a", "\x7f"}};
	struct head_tensor t[] = {
		T("b", TARN_F32, 2, 3),
		T("a", TARN_U8, 4),
		T("c", TARN_F64),
		T("e", TARN_I16, 0, 4),
	};
	struct head_options o = {.pairs = pairs, .n_pairs = 3};
	struct head h = {0};

	is_int(0, safetensors_head(t, 4, &o, &h), "a safetensors head is made");
	is_int(sizeof(wanted) - 1, (int64_t)length_of(&h),
		"the head has the length that it begins with");
	is_mem(wanted, h.bytes + 8, sizeof(wanted) - 1,
		"the head is what the reference library writes");
	is_int(8 + sizeof(wanted) - 1, (int64_t)h.size,
		"the head ends where the data begins");
	is_int((int64_t)h.size + 36, (int64_t)h.file_size,
		"the head gives the size of the whole file");
	is_str("c", t[0].name, "a head with metadata sorts the tensors");
	is_int((int64_t)h.size + 8, (int64_t)t[1].offset,
		"each tensor is placed behind the head");
	free(h.bytes);
}

static void test_sums_and_alignment(void)
{
	struct head_tensor t[] = {
		T("x\"y", TARN_F6_E2M3, 3, 4), T("z", TARN_F32, 1)};
	struct head_options o = {.checksums = true, .align = 4096};
	struct head h = {0};

	is_int(0, safetensors_head(t, 2, &o, &h),
		"a head with room for checksums is made");
	is_int(4096, (int64_t)h.size, "the head aligns the data as asked");
	is_int(4096 + 4 + 9, (int64_t)h.file_size,
		"6-bit elements count 6 bits each in the file's size");
	has_str("{\"__metadata__\":{\"xxh3:z\":\"0000000000000000\",\"xxh3:"
		"x\\\"y\":\"0000000000000000\"},\"z\"",
		h.bytes + 8, "the head has the keys of checksums, and zeros");
	is_mem("0000000000000000\"}", h.bytes + t[1].digits, HEAD_DIGITS + 2,
		"the head knows where each checksum's digits are");
	free(h.bytes);

	o = (struct head_options) {0};
	is_int(0, safetensors_head(NULL, 0, &o, &h),
		"a head without tensors is made");
	is_mem("\x08\0\0\0\0\0\0\0{}      ", h.bytes, 16,
		"a head without tensors is an empty object");
	free(h.bytes);
}

static int refuse(struct head_tensor *t, size_t n, struct head_options o)
{
	struct head h = {0};
	int r = safetensors_head(t, n, &o, &h);

	free(h.bytes);
	return r;
}

static void test_refused(void)
{
	struct head_tensor t[] = {T("x", TARN_F32, 1), T("x", TARN_U8, 1)};
	struct head_options o = {0};
	struct file_pair pairs[] = {{"k", "v"}, {"k", "w"}};
	struct head_tensor many[9];

	is_int(-EINVAL, refuse(t, 2, o), "two tensors of one name are refused");
	is_str("two tensors are named 'x'", tarn_fail_message(),
		"the error is the expected sentence");
	t[0].name = "__metadata__";
	is_int(-EINVAL, refuse(t, 1, o),
		"a tensor with the name of the metadata is refused");
	t[0].name = "\xff";
	is_int(-EINVAL, refuse(t, 1, o), "a name that is not UTF-8 is refused");
	has_str("not UTF-8", tarn_fail_message(),
		"the error contains 'not UTF-8'");
	t[0].name = NULL;
	is_int(-EINVAL, refuse(t, 1, o), "a tensor without a name is refused");
	o.pairs = pairs;
	o.n_pairs = 2;
	is_int(-EINVAL, refuse(t + 1, 1, o),
		"two metadata entries of one key are refused");
	pairs[1] = (struct file_pair) {"l", NULL};
	is_int(-EINVAL, refuse(t + 1, 1, o),
		"metadata without a value is refused");
	pairs[1].value = "\xc3";
	is_int(-EINVAL, refuse(t + 1, 1, o),
		"metadata that is not UTF-8 is refused");
	o = (struct head_options) {.align = 1 << 27};
	is_int(-E2BIG, refuse(t + 1, 1, o),
		"an alignment past the longest header is refused");
	has_str("at most 100000000", tarn_fail_message(),
		"the error names the longest header");
	for (int i = 0; i < 9; i++)
		many[i] = T(&"123456789"[i], TARN_U8, INT64_MAX / 8);
	is_int(0, refuse(many, 7, (struct head_options) {0}),
		"a file of 7 times 2^60 bytes is accepted");
	is_int(-EOVERFLOW, refuse(many, 9, (struct head_options) {0}),
		"a file of 2^63 bytes is refused");
	is_int(-ENOTSUP,
		refuse((struct head_tensor[]) {{.name = "f",
			       .layout = {.dtype = TARN_F4}}},
			1, (struct head_options) {0}),
		"a tensor of half a byte is refused");
}

static void npy_is(const char *wanted, int64_t size, struct head_tensor t)
{
	struct head h = {0};

	if (is_int(0, npy_head(&t, 0, &h), "a .npy head is made")) {
		is_int(size, (int64_t)h.size,
			"the .npy head has the expected size");
		is_mem(wanted, h.bytes + 10, strlen(wanted),
			"the .npy head is what numpy writes");
		ok(h.bytes[h.size - 1] == '\n',
			"the .npy head ends with a newline");
	}
	free(h.bytes);
}

static void test_npy(void)
{
	struct head_tensor t = T("x", TARN_F32, 3, 4);
	struct head h = {0};

	npy_is("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   ",
		128, t);
	npy_is("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }   ",
		128, T("x", TARN_U8, 3));
	npy_is("{'descr': '|b1', 'fortran_order': False, 'shape': (), }   ",
		128, T("x", TARN_BOOL));
	must(tarn_layout_fortran(TARN_C64, 2, (int64_t[]) {3, 4}, &t.layout));
	npy_is("{'descr': '<c8', 'fortran_order': True, 'shape': (3, 4), }   ",
		128, t);
	is_int(0, npy_head(&t, 4096, &h),
		"a .npy head with an alignment is made");
	is_int(4096, (int64_t)h.size, "the .npy head is aligned as asked");
	free(h.bytes);
	is_int(-EINVAL, npy_head(&t, 16384, &h),
		"an alignment that numpy does not read is refused");
	is_int(-EINVAL, npy_head(&t, UINT64_C(1) << 46, &h),
		"an alignment beyond memory is refused");
	t = T("x", TARN_BF16, 3);
	is_int(-ENOTSUP, npy_head(&t, 0, &h), "a .npy head of BF16 is refused");
	has_str("numpy has no BF16", tarn_fail_message(),
		"the error says that numpy has no BF16");
}

int main(void)
{
	test_as_the_reference();
	test_sums_and_alignment();
	test_refused();
	test_npy();
	return done(50);
}
