/* SPDX-License-Identifier: MIT */
/*
 * Sets on the real device: refits do what tests/set/refit_device finds them to
 * do with the stand-in, and the digest of a tensor is that of the host, which is
 * shown beside a copy of the same bytes within the device. Without a device it
 * is skipped.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/cuda/cases.h"
#include "tests/gpu/real.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"
#include "tests/set/refits.h"

static struct tarn_cuda_device gpu;

static void on_device(void (*behaviour)(void), const char *what)
{
	int before = check_failures();

	refits_begin(&gpu, NULL);
	behaviour();
	refits_end();
	is_int(before, check_failures(), "%s", what);
}

/* ---- digests ------------------------------------------------------------- */

static tarn_tensor *bytes(int64_t n)
{
	unsigned char *p;
	tarn_tensor *t;

	must(tarn_tensor_zeros(TARN_U8, 1, &n, &t));
	p = tarn_tensor_data(t);
	for (int64_t i = 0; i < n; i++)
		p[i] = (unsigned char)(i * 7 + i / 251 + i / 65537);
	return t;
}

static bool same(const tarn_tensor *a, const tarn_tensor *b)
{
	struct tarn_digest x = {{0, 0}}, y = {{1, 1}};

	must(tarn_tensor_digest(a, NULL, &x));
	must(tarn_tensor_digest(b, NULL, &y));
	return !memcmp(&x, &y, sizeof(x));
}

static void views(void)
{
	static const char *const exprs[] = {"[:]", "[1:]", "[3:70000:3]",
		"[:1]", "[5:38]", ".flip(0)", "[:8388608].reshape(1024, 8192)"};
	tarn_tensor *here = bytes((16 << 20) + 13), *there;
	unsigned bad = 0;

	must(tarn_tensor_to_device(here, &gpu, NULL, &there));
	for (size_t i = 0; i < ARRAY_SIZE(exprs); i++) {
		tarn_tensor *a, *b;

		must(tarn_tensor_eval(here, exprs[i], &a));
		must(tarn_tensor_eval(there, exprs[i], &b));
		bad += !same(a, b);
		tarn_tensor_unref(a);
		tarn_tensor_unref(b);
	}
	is_int(0, bad, "the device's digests are the host's");
	tarn_tensor_unref(here);
	tarn_tensor_unref(there);
}

static void speed(void)
{
	const int64_t n = (int64_t)1 << 30;
	tarn_tensor *t, *u;
	double digest = 1e9, copy = 1e9;

	must(tarn_cuda_zeros(&gpu, TARN_U8, 1, &n, &t));
	must(tarn_cuda_zeros(&gpu, TARN_U8, 1, &n, &u));
	for (int i = 0; i < 6; i++) {
		struct tarn_digest d;
		double start = seconds();

		must(tarn_tensor_digest(t, NULL, &d));
		digest = MIN(digest, seconds() - start);
		start = seconds();
		must(tarn_copy(u, t, NULL, NULL));
		copy = MIN(copy, seconds() - start);
	}
	diag("digest of 1 GiB: %.0f GB/s read; a copy of it: %.0f GB/s read and "
	     "written",
		(double)n / digest / 1e9, 2 * (double)n / copy / 1e9);
	tarn_tensor_unref(t);
	tarn_tensor_unref(u);
}

int main(int argc, char **argv)
{
	const char *why;

	if (argc > 3 && !strcmp(argv[1], "victim"))
		refits_victim(argv[2], true);
	if (!real_load(&why))
		skip_all("no device: %s", why);
	must(tarn_cuda_device("0", &gpu));
	views();
	/* The stand-in, with which this is tried, has no such memory. */
	if (!getenv("FAKECUDA_LATE"))
		speed();
	on_device(refits_versions, "a version is made beside the old one");
	on_device(refits_buckets, "tensors lie together in buckets");
	on_device(refits_parts, "a tensor is put in rows");
	on_device(refits_sparse, "a tensor is put by positions and values");
	on_device(refits_sparse_refused, "positions are checked");
	on_device(refits_ties, "tied names stay tied");
	on_device(refits_sharing, "equal tensors are shared");
	on_device(refits_aborted, "an abort leaves nothing");
	on_device(refits_file, "tensors come from files");
	on_device(refits_killed, "a kill leaves the old version");
	return done(11);
}
