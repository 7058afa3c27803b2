/* SPDX-License-Identifier: MIT */
/* Memory of a device that leaves a process for a while, and comes back where it
 * was. */
#include <errno.h>
#include <string.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/cuda/cases.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"

static const char *const options[] = {NULL};
static const int64_t size = 5 << 20;
static struct daemon server;
static tarn_store *store;
static struct tarn_cuda_device gpu;
static tarn_tensor *host, *there;
static tarn_storage *storage;

static void begin(void)
{
	store = daemon_start_open(&server, "asleep", options);
	must(tarn_cuda_device("0", &gpu));
	must(tarn_tensor_full(TARN_U8, 1, &size, 9, &host));
	must(tarn_tensor_to_device(host, &gpu, NULL, &there));
	storage = tarn_tensor_storage(there);
}

static void end(void)
{
	tarn_tensor_unref(there);
	tarn_tensor_unref(host);
	tarn_store_unref(store);
	daemon_stop(&server);
}

static void publish(void)
{
	struct tarn_publish_item item = {.name = "t", .tensor = there};

	must(tarn_store_publish(store, &item, 1, NULL, NULL));
}

static int64_t left(void)
{
	struct tarn_copy_info info;
	tarn_tensor *got;
	int r;

	must(tarn_tensor_zeros(TARN_U8, 1, &size, &got));
	r = tarn_copy(got, there, NULL, &info);
	if (r == 0)
		check(must(tarn_tensor_equal(got, host)) == 1,
			"it has its bytes");
	tarn_tensor_unref(got);
	return r;
}

static void sleeps(void)
{
	uint64_t before, after;

	begin();
	check_failed(-EINVAL, "publish it first", tarn_cuda_sleep(storage),
		"what nobody else has");
	publish();
	must(tarn_tensor_device_pointer(there, &gpu, &before));
	must(tarn_cuda_sleep(storage));
	must(tarn_cuda_sleep(storage));
	check(count_of("MEMORY_UNMAP") == 1, "it is unmapped once");
	check(left() == -EBUSY, "it cannot be copied: %s",
		tarn_error_message());
	must(tarn_cuda_wake(storage));
	must(tarn_cuda_wake(storage));
	must(tarn_tensor_device_pointer(there, &gpu, &after));
	check(before == after, "it comes back at %#llx, not at %#llx",
		(unsigned long long)after, (unsigned long long)before);
	check(left() == 0, "it is copied again");
	end();
}

/* It ends asleep. */
static void ends(void)
{
	begin();
	publish();
	must(tarn_cuda_sleep(storage));
	end();
}

static void wakes_late(void)
{
	begin();
	publish();
	must(tarn_cuda_sleep(storage));
	case_set("MEMORY_IMPORT", "2");
	check_failed(-ENOMEM, "wake: ", tarn_cuda_wake(storage),
		"no memory to wake in");
	check(left() == -EBUSY, "it is still asleep");
	case_set("MEMORY_IMPORT", "0");
	must(tarn_cuda_wake(storage));
	check(left() == 0, "it wakes when it can");
	end();
}

/* Of what is not on a device there is nothing to do. */
static void elsewhere(void)
{
	begin();
	must(tarn_cuda_sleep(tarn_tensor_storage(host)));
	must(tarn_cuda_wake(tarn_tensor_storage(host)));
	end();
}

int main(int argc, char **argv)
{
	static const struct case_ cases[] = {
		{"sleeps", "memory sleeps and wakes at the same address",
			sleeps, {NULL}},
		{"ends", "memory ends asleep", ends, {NULL}},
		{"wakes_late", "waking can be tried again", wakes_late, {NULL}},
		{"elsewhere", "memory of the host has no sleep", elsewhere,
			{NULL}},
	};

	return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
