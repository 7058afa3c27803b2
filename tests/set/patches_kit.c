/* SPDX-License-Identifier: MIT */
#include "tests/set/patches_kit.h"

#include "lib/store/patch.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/must.h"
#include "tests/kit/replica.h"
#include "tests/kit/tap.h"

tarn_store *patches_store;

tarn_tensor *patches_created(enum tarn_dtype dtype, int64_t n)
{
	tarn_tensor *t;

	must(tarn_store_create(patches_store, dtype, 1, &n, 0, &t));
	return t;
}

void patches_publish(const char *name, tarn_tensor *t)
{
	must(tarn_store_publish_one(patches_store, name, t, NULL, NULL));
	tarn_tensor_unref(t);
}

tarn_tensor *patches_found(const char *name)
{
	tarn_tensor *t;

	must(tarn_store_lookup(patches_store, name, &t));
	return t;
}

tarn_refit *patches_begun(void)
{
	const struct tarn_refit_options small = {.bucket_bytes = 1};
	tarn_refit *refit;

	must(tarn_refit_begin(patches_store, "set", &small, &refit));
	return refit;
}

void patches_commit(tarn_refit *refit)
{
	must(tarn_refit_commit(refit));
	tarn_refit_free(refit);
}

int patches_try_to_put(tarn_refit *refit, const char *name, int64_t from,
	int64_t step, int64_t n, uint16_t value, uint16_t *plain)
{
	tarn_tensor *positions, *values;
	int r;

	must(tarn_tensor_zeros(TARN_I64, 1, &n, &positions));
	must(tarn_tensor_zeros(TARN_U16, 1, &n, &values));
	for (int64_t i = 0; i < n; i++) {
		int64_t at = from + i * step;

		((int64_t *)tarn_tensor_data(positions))[i] = at;
		((uint16_t *)tarn_tensor_data(values))[i] = value;
		if (plain)
			plain[at] = value;
	}
	r = tarn_refit_sparse(refit, name, positions, values);
	tarn_tensor_unref(positions);
	tarn_tensor_unref(values);
	return r;
}

void patches_put(tarn_refit *refit, const char *name, int64_t from,
	int64_t step, int64_t n, uint16_t value, uint16_t *plain)
{
	must(patches_try_to_put(refit, name, from, step, n, value, plain));
}

bool patches_is_patch(const char *name)
{
	tarn_tensor *t = patches_found(name);
	bool is = patched_of(t->storage) != NULL;

	tarn_tensor_unref(t);
	return is;
}

void patches_all_goes(void)
{
	struct tarn_publish_options none = {.replace = "set/"};

	must(tarn_store_publish(patches_store, NULL, 0, &none, NULL));
	ok(kit_storages_become(patches_store, 0), "all of it goes");
}
