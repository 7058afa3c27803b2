/* SPDX-License-Identifier: MIT */
/*
 * Trees on a device, with the stand-in for the driver: tensors go there into one
 * storage, come back, are converted on the way, and newer versions follow them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/ops/nn_sets.h"

/* This program anew, with the stand-in as its driver. */
static void with_stand_in(void)
{
	const char *build = getenv("top_builddir"),
		   *before = getenv("LD_LIBRARY_PATH");
	char path[4096], *whole;

	if (!build)
		bail("top_builddir is not set: tests/run does");
	snprintf(path, sizeof(path), "%s/tests/fakecuda/.libs", build);
	whole = realpath(path, NULL);
	if (!whole)
		skip_all("tarn was built without CUDA");
	snprintf(path, sizeof(path), "%s%s%s", whole, before ? ":" : "",
		before ? before : "");
	free(whole);
	if (setenv("LD_LIBRARY_PATH", path, 1) < 0)
		bail("setenv: %m");
	execl("/proc/self/exe", "nn_device", "with stand-in", NULL);
	bail("exec: %m");
}

static tarn_tensor *tensor_of(tarn_module *m, const char *path)
{
	tarn_tensor *t = tarn_parameter_tensor(nn_find(m, path));

	/* The tree holds it, and no other thread changes the tree. */
	tarn_tensor_unref(t);
	return t;
}

static int kind_of(tarn_module *m, const char *path)
{
	return tarn_storage_kind(tarn_tensor_storage(tensor_of(m, path)));
}

static void test_device(void)
{
	struct tarn_module_counts counts;
	tarn_module *m, *layer;
	tarn_tensor *tied, *before;

	need(tarn_module_new(&m));
	nn_add(m, "layer.0.w", nn_full(TARN_F32, 100, 3, 1.5));
	nn_add(m, "layer.1.w", nn_full(TARN_F32, 7, 0, 2.5));
	tied = nn_full(TARN_I64, 5, 0, 3);
	need(tarn_module_add_buffer(m, "a", tied, NULL));
	need(tarn_module_add_buffer(m, "b", tied, NULL));
	tarn_tensor_unref(tied);
	need(tarn_module_find(m, "layer.0", &layer));
	need(tarn_module_to(layer, TARN_F16, "cuda:0"));
	is_int(TARN_STORAGE_DEVICE, kind_of(m, "layer.0.w"),
		"a module goes to a device");
	is_int(TARN_STORAGE_OWNED, kind_of(m, "layer.1.w"),
		"a module beside it stays in memory");
	is_int(TARN_F16, tarn_tensor_layout(tensor_of(m, "layer.0.w"))->dtype,
		"tensors are converted on their way to a device");
	before = tensor_of(m, "layer.0.w");
	need(tarn_module_to(m, TARN_DTYPE_NONE, "cuda"));
	ok(tensor_of(m, "layer.0.w") == before,
		"a tensor that is on the device already stays");
	ok(tarn_tensor_same_storage(
		   tensor_of(m, "layer.1.w"), tensor_of(m, "a")),
		"tensors that go to a device together share one storage");
	ok(tensor_of(m, "a") == tensor_of(m, "b"),
		"tied tensors stay tied on a device");
	need(tarn_module_count(m, 0, &counts));
	is_int(1, (int64_t)counts.buffers, "tied tensors count once there");
	need(tarn_module_to(m, TARN_F64, NULL));
	is_int(TARN_STORAGE_DEVICE, kind_of(m, "layer.1.w"),
		"tensors are converted on the device where they are");
	need(tarn_module_to(m, TARN_DTYPE_NONE, "cpu"));
	is_int(TARN_STORAGE_OWNED, kind_of(m, "layer.0.w"),
		"a tree comes back from a device");
	is_int(15, (int64_t)(10 * nn_value(m, "layer.0.w")),
		"a tensor that comes back has its values");
	is_int(25, (int64_t)(10 * nn_value(m, "layer.1.w")),
		"a tensor that was converted there has its values");
	is_int(3, (int64_t)nn_value(m, "b"),
		"an integer that comes back has its value");
	is_int(-ENODEV, tarn_module_to(m, TARN_DTYPE_NONE, "cuda:99"),
		"a device that is not there is refused");
	tarn_module_unref(m);
}

static void test_refresh(void)
{
	tarn_module *m;
	tarn_state *old;

	nn_publish(nn_store, 1);
	need(tarn_module_open(nn_store, "model", NULL, &m));
	need(tarn_module_to(m, TARN_DTYPE_NONE, "cuda:0"));
	old = tarn_module_hold(m);
	nn_publish(nn_store, 2);
	is_int(1, tarn_module_refresh(m),
		"a tree on a device finds a newer version");
	is_int(TARN_STORAGE_DEVICE, kind_of(m, "layer.3.bias"),
		"the newer version is on the device");
	is_int(1,
		(int64_t)nn_first(
			tarn_state_tensor(old, nn_find(m, "layer.3.bias"))),
		"a held state keeps the older one there");
	is_int(2, (int64_t)nn_value(m, "layer.3.bias"),
		"the newer version has its values on the device");
	tarn_state_unref(old);
	need(tarn_module_to(m, TARN_DTYPE_NONE, "cpu"));
	is_int(2, (int64_t)nn_value(m, "layer.11.weight"),
		"the newer version comes back");
	tarn_module_unref(m);
}

int main(int argc, char **argv)
{
	struct tarn_cuda_device device;

	(void)argv;
	if (argc < 2)
		with_stand_in();
	if (tarn_cuda_device("0", &device) == -ENOTSUP)
		skip_all("%s", tarn_error_message());
	test_device();
	nn_begin();
	test_refresh();
	is_int(0, nn_end(), "the daemon ends without an error");
	return done(19);
}
