/* SPDX-License-Identifier: MIT */
/* memfds: regular files to the readers, and nothing is left behind. */
#include "tests/kit/file_bytes.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/tap.h"

int bytes_fd(const void *bytes, size_t size)
{
	int fd = memfd_create("tarn-test", MFD_CLOEXEC);

	if (fd < 0 || fd_write_all(fd, bytes, size) < 0)
		bail("memfd of %zu bytes: %m", size);
	return fd;
}

int bytes_open(
	const void *bytes, size_t size, const char *name, tarn_file **ret)
{
	int fd = bytes_fd(bytes, size);
	int r = tarn_file_open_fd(fd, name, ret);

	close(fd);
	return r;
}

static char *filled(const void *head, size_t head_size, const char *header,
	size_t data, size_t *ret_size)
{
	size_t n = strlen(header);
	char *file = malloc(head_size + n + data + 1);

	if (!file)
		bail("no memory");
	memcpy(file, head, head_size);
	memcpy(file + head_size, header, n);
	for (size_t i = 0; i < data; i++)
		file[head_size + n + i] = (char)i;
	*ret_size = head_size + n + data;
	return file;
}

char *bytes_safetensors(const char *header, size_t data, size_t *ret_size)
{
	uint64_t n = strlen(header);

	return filled(&n, 8, header, data, ret_size);
}

char *bytes_npy(int major, const char *header, size_t data, size_t *ret_size)
{
	char head[12] = "\x93NUMPY";
	uint32_t n = (uint32_t)strlen(header);

	head[6] = (char)major;
	memcpy(head + 8, &n, 4);
	return filled(head, major == 1 ? 10 : 12, header, data, ret_size);
}

unsigned long bytes_walk(tarn_file *file)
{
	unsigned long sum = strlen(tarn_file_format(file));
	uint64_t offset, size;

	tarn_file_data_range(file, &offset, &size);
	sum += offset + size;
	for (size_t i = 0; i < tarn_file_count(file); i++) {
		const struct tarn_file_entry *t = tarn_file_at(file, i);
		struct tarn_layout layout = {0};

		sum += strlen(t->name) + t->file_offset + t->nbytes;
		for (int k = 0; k < t->ndim; k++)
			sum += t->shape[k];
		if (tarn_file_find(file, t->name) != t)
			bail("'%s' is not found by its name", t->name);
		if (t->file_offset < offset || t->file_offset - offset > size ||
			t->nbytes > size - (t->file_offset - offset))
			bail("'%s' is outside of the data", t->name);
		/* With strides of its own it reaches over more, or fewer. */
		if (tarn_file_entry_layout(t, &layout) == 0 && !t->stride &&
			(uint64_t)tarn_layout_nbytes(&layout) != t->nbytes)
			bail("'%s' has a layout of another size", t->name);
	}
	for (size_t i = 0; i < tarn_file_metadata_count(file); i++) {
		const char *key, *value;

		if (tarn_file_metadata_at(file, i, &key, &value) < 0)
			bail("metadata %zu: %s", i, tarn_error_message());
		sum += strlen(key) + strlen(value);
	}
	return sum;
}
