// SPDX-License-Identifier: MIT
/*
 * Files of tokens, found by their names and by what lies beside them:
 *
 *	x.bin and x.idx      Megatron's, under either name or as x
 *	x.ds and x.ds.index  datatrove's
 *	x.npy, FILE:TENSOR   an array of integers with one dimension
 *	x.tar                a shard of records (shards.c), all or none
 *	anything else        tokens alone, whose size the caller gives
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/file.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "lib/data/source.h"
#include "lib/tensor/tensor.h"

#define MAGIC_NPY "\x93NUMPY"

unsigned data_token_width(enum tarn_dtype dtype)
{
	switch (dtype) {
	case TARN_U8:
	case TARN_I8:
		return 1;
	case TARN_U16:
	case TARN_I16:
		return 2;
	case TARN_U32:
	case TARN_I32:
		return 4;
	case TARN_U64:
	case TARN_I64:
		return 8;
	default:
		return 0;
	}
}

enum tarn_dtype data_token_dtype(unsigned width)
{
	switch (width) {
	case 1:
		return TARN_U8;
	case 2:
		return TARN_U16;
	case 4:
		return TARN_U32;
	case 8:
		return TARN_U64;
	default:
		return TARN_DTYPE_NONE;
	}
}

void data_part_end(struct data_part *part)
{
	tarn_storage_unref(part->storage);
	tarn_storage_unref(part->index.storage);
	free((char *)part->index.name);
	free(part->name);
	*part = (struct data_part) {.n_tokens = 0};
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n > m && strcmp(text + n - m, end) == 0;
}

bool data_is_shard(const char *path)
{
	return ends_with(path, ".tar");
}

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

/* path without its last cut bytes, and end behind it. */
static int beside(const char *path, size_t cut, const char *end, char **ret)
{
	int n = (int)(strlen(path) - cut);

	if (asprintf(ret, "%.*s%s", n, path, end) >= 0)
		return 0;
	*ret = NULL;
	return tarn_fail_constant(ENOMEM, "data: no memory for a path");
}

/* The bytes of a file, as they are now: when it has changed, reads fail. */
static int open_bytes(const char *path, tarn_storage **ret)
{
	/* A fifo without a writer would block. */
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct file_identity identity;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return tarn_fail(
			errno, "%.300s: %s", path, tarn_errno_text(errno));
	if (!S_ISREG(st.st_mode))
		return tarn_fail(S_ISDIR(st.st_mode) ? EISDIR : EBADMSG,
			"%.300s: tokens are read from regular files", path);
	r = identity_of(fd, &identity);
	if (r >= 0)
		r = tarn_storage_from_fd(fd, 0, identity.size, ret);
	if (r < 0)
		return tarn_fail_prefix(r, "%.300s: ", path);
	storage_file_parsed((*ret)->arg, &identity);
	return 0;
}

/* A file of tokens and that of its index; index is NULL where there is none.
 * Both paths are the caller's. */
static int open_pair(
	const char *tokens, const char *index, struct data_part *part)
{
	int r;

	part->name = strdup(tokens);
	part->index.name = index ? strdup(index) : NULL;
	if (!part->name || (index && !part->index.name))
		return tarn_fail_constant(ENOMEM, "data: no memory for a path");
	r = open_bytes(tokens, &part->storage);
	return r >= 0 && index ? open_bytes(index, &part->index.storage) : r;
}

/* ---- formats -------------------------------------------------------------- */

/* path, of which the last cut bytes are ".bin", ".idx" or nothing. */
static int open_megatron(const char *path, size_t cut, struct data_part *part,
	struct data_tokens *tokens)
{
	_cleanup_free_ char *bin = NULL, *idx = NULL;
	int r = beside(path, cut, ".bin", &bin);

	if (r >= 0)
		r = beside(path, cut, ".idx", &idx);
	if (r >= 0)
		r = open_pair(bin, idx, part);
	if (r >= 0)
		r = data_megatron_read(part, &tokens->dtype);
	if (r >= 0)
		tokens->width = data_token_width(tokens->dtype);
	return r;
}

static int open_datatrove(const char *path, const char *index,
	struct data_part *part, struct data_tokens *tokens)
{
	int r = open_pair(path, index, part);

	if (r >= 0)
		r = data_datatrove_read(part, &tokens->width);
	if (r >= 0)
		tokens->dtype = data_token_dtype(tokens->width);
	return r;
}

static int open_raw(const char *path, const struct data_tokens *raw,
	struct data_part *part, struct data_tokens *tokens)
{
	uint64_t bytes;
	int r;

	*tokens = *raw;
	if (!raw->width)
		return tarn_fail(EINVAL,
			"%.300s: there is no index beside it (.idx, .index) "
			"and no header in it: the bytes of a token, 1 to 4, or "
			"its dtype must be given",
			path);
	r = open_pair(path, NULL, part);
	if (r < 0)
		return r;
	bytes = tarn_storage_size(part->storage);
	if (bytes % raw->width)
		return tarn_fail(EBADMSG,
			"%.300s: its %llu bytes are not whole tokens of %u",
			path, (unsigned long long)bytes, raw->width);
	part->n_tokens = bytes / raw->width;
	part->n_documents = 1;
	return 0;
}

/* The first ':' before which there is a file's path; NULL. */
static const char *file_end(const char *path)
{
	for (const char *p = strchr(path, ':'); p; p = strchr(p + 1, ':')) {
		_cleanup_free_ char *file = strndup(path, (size_t)(p - path));

		if (file && *file && exists(file))
			return p;
	}
	return NULL;
}

/* A tensor of a file: name is NULL for that of a .npy. */
static int open_tensor(const char *path, size_t size, const char *name,
	struct data_part *part, struct data_tokens *tokens)
{
	_cleanup_free_ char *file_path = strndup(path, size);
	_cleanup_tensor_ tarn_tensor *tensor = NULL;
	tarn_file *file = NULL;
	int r;

	if (!file_path)
		return tarn_fail_constant(ENOMEM, "data: no memory for a path");
	r = tarn_file_open(file_path, &file);
	if (r >= 0 && !name && tarn_file_count(file))
		name = tarn_file_at(file, 0)->name;
	if (r >= 0)
		r = tarn_file_tensor(file, name ? name : "", &tensor);
	if (r >= 0)
		r = data_tensor_part(path, tensor, NULL, part, tokens);
	tarn_file_unref(file);
	return r;
}

static bool is_npy(const char *path)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char head[6];

	return fd >= 0 && fd_pread(fd, head, sizeof(head), 0) == 6 &&
	       !memcmp(head, MAGIC_NPY, 6);
}

static int open_part(const char *path, const struct data_tokens *raw,
	struct data_part *part, struct data_tokens *tokens,
	const char **ret_format)
{
	_cleanup_free_ char *idx = NULL, *index = NULL;
	bool bin = ends_with(path, ".bin");
	const char *colon;
	int r = beside(path, bin ? 4 : 0, ".idx", &idx);

	if (r >= 0)
		r = beside(path, 0, ".index", &index);
	if (r < 0)
		return r;
	*ret_format = "megatron";
	if (ends_with(path, ".idx"))
		return open_megatron(path, 4, part, tokens);
	if (data_is_shard(path))
		return tarn_fail(EINVAL,
			"%.300s: tar files make a source of their own", path);
	if (exists(idx) && (bin || !exists(path)))
		return open_megatron(path, bin ? 4 : 0, part, tokens);
	*ret_format = "datatrove";
	if (exists(index))
		return open_datatrove(path, index, part, tokens);
	*ret_format = "tensor";
	colon = exists(path) ? NULL : file_end(path);
	if (colon)
		return open_tensor(
			path, (size_t)(colon - path), colon + 1, part, tokens);
	if (is_npy(path))
		return open_tensor(path, strlen(path), NULL, part, tokens);
	*ret_format = "raw";
	return exists(path) ? open_raw(path, raw, part, tokens)
			    : tarn_fail(ENOENT, "%.300s: %s", path,
				      tarn_errno_text(ENOENT));
}

int data_open_path(tarn_data_source *source, const char *path,
	const struct data_tokens *raw)
{
	struct data_part part = {.n_tokens = 0};
	struct data_tokens tokens = {.width = 0};
	const char *format;
	int r = open_part(path, raw, &part, &tokens, &format);

	if (r >= 0)
		return data_add_part(source, &part, &tokens, format);
	data_part_end(&part);
	return r;
}

/* ---- tensors --------------------------------------------------------------- */

static int check_vector(
	const char *name, const char *what, const tarn_tensor *tensor)
{
	const struct tarn_layout *l = tarn_tensor_layout(tensor);

	if (l->ndim != 1 || !tarn_layout_is_contiguous(l))
		return tarn_fail(EINVAL,
			"%.300s: %s are a tensor of one dimension without gaps; "
			"this one has %d dimensions%s",
			name, what, l->ndim,
			l->ndim == 1 ? " and other strides" : "");
	if (!data_token_width(l->dtype))
		return tarn_fail(EINVAL, "%.300s: %s are integers, not %s",
			name, what, tarn_dtype_name(l->dtype));
	if (tensor->storage->on_device)
		return tarn_fail(EINVAL,
			"%.300s: %s are in memory of a device; copy them to "
			"memory first",
			name, what);
	return 0;
}

static uint64_t byte_of(const tarn_tensor *tensor, unsigned width)
{
	return tensor->base + (uint64_t)tensor->layout.offset * width;
}

static int ragged(
	const tarn_tensor *offsets, unsigned width, struct data_part *part)
{
	const struct tarn_layout *l = tarn_tensor_layout(offsets);
	unsigned end_width = data_token_width(l->dtype);
	uint64_t last;
	int r = check_vector(part->name, "offsets", offsets);

	if (r < 0)
		return r;
	if (end_width < 4 || l->shape[0] < 1)
		return tarn_fail(EINVAL,
			"%.300s: offsets are one more than rows, of 4 or 8 "
			"bytes; these are %lld of %u",
			part->name, (long long)l->shape[0], end_width);
	part->index.kind = DATA_ENDS;
	part->index.storage = tarn_storage_ref(offsets->storage);
	part->index.ends_at = byte_of(offsets, end_width);
	part->index.end_width = end_width;
	part->index.lead = true;
	part->n_documents = (uint64_t)l->shape[0] - 1;
	r = data_ends_begin(part);
	if (r < 0)
		return r;
	part->at += part->index.base * width;
	part->n_tokens -= part->index.base;
	r = data_ends_last(part, &last);
	if (r >= 0)
		part->n_tokens = last;
	return r;
}

static int set_part(const char *name, const tarn_tensor *values, unsigned width,
	struct data_part *ret)
{
	ret->name = strdup(name);
	ret->index.name = strdup(name);
	if (!ret->name || !ret->index.name)
		return tarn_fail_constant(ENOMEM, "data: no memory for a name");
	ret->storage = tarn_storage_ref(values->storage);
	ret->at = byte_of(values, width);
	ret->n_tokens = (uint64_t)tarn_tensor_layout(values)->shape[0];
	ret->n_documents = 1;
	return 0;
}

int data_ragged_part(const char *name, const tarn_tensor *values,
	const tarn_tensor *offsets, unsigned width, struct data_part *ret)
{
	int r = set_part(name, values, width, ret);

	if (r >= 0)
		/* The offset counts elements, of which a row has several. */
		ret->at = values->base + (uint64_t)values->layout.offset *
						 (uint64_t)tarn_dtype_bits(
							 values->layout.dtype) /
						 8;
	return r < 0 ? r : ragged(offsets, width, ret);
}

int data_tensor_part(const char *name, const tarn_tensor *values,
	const tarn_tensor *offsets, struct data_part *ret,
	struct data_tokens *ret_tokens)
{
	const struct tarn_layout *l = tarn_tensor_layout(values);
	unsigned width = data_token_width(l->dtype);
	int r = check_vector(name, "tokens", values);

	if (r >= 0)
		r = set_part(name, values, width, ret);
	if (r < 0)
		return r;
	*ret_tokens = (struct data_tokens) {.dtype = l->dtype, .width = width};
	return offsets ? ragged(offsets, width, ret) : 0;
}
