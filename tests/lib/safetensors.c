/* SPDX-License-Identifier: MIT */
/*
 * Each rule of the safetensors format, with a file that breaks it and the
 * sentence of the error; and files that are unusual but allowed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/kit/file_bytes.h"
#include "tests/kit/tap.h"

#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}"
#define B "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}"

static tarn_file *accepted(const char *header, size_t data, const char *what)
{
	size_t size;
	char *bytes = bytes_safetensors(header, data, &size);
	tarn_file *file = NULL;
	int r = bytes_open(bytes, size, "t.safetensors", &file);

	free(bytes);
	is_int(0, r, "a header is accepted: %s", what);
	if (r < 0)
		diag("%s", tarn_error_message());
	return file;
}

static void accept(const char *header, size_t data, const char *what)
{
	tarn_file_unref(accepted(header, data, what));
}

static void refuse(const char *header, size_t data, const char *sentence)
{
	size_t size;
	char *bytes = bytes_safetensors(header, data, &size);
	tarn_file *file = NULL;
	int r = bytes_open(bytes, size, "t.safetensors", &file);

	free(bytes);
	is_int(-EBADMSG, r, "a header is refused: %.60s", header);
	has_str(sentence, tarn_error_message(),
		"the header is refused because: %s", sentence);
	has_str("t.safetensors: ", tarn_error_message(),
		"the error begins with the file's name");
	tarn_file_unref(file);
}

/* One tensor of these fields. */
static void refuse_tensor(const char *dtype, const char *shape,
	const char *offsets, size_t data, const char *sentence)
{
	char header[512];

	snprintf(header, sizeof(header),
		"{\"w.0\":{\"dtype\":%s,\"shape\":%s,\"data_offsets\":%s}}",
		dtype, shape, offsets);
	refuse(header, data, sentence);
	has_str("tensor 'w.0'", tarn_error_message(),
		"the error names the tensor");
}

static void test_header(void)
{
	refuse("", 0, "at byte 0 of its 0");
	refuse("[]", 0, "at byte 0 of its 2: '{' expected");
	refuse("{" A ",}", 4, "at byte 54 of its 55: a name in quotes");
	refuse("{" A "} x", 4, "only blanks may follow the last '}'");
	refuse("{" A "," A "}", 4, "names 'a' twice");
	refuse("{" A ",\"\\u0061\":[\"F32\",[1],[4,8]]}", 8, "'a' twice");
	refuse("{\"__metadata__\":{},\"__metadata__\":{}}", 0,
		"names '__metadata__' twice");
	refuse("{\"__metadata__\":[\"x\"]}", 0, "__metadata__ is [\"x\"]");
	refuse("{\"__metadata__\":{\"k\":-1}}", 0, "__metadata__ 'k' is -1");
	refuse("{\"a\\u0000b\":[\"F32\",[1],[0,4]]}", 4, "\\u0000");
	accept(" \t\r\n{" A "}  ", 4, "blanks on both sides");
	accept("{\"__metadata__\":null," A "}", 4, "metadata that is null");
}

static void test_entries(void)
{
	refuse("{\"w\":3}", 0, "tensor 'w': 3 is not an object");
	refuse("{\"w\":[\"F32\",[1]]}", 4, "[\"F32\",[1]] has 2 elements");
	refuse("{\"w\":[\"F32\",[1],[0,4],0]}", 4, "has 4 elements");
	refuse("{\"w\":{\"dtype\":\"U8\",\"shape\":[]}}", 1,
		"tensor 'w': it has no data_offsets");
	refuse("{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"dtype\":\"U8\","
	       "\"data_offsets\":[0,1]}}",
		1, "tensor 'w': it gives its dtype twice");
	refuse("{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],"
	       "\"sh\\u0061pe\":[1]}}",
		1, "tensor 'w': it gives its shape twice");
	refuse("{\"w\":{\"dtype\":{\"U8\":null,\"U8\":null},\"shape\":[1],"
	       "\"data_offsets\":[0,1]}}",
		1, "is none of the format's");
	accept("{\"w\":{\"x\":1,\"dtype\":\"U8\",\"shape\":[1],\"x\":-0,"
	       "\"data_offsets\":[0,1]}}",
		1, "other fields, twice");
	accept("{\"w\":[{\"U8\":null},[1],[0,1]]}", 1, "serde's long forms");
	accept("{\"w\":{\"data_offsets\":[0,1],\"x\":1e300,\"shape\":[1],"
	       "\"dtype\":\"U8\"}}",
		1, "any order of fields");
}

static void test_numbers(void)
{
	refuse_tensor("\"f32\"", "[1]", "[0,4]", 4, "dtype \"f32\" is none");
	refuse_tensor("7", "[1]", "[0,4]", 4, "dtype 7 is none");
	refuse_tensor("\"F32\"", "4", "[0,4]", 4, "shape 4 is not an array");
	refuse_tensor("\"F32\"", "[-1]", "[0,4]", 4, "shape [-1] has");
	refuse_tensor("\"F32\"", "[-0]", "[0,4]", 4, "shape [-0] has");
	refuse_tensor("\"F32\"", "[1.0]", "[0,4]", 4, "shape [1.0] has");
	refuse_tensor("\"F32\"", "[0,18446744073709551616]", "[0,0]", 0,
		"shape [0,18446744073709551616] has");
	refuse_tensor("\"F32\"", "[1,9223372036854775808]", "[0,4]", 4,
		"more than 2^64 bits");
	refuse_tensor("\"F32\"", "[9223372036854775808,4,0]", "[0,0]", 0,
		"more than 2^64 bits");
	refuse_tensor("\"F32\"", "[0,9223372036854775808,1.0]", "[0,0]", 0,
		"has something");
	refuse_tensor("\"F32\"", "[1]", "[0]", 4, "data_offsets [0] is not");
	refuse_tensor("\"F32\"", "[1]", "[0,4,8]", 4, "is not [begin, end]");
	refuse_tensor("\"F32\"", "[1]", "[4,0]", 4,
		"end at 0, before they begin at 4");
	refuse_tensor("\"F4\"", "[3]", "[0,2]", 2, "[3] has 12 bits");
	refuse_tensor("\"F32\"", "[2,3]", "[0,4]", 4,
		"F32 [2,3] has 24 bytes, data_offsets give it 4");
}

/* Sizes of more than 63 bits are read exactly beside a zero. */
static void test_huge(void)
{
	tarn_file *file = accepted("{\"w\":{\"x\":-1.5,\"dtype\":\"F32\","
				   "\"data_offsets\":[0,0],\"shape\":"
				   "[ 0 , 18446744073709551615,\n1]}}",
		0, "a size of 2^64 - 1 beside a zero");
	struct tarn_layout layout;

	if (!file)
		return;
	ok(tarn_file_at(file, 0)->shape[1] == UINT64_MAX,
		"a size of 2^64 - 1 is kept exactly");
	is_int(-ENOTSUP, tarn_file_entry_layout(tarn_file_at(file, 0), &layout),
		"a tensor with a dimension of 2^64 - 1 has no layout");
	has_str("dimension 1 is 18446744073709551615", tarn_error_message(),
		"the error says that a dimension is too large");
	tarn_file_unref(file);
}

static void test_tiling(void)
{
	refuse("{\"a\":[\"U8\",[1],[1,2]]}", 2,
		"'a' begins at byte 1 of the data, the one before it ends at "
		"0: "
		"a gap");
	refuse("{" A ",\"b\":[\"U8\",[1],[5,6]]}", 6, "ends at 4: a gap");
	refuse("{" A ",\"b\":[\"U8\",[2],[3,5]]}", 5, "they overlap");
	refuse("{" A ",\"z\":[\"U8\",[0],[2,2]]}", 4, "they overlap");
	refuse("{" A "}", 3, "need 4 bytes, the file has 3 of them");
	refuse("{" A "}", 6, "after its last tensor, for 2 bytes");
	refuse("{}", 1, "for 1 bytes");
	accept("{\"z\":[\"U8\",[3,0],[4,4]]," A "}", 4, "a tensor of no bytes");
	accept("{" B "," A "}", 8, "tensors in any order");
}

static void test_depth(void)
{
	for (int depth = 127; depth <= 128; depth++) {
		char header[1024];
		int n = sprintf(header, "{\"a\":[\"F32\",[1],[0,4]],"
					"\"b\":{\"dtype\":\"U8\",\"shape\":[0],"
					"\"data_offsets\":[4,4],\"x\":");

		memset(header + n, '[', depth - 2);
		n += depth - 2;
		memset(header + n, ']', depth - 2);
		strcpy(header + n + depth - 2, "}}");
		if (depth == 127)
			accept(header, 4, "127 levels");
		else
			refuse(header, 4, "128 levels deep, at most 127");
	}
}

static void test_listing(void)
{
	tarn_file *file = accepted(
		"{" B
		",\"__metadata__\":{\"k\":\"1\",\"u\":\"\\u00e4\",\"k\":\"2\"},"
		"\"\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":"
		"[8,16]}," A "}",
		16, "three tensors and metadata");
	const char *names[] = {"a", "b", ""}, *key, *value;
	uint64_t offset, size;
	struct tarn_layout layout;

	if (!file)
		return;
	is_str("safetensors", tarn_file_format(file),
		"the file has the format 'safetensors'");
	is_str("t.safetensors", tarn_file_path(file), "the file has its path");
	is_int(3, (int64_t)tarn_file_count(file), "the file has three tensors");
	tarn_file_data_range(file, &offset, &size);
	is_int(16, (int64_t)size, "the file has the size of its data");
	for (size_t i = 0; i < 3; i++) {
		const struct tarn_file_entry *t = tarn_file_at(file, i);

		is_str(names[i], t->name,
			"the tensor is in the order of the bytes: %zu", i);
		ok(tarn_file_find(file, names[i]) == t,
			"the tensor is found by its name: %zu", i);
		is_int((int64_t)(offset + 4 * i), (int64_t)t->file_offset,
			"the tensor has its place in the file: %zu", i);
	}
	ok(!tarn_file_find(file, "c"),
		"a name that does not exist is not found");
	ok(!tarn_file_at(file, 3),
		"a number past the last tensor is not found");
	is_int(0, tarn_file_entry_layout(tarn_file_find(file, ""), &layout),
		"the entry of a BF16 tensor has a layout");
	is_int(TARN_BF16, layout.dtype,
		"the entry of a BF16 tensor has its dtype");
	is_int(2, layout.stride[0],
		"the entry of a BF16 tensor has its stride");
	is_int(2, (int64_t)tarn_file_metadata_count(file),
		"the metadata has two pairs");
	is_int(0, tarn_file_metadata_at(file, 0, &key, &value),
		"the first pair of the metadata is found");
	is_str("k", key, "the first key of the metadata is read");
	is_str("2", value, "its value is the last one given");
	is_int(0, tarn_file_metadata_at(file, 1, &key, &value),
		"the second pair of the metadata is found");
	is_str("\xc3\xa4", value, "escapes in the metadata are decoded");
	is_int(-ERANGE, tarn_file_metadata_at(file, 2, &key, &value),
		"a third pair of the metadata is out of range");
	tarn_file_unref(tarn_file_ref(file));
	tarn_file_unref(file);
}

/* The tensors of one file share a storage, and each begins at its bytes. */
static void test_tensors(void)
{
	tarn_file *file = accepted("{\"a\":[\"U8\",[3],[0,3]],"
				   "\"b\":[\"U16\",[2,2],[3,11]]}",
		11, "a misaligned tensor");
	tarn_tensor *a = NULL, *b = NULL, *none = NULL;
	int64_t index[] = {1, 0}, value = 0;

	is_int(0, tarn_file_tensor(file, "a", &a),
		"a tensor at an aligned place is opened");
	is_int(0, tarn_file_tensor(file, "b", &b),
		"a tensor at a misaligned place is opened");
	is_int(-ENOENT, tarn_file_tensor(file, "nope", &none),
		"a tensor that does not exist is not opened");
	has_str("no tensor 'nope' among its 2", tarn_error_message(),
		"the error contains the expected words");
	ok(tarn_tensor_same_storage(a, b),
		"two tensors of a file share its storage");
	file = tarn_file_unref(file);
	is_int(0, tarn_tensor_get_i64(b, index, &value),
		"an element is read after the file's handle was closed");
	is_int(7 | 8 << 8, value, "b[1, 0] is the bytes 7 and 8");
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
}

static void test_rank(void)
{
	tarn_file *file = accepted("{\"a\":[\"U8\","
				   "[1,1,1,1,1,1,1,1,1,1,1,1,1,1],[0,1]]}",
		1, "fourteen dimensions");
	tarn_tensor *tensor = NULL;

	is_int(14, tarn_file_at(file, 0)->ndim,
		"a tensor of 14 dimensions is listed");
	is_int(-ENOTSUP, tarn_file_tensor(file, "a", &tensor),
		"a tensor of 14 dimensions has no view");
	has_str("'a' has 14 dimensions", tarn_error_message(),
		"the error contains the expected words");
	tarn_file_unref(file);
}

/* What is no regular file is named, and a fifo does not hold anybody. */
static void test_kinds(void)
{
	char path[4200], *bytes;
	tarn_file *file = NULL;
	int pipes[2], fd;
	size_t size;

	is_int(-EISDIR, tarn_file_open(test_tmpdir(), &file),
		"a directory is refused as a file");
	has_str("it is a directory", tarn_error_message(),
		"the error says that it is a directory");
	snprintf(path, sizeof(path), "%s/fifo", test_tmpdir());
	if (mkfifo(path, 0600) < 0)
		bail("mkfifo: %m");
	is_int(-EBADMSG, tarn_file_open(path, &file),
		"a fifo is refused as a file");
	has_str("it is a fifo", tarn_error_message(),
		"the error says that it is a fifo");
	unlink(path);
	is_int(-ENOENT, tarn_file_open(path, &file),
		"a path that does not exist is refused");
	is_int(-EBADMSG, tarn_file_open("/dev/null", &file),
		"a device is refused as a file");
	has_str("it is a character device", tarn_error_message(),
		"the error says that it is a character device");
	is_int(-EINVAL, tarn_file_open("", &file), "an empty path is refused");
	if (pipe2(pipes, O_CLOEXEC) < 0)
		bail("pipe: %m");
	is_int(-EBADMSG, tarn_file_open_fd(pipes[0], "p", &file),
		"the descriptor of a pipe is refused");
	close(pipes[0]);
	close(pipes[1]);
	is_int(-EBADF, tarn_file_open_fd(-1, "p", &file),
		"a descriptor of -1 is refused");

	snprintf(path, sizeof(path), "%s/m.safetensors", test_tmpdir());
	bytes = bytes_safetensors("{" A "}", 4, &size);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		bail("%s: %m", path);
	is_int(-EBADF, tarn_file_open_fd(fd, path, &file),
		"a descriptor for writing only is refused");
	is_int(0, tarn_file_open(path, &file), "a regular file is accepted");
	is_int(O_RDONLY,
		fcntl(tarn_file_fd(file), F_GETFL) & (O_ACCMODE | O_NONBLOCK),
		"the file's descriptor is for reading, and blocking");
	is_int(FD_CLOEXEC, fcntl(tarn_file_fd(file), F_GETFD),
		"the file's descriptor is close-on-exec");
	tarn_file_unref(file);
	unlink(path);
	close(fd);
	free(bytes);
}

/* The length in front may look like another format's first bytes: 640 like a
 * pickle's, 35615 like gzip's. */
static void test_lengths(void)
{
	static const size_t lengths[] = {0x280, 0x480, 0x8b1f};

	for (size_t i = 0; i < 3; i++) {
		char *header = malloc(lengths[i] + 1);

		memset(header, ' ', lengths[i]);
		header[lengths[i]] = '\0';
		memcpy(header, "{" A "}", strlen("{" A "}"));
		accept(header, 4,
			"a header whose length looks like a magic is accepted");
		free(header);
	}
}

/* Text of a file that ends up in a sentence cannot steer a terminal. */
static void test_clean(void)
{
	refuse("{\"\\u001b[31m\\n\\u0085\":3}", 0,
		"tensor '\\x1b[31m\\x0a\\xc2\\x85': 3 is not");
}

int main(void)
{
	test_header();
	test_entries();
	test_numbers();
	test_huge();
	test_tiling();
	test_depth();
	test_listing();
	test_tensors();
	test_rank();
	test_kinds();
	test_lengths();
	test_clean();
	return done(205);
}
