// SPDX-License-Identifier: MIT
/* Files beside others: see the header. A process that reads one while another
 * replaces it has the old one or the new one, since tarn_save renames. */
#include "lib/data/side_car.h"

#include <string.h>

#include <tarn/file.h>
#include <tarn/save.h>

#include "base/fail.h"

int side_car_read(const char *path, tarn_tensor **ret)
{
	tarn_file *file = NULL;
	int r = tarn_file_open(path, &file);

	if (r >= 0 && (strcmp(tarn_file_format(file), "npy") != 0 ||
			      tarn_file_count(file) != 1))
		r = tarn_fail(EBADMSG, "%.300s: this is no array", path);
	if (r >= 0)
		r = tarn_file_tensor(file, tarn_file_at(file, 0)->name, ret);
	tarn_file_unref(file);
	return r;
}

void side_car_write(const char *path, const tarn_tensor *tensor)
{
	const struct tarn_save_item item = {
		.name = "side-car", .tensor = tensor};
	const struct tarn_save_options options = {.format = "npy"};

	/* The caller has what it needs, and computes it again next time. */
	if (tarn_save(path, &item, 1, &options, NULL) < 0)
		return;
}
