// SPDX-License-Identifier: MIT
/*
 * Broadcast, scatter and all-gather between ranks whose tensors have strides of
 * their own: the elements arrive, in C order, and nothing is written beside them.
 * Then calls that cannot be: each is the same error on all ranks.
 *
 * Elements of the whole are known by their position, so that each rank knows what
 * it must have got.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/mpi.h>
#include <tarn/publish.h>

#include "base/checked.h"
#include "tests/kit/tap.h"
#include "tests/mpi/ranks.h"
#include "tests/ops/views.h"

#define NDIM 4
#define CASES 60

static const enum tarn_dtype dtypes[] = {
	TARN_U8, TARN_BF16, TARN_F32, TARN_I64, TARN_C64, TARN_BOOL};

/* ---- elements that are known ----------------------------------------- */

/* The packed bytes of rows from first on, of a case. */
static unsigned char *known(
	unsigned n, const struct tarn_layout *l, int64_t first_row)
{
	int64_t size = tarn_layout_nbytes(l), skip = 0;
	unsigned char *bytes = malloc((size_t)size + 1);

	if (l->ndim && l->shape[0])
		skip = first_row * (size / l->shape[0]);
	for (int64_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)((uint64_t)(skip + i + 1) *
						   (2654435761u + n) >>
					   16) &
			   (l->dtype == TARN_BOOL ? 1 : 255);
	return bytes;
}

static void fill(unsigned n, tarn_tensor *t, int64_t first_row)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	unsigned char *bytes = known(n, l, first_row);

	must(tarn_tensor_unravel(
		t, TARN_ORDER_C, bytes, (uint64_t)tarn_layout_nbytes(l)));
	free(bytes);
}

/* Has t these elements, and its storage no other changes? */
static bool arrived(unsigned n, struct view_before before, tarn_tensor *t,
	int64_t first_row)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	uint64_t size = (uint64_t)tarn_layout_nbytes(l);
	unsigned char *wanted = known(n, l, first_row),
		      *seen = malloc(size + 1), *all;
	bool good;

	must(tarn_tensor_ravel(t, TARN_ORDER_C, seen, size));
	good = !memcmp(wanted, seen, size);
	/* With these written over what was there, it is what is there. */
	all = tarn_storage_data(tarn_tensor_storage(t));
	if (good && before.size) {
		unsigned char *now = malloc(before.size);

		memcpy(now, all, before.size);
		memcpy(all, before.bytes, before.size);
		must(tarn_tensor_unravel(t, TARN_ORDER_C, wanted, size));
		good = !memcmp(now, all, before.size);
		free(now);
	}
	free(before.bytes);
	free(wanted);
	free(seen);
	return good;
}

/* ---- cases that all ranks draw alike --------------------------------- */

struct drawn {
	enum tarn_dtype dtype;
	int ndim;
	int root;
	int64_t shape[NDIM];
	int64_t rows[64]; /* of each rank */
};

static struct drawn draw(unsigned n, int least_ndim)
{
	struct drawn d;

	view_seed(n);
	d.dtype = dtypes[view_below(ARRAY_SIZE(dtypes))];
	d.ndim =
		least_ndim + (int)view_below((uint64_t)(NDIM + 1 - least_ndim));
	d.root = (int)view_below((uint64_t)ranks);
	for (int i = 0; i < d.ndim; i++)
		d.shape[i] = (int64_t)view_below(view_below(20) ? 7 : 80);
	if (!view_below(10) && d.ndim)
		d.shape[d.ndim - 1] = 70000;
	for (int i = 0; i < ranks; i++)
		d.rows[i] = (int64_t)view_below(5);
	/* From here on each rank draws what is its own. */
	view_seed(1000 * n + (unsigned)rank);
	return d;
}

static tarn_tensor *draw_view(const struct drawn *d, const int64_t *shape)
{
	return view_random(
		d->dtype, d->ndim, shape, view_below(3) ? VIEW_SKEW : 0);
}

static int64_t rows_before(const struct drawn *d, int of)
{
	int64_t sum = 0;

	for (int i = 0; i < of; i++)
		sum += d->rows[i];
	return sum;
}

static bool bcast_case(unsigned n)
{
	struct drawn d = draw(n, 0);
	tarn_tensor *t = draw_view(&d, d.shape);
	bool good;

	if (rank == d.root)
		fill(n, t, 0);
	struct view_before before = view_before(t);
	must(tarn_mpi_bcast(t, d.root, MPI_COMM_WORLD));
	good = arrived(n, before, t, 0);
	tarn_tensor_unref(t);
	return good;
}

/* A part: rows of the whole itself now and then, where the rank has one. */
static tarn_tensor *draw_part(const struct drawn *d, tarn_tensor *whole)
{
	int64_t shape[NDIM];
	tarn_tensor *part;

	memcpy(shape, d->shape, sizeof(shape));
	shape[0] = d->rows[rank];
	if (!whole || view_below(3))
		return draw_view(d, shape);
	must(tarn_tensor_narrow(
		whole, 0, rows_before(d, rank), d->rows[rank], &part));
	return part;
}

static bool scatter_case(unsigned n)
{
	struct drawn d = draw(n, 1);
	tarn_tensor *whole = NULL, *part;
	bool good;

	d.shape[0] = rows_before(&d, ranks);
	if (rank == d.root) {
		whole = draw_view(&d, d.shape);
		fill(n, whole, 0);
	}
	part = draw_part(&d, whole);
	struct view_before before = view_before(part);
	must(tarn_mpi_scatter(whole, part, d.root, MPI_COMM_WORLD));
	good = arrived(n, before, part, rows_before(&d, rank));
	tarn_tensor_unref(whole);
	tarn_tensor_unref(part);
	return good;
}

static bool allgather_case(unsigned n)
{
	struct drawn d = draw(n, 1);
	tarn_tensor *whole, *part;
	bool good;

	d.shape[0] = rows_before(&d, ranks);
	whole = draw_view(&d, d.shape);
	part = draw_part(&d, whole);
	fill(n, part, rows_before(&d, rank));
	struct view_before before = view_before(whole);
	must(tarn_mpi_allgather(part, whole, MPI_COMM_WORLD));
	good = arrived(n, before, whole, 0);
	tarn_tensor_unref(whole);
	tarn_tensor_unref(part);
	return good;
}

static void cases(const char *what, bool (*one)(unsigned n))
{
	unsigned good = 0;

	for (unsigned i = 0; i < CASES; i++) {
		bool fine = one(i);

		if (!fine)
			diag("rank %d: %s of case %u", rank, what, i);
		good += fine;
	}
	all_ok(good == CASES, "%s between random layouts", what);
}

/* ---- pools ----------------------------------------------------------- */

/* From what is published on one node to what another is about to publish. */
static void pools(void)
{
	const int64_t shape[] = {3000, 500}, turned[] = {500, 3000};
	tarn_tensor *t, *u, *from;
	tarn_store *store;
	char name[64];

	must(tarn_store_open(NULL, NULL, &store));
	must(tarn_store_create(store, TARN_F32, 2, shape, 0, &t));
	if (rank == 0)
		fill(7, t, 0);
	snprintf(name, sizeof(name), "rank/%d", rank);
	must(tarn_store_publish_one(store, name, t, NULL, NULL));
	must(tarn_store_lookup(store, name, &from));
	all_fail(EROFS, "is read-only",
		tarn_mpi_bcast(from, ranks - 1, MPI_COMM_WORLD),
		"what is published is written on no rank");
	must(tarn_store_create(store, TARN_F32, 2, turned, 0, &u));
	tarn_tensor_unref(t);
	must(tarn_tensor_transpose(u, 0, 1, &t));
	must(tarn_mpi_bcast(rank ? t : from, 0, MPI_COMM_WORLD));
	if (rank)
		must(tarn_store_publish_one(store, name, u, NULL, NULL));
	all_ok(arrived(7, (struct view_before) {0}, rank ? t : from, 0),
		"from a pool to other pools, transposed on the way");
	tarn_tensor_unref(from);
	tarn_tensor_unref(t);
	tarn_tensor_unref(u);
	tarn_store_unref(store);
}

/* ---- errors ---------------------------------------------------------- */

static tarn_tensor *of(const char *spec)
{
	struct tarn_layout l;
	tarn_storage *storage;
	tarn_tensor *t;
	int64_t first, n;

	must(tarn_layout_parse(spec, &l));
	tarn_layout_bounds(&l, &first, &n);
	must(tarn_storage_alloc((uint64_t)(first + n) * 8, &storage));
	must(tarn_tensor_new(storage, 0, &l, &t));
	tarn_storage_unref(storage);
	return t;
}

static bool is_last(void)
{
	return rank == ranks - 1;
}

static void bcast_fails(const char *spec, const char *last, int root, int err,
	const char *part, const char *what)
{
	tarn_tensor *t = of(is_last() ? last : spec);

	all_fail(err, part, tarn_mpi_bcast(t, root, MPI_COMM_WORLD),
		"bcast: %s", what);
	tarn_tensor_unref(t);
}

static void failing_bcasts(void)
{
	tarn_tensor *t = of("F32[4]");
	char text[100];

	snprintf(text, sizeof(text),
		"rank %d: it has F32[4, 9], rank 0 has "
		"F32[4, 8]",
		ranks - 1);
	bcast_fails("F32[4, 8]", "F32[4, 9]", 0, EINVAL, text,
		"another shape on a rank");
	bcast_fails("F32[4, 8]", "I32[4, 8]", 1, EINVAL,
		"it has I32[4, 8], rank 0 has F32[4, 8]",
		"another dtype on a rank");
	bcast_fails("F32[4, 8]", "F32[4, 8, 1]", 1, EINVAL, "F32[4, 8, 1]",
		"another number of dimensions on a rank");
	bcast_fails("F32[4]", "F32[4]", ranks, EINVAL,
		"to be the root; the communicator has",
		"a root that is no rank");
	bcast_fails("F32[4]", "F32[4]", is_last() ? 1 : 0, EINVAL,
		"its root is rank 1, that of rank 0 is 0",
		"another root on a rank");
	bcast_fails("F32[4, 8]", "F32[4, 8]:(0, 1)", 0, EINVAL,
		"has elements that share bytes",
		"elements that share bytes, to be written");
	all_fail(EINVAL, "it calls tarn_mpi_scatter, rank 0 tarn_mpi_bcast",
		is_last() ? tarn_mpi_scatter(NULL, t, 0, MPI_COMM_WORLD)
			  : tarn_mpi_bcast(t, 0, MPI_COMM_WORLD),
		"a rank that makes another call");
	tarn_tensor_unref(t);
}

static void failing_file(void)
{
	tarn_tensor *t = of("U8[4]"), *in_file;
	tarn_storage *storage;

	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	must(tarn_storage_from_fd(fd, 0, 4, &storage));
	close(fd);
	must(tarn_tensor_new(storage, 0, tarn_tensor_layout(t), &in_file));
	all_fail(ENOTSUP, "no address on the host",
		tarn_mpi_bcast(is_last() ? in_file : t, 0, MPI_COMM_WORLD),
		"a tensor that is in a file");
	tarn_tensor_unref(in_file);
	tarn_tensor_unref(t);
	tarn_storage_unref(storage);
}

static void failing_rows(void)
{
	tarn_tensor *whole = of("F32[100, 3]"), *part = of("F32[2, 3]"),
		    *other = of("F32[2, 4]"), *view;

	all_fail(EINVAL, "its whole has 100 rows, but all parts together have",
		tarn_mpi_scatter(whole, part, 0, MPI_COMM_WORLD),
		"scatter: rows that do not sum up");
	all_fail(EINVAL, "its whole has 100 rows, but all parts together have",
		tarn_mpi_allgather(part, whole, MPI_COMM_WORLD),
		"all-gather: rows that do not sum up");
	all_fail(EINVAL,
		"it has F32[2, 4], rank 0 has F32[2, 3]; dtype and "
		"shape, but for dimension 0,",
		tarn_mpi_scatter(
			whole, is_last() ? other : part, 0, MPI_COMM_WORLD),
		"scatter: another shape on a rank");
	all_fail(EINVAL,
		"its part is F32[2, 4], which is no rows of the whole, "
		"F32[100, 3]",
		tarn_mpi_allgather(
			is_last() ? other : part, whole, MPI_COMM_WORLD),
		"all-gather: a part that is no rows");
	all_fail(EINVAL, "it is the root and has no whole",
		tarn_mpi_scatter(NULL, part, 1, MPI_COMM_WORLD),
		"scatter: no whole at root");
	tarn_tensor_unref(whole);
	whole = of(ranks == 2 ? "F32[4, 3]" : "F32[64, 3]");
	must(tarn_tensor_narrow(
		whole, 0, 1, ranks == 2 ? 2 : 64 / ranks, &view));
	/* Its rows overlap with those where they belong. */
	if (64 % ranks == 0)
		all_fail(EINVAL, "share",
			tarn_mpi_allgather(view, whole, MPI_COMM_WORLD),
			"all-gather: a part in other rows of the whole");
	else
		all_ok(true, "64 rows do not divide");
	tarn_tensor_unref(view);
	tarn_tensor_unref(whole);
	tarn_tensor_unref(part);
	tarn_tensor_unref(other);
}

/* A part that is the rows of another rank would be written before they are sent. */
static void failing_places(void)
{
	char spec[50];
	tarn_tensor *whole, *other = of("F32[2, 3]"), *next;

	snprintf(spec, sizeof(spec), "F32[%d, 3]", 2 * ranks);
	whole = of(spec);
	must(tarn_tensor_narrow(whole, 0, 2 * ((rank + 1) % ranks), 2, &next));
	all_fail(EINVAL,
		"its part shares bytes with rows of the whole that are",
		tarn_mpi_scatter(whole, rank ? other : next, 0, MPI_COMM_WORLD),
		"scatter: a part that is other rows of the whole");
	all_fail(EINVAL,
		"its part shares bytes with rows of the whole that are",
		tarn_mpi_allgather(next, whole, MPI_COMM_WORLD),
		"all-gather: parts that are other rows of the whole");
	tarn_tensor_unref(next);
	tarn_tensor_unref(other);
	tarn_tensor_unref(whole);
}

/* Two groups of ranks, of which each has a rank 0: no communicator for these. */
static void failing_groups(void)
{
	tarn_tensor *t = of("F32[4]"), *whole = of("F32[4]");
	MPI_Comm mine, both;
	int r;

	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &mine);
	MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, !(rank % 2), 0, &both);
	all_fail(EINVAL, "has two groups", tarn_mpi_bcast(t, 0, both),
		"bcast: a communicator of two groups");
	all_fail(EINVAL, "has two groups", tarn_mpi_scatter(whole, t, 0, both),
		"scatter: a communicator of two groups");
	all_fail(EINVAL, "has two groups", tarn_mpi_allgather(t, whole, both),
		"all-gather: a communicator of two groups");
	r = tarn_mpi_load(NULL, "none", NULL, both, NULL);
	all_fail(EINVAL, "has two groups", r,
		"load: a communicator of two groups");
	MPI_Comm_free(&both);
	MPI_Comm_free(&mine);
	tarn_tensor_unref(t);
	tarn_tensor_unref(whole);
}

/* Elements of 4 bits, whose last dimension is one of no stride. */
static void small_elements(void)
{
	tarn_tensor *part = of("F4[2, 2, 1]"), *whole;
	char spec[50];

	snprintf(spec, sizeof(spec), "F4[%d, 2, 1]:(4, 1, 9)", 2 * ranks);
	whole = of(spec);
	must(tarn_mpi_scatter(whole, part, 0, MPI_COMM_WORLD));
	must(tarn_mpi_allgather(part, whole, MPI_COMM_WORLD));
	must(tarn_mpi_bcast(whole, 0, MPI_COMM_WORLD));
	all_ok(true, "elements of 4 bits, with a dimension of one element");
	tarn_tensor_unref(part);
	tarn_tensor_unref(whole);
}

int main(int argc, char **argv)
{
	ranks_begin(&argc, &argv);
	cases("bcast", bcast_case);
	cases("scatter", scatter_case);
	cases("all-gather", allgather_case);
	pools();
	failing_bcasts();
	failing_file();
	failing_rows();
	failing_places();
	failing_groups();
	small_elements();
	return ranks_end(3 + 2 + 7 + 1 + 6 + 2 + 4 + 1);
}
