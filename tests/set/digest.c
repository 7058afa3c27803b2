/* SPDX-License-Identifier: MIT */
/*
 * The digest of a tensor: the definition of set.h, done plainly, is what the
 * host computes, and what a device does (the stand-in, which runs the kernels'
 * text), for any strides, sizes, alignments and dtypes; each byte matters.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "lib/cuda/cuda.h"
#include "lib/set/digest.h"
#include "tests/cuda/cases.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static struct tarn_cuda_device gpu;

/* ---- the definition ------------------------------------------------------ */

static struct tarn_digest plain(const unsigned char *bytes, uint64_t n)
{
	uint64_t a = n * 0x9e3779b97f4a7c15u, b = n * 0xc2b2ae3d27d4eb4fu;

	for (uint64_t i = 0; 8 * i < n; i++) {
		uint64_t w = 0, x, y;

		for (uint64_t k = 0; k < 8 && 8 * i + k < n; k++)
			w |= (uint64_t)bytes[8 * i + k] << 8 * k;
		x = w + (i + 1) * 0x9e3779b97f4a7c15u;
		x ^= x >> 32;
		x *= 0xff51afd7ed558ccdu;
		x ^= x >> 29;
		y = w + (i + 1) * 0xc2b2ae3d27d4eb4fu;
		a += x;
		b += (y % ((uint64_t)1 << 32)) * (y >> 32);
	}
	return (struct tarn_digest) {{a, b}};
}

static bool same(struct tarn_digest a, struct tarn_digest b)
{
	return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}

static struct tarn_digest of(const tarn_tensor *t)
{
	struct tarn_digest d = {{0, 0}};

	must(tarn_tensor_digest(t, NULL, &d));
	return d;
}

static unsigned state = 7;

static unsigned next(void)
{
	state = state * 1664525u + 1013904223u;
	return state >> 8;
}

static tarn_tensor *random_bytes(int64_t n)
{
	unsigned char *p;
	tarn_tensor *t;

	must(tarn_tensor_zeros(TARN_U8, 1, &n, &t));
	p = tarn_tensor_data(t);
	for (int64_t i = 0; i < n; i++)
		p[i] = (unsigned char)next();
	return t;
}

static tarn_tensor *view(tarn_tensor *t, const char *expr)
{
	tarn_tensor *ret;

	must(tarn_tensor_eval(t, expr, &ret));
	return ret;
}

static tarn_tensor *there(tarn_tensor *t)
{
	tarn_tensor *ret;

	must(tarn_tensor_to_device(t, &gpu, NULL, &ret));
	return ret;
}

/* ---- cases --------------------------------------------------------------- */

static void tails(void)
{
	tarn_tensor *t = random_bytes(4096), *d;

	must(tarn_cuda_device("0", &gpu));
	d = there(t);
	for (int64_t n = 0; n <= 70; n++)
		for (int64_t first = 0; first < 9; first++) {
			tarn_tensor *here, *far;
			const unsigned char *p =
				(unsigned char *)tarn_tensor_data(t) + first;

			must(tarn_tensor_narrow(t, 0, first, n, &here));
			must(tarn_tensor_narrow(d, 0, first, n, &far));
			check(same(plain(p, (uint64_t)n), of(here)),
				"the host's digest of %lld bytes from %lld",
				(long long)n, (long long)first);
			check(same(plain(p, (uint64_t)n), of(far)),
				"the device's digest of %lld bytes from %lld",
				(long long)n, (long long)first);
			tarn_tensor_unref(here);
			tarn_tensor_unref(far);
		}
	tarn_tensor_unref(t);
	tarn_tensor_unref(d);
}

/* Parts of any sizes. */
static void pieces(void)
{
	tarn_tensor *t = random_bytes(100000);
	const unsigned char *p = tarn_tensor_data(t);

	for (int i = 0; i < 200; i++) {
		struct digest_state s = {.size = 0};
		uint64_t at = 0, end = 1 + next() % 100000;

		while (at < end) {
			uint64_t n = next() % 1600;

			n = MIN(n, end - at);
			set_digest_add(&s, p + at, n);
			at += n;
		}
		check(same(plain(p, end), set_digest_end(&s)),
			"%llu bytes in pieces", (unsigned long long)end);
	}
	tarn_tensor_unref(t);
}

static void flips(void)
{
	tarn_tensor *t = random_bytes(5000);
	unsigned char *p = tarn_tensor_data(t);
	struct tarn_digest before = of(t);
	unsigned unseen = 0;

	for (int i = 0; i < 5000; i++) {
		unsigned char was = p[i];

		for (int bit = 0; bit < 8; bit++) {
			struct tarn_digest after;

			p[i] = (unsigned char)(was ^ 1u << bit);
			after = of(t);
			unseen += after.word[0] == before.word[0];
		}
		p[i] = (unsigned char)(was + 1 + next() % 255);
		unseen += same(of(t), before);
		p[i] = was;
	}
	check(!unseen, "%u changes of one byte are not seen", unseen);
	check(same(of(t), before), "the same bytes have the same digest");
	tarn_tensor_unref(t);
}

/* Exchanged words and bytes: sums alone would not see them. */
static void order(void)
{
	tarn_tensor *t = random_bytes(1024), *u;
	unsigned char *p = tarn_tensor_data(t);
	struct tarn_digest before = of(t), after;
	unsigned char word[8];

	memcpy(word, p, 8);
	memcpy(p, p + 512, 8);
	memcpy(p + 512, word, 8);
	after = of(t);
	check(after.word[0] != before.word[0] &&
			after.word[1] != before.word[1],
		"words that were exchanged are seen by both sums");
	memset(p, 0, 1024);
	must(tarn_tensor_narrow(t, 0, 0, 1023, &u));
	check(!same(of(t), of(u)), "the number of zeros matters");
	tarn_tensor_unref(u);
	tarn_tensor_unref(t);
}

static void check_view(tarn_tensor *here, tarn_tensor *far, const char *expr)
{
	tarn_tensor *a = view(here, expr), *b = view(far, expr);
	const struct tarn_layout *l = tarn_tensor_layout(a);
	uint64_t size = (uint64_t)tarn_layout_nbytes(l);
	unsigned char *packed = malloc(size + 1);

	if (!packed)
		bail("out of memory");
	must(tarn_tensor_ravel(a, TARN_ORDER_C, packed, size));
	check(same(plain(packed, size), of(a)), "the host's digest of %s of %s",
		expr, tarn_dtype_name(l->dtype));
	check(same(plain(packed, size), of(b)),
		"the device's digest of %s of %s", expr,
		tarn_dtype_name(l->dtype));
	free(packed);
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
}

static void strides(void)
{
	static const char *const exprs[] = {
		"[:]",
		"[3:90]",
		".flip(0)",
		".transpose(0, 1)",
		".permute(2, 0, 1)",
		"[::3, 1:, ::-1]",
		"[5].transpose(0, 1)",
		"[:, 7, 2:9]",
		"[0, 0, 0]",
		"[4:4]",
		"[:1].expand(5, 30, 20)",
	};
	static const enum tarn_dtype dtypes[] = {
		TARN_U8, TARN_BF16, TARN_F32, TARN_C64};
	tarn_tensor *bytes = random_bytes(100 * 30 * 20 * 8);

	must(tarn_cuda_device("0", &gpu));
	for (size_t d = 0; d < ARRAY_SIZE(dtypes); d++) {
		const int64_t shape[] = {100, 30, 20};
		struct tarn_layout layout;
		tarn_tensor *t, *far;

		must(tarn_layout_contiguous(dtypes[d], 3, shape, &layout));
		must(tarn_tensor_with_layout(bytes, &layout, &t));
		far = there(t);
		for (size_t i = 0; i < ARRAY_SIZE(exprs); i++)
			check_view(t, far, exprs[i]);
		tarn_tensor_unref(t);
		tarn_tensor_unref(far);
	}
	tarn_tensor_unref(bytes);
}

/* More than a buffer and more than a block of threads; elements in parts of a
 * byte. */
static void large(void)
{
	const int64_t shape[] = {300, 20000};
	tarn_tensor *bytes = random_bytes(6000000), *t, *far;
	struct tarn_layout layout;

	must(tarn_cuda_device("0", &gpu));
	must(tarn_layout_contiguous(TARN_U8, 2, shape, &layout));
	must(tarn_tensor_with_layout(bytes, &layout, &t));
	far = there(t);
	check_view(t, far, "[:]");
	check_view(t, far, "[:, 1:19999]");
	check_view(t, far, ".transpose(0, 1)");
	check_view(t, far, "[::-1, ::2]");
	tarn_tensor_unref(t);
	tarn_tensor_unref(far);
	must(tarn_layout_contiguous(TARN_F4, 2, shape, &layout));
	must(tarn_tensor_with_layout(bytes, &layout, &t));
	far = there(t);
	check_view(t, far, "[:]");
	check_view(t, far, "[1::2]");
	check_view(t, far, "[:, 2:10000]");
	tarn_tensor_unref(t);
	tarn_tensor_unref(far);
	tarn_tensor_unref(bytes);
}

static void in_file(void)
{
	tarn_tensor *t = random_bytes(20000000), *f, *part, *part_there;
	FILE *file = tmpfile();
	tarn_storage *storage;
	int64_t n = 20000000;

	if (!file ||
		fwrite(tarn_tensor_data(t), 1, (size_t)n, file) != (size_t)n ||
		fflush(file))
		bail("a temporary file: %m");
	must(tarn_storage_from_fd(fileno(file), 0, (uint64_t)n, &storage));
	must(tarn_tensor_new(storage, 0, tarn_tensor_layout(t), &f));
	check(same(of(t), of(f)), "a file has the digest of its bytes");
	part = view(t, "[7:19000000:3]");
	part_there = view(f, "[7:19000000:3]");
	check(same(of(part), of(part_there)),
		"a view of a file has the digest of the view of its bytes");
	if (ftruncate(fileno(file), 1000) < 0)
		bail("ftruncate: %m");
	check_failed(-ENODATA, "digest: ",
		tarn_tensor_digest(f, NULL, &(struct tarn_digest) {{0, 0}}),
		"a file that has shrunk");
	tarn_tensor_unref(part);
	tarn_tensor_unref(part_there);
	tarn_tensor_unref(f);
	tarn_tensor_unref(t);
	tarn_storage_unref(storage);
	fclose(file);
}

/* What fails on the device is said, or done by the host. */
static void faults(void)
{
	struct tarn_digest d;
	tarn_tensor *t = random_bytes(1000), *far;

	must(tarn_cuda_device("0", &gpu));
	far = there(t);
	case_set("MODULE_LOAD", "209");
	check(same(of(t), of(far)),
		"without kernels for the device the host does it");
	case_set("MODULE_LOAD", "0");
	case_set("LAUNCH", "700");
	check_failed(-EIO, "digest: ", tarn_tensor_digest(far, NULL, &d),
		"a launch that fails");
	case_set("LAUNCH", "0");
	check(same(of(t), of(far)), "afterwards it is right again");
	tarn_tensor_unref(far);
	tarn_tensor_unref(t);
}

static void lost(void)
{
	struct tarn_digest d;
	tarn_tensor *t = random_bytes(1000), *far;

	must(tarn_cuda_device("0", &gpu));
	far = there(t);
	case_set("WORK", "719");
	check(tarn_tensor_digest(far, NULL, &d) < 0,
		"work that fails gives no digest");
	tarn_tensor_unref(far);
	tarn_tensor_unref(t);
}

/* What needs no device, where tarn was built without. */
static int host_only(void)
{
	pieces();
	flips();
	order();
	in_file();
	is_int(0, check_failures(), "the host's digest is the definition's");
	return done(1);
}

int main(int argc, char **argv)
{
	static const struct case_ cases[] = {
		{"tails", "bytes of any number and alignment", tails, {NULL}},
		{"pieces", "bytes in pieces", pieces, {NULL}},
		{"flips", "each bit and byte changes the digest", flips,
			{NULL}},
		{"order", "the order of bytes and their number matter", order,
			{NULL}},
		{"strides", "tensors of any strides", strides, {NULL}},
		{"large", "tensors that are summed up in parts", large, {NULL}},
		{"in_file", "tensors in a file", in_file, {NULL}},
		{"faults", "errors of a device are reported", faults, {NULL}},
		{"lost", "a device that is lost is reported", lost, {NULL}},
	};

	if (!cuda_is_built())
		return host_only();
	return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
