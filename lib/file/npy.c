/* SPDX-License-Identifier: MIT */
/*
 * .npy: magic, version, length of the header, the header (npy_header.c), one
 * array. Bytes after the array are ignored, as numpy ignores them; too few are
 * an error.
 *
 * Source: numpy/lib/_format_impl.py.
 */
#include "lib/file/npy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/file/file.h"

/* numpy's own limit for untrusted files. */
#define HEADER_MAX 10000

/* Kind and size of a numpy dtype; for dtype 0 also its name for people. */
static const struct {
	char kind;
	int size; /* -1: any */
	int dtype;
	const char *what;
} types[] = {
	{'b', 1, TARN_BOOL, NULL},
	{'?', 0, TARN_BOOL, NULL},
	{'u', 1, TARN_U8, NULL},
	{'u', 2, TARN_U16, NULL},
	{'u', 4, TARN_U32, NULL},
	{'u', 8, TARN_U64, NULL},
	{'i', 1, TARN_I8, NULL},
	{'i', 2, TARN_I16, NULL},
	{'i', 4, TARN_I32, NULL},
	{'i', 8, TARN_I64, NULL},
	{'f', 2, TARN_F16, NULL},
	{'f', 4, TARN_F32, NULL},
	{'f', 8, TARN_F64, NULL},
	{'c', 8, TARN_C64, NULL},
	{'c', 16, 0, "complex128; save it as complex64"},
	{'c', 24, 0, "a complex long double; save it as complex64"},
	{'c', 32, 0, "a complex long double; save it as complex64"},
	{'f', 12, 0, "a long double; save it as float64"},
	{'f', 16, 0, "a long double; save it as float64"},
	{'O', -1, 0, "Python objects, which are pickled"},
	{'S', -1, 0, "byte strings"},
	{'a', -1, 0, "byte strings"},
	{'U', -1, 0, "strings"},
	{'M', -1, 0, "dates; save them as int64"},
	{'m', -1, 0, "time spans; save them as int64"},
	{'V', -1, 0,
		"raw bytes (bfloat16 and float8 are saved like this); "
		"save the array as .safetensors, or viewed as uint8"},
};

/* The digits after the kind; -1 for anything else. */
static int descr_size(const char *text, size_t size)
{
	int n = 0;

	if (size > 6)
		return -1;
	for (size_t i = 0; i < size; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		n = n * 10 + (text[i] - '0');
	}
	return n;
}

int npy_dtype(const char *descr, size_t size, int *ret)
{
	char order = '|', shown[FILE_TEXT_MAX];
	const char *p = descr;
	size_t left = size;
	int bytes;

	file_clean(descr, size, shown);
	if (left && memchr("<>=|", *p, 4)) {
		order = *p++;
		left--;
	}
	if (!left)
		return tarn_fail(
			EBADMSG, "dtype '%s' is none that numpy writes", shown);
	bytes = descr_size(p + 1, left - 1);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (types[i].kind != *p ||
			(types[i].size >= 0 && types[i].size != bytes))
			continue;
		if (!types[i].dtype)
			return tarn_fail(ENOTSUP, "dtype '%s' is %s", shown,
				types[i].what);
		if (order == '>' && bytes > 1)
			return tarn_fail(ENOTSUP,
				"dtype '%s' is big-endian; "
				"save it as '<%.*s'",
				shown, (int)left, p);
		*ret = types[i].dtype;
		return 0;
	}
	return tarn_fail(
		EBADMSG, "dtype '%s' is none that numpy writes", shown);
}

/* Some bytes of a file that is one array, or of one that holds it. */
static int read_some(struct tarn_file *file, const struct npy_place *place,
	void *buf, size_t size, uint64_t offset)
{
	return place->part
		       ? file_read_at(file, buf, size, place->offset + offset)
		       : file_read(file, buf, size, offset);
}

/* Where the header is. */
static int read_preamble(struct tarn_file *file, const struct npy_place *place,
	unsigned *ret_major, uint64_t *ret_offset, uint64_t *ret_size)
{
	unsigned char b[12] = {0};
	size_t n = MIN(sizeof(b), place->size);
	uint64_t size, offset;
	int r = read_some(file, place, b, n, 0);

	if (r < 0)
		return r;
	if (n >= 8 && (b[6] < 1 || b[6] > 3 || b[7] != 0))
		return tarn_fail(EBADMSG,
			"version %u.%u of .npy is unknown; "
			"there are 1.0, 2.0 and 3.0",
			b[6], b[7]);
	offset = b[6] == 1 ? 10 : 12;
	if (place->size < offset)
		return tarn_fail(EBADMSG,
			"the file has %" PRIu64 " bytes and "
			"ends before its header",
			place->size);
	size = b[8] | (uint64_t)b[9] << 8;
	if (b[6] > 1)
		size |= (uint64_t)b[10] << 16 | (uint64_t)b[11] << 24;
	if (size > HEADER_MAX)
		return tarn_fail(EBADMSG,
			"the header has %" PRIu64 " bytes, "
			"more than the %d that numpy reads",
			size, HEADER_MAX);
	if (size > place->size - offset)
		return tarn_fail(EBADMSG,
			"the file seems not fully written: "
			"%" PRIu64 " of the %" PRIu64 " bytes of its header "
			"are missing",
			size - (place->size - offset), size);
	*ret_major = b[6];
	*ret_offset = offset;
	*ret_size = size;
	return 0;
}

static int count_bytes(const struct npy_header *header, uint64_t *ret)
{
	uint64_t bytes = 1;
	bool over = false;

	for (int i = 0; i < header->ndim && !over; i++)
		over = mul_u64(bytes, header->shape[i], &bytes);
	if (over || mul_u64(bytes, (uint64_t)tarn_dtype_bits(header->dtype) / 8,
			    &bytes))
		return tarn_fail(EBADMSG,
			"the shape of %d dimensions has more "
			"than 2^64 bytes",
			header->ndim);
	*ret = bytes;
	return 0;
}

int npy_array(struct tarn_file *file, const struct npy_place *place,
	struct tarn_file_entry *ret)
{
	struct npy_header header = {0};
	uint64_t offset = 0, size = 0, bytes = 0, left;
	char text[HEADER_MAX];
	unsigned major = 0;
	int r = read_preamble(file, place, &major, &offset, &size);

	if (r >= 0)
		r = read_some(file, place, text, size, offset);
	if (r >= 0)
		r = npy_header_parse(
			text, size, major < 3, &file->arena, &header);
	if (r >= 0)
		r = count_bytes(&header, &bytes);
	if (r < 0)
		return r;
	left = place->size - offset - size;
	if (bytes > left)
		return tarn_fail(EBADMSG,
			"the file seems not fully written: "
			"%" PRIu64 " of its %" PRIu64 " bytes of data are "
			"missing",
			bytes - left, bytes);
	ret->file_offset = place->offset + offset + size;
	ret->nbytes = bytes;
	ret->dtype = header.dtype;
	ret->ndim = header.ndim;
	ret->shape = header.shape;
	ret->fortran_order = header.fortran_order;
	return 0;
}

int npy_read(struct tarn_file *file)
{
	struct npy_place place = {.size = file->size};
	struct tarn_file_entry array = {0}, *tensor;
	int r = npy_array(file, &place, &array);

	if (r < 0)
		return r;
	tensor = file_add_named(file);
	if (!tensor)
		return file_no_memory("a tensor");
	array.name = tensor->name;
	array.name_size = tensor->name_size;
	*tensor = array;
	file->format = "npy";
	file->data_offset = array.file_offset;
	file->data_size = array.nbytes;
	return file_index(file);
}
