/* SPDX-License-Identifier: MIT */
/*
 * The refit of a set in memory, all of it, beside the same bytes by memcpy:
 *
 *	bench/refit SOCKET MIB
 *
 * in turns, to memory that is new each time, as a version's is; and to memory
 * that was there before, which is the wire. Then the digest of those bytes, and
 * a refit of which all tensors are equal and shared.
 *
 * And a refit of 2 % of the elements of each tensor, BF16: anywhere, and in one
 * run; beside a copy of the pages that they touch, to memory that is new, and to
 * memory that was there. Wanted: at most twice the former.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <tarn/tarn.h>

#include "bench/times.h"

enum { TENSORS = 128, ROUNDS = 5, PAGE = 4096, SIZE = 2, PER_CENT = 2 };

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
		snprintf(names[i], sizeof(names[i]), "%03d", i);
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

/* Memory for all tensors. */
static char *room(bool populate)
{
	void *to = mmap(NULL, (size_t)each * TENSORS, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | (populate ? MAP_POPULATE : 0), -1,
		0);

	if (to == MAP_FAILED) {
		perror("bench/refit: mmap");
		exit(1);
	}
	return to;
}

/* fresh: to memory that the kernel has to clear first. */
static double copies(bool fresh)
{
	static char *kept;
	size_t size = (size_t)each * TENSORS;
	double start = wall_ns();
	char *to = fresh || !kept ? room(true) : kept;

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

/* ---- sparse ---------------------------------------------------------- */

static tarn_tensor *positions, *values;

/* As many as that, in order: spread over a tensor, or next to each other. */
static void choose(bool spread)
{
	int64_t all = each / SIZE, n = all * PER_CENT / 100, *v;
	unsigned seed = 1;

	if (!positions) {
		check(tarn_tensor_zeros(TARN_I64, 1, &n, &positions), "memory");
		check(tarn_tensor_zeros(TARN_BF16, 1, &n, &values), "memory");
	}
	v = tarn_tensor_data(positions);
	for (int64_t i = 0; i < n; i++)
		v[i] = spread ? i * all / n + rand_r(&seed) % (all / n)
			      : all / 3 + i;
}

static double sparse(void)
{
	double start = wall_ns();
	tarn_refit *r;

	check(tarn_refit_begin(store, "wide", NULL, &r), "begin");
	for (int i = 0; i < TENSORS; i++)
		check(tarn_refit_sparse(r, names[i], positions, values),
			"sparse");
	check(tarn_refit_commit(r), "commit");
	start = wall_ns() - start;
	tarn_refit_free(r);
	return start;
}

/* Of all tensors: the pages that the positions touch, and what changes there. */
static double pages(bool fresh, int64_t *ret_pages)
{
	static char *kept;
	size_t size = (size_t)each * TENSORS;
	const int64_t *v = tarn_tensor_data(positions);
	const uint16_t *new_values = tarn_tensor_data(values);
	int64_t n = tarn_tensor_layout(positions)->shape[0], count = 0;
	double start = wall_ns();
	char *to = fresh || !kept ? room(!fresh) : kept;

	for (int i = 0; i < TENSORS; i++) {
		const char *from = tarn_tensor_data(sources[i]);
		int64_t last = -1;

		for (int64_t j = 0; j < n; j++) {
			int64_t page = v[j] * SIZE / PAGE;

			if (page != last) {
				memcpy(to + (i * each) + page * PAGE,
					from + page * PAGE, PAGE);
				count++;
			}
			last = page;
			memcpy(to + (i * each) + v[j] * SIZE, &new_values[j],
				SIZE);
		}
	}
	start = wall_ns() - start;
	if (fresh)
		munmap(to, size);
	else
		kept = to;
	*ret_pages = count;
	return start;
}

static void show_sparse(const char *what, bool spread)
{
	double ns[3][ROUNDS];
	int64_t touched;

	choose(spread);
	pages(false, &touched);
	for (int i = 0; i < ROUNDS; i++) {
		ns[0][i] = sparse();
		ns[1][i] = pages(true, &touched);
		ns[2][i] = pages(false, &touched);
	}
	printf("%d %% of the elements, %s: %.1f %% of the pages\n", PER_CENT,
		what,
		100.0 * (double)touched * PAGE / (double)(each * TENSORS));
	for (int i = 0; i < 3; i++)
		printf("%-34s %7.1f ms\n",
			(const char *[]) {"  refit",
				"  these pages to new memory",
				"  these pages to memory that is there"}[i],
			median(ns[i], ROUNDS) / 1e6);
}

static void prepare_wide(void)
{
	struct tarn_publish_item items[TENSORS] = {0};
	tarn_tensor *wide[TENSORS];

	for (int i = 0; i < TENSORS; i++) {
		check(tarn_tensor_bitcast(sources[i], TARN_BF16, &wide[i]),
			"view");
		items[i].name = names[i];
		items[i].tensor = wide[i];
	}
	check(tarn_set_publish(store, "wide", items, TENSORS, NULL, NULL),
		"publish");
	for (int i = 0; i < TENSORS; i++)
		tarn_tensor_unref(wide[i]);
}

/* ---- what is printed --------------------------------------------------- */

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
	prepare_wide();
	show_sparse("anywhere", true);
	show_sparse("in one run", false);
	tarn_tensor_unref(positions);
	tarn_tensor_unref(values);
	for (int i = 0; i < TENSORS; i++)
		tarn_tensor_unref(sources[i]);
	tarn_store_unref(store);
	return 0;
}
