/* SPDX-License-Identifier: MIT */
/* See pool_deeds.h. */
#include "tests/kit/pool_deeds.h"

#include <signal.h>
#include <string.h>

#include "tests/kit/report.h"

int wish_open(
	const struct pool_kit *k, const struct wish *wish, tarn_store **ret)
{
	const struct tarn_store_options options = {.pool = wish->pool};

	return tarn_store_open(k->daemon.socket, &options, ret);
}

void deed_look(const struct pool_kit *k, struct seen *seen, void *arg)
{
	const struct wish *wish = arg;
	tarn_store *store = NULL;
	tarn_tensor *tensor = NULL;
	int r = wish_open(k, wish, &store);

	if (r >= 0 && wish->name)
		r = tarn_store_lookup(store, wish->name, &tensor);
	if (tensor)
		memcpy(seen->bytes, tarn_tensor_data(tensor), 64);
	seen_error(seen, r);
	tarn_tensor_unref(tensor);
	tarn_store_unref(store);
}

void deed_load(const struct pool_kit *k, struct seen *seen, void *arg)
{
	const struct wish *wish = arg;
	const struct tarn_load_options options = {.name = wish->name};
	tarn_store *store = NULL;
	tarn_file *file = NULL;
	int r = tarn_file_open(wish->file, &file);

	if (r >= 0)
		r = wish_open(k, wish, &store);
	if (r >= 0)
		r = tarn_store_load(store, file, &options, NULL, NULL);
	seen_error(seen, r);
	tarn_file_unref(file);
	tarn_store_unref(store);
}

void deed_drop(const struct pool_kit *k, struct seen *seen, void *arg)
{
	const struct wish *wish = arg;
	tarn_store *store = NULL;
	int r = wish_open(k, wish, &store);

	if (r >= 0)
		r = tarn_store_remove(store, wish->name);
	seen_error(seen, r);
	tarn_store_unref(store);
}

static int count(void *arg, const char *name,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	(void)name;
	(void)version;
	((struct seen *)arg)->n++;
	memcpy(((struct seen *)arg)->bytes, &descriptor->storage, 4);
	return 0;
}

void deed_list(const struct pool_kit *k, struct seen *seen, void *arg)
{
	const struct wish *wish = arg;
	tarn_store *store = NULL;
	int r = wish_open(k, wish, &store);

	if (r >= 0)
		r = tarn_store_list(store, NULL, count, seen);
	seen_error(seen, r);
	tarn_store_unref(store);
}

void deed_take_over(const struct pool_kit *k, struct seen *seen, void *arg)
{
	const struct wish *wish = arg;
	const struct tarn_load_options options = {.name = wish->name};
	struct tarn_report_daemon before, after = {0};
	tarn_store *store = NULL;
	tarn_file *file = NULL;
	int r = wish_open(k, wish, &store);

	if (r >= 0)
		r = report_daemon(store, &before);
	if (r >= 0)
		kill(before.server_pid, SIGKILL);
	if (r >= 0)
		r = tarn_file_open(wish->file, &file);
	if (r >= 0)
		r = tarn_store_load(store, file, &options, NULL, NULL);
	if (r >= 0)
		r = report_daemon(store, &after);
	seen->n = after.server_pid && after.server_pid != before.server_pid;
	seen_error(seen, r);
	tarn_file_unref(file);
	tarn_store_unref(store);
}
