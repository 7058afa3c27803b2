/* SPDX-License-Identifier: MIT */
#include "tests/kit/channel.h"

#include <dirent.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define WHILE_MS 60000

tarn_store *kit_channel_store(const char *socket)
{
	tarn_store *store;

	if (tarn_store_open(socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	return store;
}

tarn_channel *kit_channel_open(tarn_store *store, const char *name,
	const struct tarn_channel_options *options)
{
	tarn_channel *c;

	if (tarn_channel_open(store, name, options, &c) < 0)
		bail("%s", tarn_error_message());
	return c;
}

tarn_slot *kit_channel_acquire(tarn_channel *c)
{
	tarn_slot *slot;

	if (tarn_channel_acquire(c, 0, &slot) < 0)
		bail("%s", tarn_error_message());
	return slot;
}

tarn_item *kit_channel_receive(tarn_channel *c)
{
	tarn_item *item;

	if (tarn_channel_receive(c, 0, &item) < 0)
		bail("%s", tarn_error_message());
	return item;
}

tarn_tensor *kit_channel_tensor(tarn_item *item, uint32_t i)
{
	tarn_tensor *t;

	if (tarn_item_tensor(item, i, &t) < 0)
		bail("%s", tarn_error_message());
	return t;
}

struct tarn_channel_info kit_channel_info(tarn_channel *c)
{
	struct tarn_channel_info info;

	if (tarn_channel_info(c, &info) < 0)
		bail("%s", tarn_error_message());
	return info;
}

int kit_channel_put(tarn_channel *c, int timeout_ms, int64_t value)
{
	const int64_t one = 1, zero = 0;
	tarn_slot *slot;
	tarn_tensor *t;
	int r = tarn_channel_acquire(c, timeout_ms, &slot);

	if (r < 0)
		return r;
	if (tarn_slot_new_tensor(slot, TARN_I64, 1, &one, &t) < 0)
		bail("%s", tarn_error_message());
	must(tarn_tensor_set_i64(t, &zero, value));
	tarn_tensor_unref(t);
	return tarn_slot_publish(slot);
}

int64_t kit_channel_value(tarn_item *item)
{
	const int64_t zero = 0;
	tarn_tensor *t = kit_channel_tensor(item, 0);
	int64_t value = -1;

	must(tarn_tensor_get_i64(t, &zero, &value));
	tarn_tensor_unref(t);
	return value;
}

int64_t kit_channel_get(tarn_channel *c, int timeout_ms)
{
	tarn_item *item;
	int64_t value;
	int r = tarn_channel_receive(c, timeout_ms, &item);

	if (r < 0)
		return r;
	value = kit_channel_value(item);
	tarn_item_unref(item);
	return value;
}

tarn_tensor *kit_channel_publish(tarn_store *store, const char *name, int64_t n)
{
	struct tarn_publish_item item = {.name = name};

	if (tarn_store_create(store, TARN_I64, 1, &n, 0, &item.tensor) < 0)
		bail("%s", tarn_error_message());
	for (int64_t i = 0; i < n; i++)
		((int64_t *)tarn_tensor_data(item.tensor))[i] = i;
	if (tarn_store_publish(store, &item, 1, NULL, NULL) < 0)
		bail("%s", tarn_error_message());
	tarn_tensor_unref(item.tensor);
	if (tarn_store_lookup(store, name, &item.tensor) < 0)
		bail("%s", tarn_error_message());
	return item.tensor;
}

/* One that tells nothing, or does something else, is not. */
static bool is_asleep(const char *tid)
{
	unsigned long call, futex, op;
	char path[60];
	bool asleep;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%.20s/syscall", tid);
	f = fopen(path, "re");
	if (!f)
		return false;
	asleep = fscanf(f, "%lu %lx %lx", &call, &futex, &op) == 3 &&
		 call == SYS_futex && !(op & FUTEX_PRIVATE_FLAG);
	fclose(f);
	return asleep;
}

static bool are_asleep(void *arg)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *entry;
	int n = 0;

	if (!dir)
		bail("/proc/self/task: %m");
	while ((entry = readdir(dir)))
		n += atoi(entry->d_name) != gettid() &&
		     is_asleep(entry->d_name);
	closedir(dir);
	return n >= *(int *)arg;
}

void kit_channel_until_asleep(int threads)
{
	const struct timespec a_while = {.tv_nsec = 50000000};

	/* Not every kernel tells what its threads do. */
	if (access("/proc/self/syscall", R_OK) < 0)
		nanosleep(&a_while, NULL);
	else if (!kit_channel_comes_true(are_asleep, &threads))
		bail("%d threads should be asleep", threads);
}

bool kit_channel_comes_true(bool (*is_so)(void *arg), void *arg)
{
	const struct timespec nap = {.tv_nsec = 5000000};

	for (int i = 0; i < WHILE_MS / 5; i++) {
		if (is_so(arg))
			return true;
		nanosleep(&nap, NULL);
	}
	return false;
}
