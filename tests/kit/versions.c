/* SPDX-License-Identifier: MIT */
#include "tests/kit/versions.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/kit/tap.h"

#define HEADER 248u

size_t version_bytes(int version, unsigned char **ret)
{
	static const char *const names[] = {"a", "b"};
	unsigned n = VERSIONS_BYTES;
	size_t size = 8 + HEADER + 2 * n;
	unsigned char *bytes = malloc(size);
	uint64_t header = HEADER;

	if (!bytes)
		bail("out of memory");
	memset(bytes + 8, ' ', HEADER);
	memcpy(bytes, &header, 8);
	header = (uint64_t)sprintf((char *)bytes + 8,
		"{\"%s\":{\"dtype\":\"U8\",\"shape\":[%u],\"data_offsets\":"
		"[0,%u]},\"%s\":{\"dtype\":\"U8\",\"shape\":[%u],"
		"\"data_offsets\":[%u,%u]}}",
		names[version], n, n, names[!version], n, n, 2 * n);
	bytes[8 + header] = ' ';
	memset(bytes + 8 + HEADER, version ? 2 : 1, n);
	memset(bytes + 8 + HEADER + n, version ? 1 : 2, n);
	*ret = bytes;
	return size;
}

static void write_over(const char *path, int version, int flags)
{
	unsigned char *bytes;
	size_t size = version_bytes(version, &bytes);
	int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0644);

	if (fd < 0 || pwrite(fd, bytes, size, 0) != (ssize_t)size)
		bail("%s: %m", path);
	close(fd);
	free(bytes);
}

const char *version_file(const char *folder, const char *name)
{
	static char path[300];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	write_over(path, 0, O_CREAT | O_TRUNC);
	return path;
}

void kit_version_write(const char *path, int version)
{
	write_over(path, version, 0);
}

static bool all_are(
	tarn_tensor *all, tarn_file *file, const char *name, int value)
{
	const unsigned char *bytes;
	tarn_tensor *t;
	unsigned i = 0;

	if (tarn_loaded_tensor(all, file, name, &t) < 0)
		return false;
	bytes = tarn_tensor_data(t);
	while (i < VERSIONS_BYTES && bytes[i] == value)
		i++;
	tarn_tensor_unref(t);
	return i == VERSIONS_BYTES;
}

bool version_is_right(tarn_tensor *all, tarn_file *file)
{
	return all_are(all, file, "a", 1) && all_are(all, file, "b", 2);
}
