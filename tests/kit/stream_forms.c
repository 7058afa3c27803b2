// SPDX-License-Identifier: MIT
/* One generator, so that a round can be had again by its seed. */
#include "tests/kit/stream_forms.h"

#include <tarn/tarn.h>

#include "tests/kit/tap.h"

static uint64_t seed;

void form_seed(uint64_t first)
{
	seed = first;
}

uint64_t below(uint64_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

/* Most are small; how large the others are is the round's. */
static int64_t some_size(uint64_t most)
{
	return (int64_t)below(below(3) ? 40000 : most);
}

void form_run(struct tarn_layout *l, int dtype, int64_t n, int64_t stride)
{
	int64_t offset = stride < 0 && n > 0 ? -stride * (n - 1) : 0;

	if (tarn_layout_strided(dtype, 1, &n, &stride, offset, l) < 0)
		bail("%s", tarn_error_message());
}

/* Turned: each element of a row lies a column further on. */
static void turned_of(struct form *f, int64_t n)
{
	const int64_t rows = 1 + (int64_t)below(200), cols = 1 + n / rows / 4;
	const int64_t shape[2] = {rows, cols}, back[2] = {1, rows};

	if (tarn_layout_contiguous(TARN_F32, 2, shape, &f->dst) < 0 ||
		tarn_layout_strided(TARN_F32, 2, shape, back, 0, &f->src) < 0)
		bail("%s", tarn_error_message());
}

void form_io_mode(struct tarn_copy_options *o, bool direct)
{
	static const enum tarn_io_mode io_modes[] = {
		TARN_IO_AUTO, TARN_IO_AUTO, TARN_IO_BUFFERED, TARN_IO_DIRECT};

	o->io_mode = io_modes[below(direct ? 4 : 3)];
}

void form_some(struct form *f, bool to_file, uint64_t most, bool direct)
{
	static const double scale = 0.5;
	/* A gap costs a request where it is to be written. */
	int64_t n = some_size(most), few = to_file ? n % 1000 : n / 3;

	f->options = (struct tarn_copy_options) {0};
	form_io_mode(&f->options, direct);
	switch (below(9)) {
	case 0:
		form_run(&f->dst, TARN_U8, few, 1 + (int64_t)below(3));
		form_run(&f->src, TARN_U8, few, 1 + (int64_t)below(3));
		break;
	case 1:
		turned_of(f, n);
		break;
	case 2:
		form_run(&f->dst, TARN_F32, n / 4, 1);
		form_run(&f->src, TARN_U8, n / 4, 1);
		break;
	case 3:
		form_run(&f->dst, TARN_F16, n / 4, 1);
		form_run(&f->src, TARN_F32, n / 4, 1);
		f->options.scale = &scale;
		f->options.channels = 1;
		break;
	case 4:
		form_run(&f->dst, TARN_U8, n, 1);
		form_run(&f->src, TARN_U8, n, below(2) ? -1 : 0);
		break;
	default:
		form_run(&f->dst, TARN_U8, n, 1);
		form_run(&f->src, TARN_U8, n, 1);
	}
}

uint64_t form_reach(const struct tarn_layout *l)
{
	int64_t first, count;

	tarn_layout_bounds(l, &first, &count);
	return (uint64_t)(count * tarn_dtype_bits(l->dtype) / 8);
}
