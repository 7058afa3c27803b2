/* SPDX-License-Identifier: MIT */
#include "tests/kit/counting.h"

#include "tests/kit/must.h"
#include "tests/kit/tap.h"

tarn_tensor *kit_counting(tarn_store *store, int dtype, int64_t n, double first)
{
	tarn_tensor *t = NULL;

	must(tarn_store_create(store, dtype, 1, &n, 0, &t));
	for (int64_t i = 0; i < n; i++)
		must(tarn_tensor_set_f64(t, &i, first + (double)i));
	return t;
}

tarn_tensor *kit_looked_up(tarn_store *store, const char *name)
{
	tarn_tensor *t = NULL;

	return tarn_store_lookup(store, name, &t) < 0 ? NULL : t;
}

void kit_is_done(int r, const char *what)
{
	if (!is_int(0, r, "a call succeeds: %s", what))
		diag("%s", tarn_error_message());
}
