/* SPDX-License-Identifier: MIT */
#include "tests/kit/cow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/kit/tap.h"

struct daemon kit_cow_daemon;
tarn_store *kit_cow_store;

void kit_cow_begin(void)
{
	static const char *const args[] = {
		"--segment-size", "8M", "--budget", "64M", NULL};

	daemon_start(&kit_cow_daemon, "sock", args);
	kit_cow_check(
		tarn_store_open(kit_cow_daemon.socket, NULL, &kit_cow_store),
		"open");
}

void kit_cow_check(int r, const char *what)
{
	if (r < 0)
		bail("%s: %s", what, tarn_error_message());
}

unsigned char kit_cow_byte(uint64_t i, unsigned seed)
{
	return (unsigned char)(((i + seed) * UINT64_C(0x9E3779B97F4A7C15)) >>
			       56);
}

const char *kit_cow_file(const char *name, uint64_t size, unsigned seed)
{
	static char path[300];
	unsigned char *bytes = malloc(size);
	char head[100];
	uint64_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	snprintf(head, sizeof(head),
		"{\"x\":{\"dtype\":\"U8\",\"shape\":[%llu],"
		"\"data_offsets\":[0,%llu]}}",
		(unsigned long long)size, (unsigned long long)size);
	n = strlen(head);
	for (uint64_t i = 0; bytes && i < size; i++)
		bytes[i] = kit_cow_byte(i, seed);
	f = fopen(path, "we");
	if (!bytes || !f || fwrite(&n, 8, 1, f) != 1 ||
		fwrite(head, n, 1, f) != 1 || fwrite(bytes, size, 1, f) != 1 ||
		fclose(f) != 0)
		bail("%s: %m", path);
	free(bytes);
	return path;
}

tarn_file *kit_cow_open_file(const char *path)
{
	tarn_file *file;

	kit_cow_check(tarn_file_open(path, &file), path);
	return file;
}

tarn_tensor *kit_cow_loaded(const char *name, uint64_t size, unsigned seed)
{
	const char *path = kit_cow_file(name, size, seed);
	tarn_file *file = kit_cow_open_file(path);
	tarn_tensor *t;

	kit_cow_check(
		tarn_store_get_from_file(kit_cow_store, file, "x", NULL, &t),
		path);
	tarn_file_unref(file);
	unlink(path);
	return t;
}

tarn_tensor *kit_cow_published(
	const char *name, uint64_t size, unsigned flags, unsigned seed)
{
	struct tarn_publish_item item = {.name = name};
	int64_t n = (int64_t)size;
	tarn_tensor *t;

	kit_cow_check(tarn_store_create(kit_cow_store, TARN_U8, 1, &n, flags,
			      &item.tensor),
		name);
	for (uint64_t i = 0; i < size; i++)
		kit_cow_data(item.tensor)[i] = kit_cow_byte(i, seed);
	kit_cow_check(
		tarn_store_publish(kit_cow_store, &item, 1, NULL, NULL), name);
	tarn_tensor_unref(item.tensor);
	kit_cow_check(tarn_store_lookup(kit_cow_store, name, &t), name);
	return t;
}

tarn_tensor *kit_cow_of(tarn_tensor *t)
{
	tarn_tensor *p;

	kit_cow_check(tarn_tensor_cow(t, &p), "private");
	return p;
}

void kit_cow_drop(tarn_tensor **t)
{
	*t = tarn_tensor_unref(*t);
}

unsigned char *kit_cow_data(const tarn_tensor *t)
{
	return tarn_tensor_data(t);
}

int64_t kit_cow_differs(const tarn_tensor *t, uint64_t size, unsigned seed)
{
	const unsigned char *p = kit_cow_data(t);

	for (uint64_t i = 0; i < size; i++)
		if (p[i] != kit_cow_byte(i, seed))
			return (int64_t)i;
	return -1;
}
