/* SPDX-License-Identifier: MIT */
/*
 * Tensors on devices: made, copied from and to the memory of the host and other
 * devices, and lent. The stand-in for the driver works late and keeps
 * an account, so bytes that are used too early, or memory that is freed too
 * early, fail a case.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/dlpack_abi.h>
#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/tensors.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static struct tarn_cuda_device other;

static void round_trip(tarn_tensor *t, const char *expr, const char *what)
{
	tarn_tensor *there, *view, *wanted, *got;

	must(tarn_tensor_to_device(t, &gpu, NULL, &there));
	must(tarn_tensor_eval(there, expr, &view));
	must(tarn_tensor_eval(t, expr, &wanted));
	got = tensor_back(view);
	check(tensors_same(got, wanted), "%s%s comes back as it went", what,
		expr);
	tarn_tensor_unref(got);
	tarn_tensor_unref(wanted);
	tarn_tensor_unref(view);
	tarn_tensor_unref(there);
}

/* ---- cases --------------------------------------------------------------- */

static void make(void)
{
	const int64_t shape[] = {3, 5};
	struct tarn_cuda_device found;
	tarn_tensor *t, *again, *mine;
	double value = 1;
	uint64_t at;

	gpu_find();
	must(tarn_cuda_zeros(&gpu, TARN_F32, 2, shape, &t));
	check(tarn_storage_kind(tarn_tensor_storage(t)) == TARN_STORAGE_DEVICE,
		"its storage is on a device");
	check(!tarn_tensor_data(t), "the CPU has no address for it");
	check(tarn_storage_device(tarn_tensor_storage(t), &found) == 1 &&
			!memcmp(&found, &gpu, sizeof(gpu)),
		"it knows which");
	must(tarn_tensor_get_f64(t, (int64_t[]) {2, 4}, &value));
	check(value == 0, "new memory is 0: %g", value);
	check_failed(-ENOTSUP, "on a device",
		tarn_tensor_set_f64(t, (int64_t[]) {0, 0}, 1), "writing one");
	check(tarn_tensor_to_device(t, &gpu, NULL, &again) == 1 && again == t,
		"it is there already");
	must(tarn_tensor_device_pointer(t, &gpu, &at));
	check(at != 0, "the device has an address for it");
	mine = tensor_back(t);
	check(tensors_same(mine, t), "a tensor of the host equals it");
	tarn_tensor_unref(mine);
	must(tarn_tensor_cow(t, &mine));
	check(tarn_tensor_data(mine) && tensors_same(mine, t),
		"a private copy of it is the host's");
	tarn_tensor_unref(mine);
	tarn_tensor_unref(again);
	tarn_tensor_unref(t);
}

static void sizes(void)
{
	static const int64_t sizes[] = {0, 1, 4095, 300000, 33 * MIB + 17};
	tarn_tensor *t;
	char what[32];

	gpu_find();
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		snprintf(
			what, sizeof(what), "%lld bytes ", (long long)sizes[i]);
		t = host_tensor(1, &sizes[i]);
		round_trip(t, "[:]", what);
		tarn_tensor_unref(t);
	}
}

static void views(void)
{
	static const char *const exprs[] = {"[1:4]", "[:, 100:3000]",
		"[3, ::1]", ".view(5, 300, 1000)[2]", "[1:4, 7:9000]"};
	const int64_t shape[] = {5, 300000};
	tarn_tensor *t = host_tensor(2, shape);

	gpu_find();
	for (size_t i = 0; i < ARRAY_SIZE(exprs); i++)
		round_trip(t, exprs[i], "a view ");
	tarn_tensor_unref(t);
}

/* Each of them would be wrong if it did not wait for the one before. */
static void order(void)
{
	const int64_t size = 6 * MIB;
	tarn_tensor *a = host_tensor(1, &size), *b, *got;

	gpu_find();
	must(tarn_cuda_zeros(&gpu, TARN_U8, 1, &size, &b));
	for (int i = 0; i < 3; i++) {
		memset(tarn_tensor_data(a), i + 1, (size_t)size);
		must(tarn_copy(b, a, NULL, NULL));
		memset(tarn_tensor_data(a), 0xee, (size_t)size);
		got = tensor_back(b);
		memset(tarn_tensor_data(a), i + 1, (size_t)size);
		check(tensors_same(got, a), "round %d has its own bytes", i);
		tarn_tensor_unref(got);
	}
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
}

static void devices(void)
{
	const int64_t size = 9 * MIB + 5;
	tarn_tensor *t = host_tensor(1, &size), *a, *b, *got, *view, *wanted;
	uint64_t at;

	gpu_find();
	must(tarn_cuda_device("1", &other));
	must(tarn_tensor_to_device(t, &gpu, NULL, &a));
	check(tarn_tensor_to_device(a, &other, NULL, &b) == 0,
		"from one device to another: a copy");
	check(count_of("COPY_PEER") > 0, "a run of bytes goes over their link");
	check_failed(-ENOTSUP, "copy it there",
		tarn_tensor_device_pointer(b, &gpu, &at), "the other's memory");
	got = tensor_back(b);
	check(tensors_same(got, t), "through two devices");
	tarn_tensor_unref(got);
	must(tarn_tensor_eval(a, ".flip(0)", &view));
	check(tarn_tensor_to_device(view, &other, NULL, &got) == 0,
		"what is no run of bytes goes, too");
	must(tarn_tensor_eval(t, ".flip(0)", &wanted));
	check(tensors_same(got, wanted), "it is the view");
	tarn_tensor_unref(wanted);
	tarn_tensor_unref(view);
	tarn_tensor_unref(got);
	tarn_tensor_unref(b);
	tarn_tensor_unref(a);
	tarn_tensor_unref(t);
}

static void within(void)
{
	const int64_t size = 5 * MIB;
	tarn_tensor *t = host_tensor(1, &size), *a, *b, *left, *right, *got;
	struct tarn_copy_info info;

	gpu_find();
	must(tarn_tensor_to_device(t, &gpu, NULL, &a));
	must(tarn_cuda_zeros(&gpu, TARN_U8, 1, &size, &b));
	must(tarn_copy(b, a, NULL, &info));
	check(!strcmp(info.engine, "cuda") && info.requests == 1,
		"within a device: %s, %llu requests", info.engine,
		(unsigned long long)info.requests);
	got = tensor_back(b);
	check(tensors_same(got, t), "it has the bytes");
	must(tarn_tensor_eval(a, "[0:100]", &left));
	must(tarn_tensor_eval(a, "[50:150]", &right));
	check_failed(-EINVAL, "share bytes", tarn_copy(left, right, NULL, NULL),
		"a copy to itself");
	tarn_tensor_unref(left);
	tarn_tensor_unref(right);
	tarn_tensor_unref(got);
	tarn_tensor_unref(b);
	tarn_tensor_unref(a);
	tarn_tensor_unref(t);
}

static int released;

static void release(void *arg)
{
	released += *(int *)arg;
}

static void lent(void)
{
	const int64_t size = 1000;
	tarn_storage *storage;
	tarn_tensor *t = host_tensor(1, &size), *own, *over, *got;
	int one = 1;
	uint64_t at;

	gpu_find();
	must(tarn_tensor_to_device(t, &gpu, NULL, &own));
	must(tarn_tensor_device_pointer(own, &gpu, &at));
	check_failed(-EINVAL, "flags",
		tarn_cuda_borrow(&gpu, at, 10, 8, NULL, NULL, &storage),
		"unknown flags");
	check_failed(-EINVAL, "without an address",
		tarn_cuda_borrow(&gpu, 0, 10, 0, NULL, NULL, &storage), "0");
	check_failed(-EOVERFLOW, "outside",
		tarn_cuda_borrow(
			&gpu, UINT64_MAX - 5, 10, 0, NULL, NULL, &storage),
		"the end of addresses");
	check_failed(-EINVAL, "no address of a device",
		tarn_cuda_borrow(&gpu, 12345, 10, 0, NULL, NULL, &storage),
		"a number");
	must(tarn_cuda_borrow(
		&gpu, at, (uint64_t)size, 0, release, &one, &storage));
	must(tarn_tensor_new(storage, 0, tarn_tensor_layout(t), &over));
	tarn_storage_unref(storage);
	check_failed(-EROFS, "", tarn_copy(over, t, NULL, NULL),
		"what is lent for reading");
	got = tensor_back(over);
	check(tensors_same(got, t), "what is lent is read in place");
	check(released == 0, "it is not given back yet");
	tarn_tensor_unref(over);
	check(released == 1, "it is given back once");
	tarn_tensor_unref(got);
	tarn_tensor_unref(own);
	tarn_tensor_unref(t);
}

/* Out of the library and in again, as other code would have it. */
static void dlpack(void)
{
	const int64_t shape[] = {100, 70};
	struct DLManagedTensorVersioned *managed;
	tarn_tensor *t = host_tensor(2, shape), *there, *view, *wanted, *in,
		    *got;
	DLTensor *dl;

	must(tarn_cuda_device("1", &gpu));
	must(tarn_tensor_to_device(t, &gpu, NULL, &there));
	must(tarn_tensor_eval(there, "[3:, 5:9]", &view));
	must(tarn_tensor_eval(t, "[3:, 5:9]", &wanted));
	must(tarn_tensor_to_dlpack(view, 0, &managed));
	dl = &managed->dl_tensor;
	check(dl->device.device_type == kDLCUDA && dl->device.device_id == 1,
		"it is on device %d of type %d", dl->device.device_id,
		dl->device.device_type);
	tarn_tensor_unref(there);
	tarn_tensor_unref(view);
	must(tarn_tensor_from_dlpack(managed, &in));
	got = tensor_back(in);
	check(tensors_same(got, wanted), "it comes in with its bytes");
	tarn_tensor_unref(got);
	tarn_tensor_unref(in);
	must(tarn_tensor_to_device(t, &gpu, NULL, &there));
	must(tarn_tensor_to_dlpack(there, 0, &managed));
	managed->dl_tensor.device.device_id = 7;
	check_failed(-ENODEV, "from_dlpack: device '7'",
		tarn_tensor_from_dlpack(managed, &in), "no such device");
	managed->deleter(managed);
	tarn_tensor_unref(there);
	tarn_tensor_unref(wanted);
	tarn_tensor_unref(t);
}

/* ---- errors -------------------------------------------------------------- */

static void no_room(void)
{
	tarn_storage *storage;

	gpu_find();
	check_failed(-ENOMEM, "bytes of memory left",
		tarn_cuda_alloc(&gpu, (uint64_t)64 << 20, &storage),
		"more than the device has");
	must(tarn_cuda_alloc(&gpu, 1 << 20, &storage));
	tarn_storage_unref(storage);
}

/* All that may fail on the way does, the first, second and third time. */
static int try_all(void)
{
	const int64_t size = 9 * MIB;
	tarn_tensor *t = host_tensor(1, &size), *there = NULL, *got = NULL;
	int r;

	must(tarn_tensor_zeros(TARN_U8, 1, &size, &got));
	r = tarn_tensor_to_device(t, &gpu, NULL, &there);
	if (r >= 0)
		r = tarn_copy(got, there, NULL, NULL);
	check(r < 0 || tensors_same(got, t), "what succeeds is right");
	tarn_tensor_unref(there);
	tarn_tensor_unref(got);
	tarn_tensor_unref(t);
	return r;
}

static void failures(void)
{
	static const char *const names[] = {"MEMORY_GRANULARITY",
		"MEMORY_CREATE", "ADDRESS_RESERVE", "MEMORY_MAP",
		"MEMORY_SET_ACCESS", "FILL", "STREAM_CREATE", "EVENT_CREATE",
		"EVENT_RECORD", "STREAM_WAIT_EVENT", "REGISTER",
		"HOST_DEVICE_POINTER", "COPY", "EVENT_SYNCHRONIZE"};
	char name[64], text[32];
	int failed = 0;

	gpu_find();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		for (unsigned k = 0; k < 3; k++) {
			snprintf(name, sizeof(name), "%s_AFTER", names[i]);
			snprintf(text, sizeof(text), "%llu",
				(unsigned long long)count_of(names[i]) + k);
			case_set(name, text);
			case_set(names[i], "999");
			failed += check_says(try_all(), names[i]);
			case_set(names[i], "0");
		}
	check(failed >= 20, "%d of them failed", failed);
	check(try_all() == 0, "after them all works: %s", tarn_error_message());
}

int main(int argc, char **argv)
{
	static const struct case_ cases[] = {
		{"make", "a tensor is made on a device", make, {NULL}},
		{"sizes", "any number of bytes goes there and back", sizes,
			{NULL}},
		{"views", "views of it are copied", views, {NULL}},
		{"order", "a copy is done when it returns", order,
			{"LATE=3000"}},
		{"within", "elements are copied within a device", within,
			{NULL}},
		{"devices", "and from one device to another", devices,
			{"DEVICES=2"}},
		{"lent", "memory of other code is lent", lent, {NULL}},
		{"dlpack", "other libraries take and give tensors on devices",
			dlpack, {"DEVICES=2"}},
		{"no_room", "too much is refused with what there is", no_room,
			{"MEMORY=33554432"}},
		{"failures",
			"each error of the driver is passed on, and leaks "
			"nothing",
			failures, {NULL}},
	};

	return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
