/* SPDX-License-Identifier: MIT */
/*
 * .npy files: every spelling of the header that Python would read, and a
 * sentence for each that it would not, or that we do not take.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/file_bytes.h"
#include "tests/kit/tap.h"

#define HEAD(descr, order, shape)                                              \
	"{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape     \
	", }          \n"

/* A header as the name of a test: one line. */
static const char *line(const char *header)
{
	static char text[72];

	snprintf(text, sizeof(text), "%s", header);
	for (char *p = text; *p; p++)
		if (*p == '\n' || *p == '\t')
			*p = ' ';
	return text;
}

static int open_npy(int major, const char *header, size_t data, tarn_file **ret)
{
	size_t size;
	char *bytes = bytes_npy(major, header, data, &size);
	int r = bytes_open(bytes, size, "/some.where/x.y.npy", ret);

	free(bytes);
	return r;
}

static void refuse(int err, int major, const char *header, size_t data,
	const char *sentence)
{
	tarn_file *file = NULL;

	is_int(-err, open_npy(major, header, data, &file),
		"a header is refused: %s", line(header));
	has_str(sentence, tarn_error_message(),
		"the header is refused because: %s", sentence);
	tarn_file_unref(file);
}

static void accept(int major, const char *header, size_t data, int dtype,
	int ndim, uint64_t first)
{
	tarn_file *file = NULL;
	int r = open_npy(major, header, data, &file);
	const struct tarn_file_entry *t = file ? tarn_file_at(file, 0) : NULL;

	is_int(0, r, "a header is accepted: %s", line(header));
	if (!t) {
		diag("%s", tarn_error_message());
		return;
	}
	is_int(dtype, t->dtype, "the tensor of the file has its dtype");
	is_int(ndim, t->ndim, "the tensor of the file has its dimensions");
	if (ndim)
		is_int((int64_t)first, (int64_t)t->shape[0],
			"the tensor of the file has its first size");
	tarn_file_unref(file);
}

static void test_spellings(void)
{
	accept(1, HEAD("'<f4'", "False", "(3,)"), 12, TARN_F32, 1, 3);
	accept(2, HEAD("'=f8'", "False", "(2, 1)"), 16, TARN_F64, 2, 2);
	accept(3, HEAD("'|u1'", "True", "(2, 3)"), 6, TARN_U8, 2, 2);
	accept(1, HEAD("'|b1'", "False", "()"), 1, TARN_BOOL, 0, 0);
	accept(1, HEAD("'?'", "False", "(0, 9,)"), 0, TARN_BOOL, 2, 0);
	accept(1, HEAD("'<c8'", "False", "(1,)"), 8, TARN_C64, 1, 1);
	accept(1, HEAD("'>i1'", "False", "(1,)"), 1, TARN_I8, 1, 1);
	accept(1, HEAD("'<f2'", "False", "(00,)"), 0, TARN_F16, 1, 0);
	accept(1, HEAD("'<i8'", "False", "(2L,)"), 16, TARN_I64, 1, 2);
	accept(1, "{\"shape\":(1,),\"descr\":\"<u2\",\"fortran_order\":True}",
		2, TARN_U16, 1, 1);
	accept(1,
		" \t{ 'shape' :\n( 1 , 2 , ) , 'descr' : 'i4' , "
		"'fortran_order' : False\n,\n}\n",
		8, TARN_I32, 2, 1);
	accept(1, HEAD("'<u8'", "False", "(1,)"), 100, TARN_U64, 1, 1);
	accept(1, HEAD("'<u4'", "False", "(0, 18446744073709551615)"), 0,
		TARN_U32, 2, 0);
}

static void test_dtypes(void)
{
	static const struct {
		const char *descr, *sentence;
	} none[] = {
		{"'>f4'", "'>f4' is big-endian; save it as '<f4'"},
		{"'|O'", "'|O' is Python objects"},
		{"'|S3'", "'|S3' is byte strings"},
		{"'<U3'", "'<U3' is strings"},
		{"'|V2'", "bfloat16"},
		{"'<M8[ns]'", "is dates"},
		{"'<m8[s]'", "is time spans"},
		{"'<f16'", "a long double"},
		{"'<c16'", "complex128"},
		{"'>c16'", "complex128"},
		{"'<c32'", "a complex long double"},
		{"[('a', '<f4')]", "[('a', '<f4')], 'fortran_order'"},
		{"('<f4', (2,))", "is structured"},
	};
	static const char *const bad[] = {"''", "'<'", "'<f3'", "'<i'", "'x4'",
		"'<u44444444444'", "'<f4x'"};
	char header[256], sentence[64];

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		snprintf(header, sizeof(header), HEAD("%s", "False", "(1,)"),
			none[i].descr);
		refuse(ENOTSUP, 1, header, 64, none[i].sentence);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(header, sizeof(header), HEAD("%s", "False", "(1,)"),
			bad[i]);
		snprintf(
			sentence, sizeof(sentence), "dtype %s is none", bad[i]);
		refuse(EBADMSG, 1, header, 64, sentence);
	}
}

static void test_grammar(void)
{
	refuse(EBADMSG, 1, "", 0, "its end at its byte 0, where '{'");
	refuse(EBADMSG, 1, "{", 0, "where a key in quotes or '}'");
	refuse(EBADMSG, 1, "{}", 0, "the header has no descr");
	refuse(EBADMSG, 1, "{'descr': '<f4', 'shape': ()}", 4,
		"the header has no fortran_order");
	refuse(EBADMSG, 1, "{'descr': '<f4', 'more': 1}", 4, "the key 'more'");
	refuse(EBADMSG, 1, "{'shape': (), 'shape': ()}", 4, "shape twice");
	refuse(EBADMSG, 1, "{'shape' ()}", 4, "where ':' should be");
	refuse(EBADMSG, 1, "{'shape': () 'descr': 'u1'}", 4, "',' or '}'");
	refuse(EBADMSG, 1, "{,'shape': ()}", 4, "a key in quotes");
	refuse(EBADMSG, 1, "{'shape", 4, "a key in quotes");
	refuse(EBADMSG, 1, "{'descr': 3}", 4, "a dtype like '<f4'");
	refuse(EBADMSG, 1, "{'descr': '\\x3cf4'}", 4, "a dtype like '<f4'");
	refuse(EBADMSG, 1, HEAD("'<f4'", "0", "(1,)"), 4, "True or False");
	refuse(EBADMSG, 1, HEAD("'<f4'", "False", "1"), 4, "a tuple of sizes");
	refuse(EBADMSG, 1, HEAD("'<f4'", "False", "(1)"), 4,
		"shape (1) is no tuple; Python writes (1,)");
	refuse(EBADMSG, 1, HEAD("'<f4'", "False", "(,)"), 4, "from 0 up");
	refuse(EBADMSG, 1, HEAD("'<f4'", "False", "(1,,)"), 4, "from 0 up");
	refuse(EBADMSG, 1, HEAD("'<f4'", "False", "(-1,)"), 4, "from 0 up");
	refuse(EBADMSG, 1, HEAD("'<f4'", "False", "(01,)"), 4, "from 0 up");
	refuse(EBADMSG, 1, HEAD("'<f4'", "False", "(1.0,)"), 4, "',' or ')'");
	refuse(EBADMSG, 3, HEAD("'<f4'", "False", "(1L,)"), 4, "',' or ')'");
	refuse(EBADMSG, 1, HEAD("'<f4'", "False", "(18446744073709551616,)"), 4,
		"at most 64 bits");
	refuse(EBADMSG, 1, HEAD("'<f4'", "False", "(1,)") "x", 4,
		"where nothing more should be");
}

static void test_sizes(void)
{
	char *header = malloc(10002);
	tarn_file *file = NULL;

	refuse(EBADMSG, 1, HEAD("'<f4'", "False", "(3, 5)"), 59,
		"not fully written: 1 of its 60 bytes of data are missing");
	refuse(EBADMSG, 1, HEAD("'<f4'", "False", "(4294967296, 4294967296)"),
		8, "more than 2^64 bytes");
	refuse(EBADMSG, 1, HEAD("'<f8'", "False", "(2305843009213693952,)"), 8,
		"more than 2^64 bytes");
	refuse(EBADMSG, 4, "{}", 0, "version 4.0 of .npy is unknown");
	refuse(EBADMSG, 0, "{}", 0, "version 0.0 of .npy is unknown");
	memset(header, ' ', 10001);
	memcpy(header, "{'descr': 'u1', 'fortran_order': False, 'shape': ()}",
		52);
	header[10000] = '\0';
	accept(2, header, 1, TARN_U8, 0, 0);
	strcpy(header + 10000, " ");
	refuse(EBADMSG, 2, header, 1, "the header has 10001 bytes");
	free(header);
	is_int(-EBADMSG, bytes_open("\x93NUMPY\1\0\4\0{}", 12, "x", &file),
		"a file with half a header is refused");
	has_str("2 of the 4 bytes of its header are missing",
		tarn_error_message(),
		"the error says how many bytes of the header are missing");
	is_int(-EBADMSG, bytes_open("\x93NUMPY\2\0\4\0", 10, "x", &file),
		"a file with half a header length is refused");
	has_str("10 bytes and ends before its header", tarn_error_message(),
		"the error contains '10 bytes and ends before its header'");
	is_int(-EBADMSG, bytes_open("\x93NUMPY", 6, "x", &file),
		"a file of only the magic is refused");
}

static void test_tensor(void)
{
	tarn_file *file = NULL;
	tarn_tensor *tensor = NULL;
	int64_t index[] = {1, 2}, value = 0;
	struct tarn_layout layout;
	uint64_t offset, size;

	is_int(0, open_npy(1, HEAD("'|u1'", "True", "(2, 3)"), 9, &file),
		"a file in Fortran order is accepted");
	is_str("npy", tarn_file_format(file),
		"a .npy file has the format 'npy'");
	is_int(0, (int64_t)tarn_file_metadata_count(file),
		"a .npy file has no metadata");
	tarn_file_data_range(file, &offset, &size);
	is_int(6, (int64_t)size,
		"bytes after the array are not part of the data");
	ok(tarn_file_find(file, "x.y") == tarn_file_at(file, 0),
		"the tensor is named as the file without its suffix");
	is_int(0, tarn_file_entry_layout(tarn_file_at(file, 0), &layout),
		"the entry of a .npy file has a layout");
	is_int(1, layout.stride[0],
		"the first dimension of a Fortran array has stride 1");
	is_int(2, layout.stride[1],
		"the second dimension of a Fortran array has its stride");
	is_int(0, tarn_file_tensor(file, "x.y", &tensor),
		"the tensor of a .npy file is opened");
	is_int(0, tarn_tensor_get_i64(tensor, index, &value),
		"an element of a .npy file is read");
	is_int(5, value, "x.y[1, 2] is the last byte");
	tarn_tensor_unref(tensor);
	tarn_file_unref(file);
}

int main(void)
{
	test_spellings();
	test_dtypes();
	test_grammar();
	test_sizes();
	test_tensor();
	return done(168);
}
