/* SPDX-License-Identifier: MIT */
/*
 * The plan of reading a view: whatever the layouts, the parts bring each
 * element to its place once, their ranges stay inside the window even when
 * they are rounded outward, and the number of requests and bytes is what a
 * person would choose.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "lib/copy/read_plan.h"
#include "tests/kit/tap.h"

enum { FILE_SIZE = 1 << 16, RUBBISH = 0xEE };

static unsigned char file[FILE_SIZE + 8192], window[FILE_SIZE * 2];
static unsigned char wanted[FILE_SIZE * 8], seen[FILE_SIZE * 8];

static uint64_t state = 1;

static uint64_t chance(uint64_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (state >> 33) % n;
}

/* What a plan comes to. */
struct sum {
	uint64_t parts, straight, ranges, bytes, made;
	bool forward, inside;
};

static void element(const struct nest *n, unsigned char *dst,
	const unsigned char *src, int64_t d, int64_t s)
{
	int64_t size = tarn_dtype_bits(n->src_dtype) / 8;

	memcpy(dst + d * size, src + s * size, (size_t)size);
}

/* Element by element, in no clever way. */
static void move_naively(const struct nest *n, unsigned char *dst,
	const unsigned char *src, int level, int64_t d, int64_t s)
{
	if (level == n->n) {
		element(n, dst, src, d, s);
		return;
	}
	for (int64_t i = 0; i < n->extent[level]; i++)
		move_naively(n, dst, src, level + 1, d + i * n->dst[level],
			s + i * n->src[level]);
}

/* As a direct reader does it: whole blocks. */
static void read_range(const struct read_part *part, uint64_t i,
	const struct read_price *price, struct sum *sum)
{
	uint64_t mask = price->align - 1, at, to, begin, end;

	read_part_range(part, i, &at, &to);
	begin = at & ~mask;
	end = (at + part->size + mask) & ~mask;
	to -= at - begin;
	sum->ranges++;
	sum->bytes += part->size;
	if (((at ^ (to + (at - begin))) & mask) || to > price->window ||
		end - begin > price->window - to || at + part->size > FILE_SIZE)
		sum->inside = false;
	else
		memcpy(window + to, file + begin, end - begin);
}

static struct sum carry_out(const struct nest *nest,
	const struct read_price *price, uint64_t offset)
{
	struct sum sum = {.forward = true, .inside = true};
	struct read_part part;
	struct read_plan plan;
	uint64_t last = 0;

	read_plan(&plan, nest, true, offset, price);
	while (sum.inside && read_plan_next(&plan, &part)) {
		sum.parts++;
		sum.made += part.bytes;
		sum.forward &= part.begin >= last;
		last = part.begin;
		if (part.straight) {
			sum.straight++;
			sum.bytes += part.size;
			sum.ranges++;
			memcpy(seen + part.dst, file + part.begin, part.size);
			continue;
		}
		memset(window, RUBBISH, sizeof(window));
		for (uint64_t i = 0; i < part.count && sum.inside; i++)
			read_range(&part, i, price, &sum);
		move_naively(&part.box, seen, window + part.lead, 0,
			part.box.dst0, part.box.src0);
	}
	return sum;
}

/* A view of up to limit elements of the file, as the library makes them: some
 * dims of a contiguous whole, cut, turned, repeated. */
static void make_src(struct tarn_layout *l, int dtype, int64_t limit)
{
	int64_t shape[4];
	int ndim = (int)chance(5), r = 0;
	bool repeated = false;

	for (int i = 0; i < ndim; i++) {
		shape[i] = 1 + (int64_t)chance(1 + (uint64_t)limit / 2);
		limit /= shape[i];
	}
	r = tarn_layout_contiguous(dtype, ndim, shape, l);
	for (int i = 0; i < ndim && r == 0; i++) {
		int64_t from = (int64_t)chance((uint64_t)shape[i]);
		int64_t step = 1 + (int64_t)chance(3);

		if (chance(2))
			r = tarn_layout_slice(l, i, from, shape[i], step, l);
		if (chance(4) == 0 && r == 0)
			r = tarn_layout_flip(l, i, l);
		if (chance(5) == 0 && r == 0 && l->shape[i] == 1 && !repeated) {
			l->shape[i] = 3;
			l->stride[i] = 0;
			repeated = true;
		}
	}
	if (r == 0 && ndim > 1 && chance(2))
		r = tarn_layout_transpose(l, 0, ndim - 1, l);
	if (r < 0)
		bail("a layout: %s", tarn_error_message());
}

/* The same dims in some order, sometimes with room between them. Returns how
 * many bytes it reaches. */
static size_t make_dst(struct tarn_layout *l, const struct tarn_layout *src)
{
	int64_t stride = 1;
	int first = (int)chance(4);

	*l = *src;
	l->offset = 0;
	for (int k = 0; k < l->ndim; k++) {
		int i = (first + (first % 2 ? k : -k) + 4 * l->ndim) % l->ndim;

		l->stride[i] = stride;
		stride *= l->shape[i] + (l->shape[i] > 1 && chance(2));
	}
	stride *= tarn_dtype_bits(l->dtype) / 8;
	if (stride > (int64_t)sizeof(seen))
		bail("%lld bytes are too many", (long long)stride);
	return (size_t)stride;
}

static void test_random(void)
{
	static const int dtypes[] = {TARN_U8, TARN_I16, TARN_F32, TARN_C64};
	unsigned wrong = 0, straight = 0, boxes = 0, apart = 0;
	unsigned n = test_cases(4000), many = n / 40;

	for (unsigned i = 0; i < n; i++) {
		int dtype = dtypes[chance(4)];
		int64_t size = tarn_dtype_bits(dtype) / 8;
		struct read_price price = {
			.gap = chance(3) ? chance(600) : 0,
			.straight = 1 + chance(3000),
			.align = chance(2) ? 1 : 64u << chance(4),
		};
		struct tarn_layout dst, src;
		struct nest nest;
		struct sum sum;
		size_t reach;

		price.window = 2 * price.align + 64 + chance(FILE_SIZE / 2);
		make_src(&src, dtype, (FILE_SIZE - 64) / size);
		reach = make_dst(&dst, &src);
		nest_plan(&nest, &dst, &src, -1, NEST_BY_SRC);
		memset(wanted, RUBBISH, reach);
		memset(seen, RUBBISH, reach);
		if (!nest.empty)
			move_naively(&nest, wanted, file + 24, 0, nest.dst0,
				nest.src0);
		sum = carry_out(&nest, &price, 24);
		straight += sum.straight > 0;
		boxes += sum.parts > sum.straight;
		apart += sum.ranges > sum.parts;
		if (sum.inside && !memcmp(wanted, seen, reach))
			continue;
		diag("case %u: %d dims of %s, gap %llu, align %u, window %llu"
		     "%s",
			i, src.ndim, tarn_dtype_name(dtype),
			(unsigned long long)price.gap, price.align,
			(unsigned long long)price.window,
			sum.inside ? "" : ": out of the window");
		wrong++;
	}
	is_int(0, wrong, "random views are read to where they belong");
	ok(straight > many, "many parts of random views are read straight");
	ok(boxes > many,
		"many parts of random views are read through a window");
	ok(apart > many,
		"many parts of random views are ranges that are apart");
}

/* ---- what a person would choose -------------------------------------- */

static const struct read_price usual = {
	.gap = 4096,
	.straight = 4096,
	.window = 32768,
	.align = 512,
};

static struct sum plan_of(
	int dtype, int64_t rows, int64_t columns, const char *view, bool across)
{
	int64_t shape[] = {rows, columns};
	struct tarn_layout whole, src, dst;
	struct nest nest;

	if (tarn_layout_contiguous(dtype, 2, shape, &whole) < 0 ||
		tarn_layout_eval(&whole, view, &src) < 0)
		bail("%s: %s", view, tarn_error_message());
	if (tarn_layout_contiguous(dtype, src.ndim, src.shape, &dst) < 0)
		bail("%s: %s", view, tarn_error_message());
	if (across) {
		int64_t turned[] = {src.shape[1], src.shape[0]};

		if (tarn_layout_contiguous(dtype, 2, turned, &dst) < 0 ||
			tarn_layout_transpose(&dst, 0, 1, &dst) < 0)
			bail("%s: %s", view, tarn_error_message());
	}
	nest_plan(&nest, &dst, &src, -1, NEST_BY_SRC);
	return carry_out(&nest, &usual, 0);
}

static void test_choices(void)
{
	struct sum sum = plan_of(TARN_F32, 64, 256, "[:]", false);

	is_int(1, (int64_t)sum.parts, "a contiguous view is one part");
	is_int(1, (int64_t)sum.straight, "a contiguous view is read straight");

	sum = plan_of(TARN_F32, 64, 256, "[:, ::2]", false);
	ok(sum.bytes > 65000 && sum.bytes < 65536,
		"a view of every second column reads all bytes");
	is_int((int64_t)sum.parts, (int64_t)sum.ranges,
		"a view of every second column has a range per window");
	ok(sum.parts <= 3,
		"a view of every second column has two or three windows");

	sum = plan_of(TARN_F32, 8, 2048, "[:, 10:20]", false);
	is_int(320, (int64_t)sum.bytes,
		"a view of a few columns of long rows reads only those");
	is_int(8, (int64_t)sum.ranges,
		"a view of a few columns has a range per row");
	is_int(1, (int64_t)sum.parts, "a view of a few columns is one part");

	sum = plan_of(TARN_F32, 16, 1024, "[:, 0:1000]", false);
	ok(sum.bytes > 65000,
		"a view of nearly all columns reads the gaps, too");

	sum = plan_of(TARN_F32, 4, 4096, "[:, 0:2048]", false);
	is_int(4, (int64_t)sum.straight,
		"long runs of elements are read straight");
	is_int(4 * 8192, (int64_t)sum.bytes,
		"the plan reads only the long runs");

	sum = plan_of(TARN_U8, 128, 512, "[:]", true);
	is_int(FILE_SIZE, (int64_t)sum.bytes,
		"a transposed view reads every byte once");
	ok(sum.forward, "a transposed view is read from front to back");

	sum = plan_of(TARN_F32, 4, 4096, "[:]", true);
	is_int(FILE_SIZE, (int64_t)sum.bytes,
		"a transposed view of long rows reads every byte once");

	sum = plan_of(TARN_F32, 64, 256, ".flip(0, 1)", false);
	is_int(FILE_SIZE, (int64_t)sum.bytes,
		"a reversed view reads every byte once");
	ok(sum.forward, "a reversed view is read from front to back");

	sum = plan_of(TARN_F32, 1, 256, ".expand(64, 256)", false);
	is_int(1024, (int64_t)sum.bytes, "a repeated row is read once");
	is_int(65536, (int64_t)sum.made,
		"repeated elements are read once and written often");

	sum = plan_of(TARN_F32, 64, 256, "[3:3]", false);
	is_int(0, (int64_t)sum.parts, "a view without elements has no parts");
	sum = plan_of(TARN_F32, 64, 256, "[3, 4]", false);
	is_int(4, (int64_t)sum.bytes,
		"a view of one element reads its four bytes");
}

/* Rows longer than the window, to be written transposed: tiles of several rows
 * come together. */
static void test_tiles(void)
{
	struct read_price price = usual;
	int64_t shape[] = {16, 4096}, turned[] = {4096, 16};
	struct tarn_layout src, dst;
	struct read_plan plan;
	struct read_part part;
	struct nest nest;

	price.gap = 256;
	price.window = 8192;
	if (tarn_layout_contiguous(TARN_U8, 2, shape, &src) < 0 ||
		tarn_layout_contiguous(TARN_U8, 2, turned, &dst) < 0 ||
		tarn_layout_transpose(&dst, 0, 1, &dst) < 0)
		bail("%s", tarn_error_message());
	price.align = 1;
	nest_plan(&nest, &dst, &src, -1, NEST_BY_SRC);
	read_plan(&plan, &nest, true, 0, &price);
	ok(read_plan_next(&plan, &part),
		"the plan of a transposed view has a part");
	ok(part.count > 8, "a part of a transposed view has many rows");
	ok(part.size < 1024,
		"a part of a transposed view has a tile of each row");
}

/* Two elements a byte: cut only between bytes. */
static void test_packs(void)
{
	int64_t shape[] = {40, 100};
	struct tarn_layout src, dst;
	struct read_plan plan;
	struct read_part part;
	struct nest nest;
	unsigned odd = 0, parts = 0;
	uint64_t bytes = 0;

	if (tarn_layout_contiguous(TARN_F4, 2, shape, &src) < 0 ||
		tarn_layout_contiguous(TARN_F32, 2, shape, &dst) < 0)
		bail("%s", tarn_error_message());
	for (uint64_t size = 1100; size < 1200; size++) {
		struct read_price price = usual;

		price.window = size;
		nest_plan(&nest, &dst, &src, -1, NEST_BY_SRC);
		read_plan(&plan, &nest, false, 0, &price);
		for (bytes = 0; read_plan_next(&plan, &part); parts++) {
			odd += part.box.extent[part.box.n - 1] % 2;
			odd += part.straight;
			bytes += part.size;
		}
		odd += bytes != 2000;
	}
	is_int(0, odd, "packed elements are never split between parts");
	ok(parts > 200, "plans with windows of many sizes read right");
}

int main(void)
{
	for (size_t i = 0; i < sizeof(file); i++)
		file[i] = (unsigned char)(i * 0x9E3779B97F4A7C15u >> 56);
	test_random();
	test_choices();
	test_tiles();
	test_packs();
	return done(29);
}
