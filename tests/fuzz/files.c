/* SPDX-License-Identifier: MIT */
/*
 * The properties of an open file: its tensors lie in the data, apart and in
 * order, each is found by its name, each layout is one of ours, and reading
 * through it gives the bytes that lie there.
 */
#include "tests/fuzz/files.h"

#include <errno.h>
#include <string.h>

#include <tarn/error.h>

#include "base/checked.h"
#include "tests/kit/file_bytes.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define NAME "mutant"
#define READ_MAX 4096 /* bytes of a tensor that is read */
#define READ_COUNT 4  /* tensors of a file that are read */

tarn_file *file_judge_open(const uint8_t *bytes, size_t size)
{
	tarn_file *file = NULL;
	int r = bytes_open(bytes, size, NAME, &file);

	if (r == 0)
		return file;
	if (r != -EBADMSG && r != -ENOTSUP)
		bail("refused with %d: %s", r, tarn_error_message());
	if (strncmp(tarn_error_message(), NAME ": ", strlen(NAME) + 2) || file)
		bail("refused without its sentence: %s", tarn_error_message());
	return NULL;
}

/* Of what is in the file, in the order in which it is there. */
static void judge_bytes(
	tarn_file *file, const struct tarn_file_entry *t, const uint8_t *bytes)
{
	enum tarn_order order = t->fortran_order ? TARN_ORDER_F : TARN_ORDER_C;
	uint8_t read[READ_MAX];
	tarn_tensor *tensor;

	if (tarn_file_tensor(file, t->name, &tensor) < 0)
		bail("'%s' cannot be viewed: %s", t->name,
			tarn_error_message());
	if (tarn_tensor_ravel(tensor, order, read, t->nbytes) < 0)
		bail("'%s' cannot be read: %s", t->name, tarn_error_message());
	if (t->nbytes && memcmp(read, bytes + t->file_offset, t->nbytes) != 0)
		bail("'%s' has other bytes", t->name);
	tarn_tensor_unref(tensor);
}

static void judge_layout(
	const struct tarn_file_entry *t, const struct tarn_layout *layout)
{
	if (tarn_layout_check(layout) < 0)
		bail("'%s': %s", t->name, tarn_error_message());
	if (layout->ndim != t->ndim || layout->dtype != t->dtype)
		bail("'%s' has a layout of another kind", t->name);
	for (int i = 0; i < t->ndim; i++)
		if ((uint64_t)layout->shape[i] != t->shape[i])
			bail("'%s' has a layout of another shape", t->name);
	if (t->fortran_order ? !tarn_layout_is_fortran(layout)
			     : !tarn_layout_is_contiguous(layout))
		bail("'%s' has a layout of another order", t->name);
}

void file_judge(tarn_file *file, const uint8_t *bytes, size_t size)
{
	uint64_t end = 0;
	int n_read = 0;

	bytes_walk(file);
	for (size_t i = 0; i < tarn_file_count(file); i++) {
		const struct tarn_file_entry *t = tarn_file_at(file, i);
		struct tarn_layout layout;

		if (t->file_offset < end)
			bail("'%s' overlaps the one before it", t->name);
		end = t->file_offset + t->nbytes;
		if (end > size)
			bail("'%s' ends behind the file", t->name);
		if (tarn_file_entry_layout(t, &layout) < 0)
			continue;
		judge_layout(t, &layout);
		if (t->nbytes <= READ_MAX && n_read++ < READ_COUNT)
			judge_bytes(file, t, bytes);
	}
}

void file_judge_same(tarn_file *a, tarn_file *b)
{
	const char *key[2], *value[2];

	if (tarn_file_count(a) != tarn_file_count(b) ||
		tarn_file_metadata_count(a) != tarn_file_metadata_count(b))
		bail("two readings of one file count differently");
	for (size_t i = 0; i < tarn_file_count(a); i++) {
		const struct tarn_file_entry *x = tarn_file_at(a, i);
		const struct tarn_file_entry *y = tarn_file_at(b, i);

		if (strcmp(x->name, y->name) || x->name_size != y->name_size ||
			x->file_offset != y->file_offset ||
			x->nbytes != y->nbytes || x->dtype != y->dtype ||
			x->ndim != y->ndim ||
			x->fortran_order != y->fortran_order)
			bail("'%s' is read in two ways", x->name);
		for (int k = 0; k < x->ndim; k++)
			if (x->shape[k] != y->shape[k])
				bail("'%s' has two shapes", x->name);
	}
	for (size_t i = 0; i < tarn_file_metadata_count(a); i++) {
		must(tarn_file_metadata_at(a, i, &key[0], &value[0]));
		must(tarn_file_metadata_at(b, i, &key[1], &value[1]));
		if (strcmp(key[0], key[1]) || strcmp(value[0], value[1]))
			bail("metadata '%s' is read in two ways", key[0]);
	}
}
