/* SPDX-License-Identifier: MIT */
/*
 * The refit of a set in memory, all of it, beside the same bytes by memcpy:
 *
 *	bench/refit SOCKET MIB
 *
 * in turns, to memory that is new each time, as a version's is; and to memory
 * that was there before, which is the wire. Then the digest of those bytes, and
 * a refit of which all tensors are equal and shared.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <tarn/tarn.h>

#include "bench/times.h"

enum { TENSORS = 64, ROUNDS = 5 };

static tarn_store *store;
static tarn_tensor *sources[TENSORS];
static char names[TENSORS][16];
static int64_t each;

static void check(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "bench/refit: %s: %s\n", what, tarn_error_message());
	exit(1);
}

static void prepare(void)
{
	struct tarn_publish_item items[TENSORS] = {0};

	for (int i = 0; i < TENSORS; i++) {
		snprintf(names[i], sizeof(names[i]), "%02d", i);
		check(tarn_tensor_zeros(TARN_U8, 1, &each, &sources[i]),
			"memory");
		memset(tarn_tensor_data(sources[i]), i + 1, (size_t)each);
		items[i].name = names[i];
		items[i].tensor = sources[i];
	}
	check(tarn_set_publish(store, "set", items, TENSORS, NULL, NULL),
		"publish");
}

static double refit(bool share)
{
	const struct tarn_refit_options options = {.share_equal = share};
	double start = wall_ns();
	tarn_refit *r;

	check(tarn_refit_begin(store, "set", &options, &r), "begin");
	for (int i = 0; i < TENSORS; i++)
		check(tarn_refit_put(r, names[i], sources[i]), "put");
	check(tarn_refit_commit(r), "commit");
	start = wall_ns() - start;
	tarn_refit_free(r);
	return start;
}

/* fresh: to memory that the kernel has to clear first. */
static double copies(bool fresh)
{
	static char *kept;
	size_t size = (size_t)each * TENSORS;
	double start = wall_ns();
	char *to = kept;

	if (fresh || !kept)
		to = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (to == MAP_FAILED) {
		perror("bench/refit: mmap");
		exit(1);
	}
	for (int i = 0; i < TENSORS; i++)
		memcpy(to + i * each, tarn_tensor_data(sources[i]),
			(size_t)each);
	start = wall_ns() - start;
	if (fresh)
		munmap(to, size);
	else
		kept = to;
	return start;
}

static double digests(void)
{
	double start = wall_ns();
	struct tarn_digest d;

	for (int i = 0; i < TENSORS; i++)
		check(tarn_tensor_digest(sources[i], NULL, &d), "digest");
	return wall_ns() - start;
}

static void show(const char *what, double *ns)
{
	printf("%-34s %7.0f MB/s\n", what,
		(double)each * TENSORS / median(ns, ROUNDS) * 1e3);
}

int main(int argc, char **argv)
{
	double ns[5][ROUNDS];

	if (argc != 3)
		return 2;
	each = ((int64_t)atoll(argv[2]) << 20) / TENSORS;
	check(tarn_store_open(argv[1], NULL, &store), "open");
	prepare();
	copies(false);
	for (int i = 0; i < ROUNDS; i++) {
		ns[0][i] = refit(false);
		ns[1][i] = copies(true);
		ns[2][i] = copies(false);
		ns[3][i] = digests();
		ns[4][i] = refit(true);
	}
	show("refit, all put", ns[0]);
	show("memcpy to new memory", ns[1]);
	show("memcpy to memory that is there", ns[2]);
	show("digest", ns[3]);
	show("refit, all put and equal", ns[4]);
	for (int i = 0; i < TENSORS; i++)
		tarn_tensor_unref(sources[i]);
	tarn_store_unref(store);
	return 0;
}
