// SPDX-License-Identifier: MIT
/*
 * Functions of two layouts, and questions about one: broadcast, overlap,
 * contiguity. Overlap is checked against brute force: a "no" must be true for
 * every pair, and the pairs that the documentation promises to tell apart must
 * be a "no".
 */
#include "tests/kit/layout_text.h"
#include "tests/kit/must.h"

#include <errno.h>
#include <string.h>

static void test_broadcast(void)
{
	struct tarn_layout l[3] = {
		layout_from("F32[3,1]"),
		layout_from("U8[4]+7"),
		layout_from("F64[]"),
	};
	struct tarn_layout before[3];

	is_int(0, tarn_layout_broadcast(l, 3, l),
		"three shapes are broadcast in place");
	is_str("[3,4]:(1,0)+0", layout_full(&l[0]),
		"a shape [3, 1] is broadcast by stride 0 in its last "
		"dimension");
	is_str("[3,4]:(0,1)+7", layout_full(&l[1]),
		"a shape [4] is broadcast by stride 0 in a new dimension");
	is_str("[3,4]:(0,0)+0", layout_full(&l[2]),
		"a shape [] is broadcast by stride 0 everywhere");

	l[0] = layout_from("F32[1,0]");
	l[1] = layout_from("F32[5,1]");
	is_int(0, tarn_layout_broadcast(l, 2, l),
		"an extent of 1 is broadcast against 0");
	is_str("[5,0]:(0,1)+0", layout_full(&l[0]),
		"an extent of 1 becomes 0 against 0");

	l[0] = layout_from("F32[2,3]");
	l[1] = layout_from("F32[4]");
	memcpy(before, l, sizeof(l));
	is_int(-EINVAL, tarn_layout_broadcast(l, 2, l),
		"extents 3 and 4 are not broadcast");
	has_str("shape [4] does not fit [2, 3]", tarn_error_message(),
		"the error names both shapes");
	is_mem(before, l, sizeof(l), "a refused broadcast writes no layout");

	l[0] = layout_from("F32[4294967296,1]");
	l[1] = layout_from("F32[4294967296]");
	memcpy(before, l, sizeof(l));
	is_int(-EOVERFLOW, tarn_layout_broadcast(l, 2, l),
		"a broadcast to 2^64 elements is refused");
	is_mem(before, l, sizeof(l),
		"a broadcast that overflows writes no layout");
	is_int(0, tarn_layout_broadcast(NULL, 0, NULL),
		"a broadcast of no layouts succeeds");
}

static void meets(bool wanted, const char *a, const char *b)
{
	struct tarn_layout x = layout_from(a), y = layout_from(b);

	ok(wanted == tarn_layout_overlaps(&x, &y),
		"an overlap of %s and %s is judged: %s", a, b,
		wanted ? "yes" : "no");
	ok(wanted == tarn_layout_overlaps(&y, &x),
		"the overlap is judged the same in the other order");
}

static void meets_itself(bool wanted, const char *spec)
{
	struct tarn_layout l = layout_from(spec);

	ok(wanted == tarn_layout_overlaps_itself(&l), "%s overlaps itself: %s",
		spec, wanted ? "yes" : "no");
}

/* Bytes that a layout of bytes reaches, as bits of a word; its offset and
 * strides keep it inside of 64. Returns false if two indices meet. */
static bool touch(const struct tarn_layout *l, uint64_t *ret)
{
	int64_t n = tarn_layout_numel(l);
	bool alone = true;

	*ret = 0;
	for (int64_t i = 0; i < n; i++) {
		int64_t index[TARN_NDIM_MAX], e = 0;

		must(tarn_layout_unravel_index(
			l->ndim, l->shape, i, TARN_ORDER_C, index));
		if (tarn_layout_element(l, index, &e) < 0)
			bail("%s", tarn_error_message());
		alone &= !(*ret >> e & 1);
		*ret |= UINT64_C(1) << e;
	}
	return alone;
}

static void test_brute(void)
{
	static struct tarn_layout all[3000];
	static uint64_t reach[3000];
	int n = 0, lies = 0, spared = 0, self_lies = 0;

	for (int i = 0; i < 3000; i++) {
		int64_t shape[2] = {1 + i % 3, 1 + i / 3 % 4};
		int64_t stride[2] = {i / 12 % 7 - 2, i / 84 % 9 - 4};
		bool alone;

		if (tarn_layout_strided(TARN_U8, 2, shape, stride, 20 + i / 756,
			    &all[n]) < 0)
			bail("%s", tarn_error_message());
		alone = touch(&all[n], &reach[n]);
		self_lies += !alone && !tarn_layout_overlaps_itself(&all[n]);
		n++;
	}
	for (int i = 0; i < n; i += 3) {
		for (int j = 1; j < n; j += 7) {
			bool said = tarn_layout_overlaps(&all[i], &all[j]);

			lies += !said && (reach[i] & reach[j]);
			spared += !said;
		}
	}
	is_int(0, self_lies,
		"no layout that overlaps itself is missed, by brute force");
	is_int(0, lies, "no overlap of two layouts is missed, by brute force");
	diag("%d pairs", spared);
	ok(spared > 0, "layouts that interleave are told apart");
}

int main(void)
{
	test_broadcast();

	meets(true, "F32[4]", "F32[4]");
	meets(false, "F32[4]", "F32[4]+4");
	meets(true, "F32[4]", "U8[4]+15");
	meets(false, "F32[4]", "U8[4]+16");
	meets(false, "F32[4]:(2)", "F32[4]:(2)+1");
	meets(true, "F32[4]:(2)", "F32[4]:(3)+1");
	meets(false, "F32[4,2]:(4,1)", "F32[4,2]:(4,1)+2");
	meets(true, "F32[4,3]:(4,1)", "F32[4,2]:(4,1)+2");
	meets(false, "F32[4]:(-2)+6", "F32[3]:(2)+1");
	meets(false, "F32[0]", "F32[4]");
	meets(false, "F4[4,2]:(8,1)", "F4[4,2]:(8,1)+2");

	meets_itself(false, "F32[4,8]");
	meets_itself(false, "F32[8,4]:(1,8)");
	meets_itself(true, "F32[4,8]:(0,1)");
	meets_itself(true, "F32[5,3]:(1,1)");
	meets_itself(false, "F32[3,3]:(3,-1)+2");
	meets_itself(false, "F32[0,8]:(0,0)");
	meets_itself(false, "F32[1,8]:(0,1)");
	meets_itself(false, "F32[]");
	test_brute();
	return done(45);
}
