// SPDX-License-Identifier: MIT
/*
 * Every view operation, through the expressions that name it: what shape,
 * strides and offset come out (the strides are those that PyTorch computes,
 * extents of 1 included), when a copy is needed, and which sentence a mistake
 * leaves.
 */
#include "tests/kit/layout_text.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *spec;
	const char *expr;
	int copies;
	const char *wanted;
} works[] = {
	/* indexing */
	{"F32[4,8]", "", 0, "[4,8]:(8,1)+0"},
	{"F32[4,8]", "[1]", 0, "[8]:(1)+8"},
	{"F32[4,8]", "[-1, 2]", 0, "[]:()+26"},
	{"F32[4,8]", "[0:4, ::2]", 0, "[4,4]:(8,2)+0"},
	{"F32[4,8]", "[1:100]", 0, "[3,8]:(8,1)+8"},
	{"F32[4,8]", "[-100:2]", 0, "[2,8]:(8,1)+0"},
	{"F32[4,8]", "[3:1]", 0, "[0,8]:(8,1)+0"},
	{"F32[4,8]", "[100:]", 0, "[0,8]:(8,1)+0"},
	{"F32[4,8]", "[::-1]", 0, "[4,8]:(-8,1)+24"},
	{"F32[4,8]", "[:, 6:1:-2]", 0, "[4,3]:(8,-2)+6"},
	{"F32[4,8]", "[..., 3]", 0, "[4]:(8)+3"},
	{"F32[4,8]", "[3, ...]", 0, "[8]:(1)+24"},
	{"F32[4,8]", "[None]", 0, "[1,4,8]:(32,8,1)+0"},
	{"F32[4,8]", "[..., None]", 0, "[4,8,1]:(8,1,1)+0"},
	{"F32[4,8]", "[1, None, 2:4,]", 0, "[1,2]:(8,1)+10"},
	{"F32[]", "[...]", 0, "[]:()+0"},
	{"F32[]", "[None]", 0, "[1]:(1)+0"},
	{"F32[5]", "[99999999999999999999:-99999999999999999999:-1]", 0,
		"[5]:(-1)+4"},
	{"F32[5]", "[::99999999999999999999]", 0,
		"[1]:(9223372036854775807)+0"},
	{"F32[1,1,1,1,1,1,1,1,1,1,1,7]", "[None, 0, ..., 3]", 0,
		"[1,1,1,1,1,1,1,1,1,1,1]:(7,7,7,7,7,7,7,7,7,7,7)+3"},
	/* order */
	{"F32[2,3,4]", ".T", 0, "[4,3,2]:(1,4,12)+0"},
	{"F32[2,3,4]", ".T[1].T", 0, "[2,3]:(12,4)+1"},
	{"F32[]", ".T", 0, "[]:()+0"},
	{"F32[2,3,4]", ".permute(2,0,1)", 0, "[4,2,3]:(1,12,4)+0"},
	{"F32[2,3,4]", ".permute((-1, 0, 1))", 0, "[4,2,3]:(1,12,4)+0"},
	{"F32[2,3,4]", ".permute([2,0,1])", 0, "[4,2,3]:(1,12,4)+0"},
	{"F32[]", ".permute()", 0, "[]:()+0"},
	{"F32[2,3,4]", ".transpose(0,-1)", 0, "[4,3,2]:(1,4,12)+0"},
	{"F32[]", ".transpose(0,-1)", 0, "[]:()+0"},
	{"F32[2,3]", ".flip(1)", 0, "[2,3]:(3,-1)+2"},
	{"F32[2,3]", ".flip(0,1)", 0, "[2,3]:(-3,-1)+5"},
	{"F32[2,3]", ".flip(0).flip(0)", 0, "[2,3]:(3,1)+0"},
	{"F32[0,3]", ".flip(0)", 0, "[0,3]:(3,1)+0"},
	/* parts */
	{"F32[7,2]", ".skip(0,3)", 0, "[3,2]:(6,1)+0"},
	{"F32[7,2]", ".narrow(0,2,3)", 0, "[3,2]:(2,1)+4"},
	{"F32[7,2]", ".narrow(0,-2,2)", 0, "[2,2]:(2,1)+10"},
	{"F32[7,2]", ".narrow(0,7,0)", 0, "[0,2]:(2,1)+0"},
	{"F32[7,2]", ".select(-1,1)", 0, "[7]:(2)+1"},
	/* one element more or less */
	{"F32[2,3]", ".unsqueeze(0)", 0, "[1,2,3]:(6,3,1)+0"},
	{"F32[2,3]", ".unsqueeze(1)", 0, "[2,1,3]:(3,3,1)+0"},
	{"F32[2,3]", ".unsqueeze(-1)", 0, "[2,3,1]:(3,1,1)+0"},
	{"F32[1,3,1]", ".squeeze()", 0, "[3]:(1)+0"},
	{"F32[1,3,1]", ".squeeze(0)", 0, "[3,1]:(1,1)+0"},
	{"F32[1,3,1]", ".squeeze(1)", 0, "[1,3,1]:(3,1,1)+0"},
	{"F32[]", ".squeeze(0)", 0, "[]:()+0"},
	{"F32[3,1]", ".expand(3,4)", 0, "[3,4]:(1,0)+0"},
	{"F32[3,1]", ".expand(2,-1,4)", 0, "[2,3,4]:(0,1,0)+0"},
	{"F32[3,1]", ".expand(1,3,4)", 0, "[1,3,4]:(3,1,0)+0"},
	{"F32[1]", ".expand(0)", 0, "[0]:(0)+0"},
	{"F32[]", ".expand(2,2)", 0, "[2,2]:(0,0)+0"},
	/* strides read in another way */
	{"F32[3,4]", ".diagonal()", 0, "[3]:(5)+0"},
	{"F32[3,4]", ".diagonal(1)", 0, "[3]:(5)+1"},
	{"F32[3,4]", ".diagonal(-1)", 0, "[2]:(5)+4"},
	{"F32[3,4]", ".diagonal(9)", 0, "[0]:(5)+0"},
	{"F32[2,3,4]", ".diagonal(0,0,2)", 0, "[3,2]:(4,13)+0"},
	{"F32[7]", ".unfold(0,3,2)", 0, "[3,3]:(2,1)+0"},
	{"F32[2,7]", ".unfold(1,3,1)", 0, "[2,5,3]:(7,1,1)+0"},
	{"F32[]", ".unfold(0,1,1)", 0, "[1]:(1)+0"},
	{"F32[2,3]", ".bitcast(I32)", 0, "[2,3]:(3,1)+0"},
	{"F32[2,3]+3", ".bitcast(U8)", 0, "[2,12]:(12,1)+12"},
	{"U8[2,8]:(16,1)+4", ".bitcast('float32')", 0, "[2,2]:(4,1)+1"},
	{"F4[2,8]", ".bitcast(U8)", 0, "[2,4]:(4,1)+0"},
	{"F6_E2M3[2,8]", ".bitcast(U8)", 0, "[2,6]:(6,1)+0"},
	{"U8[6]", ".bitcast(F6_E3M2)", 0, "[8]:(1)+0"},
	/* grouping */
	{"F32[2,3,4]", ".view(6,4)", 0, "[6,4]:(4,1)+0"},
	{"F32[2,3,4]", ".view(-1)", 0, "[24]:(1)+0"},
	{"F32[6,4]", ".view(2,1,3,4)", 0, "[2,1,3,4]:(12,12,4,1)+0"},
	{"F32[4,1]:(1,77)", ".view(2,2,1)", 0, "[2,2,1]:(2,1,77)+0"},
	{"F32[1,4]:(99,2)", ".view(4,1)", 0, "[4,1]:(2,2)+0"},
	{"F32[4,8]", "[:, ::2].view(2,2,4)", 0, "[2,2,4]:(16,8,2)+0"},
	{"F32[4,8]", "[:, ::2].view(-1)", 0, "[16]:(2)+0"},
	{"F32[]", ".view(1,1)", 0, "[1,1]:(1,1)+0"},
	{"F32[1,1]", ".view()", 0, "[]:()+0"},
	{"F32[0,3]:(7,2)", ".view(0,3)", 0, "[0,3]:(7,2)+0"},
	{"F32[0,3]:(7,2)", ".view(3,0,2)", 0, "[3,0,2]:(2,2,1)+0"},
	{"F32[0,3]", ".reshape(5,-1)", 0, "[5,0]:(1,1)+0"},
	{"F32[2,3]", ".transpose(0,1).reshape(6)", 1, "[6]:(1)+0"},
	{"F32[2,3]", "[1].reshape(3,1)", 0, "[3,1]:(1,1)+3"},
	{"F32[4,6]", "[:, 1:].reshape(-1)[3:]", 1, "[17]:(1)+3"},
	{"F32[5]", ".flip(0).reshape(5,1)", 0, "[5,1]:(-1,-1)+4"},
	{"F32[3,1]", ".expand(3,4).reshape(12)", 1, "[12]:(1)+0"},
	{"F32[3,1]", ".expand(3,4).reshape(3,2,2)", 0, "[3,2,2]:(1,0,0)+0"},
	{"F32[]", ".flatten()", 0, "[1]:(1)+0"},
	{"F32[2,3,4]", ".flatten(1)", 0, "[2,12]:(12,1)+0"},
	{"F32[2,3,4]", ".flatten(0,1)", 0, "[6,4]:(4,1)+0"},
	{"F32[2,3,4]", ".permute(2,0,1).flatten(1)", 0, "[4,6]:(1,4)+0"},
	{"F32[2,3,4]", ".permute(2,0,1).flatten()", 1, "[24]:(1)+0"},
	{"F32[2,3,4]", ".merge(1,2)", 0, "[2,12]:(12,1)+0"},
	{"F32[2,3,4]", ".merge(1,1)", 0, "[2,3,4]:(12,4,1)+0"},
	{"F32[3,10]", ".split(1,0,5)", 0, "[3,2,5]:(10,5,1)+0"},
	{"F32[3,10]", ".split(1,2,-1)", 0, "[3,2,5]:(10,5,1)+0"},
	{"F32[0]", ".split(0,0,3)", 0, "[0,3]:(3,1)+0"},
	{"F32[2,3]", ".contiguous()", 0, "[2,3]:(3,1)+0"},
	{"F32[2,3]", ".transpose(0,1).contiguous()", 1, "[3,2]:(2,1)+0"},
	/* rearrange */
	{"U8[2,4,6]", ".rearrange(\"b h w -> b (h w)\")", 0, "[2,24]:(24,1)+0"},
	{"U8[2,8,3]", ".rearrange('b (h w) c -> b c h w', h=2)", 0,
		"[2,3,2,4]:(24,1,12,3)+0"},
	{"U8[2,4,6]", ".rearrange(\"b h w -> b (w h)\")", 1, "[2,24]:(24,1)+0"},
	{"U8[2,4,6]", ".rearrange(\"b ... -> ... b\")", 0,
		"[4,6,2]:(6,1,24)+0"},
	{"U8[2,4,6]", ".rearrange(\"b ... -> b (...)\")", 0, "[2,24]:(24,1)+0"},
	{"U8[1,4]", ".rearrange(\"1 a -> a 1\")", 0, "[4,1]:(1,4)+0"},
	{"U8[4]", ".rearrange(\"(a 1 b) -> b () a\", b=2)", 0,
		"[2,1,2]:(1,4,2)+0"},
	{"U8[1,2]", ".rearrange(\"(1 1 1 1 1 1 1) a -> a (1 1 1 1 1 1 1)\")", 0,
		"[2,1]:(1,2)+0"},
	{"U8[]", ".rearrange(\" -> 1\")", 0, "[1]:(1)+0"},
	/* sub-byte types keep their packs whole */
	{"F4[2,8]", "[:, 2:6]", 0, "[2,4]:(8,1)+2"},
	{"F4[2,8]", "[1]", 0, "[8]:(1)+8"},
	{"F4[2,4,8]", ".transpose(0,1)", 0, "[4,2,8]:(8,32,1)+0"},
	{"F4[8]", "[3:3]", 0, "[0]:(1)+0"},
};

static const struct {
	const char *spec;
	const char *expr;
	int err;
	const char *why;
} fails[] = {
	/* the text */
	{"F32[4]", "[0:4", EINVAL, "column 5: expected ',' or ']'"},
	{"F32[4]", "[]", EINVAL, "column 2: expected a number, a slice"},
	{"F32[4]", "[1,,2]", EINVAL, "column 4: expected a number, a slice"},
	{"F32[4]", "[::0]", EINVAL, "column 4: the step of a slice cannot be"},
	{"F32[4]", "[..., ...]", EINVAL, "column 7: only one ..."},
	{"F32[4]", "0:4", EINVAL, "column 1: expected '[' or '.'"},
	{"F32[4]", ".flop(0)", EINVAL,
		"column 2: there is no view called \"flop\"; there are "
		"T, bitcast, rearrange, contiguous, "},
	{"F32[4]", ".flip 0", EINVAL, "column 7: expected '('"},
	{"F32[4]", ".T()", EINVAL, "column 3: expected '[' or '.'"},
	{"F32[4]", ".Ta", EINVAL, "column 4: expected '(', found the end"},
	{"F32[4]", ".flip(0", EINVAL, "column 8: expected ',' or ')'"},
	{"F32[4]", ".flip(x)", EINVAL, "column 7: expected a whole number"},
	{"F32[4]", ".narrow(0,1)", EINVAL,
		"narrow takes 3 numbers, and 2 are given"},
	{"F32[4]", ".unsqueeze()", EINVAL,
		"unsqueeze takes 1 number, and 0 are given"},
	{"F32[4]", ".contiguous(1)", EINVAL,
		"contiguous takes no number, and 1 is given"},
	{"F32[4]", ".flatten(0,1,2)", EINVAL,
		"flatten takes 0 to 2 numbers, and 3 are given"},
	{"F32[4]", ".bitcast(F33)", EINVAL, "\"F33\""},
	{"F32[4]", ".rearrange(\"a -> a)", EINVAL, "column 12: this quote"},
	{"F32[4]", ".rearrange(\"a -> a\", =2)", EINVAL, "a name and its size"},
	{"F32[4]", "[99999999999999999999]", EOVERFLOW, "column 2: the number"},
	/* indexing */
	{"F32[4,8]", "[4]", ERANGE,
		"index: index 4 is out of range for dimension 0 of shape "
		"[4, 8]"},
	{"F32[4,8]", "[0, -9]", ERANGE,
		"index -9 is out of range for "
		"dimension 1"},
	{"F32[4,8]", "[0,0,0]", EINVAL, "3 indices are more than the 2"},
	{"F32[]", "[0]", EINVAL, "1 indices are more than the 0"},
	{"F32[0]", "[0]", ERANGE, "index 0 is out of range"},
	{"F32[1,1,1,1,1,1,1,1,1,1,1,1]", "[None]", EINVAL, "0 to 12"},
	{"F32[4,8]", ".select(2,0)", EINVAL, "no dimension 2 in shape [4, 8]"},
	{"F32[4,8]", ".select(0,4)", ERANGE, "select: index 4"},
	{"F32[4,8]", ".narrow(0,2,3)", ERANGE, "3 elements from 2 on"},
	{"F32[4,8]", ".narrow(0,0,-1)", EINVAL, "length -1"},
	{"F32[4,8]", ".skip(0,0)", EINVAL, "step 0"},
	/* order */
	{"F32[2,3]", ".permute(0)", EINVAL, "[0] is no order of the 2"},
	{"F32[2,3]", ".permute(0,0)", EINVAL, "one is named twice"},
	{"F32[2,3]", ".permute(0,2)", EINVAL, "no dimension 2"},
	{"F32[2,3]", ".transpose(0,-3)", EINVAL, "no dimension -3"},
	{"F32[2,3]", ".flip(0,-2)", EINVAL, "dimension 0 is named twice"},
	/* one element more or less */
	{"F32[2,3]", ".unsqueeze(4)", EINVAL, "(-3 to 2)"},
	{"F32[2,3]", ".squeeze(2)", EINVAL, "no dimension 2"},
	{"F32[2,3]", ".expand(4,3)", EINVAL,
		"dimension 0 of shape [2, 3] has "
		"2 elements"},
	{"F32[2,3]", ".expand(3)", EINVAL, "[3] has fewer dimensions"},
	{"F32[2,3]", ".expand(-1,2,3)", EINVAL, "new needs a size"},
	{"F32[1,1]", ".expand(4294967296,4294967296)", EOVERFLOW, "2^63"},
	/* strides read in another way */
	{"F32[3]", ".diagonal()", EINVAL, "no dimension 1"},
	{"F32[3,3]", ".diagonal(0,1,-1)", EINVAL, "named twice"},
	{"F32[7]", ".unfold(0,8,1)", EINVAL, "a window of 8"},
	{"F32[7]", ".unfold(0,2,0)", EINVAL, "step 0"},
	{"U8[0,9223372036854775807]", ".unfold(1,0,1)", EOVERFLOW,
		"windows of 0 in dimension 1"},
	{"U8[6]", ".bitcast(F32)", EINVAL, "last dimension 6 of [6]"},
	{"U8[8]+2", ".bitcast(F32)", EINVAL, "offset 2"},
	{"U8[2,4]:(6,1)", ".bitcast(F32)", EINVAL, "stride 6"},
	{"U8[4,4]", ".transpose(0,1).bitcast(F32)", EINVAL, "adjacent"},
	{"F32[]", ".bitcast(U8)", EINVAL, "rank 0"},
	/* grouping */
	{"F32[2,3]", ".view(4)", EINVAL,
		"shape [2, 3] has 6 elements, which "
		"[4] cannot hold"},
	{"F32[2,3]", ".view(4,-1)", EINVAL, "cannot hold"},
	{"F32[2,3]", ".view(-1,-1)", EINVAL, "only one size"},
	{"F32[2,3]", ".view(-2,-3)", EINVAL, "size -2 of dimension 0"},
	{"F32[0]", ".view(0,-1)", EINVAL, "any size would do"},
	{"F32[2,3]", ".reshape(9223372036854775807,2)", EOVERFLOW, "2^63"},
	{"F32[2,3]", ".reshape(1,1,1,1,1,1,1,1,1,1,1,2,3)", EINVAL, "13"},
	{"F32[2,3]", ".transpose(0,1).view(6)", EINVAL,
		"dimensions 0 and 1 do not lie behind one another"},
	{"F32[2,3,4]", ".permute(1,0,2).merge(0,1)", EINVAL,
		"dimensions 0 "
		"and 1"},
	{"F32[2,3,4]", ".merge(1,0)", EINVAL, "dimension 1 comes after"},
	{"F32[3,10]", ".split(1,0,0,5)", EINVAL, "only one size"},
	{"F32[3,10]", ".split(1,3,4)", EINVAL,
		"split: dimension 1 of shape [3, 10]: shape [10] has 10 "
		"elements, which [3, 4] cannot hold"},
	{"F32[3,10]", ".split(2,1,1)", EINVAL, "no dimension 2"},
	{"F32[]", ".split(0,1,1)", EINVAL, "rank 0"},
	{"F32[2,3]", ".flatten(1,0)", EINVAL, "dimension 1 comes after"},
	/* rearrange */
	{"U8[4]", ".rearrange(\"a\")", EINVAL, "has no \"->\""},
	{"U8[4]", ".rearrange(\"a -> b\")", EINVAL,
		"column 1: this name is "
		"on one side only"},
	{"U8[4]", ".rearrange(\"a -> a a\")", EINVAL,
		"column 8: this name is "
		"on this side already"},
	{"U8[4]", ".rearrange(\"(a -> a\")", EINVAL, "column 1: this paren"},
	{"U8[4]", ".rearrange(\"a ! -> a\")", EINVAL, "column 3"},
	{"U8[4]", ".rearrange(\"a b -> b a\")", EINVAL,
		"begins with 2 dimensions, and shape [4] has 1"},
	{"U8[4]", ".rearrange(\"(a b) -> b a\")", EINVAL, "only one size"},
	{"U8[4]", ".rearrange(\"(a b) -> b a\", a=3)", EINVAL,
		"rearrange: dimension 0 of shape [4]: shape [4] has 4 "
		"elements, which [3, -1] cannot hold"},
	{"U8[4]", ".rearrange(\"a -> a\", b=3)", EINVAL, "\"b\" has a size"},
	{"U8[4]", ".rearrange(\"(a b) -> b a\", a=2, a=4)", EINVAL,
		"\"a\" has two sizes, 2 and 4"},
	{"U8[1]", ".rearrange(\"(1 1 1 1 1 1 1 1 1 1 1 1 1) -> 1\")", EINVAL,
		"13"},
	{"U8[1]",
		".rearrange(\"(1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 "
		"1 1) -> 1\")",
		EINVAL, "more than 24"},
	{"U8[4]", ".rearrange(\"(...) -> ...\")", EINVAL, "... cannot be"},
	/* sub-byte types */
	{"F4[2,8]", "[:, 1:]", ENOTSUP, "F4"},
	{"F4[2,8]", "[:, 0:3]", ENOTSUP, "multiple of 2"},
	{"F4[2,8]", "[0,0]", ENOTSUP, "not a whole byte"},
	{"F4[2,8]", ".transpose(0,1)", ENOTSUP, "stride 8"},
	{"F4[8]", ".flip(0)", ENOTSUP, "offset 7"},
	{"F6_E2M3[8]", "[2:6]", ENOTSUP, "must be a multiple of 4"},
};

int main(void)
{
	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
		struct tarn_layout l = layout_from(works[i].spec);
		int r = tarn_layout_eval(&l, works[i].expr, &l);

		if (!is_int(works[i].copies, r,
			    "an expression is evaluated: %s %s", works[i].spec,
			    works[i].expr))
			diag("%s", tarn_error_message());
		is_str(works[i].wanted, layout_full(&l),
			"the expression gives the expected layout");
		is_int(0, tarn_layout_check(&l),
			"the layout of the expression passes its check");
	}
	for (size_t i = 0; i < sizeof(fails) / sizeof(fails[0]); i++) {
		struct tarn_layout l = layout_from(fails[i].spec);
		struct tarn_layout before = l;

		is_int(-fails[i].err, tarn_layout_eval(&l, fails[i].expr, &l),
			"an expression is refused: %s %s", fails[i].spec,
			fails[i].expr);
		has_str(fails[i].why, tarn_error_message(),
			"the error says why the expression is refused");
		is_mem(&before, &l, sizeof(l),
			"a refused expression does not change the output");
	}
	return done(579);
}
