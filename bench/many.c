/* SPDX-License-Identifier: MIT */
/*
 * The cost of a file's bytes being many tensors:
 *
 *	bench/many SOCKET FOLDER
 *
 * A file of 100,000 tensors of 1 KiB beside one of a single tensor of the same
 * total, opened and loaded by a daemon that does not have them: once from the
 * disk, once with their bytes in the page cache. The last column is how many
 * times as long the many take; 2 is the most that is allowed. Then opened and
 * mapped, all pages of it, which takes so little of one tensor that all of the
 * difference is the header. The files take turns, and are touched before each
 * load, so that the daemon knows neither.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "bench/times.h"

enum { TENSORS = 100000, EACH = 1024, ROUNDS = 9 };

#define TOTAL ((size_t)TENSORS * EACH)

static void die(const char *what)
{
	fprintf(stderr, "bench/many: %s: %s\n", what, tarn_error_message());
	exit(1);
}

/* ---- the files ------------------------------------------------------- */

static void write_file(const char *path, const char *header, uint64_t size)
{
	static char data[1 << 20];
	uint64_t padded = (size + 7) & ~7ull;
	FILE *f = fopen(path, "w");
	size_t left = TOTAL;

	memset(data, 1, sizeof(data));
	if (!f || fwrite(&padded, 8, 1, f) != 1 ||
		fwrite(header, size, 1, f) != 1)
		goto failed;
	for (; size < padded; size++)
		fputc(' ', f);
	while (left > 0) {
		size_t n = left < sizeof(data) ? left : sizeof(data);

		if (fwrite(data, n, 1, f) != 1)
			goto failed;
		left -= n;
	}
	if (fflush(f) == 0 && fsync(fileno(f)) == 0 && fclose(f) == 0)
		return;
failed:
	perror(path);
	exit(1);
}

static void make_many(const char *path)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	for (int i = 0; i < TENSORS; i++)
		fprintf(f,
			"%c\"layer.%d.weight\":{\"dtype\":\"F32\","
			"\"shape\":[16,16],\"data_offsets\":[%d,%d]}",
			i ? ',' : '{', i, i * EACH, (i + 1) * EACH);
	fputc('}', f);
	fclose(f);
	write_file(path, text, size);
	free(text);
}

static void make_one(const char *path)
{
	char text[200];

	snprintf(text, sizeof(text),
		"{\"x\":{\"dtype\":\"F32\",\"shape\":[%zu],"
		"\"data_offsets\":[0,%zu]}}",
		TOTAL / 4, TOTAL);
	write_file(path, text, strlen(text));
}

/* As if it had just been written: the daemon's copy is of another file. */
static void touch(const char *path)
{
	if (utimensat(AT_FDCWD, path, NULL, 0) < 0) {
		perror(path);
		exit(1);
	}
}

static void drop_cache(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0 ||
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
		perror(path);
	close(fd);
}

static void fill_cache(const char *path)
{
	static char buf[1 << 20];
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	while (read(fd, buf, sizeof(buf)) > 0)
		;
	close(fd);
}

/* ---- what is measured ------------------------------------------------ */

enum how { COLD, WARM, MAPPED };

static double measure(tarn_store *store, const char *path, enum how how)
{
	tarn_file *file = NULL;
	tarn_tensor *all = NULL;
	double start;
	int r;

	if (how == COLD)
		drop_cache(path);
	else
		fill_cache(path);
	touch(path);
	start = wall();
	r = tarn_file_open(path, &file);
	if (r >= 0 && how == MAPPED)
		r = tarn_file_map(file, NULL, TARN_MAP_POPULATE, &all);
	else if (r >= 0)
		r = tarn_store_load(store, file, NULL, NULL, &all);
	if (r < 0)
		die(path);
	start = wall() - start;
	tarn_tensor_unref(all);
	tarn_file_unref(file);
	return start;
}

static void compare(tarn_store *store, const char *what, const char *many,
	const char *one, enum how how)
{
	double a[ROUNDS], b[ROUNDS], x, y;

	/* The first of each warms memory up. */
	measure(store, many, how);
	measure(store, one, how);
	for (int i = 0; i < ROUNDS; i++) {
		a[i] = measure(store, many, how);
		b[i] = measure(store, one, how);
	}
	x = median(a, ROUNDS);
	y = median(b, ROUNDS);
	printf("%-28s %8.1f ms %8.1f ms %6.2f%s\n", what, x * 1e3, y * 1e3,
		x / y, how == MAPPED ? "" : " (at most 2)");
}

static void opening(const char *path)
{
	double ms[ROUNDS];
	tarn_file *file;

	for (int i = 0; i < ROUNDS; i++) {
		double start = wall();

		if (tarn_file_open(path, &file) < 0)
			die(path);
		ms[i] = (wall() - start) * 1e3;
		tarn_file_unref(file);
	}
	printf("%-28s %8.1f ms\n", "opened alone", median(ms, ROUNDS));
}

int main(int argc, char **argv)
{
	char many[4096], one[4096];
	tarn_store *store;

	if (argc != 3) {
		fprintf(stderr, "usage: bench/many SOCKET FOLDER\n");
		return 2;
	}
	if (tarn_store_open(argv[1], NULL, &store) < 0)
		die("open");
	snprintf(many, sizeof(many), "%s/many.safetensors", argv[2]);
	snprintf(one, sizeof(one), "%s/one.safetensors", argv[2]);
	make_many(many);
	make_one(one);
	printf("%-28s %11s %11s %6s\n", "100 MB in one file", "100,000", "one",
		"ratio");
	opening(many);
	compare(store, "opened and loaded, disk", many, one, COLD);
	compare(store, "opened and loaded, cached", many, one, WARM);
	compare(store, "opened and mapped", many, one, MAPPED);
	unlink(many);
	unlink(one);
	tarn_store_unref(store);
	return 0;
}
