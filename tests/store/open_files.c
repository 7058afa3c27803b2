/* SPDX-License-Identifier: MIT */
/*
 * The cache of parsed files: threads that open one path at the same moment
 * leave one entry of it, and push no other file out.
 */
#include "lib/store/open_files.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/identity.h"
#include "lib/file/file.h"
#include "tests/kit/tap.h"

#define THREADS 8
#define ROUNDS 50
#define OTHERS (OPEN_FILES_MAX - 1)

static char paths[OPEN_FILES_MAX][64]; /* the last one is opened by all */
static struct open_files cache;
static pthread_barrier_t barrier;

static void make_file(char *path, size_t size, int i)
{
	tarn_tensor *t = NULL;
	struct tarn_save_item item = {.name = "t"};

	snprintf(path, size, "%s/%d.safetensors", getenv("TMPDIR"), i);
	if (tarn_tensor_arange(TARN_F32, 0, 4, 1, &t) < 0)
		bail("a tensor: %s", tarn_error_message());
	item.tensor = t;
	if (tarn_save(path, &item, 1, NULL, NULL) < 0)
		bail("%s: %s", path, tarn_error_message());
	tarn_tensor_unref(t);
}

/* The file behind a path; borrowed, for comparing alone. */
static const tarn_file *opened(const char *path)
{
	tarn_file *file;

	if (open_files_open(&cache, path, NULL, NULL, &file) < 0)
		bail("%s: %s", path, tarn_error_message());
	tarn_file_unref(file);
	return file;
}

static void *open_last(void *arg)
{
	pthread_barrier_wait(&barrier);
	opened(paths[OTHERS]);
	return arg;
}

static int entries_of(const char *path)
{
	int n = 0;

	for (int i = 0; i < OPEN_FILES_MAX; i++)
		n += cache.at[i].used && strcmp(cache.at[i].path, path) == 0;
	return n;
}

/* Stamps tell nothing of a file that is too young, which passes, or of one in
 * such a file system as this. */
static bool is_kept(const char *path)
{
	tarn_file *file;
	enum identity_worth worth;

	do {
		usleep(10000);
		if (tarn_file_open(path, &file) < 0)
			bail("%s: %s", path, tarn_error_message());
		worth = identity_worth(&file->version.identity);
		tarn_file_unref(file);
	} while (worth == IDENTITY_RACY);
	return worth == IDENTITY_LASTS;
}

/* Returns how many entries there were too many, of the one path or too few, of
 * the others. */
static int round_of_threads(void)
{
	pthread_t threads[THREADS];
	int wrong = 0;

	open_files_clear(&cache);
	for (int i = 0; i < OTHERS; i++)
		opened(paths[i]);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, open_last, NULL))
			bail("a thread cannot be made");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < OPEN_FILES_MAX; i++)
		wrong += abs(entries_of(paths[i]) - 1);
	return wrong;
}

int main(void)
{
	int wrong = 0;

	open_files_init(&cache);
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < OPEN_FILES_MAX; i++)
		make_file(paths[i], sizeof(paths[i]), i);
	if (!is_kept(paths[OTHERS])) {
		skip(2, "files of this file system are not kept");
	} else {
		opened(paths[0]);
		ok(opened(paths[0]) == cache.at[0].file,
			"a parsed file is found again in the cache");
		for (int i = 0; i < ROUNDS; i++)
			wrong += round_of_threads();
		is_int(0, wrong,
			"%d threads open a path at once, %d times: the cache "
			"has one entry of it, and one of each other file",
			THREADS, ROUNDS);
	}
	for (int i = 0; i < OPEN_FILES_MAX; i++)
		unlink(paths[i]);
	pthread_barrier_destroy(&barrier);
	open_files_done(&cache);
	return done(2);
}
