// SPDX-License-Identifier: MIT
/*
 * Zip archives with tensors: PyTorch's checkpoints, a pickle that tells of
 * records, and numpy's .npz, a .npy file in each record. Their bytes are used
 * where they lie: zip.c knows where. Where some are compressed that is in memory,
 * see inflate.c.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/fail.h"
#include "lib/file/checkpoint.h"
#include "lib/file/file.h"
#include "lib/file/npy.h"
#include "lib/file/zip.h"

/* The bytes before the first tensor are read in pieces of this size. Picked. */
#define PIECE 65536u

static int by_place(const void *a, const void *b)
{
	const struct tarn_file_entry *x = a, *y = b;

	if (x->file_offset != y->file_offset)
		return x->file_offset < y->file_offset ? -1 : 1;
	if (x->nbytes != y->nbytes)
		return x->nbytes < y->nbytes ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* One range that holds all tensors. An empty one may be anywhere. Of what was
 * inflated it is all, as that may be a storage already. */
static void find_range(struct tarn_file *file)
{
	uint64_t begin = UINT64_MAX, end = 0;

	if (file->is_inflated) {
		file->data_size = file->size;
		return;
	}
	for (size_t i = 0; i < file->count; i++) {
		const struct tarn_file_entry *t = &file->tensors[i];

		begin = MIN(begin, t->file_offset);
		end = MAX(end, t->file_offset + t->nbytes);
	}
	file->data_offset = file->count ? begin : 0;
	file->data_size = file->count ? end - begin : 0;
}

/* What comes before the tensors is the header, as of any file. A tensor may be
 * the end of a large storage: then it is a part of that. */
static int read_front(struct tarn_file *file)
{
	_cleanup_free_ char *buf = malloc(PIECE);
	uint64_t front = MIN(file->data_offset, (uint64_t)FILE_FRONT_MAX);
	int r = buf ? 0 : file_no_memory("the header of a file");

	for (uint64_t at = 0, n; r >= 0 && at < front; at += n) {
		n = MIN((uint64_t)PIECE, front - at);
		r = file_read(file, buf, n, at);
	}
	return r;
}

static int finish(struct tarn_file *file, const char *format)
{
	int r;

	if (file->count)
		qsort(file->tensors, file->count, sizeof(*file->tensors),
			by_place);
	find_range(file);
	file->format = format;
	r = read_front(file);
	return r < 0 ? r : file_index(file);
}

/* ---- .npz ---------------------------------------------------------------- */

static bool ends_with(const struct zip_record *record, const char *end)
{
	size_t n = strlen(end);

	return record->name_size >= n &&
	       !memcmp(record->name + record->name_size - n, end, n);
}

static int add_array(struct tarn_file *file, const struct zip_record *record)
{
	const struct npy_place place = {
		.offset = record->offset, .size = record->size, .part = true};
	char shown[FILE_TEXT_MAX], magic[6];
	struct tarn_file_entry array = {0}, *tensor;
	int r = record->size < sizeof(magic)
			? -EBADMSG
			: file_read_at(
				  file, magic, sizeof(magic), record->offset);
	file_clean(record->name, record->name_size, shown);
	if (r == -EBADMSG || (r >= 0 && memcmp(magic, "\x93NUMPY", 6) != 0))
		return tarn_fail(EBADMSG, "record '%s' is no .npy file", shown);
	if (r >= 0)
		r = npy_array(file, &place, &array);
	if (r < 0)
		return tarn_fail_prefix(r, "record '%s': ", shown);
	if (!file_is_text(record->name, record->name_size))
		return tarn_fail(EBADMSG, "the name '%s' is not UTF-8", shown);
	tensor = file_add_tensor(file, record->name, record->name_size - 4);
	if (!tensor)
		return file_no_memory("a tensor");
	array.name = tensor->name;
	array.name_size = tensor->name_size;
	*tensor = array;
	return 0;
}

static int npz_read(struct tarn_file *file, const struct zip *zip)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < zip->count; i++)
		r = add_array(file, &zip->records[i]);
	return r < 0 ? r : finish(file, "npz");
}

/* ---- archives ------------------------------------------------------------ */

static const struct zip_record *find_record(
	const struct zip *zip, const char *end)
{
	for (size_t i = 0; i < zip->count; i++)
		if (ends_with(&zip->records[i], end))
			return &zip->records[i];
	return NULL;
}

/* An archive without records is an empty .npz. */
static bool all_arrays(const struct zip *zip)
{
	for (size_t i = 0; i < zip->count; i++)
		if (!ends_with(&zip->records[i], ".npy"))
			return false;
	return true;
}

/* Of an archive that is refused nothing is inflated. */
static bool wants_inflating(const struct zip *zip)
{
	if (!all_arrays(zip) && (!find_record(zip, "/data.pkl") ||
					find_record(zip, "/constants.pkl")))
		return false;
	for (size_t i = 0; i < zip->count; i++)
		if (zip->records[i].method || zip->records[i].encrypted)
			return true;
	return false;
}

/* From here on the file is another, of which no byte was read yet. */
static int read_inflated(struct tarn_file *file, struct zip *zip)
{
	int fd = -1, r = zip_inflate(file, zip, &fd);

	if (r >= 0)
		r = file_replace_consume_fd(file, fd);
	*zip = (struct zip) {0};
	return r < 0 ? r : zip_read(file, zip);
}

int archive_read(struct tarn_file *file)
{
	struct zip zip = {0};
	const struct zip_record *pickle;
	int r = zip_read(file, &zip);

	if (r >= 0 && wants_inflating(&zip))
		r = read_inflated(file, &zip);
	if (r < 0)
		return r;
	if (all_arrays(&zip))
		return npz_read(file, &zip);
	if (find_record(&zip, "/constants.pkl"))
		return tarn_fail(ENOTSUP,
			"it is a TorchScript archive, a program with its "
			"tensors; load it with torch.jit.load, and torch.save "
			"its state_dict()");
	pickle = find_record(&zip, "/data.pkl");
	if (!pickle)
		return tarn_fail(EBADMSG,
			"a zip archive of %zu records that is neither a "
			"PyTorch checkpoint (it has no data.pkl) nor an .npz",
			zip.count);
	r = checkpoint_read(file, &zip, pickle);
	return r < 0 ? r : finish(file, "pytorch");
}
