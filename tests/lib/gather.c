// SPDX-License-Identifier: MIT
/*
 * Rows by their numbers, beside a loop that copies one element after the other:
 * random tables, whose rows are anywhere and in any order, in every dtype; long
 * lists, of which the threads take stretches and the prefetch leads; tables and
 * lists in files, of which only the rows that are asked for are read.
 */
#include <tarn/gather.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "lib/number/number.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/move.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

/* ---- plainly --------------------------------------------------------- */

static tarn_tensor *over(void *bytes, uint64_t size, bool writable,
	const struct tarn_layout *layout)
{
	tarn_storage *storage = NULL;
	tarn_tensor *tensor = NULL;

	must(tarn_storage_borrow(bytes, size,
		writable ? TARN_BORROW_WRITABLE : 0, NULL, NULL, &storage));
	must(tarn_tensor_new(storage, 0, layout, &tensor));
	tarn_storage_unref(storage);
	return tensor;
}

static void plainly(const struct kit_move_pair *p, const int64_t *numbers)
{
	int64_t index[TARN_NDIM_MAX], from[TARN_NDIM_MAX];

	for (int64_t i = 0; i < tarn_layout_numel(&p->dst); i++) {
		must(tarn_layout_unravel_index(
			p->dst.ndim, p->dst.shape, i, TARN_ORDER_C, index));
		memcpy(from, index, sizeof(from));
		from[0] = numbers[index[0]];
		if (from[0] < 0)
			from[0] += p->src.shape[0];
		number_store(p->dst.dtype, p->wanted,
			kit_move_element(&p->dst, index),
			number_load(p->dst.dtype, p->src_bytes,
				kit_move_element(&p->src, from)));
	}
}

/* ---- lists ----------------------------------------------------------- */

struct list {
	void *bytes;
	tarn_tensor *tensor;
};

static struct list list_new(
	int dtype, const int64_t *numbers, int64_t n, int64_t step)
{
	int64_t size = tarn_dtype_bits(dtype) / 8;
	int64_t span = MAX(llabs(step), 1) * size * MAX(n, 1);
	struct tarn_layout layout;
	struct list list;

	list.bytes = malloc((size_t)span);
	if (!list.bytes)
		bail("no memory");
	memset(list.bytes, 0x5a, (size_t)span);
	must(tarn_layout_strided(dtype, 1, &n, &step,
		step < 0 ? (n ? n - 1 : 0) * -step : 0, &layout));
	for (int64_t i = 0; i < n; i++)
		memcpy((char *)list.bytes + (layout.offset + i * step) * size,
			&numbers[i], (size_t)size);
	list.tensor = over(list.bytes, (uint64_t)span, false, &layout);
	return list;
}

static void list_drop(struct list *list)
{
	tarn_tensor_unref(list->tensor);
	free(list->bytes);
}

static bool is_signed(int dtype)
{
	return dtype == TARN_I8 || dtype == TARN_I16 || dtype == TARN_I32 ||
	       dtype == TARN_I64;
}

static void random_numbers(
	int64_t *numbers, int64_t n, int64_t rows, bool from_end)
{
	for (int64_t i = 0; i < n; i++) {
		numbers[i] = kit_move_below(rows);
		if (from_end && kit_move_below(3) == 0)
			numbers[i] -= rows;
	}
}

/* ---- random tables --------------------------------------------------- */

static const int dtypes[] = {TARN_U8, TARN_F32, TARN_F16, TARN_F64, TARN_BOOL,
	TARN_C64, TARN_F4, TARN_F6_E3M2};
static const int integers[] = {TARN_I64, TARN_I32, TARN_U32, TARN_U64, TARN_I8,
	TARN_U8, TARN_I16, TARN_U16};

/* Strides that no two indices share, in a random order of dimensions, some of
 * them backwards, with gaps between; sub-byte elements stay in their packs. */
static void random_strides(struct tarn_layout *l, bool plain)
{
	int64_t step = 1, first = 0;
	int order[TARN_NDIM_MAX], pack = tarn_dtype_pack(l->dtype);

	for (int i = 0; i < l->ndim; i++)
		order[i] = l->ndim - 1 - i;
	for (int i = pack > 1; !plain && i < l->ndim; i++) {
		int k = i + (int)kit_move_below(l->ndim - i), was = order[i];

		order[i] = order[k];
		order[k] = was;
	}
	for (int i = 0; i < l->ndim; i++) {
		int d = order[i];
		bool back = !plain && kit_move_below(4) == 0;

		if (pack > 1 && i == 0)
			back = false;
		l->stride[d] = back ? -step : step;
		first += back ? step * (l->shape[d] - 1) : 0;
		step *= l->shape[d];
		if (!plain && kit_move_below(3) == 0)
			step += pack * kit_move_below(4);
	}
	l->offset = first + pack * kit_move_below(3);
}

static void random_pair(struct kit_move_pair *p, int64_t n)
{
	int dtype = dtypes[kit_move_below(ARRAY_SIZE(dtypes))];
	int pack = tarn_dtype_pack(dtype);
	int64_t shape[TARN_NDIM_MAX];
	int ndim = (pack > 1) + 1 + (int)kit_move_below(4);

	for (int i = 0; i < ndim; i++)
		shape[i] = 1 + kit_move_below(kit_move_below(3) ? 5 : 30);
	if (pack > 1)
		shape[ndim - 1] *= pack;
	must(tarn_layout_contiguous(dtype, ndim, shape, &p->src));
	shape[0] = n;
	must(tarn_layout_contiguous(dtype, ndim, shape, &p->dst));
	random_strides(&p->src, kit_move_below(2));
	random_strides(&p->dst, kit_move_below(2));
	kit_move_pair_fill(p);
}

static bool same(const struct kit_move_pair *p)
{
	return !memcmp(p->wanted, p->dst_bytes, (size_t)p->dst_size);
}

static void random_tables(void)
{
	int64_t numbers[200], wrong = 0, failed = 0;
	unsigned cases = test_cases(600);

	for (unsigned c = 0; c < cases; c++) {
		int64_t n = 1 + kit_move_below(kit_move_below(9) ? 40 : 200);
		int64_t step = kit_move_below(5) - 2;
		int of = integers[kit_move_below(ARRAY_SIZE(integers))];
		struct kit_move_pair p = {0};
		tarn_tensor *dst, *table;
		struct list list;
		int r;

		random_pair(&p, n);
		random_numbers(numbers, n, p.src.shape[0], is_signed(of));
		if (step == 0) /* one number for all */
			for (int64_t i = 1; i < n; i++)
				numbers[i] = numbers[0];
		plainly(&p, numbers);
		list = list_new(of, numbers, n, step);
		dst = over(p.dst_bytes, (uint64_t)p.dst_size, true, &p.dst);
		table = over(p.src_bytes, (uint64_t)p.src_size, false, &p.src);
		r = tarn_gather(dst, table, list.tensor, NULL);
		if (r < 0)
			diag("%s", tarn_error_message());
		failed += r < 0;
		wrong += r >= 0 && !same(&p);
		tarn_tensor_unref(dst);
		tarn_tensor_unref(table);
		list_drop(&list);
		kit_move_pair_free(&p);
	}
	is_int(0, failed, "random tables, lists and destinations are gathered");
	is_int(0, wrong, "their rows are those of a plain loop");
}

/* ---- long lists ------------------------------------------------------ */

/* All sizes of a row that have a loop of their own, and some beside them. */
static void run_lengths(void)
{
	static const int64_t sizes[] = {1, 2, 3, 4, 8, 12, 16, 31, 32, 63, 64,
		65, 127, 128, 129, 191, 192, 193, 255, 256, 257, 264, 319, 320,
		321, 384, 385, 448, 449, 512, 513, 575, 576, 577, 1000, 1024,
		1025, 3000};
	int64_t wrong = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		enum { N = 400, ROWS = 100 };
		int64_t numbers[N], shape[] = {ROWS, sizes[i]};
		struct kit_move_pair p = {0};
		tarn_tensor *dst, *table;
		struct list list;

		must(tarn_layout_contiguous(TARN_U8, 2, shape, &p.src));
		shape[0] = N;
		must(tarn_layout_contiguous(TARN_U8, 2, shape, &p.dst));
		kit_move_pair_fill(&p);
		random_numbers(numbers, N, ROWS, true);
		plainly(&p, numbers);
		list = list_new(TARN_I64, numbers, N, 1);
		dst = over(p.dst_bytes, (uint64_t)p.dst_size, true, &p.dst);
		table = over(p.src_bytes, (uint64_t)p.src_size, false, &p.src);
		must(tarn_gather(dst, table, list.tensor, NULL));
		if (!same(&p)) {
			diag("rows of %lld bytes", (long long)sizes[i]);
			wrong++;
		}
		tarn_tensor_unref(dst);
		tarn_tensor_unref(table);
		list_drop(&list);
		kit_move_pair_free(&p);
	}
	is_int(0, wrong, "rows of any length arrive whole");
}

static void by_threads(
	const char *what, int64_t rows, int64_t row, int64_t n, int threads)
{
	struct tarn_gather_options options = {.threads = threads};
	int64_t *numbers = calloc((size_t)n, sizeof(*numbers));
	int64_t shape[] = {rows, row};
	struct kit_move_pair p = {0};
	tarn_tensor *dst, *table;
	struct list list;

	if (!numbers)
		bail("no memory");
	must(tarn_layout_contiguous(TARN_F32, 2, shape, &p.src));
	n = test_cases((unsigned)n);
	shape[0] = n;
	must(tarn_layout_contiguous(TARN_F32, 2, shape, &p.dst));
	kit_move_pair_fill(&p);
	random_numbers(numbers, n, rows, true);
	plainly(&p, numbers);
	list = list_new(TARN_I64, numbers, n, 1);
	dst = over(p.dst_bytes, (uint64_t)p.dst_size, true, &p.dst);
	table = over(p.src_bytes, (uint64_t)p.src_size, false, &p.src);
	must(tarn_gather(dst, table, list.tensor, &options));
	ok(same(&p), "%s", what);
	tarn_tensor_unref(dst);
	tarn_tensor_unref(table);
	list_drop(&list);
	kit_move_pair_free(&p);
	free(numbers);
}

/* The second half's last number is bad, and a thread's own error. */
static void bad_in_a_thread(void)
{
	enum { N = 20000 };
	struct tarn_gather_options options = {.threads = 4};
	static int64_t numbers[N];
	int64_t shape[] = {10, 66};
	tarn_tensor *table = NULL, *dst = NULL;
	struct list list;
	int64_t first = 0;

	must(tarn_tensor_ones(TARN_F32, 2, shape, &table));
	shape[0] = N;
	must(tarn_tensor_zeros(TARN_F32, 2, shape, &dst));
	numbers[N - 1] = 10;
	list = list_new(TARN_I64, numbers, N, 1);
	is_int(-ERANGE, tarn_gather(dst, table, list.tensor, &options),
		"a bad number at the end of a long list is refused");
	has_str("number 19999 of index is 10; the table has 10 rows",
		tarn_error_message(),
		"the error has the bad number's position and value");
	must(tarn_tensor_get_i64(dst, (int64_t[]) {0, 0}, &first));
	is_int(0, first, "no row is copied before a bad number is found");
	list_drop(&list);
	tarn_tensor_unref(table);
	tarn_tensor_unref(dst);
}

/* ---- files ----------------------------------------------------------- */

struct counted {
	const void *bytes;
	int64_t reads, read;
};

static int counted_read(
	const struct tarn_storage *s, uint64_t offset, void *buf, uint64_t size)
{
	struct counted *c = s->arg;

	__atomic_add_fetch(&c->reads, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&c->read, (int64_t)size, __ATOMIC_RELAXED);
	memcpy(buf, (const char *)c->bytes + offset, size);
	return 0;
}

static tarn_tensor *unread(
	struct counted *c, uint64_t size, const struct tarn_layout *layout)
{
	tarn_storage *storage = NULL;
	tarn_tensor *tensor = NULL;

	must(tarn_storage_new(
		TARN_STORAGE_BORROWED, NULL, size, false, NULL, c, &storage));
	storage->read = counted_read;
	must(tarn_tensor_new(storage, 0, layout, &tensor));
	tarn_storage_unref(storage);
	return tensor;
}

static void from_file(
	const char *view, int threads, int64_t reads, int64_t bytes)
{
	enum { N = 300, ROWS = 1000, ROW = 64 };
	struct tarn_gather_options options = {.threads = threads};
	int64_t numbers[N], shape[] = {ROWS, ROW};
	tarn_tensor *whole, *part = NULL, *dst = NULL;
	struct counted c = {0}, c_list = {0};
	struct kit_move_pair p = {0};
	struct tarn_layout lines;
	struct list list;

	must(tarn_layout_contiguous(TARN_I32, 2, shape, &lines));
	must(tarn_layout_eval(&lines, view, &p.src));
	memcpy(shape, p.src.shape, sizeof(shape));
	shape[0] = N;
	must(tarn_layout_contiguous(TARN_I32, 2, shape, &p.dst));
	kit_move_pair_fill(&p);
	random_numbers(numbers, N, p.src.shape[0], true);
	plainly(&p, numbers);
	list = list_new(TARN_I64, numbers, N, 1);
	c.bytes = p.src_bytes;
	c_list.bytes = list.bytes;
	whole = unread(&c, (uint64_t)p.src_size, &p.src);
	part = unread(&c_list, sizeof(numbers), &list.tensor->layout);
	dst = over(p.dst_bytes, (uint64_t)p.dst_size, true, &p.dst);
	must(tarn_gather(dst, whole, part, &options));
	ok(same(&p),
		"rows of a file arrive, by numbers in a file: \"%s\", %d "
		"threads",
		view, threads);
	is_int(reads, c.reads, "each row is so many reads");
	is_int(bytes, c.read, "of its bytes alone");
	tarn_tensor_unref(dst);
	tarn_tensor_unref(whole);
	tarn_tensor_unref(part);
	list_drop(&list);
	kit_move_pair_free(&p);
}

/* A file that has become shorter: what a thread finds, the caller says. */
static void short_file(int threads)
{
	struct tarn_gather_options options = {.threads = threads};
	int64_t shape[] = {100, 16}, numbers[200];
	tarn_storage *storage = NULL;
	tarn_tensor *table = NULL, *dst = NULL;
	struct tarn_layout layout;
	int fd = memfd_create("rows", MFD_CLOEXEC);
	struct list list;

	if (fd < 0 || ftruncate(fd, 6400) < 0)
		bail("a file");
	must(tarn_layout_contiguous(TARN_F32, 2, shape, &layout));
	must(tarn_storage_from_fd(fd, 0, 6400, &storage));
	must(tarn_tensor_new(storage, 0, &layout, &table));
	shape[0] = 200;
	must(tarn_tensor_zeros(TARN_F32, 2, shape, &dst));
	for (int i = 0; i < 200; i++)
		numbers[i] = i < 190 ? 0 : 99;
	list = list_new(TARN_I64, numbers, 200, 1);
	is_int(0, tarn_gather(dst, table, list.tensor, &options),
		"a file's rows are read by %d threads", threads);
	if (ftruncate(fd, 6300) < 0)
		bail("a shorter file");
	is_int(-ENODATA, tarn_gather(dst, table, list.tensor, &options),
		"a row that is no longer in the file is an error");
	has_str("it has shrunk", tarn_error_message(),
		"the error says that the file has shrunk");
	list_drop(&list);
	tarn_tensor_unref(dst);
	tarn_tensor_unref(table);
	tarn_storage_unref(storage);
	close(fd);
}

int main(void)
{
	random_tables();
	run_lengths();
	by_threads("threads gather what one does", 5000, 66, 9000, 3);
	by_threads("few rows need no thread", 50, 66, 7, 8);
	by_threads("there may be fewer rows than threads", 9, 100000, 3, 8);
	bad_in_a_thread();
	from_file("", 1, 300, 300 * 64 * 4);
	from_file("", 4, 300, 300 * 64 * 4);
	from_file("[:, 8:24]", 1, 300, 300 * 16 * 4);
	from_file("[::-2, 3:5]", 1, 300, 300 * 2 * 4);
	short_file(1);
	short_file(2);
	return done(27);
}
