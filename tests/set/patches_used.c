/* SPDX-License-Identifier: MIT */
/*
 * What a version of which few pages are new can be used for: all that another
 * tensor can, but for a copy on another node.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/store/patch.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/replica.h"
#include "tests/kit/tap.h"

enum { ELEMENTS = 1000000 };

static struct daemon server;
static tarn_store *store;
static float model[ELEMENTS];

static int put(tarn_refit *refit, int64_t at, float value)
{
	const int64_t one = 1;
	tarn_tensor *positions, *values;
	int r;

	must(tarn_tensor_zeros(TARN_I64, 1, &one, &positions));
	must(tarn_tensor_full(TARN_F32, 1, &one, (double)value, &values));
	*(int64_t *)tarn_tensor_data(positions) = at;
	r = tarn_refit_sparse(refit, "w", positions, values);
	tarn_tensor_unref(positions);
	tarn_tensor_unref(values);
	return r;
}

static tarn_refit *begun(int64_t at, float value)
{
	tarn_refit *refit;

	must(tarn_refit_begin(store, "set", NULL, &refit));
	must(put(refit, at, value));
	return refit;
}

static tarn_tensor *patched(void)
{
	const int64_t shape = ELEMENTS;
	struct tarn_publish_item item = {.name = "w"};
	tarn_refit *refit;
	tarn_tensor *t;

	must(tarn_tensor_zeros(TARN_F32, 1, &shape, &item.tensor));
	must(tarn_set_publish(store, "set", &item, 1, NULL, NULL));
	tarn_tensor_unref(item.tensor);
	refit = begun(700000, 2.5F);
	must(tarn_refit_commit(refit));
	tarn_refit_free(refit);
	model[700000] = 2.5F;
	must(tarn_store_lookup(store, "set/w", &t));
	if (!patched_of(t->storage))
		bail("it is no patch");
	return t;
}

static bool is_model(const tarn_tensor *t)
{
	return !memcmp(tarn_tensor_data(t), model, sizeof(model));
}

/* ---- uses ---------------------------------------------------------------- */

static void test_file(tarn_tensor *t)
{
	struct tarn_save_item item = {.name = "w", .tensor = t};
	tarn_tensor *there, *read;
	tarn_file *file;
	char path[512];

	snprintf(path, sizeof(path), "%s/patched.safetensors", test_tmpdir());
	must(tarn_save(path, &item, 1, NULL, NULL));
	must(tarn_file_open(path, &file));
	must(tarn_file_tensor(file, "w", &there));
	must(tarn_tensor_clone(there, &read));
	ok(is_model(read), "it is saved as it is read");
	tarn_tensor_unref(read);
	tarn_tensor_unref(there);
	tarn_file_unref(file);
	unlink(path);
}

static void test_channel(tarn_tensor *t)
{
	const struct tarn_channel_options options = {
		.slots = 2, .slot_bytes = 4096};
	tarn_store *other;
	tarn_channel *from, *to;
	tarn_tensor *seen;
	tarn_item *item;
	tarn_slot *slot;

	must(tarn_store_open(server.socket, NULL, &other));
	must(tarn_channel_open(store, "channel", &options, &from));
	must(tarn_channel_open(other, "channel", NULL, &to));
	must(tarn_channel_acquire(from, 1000, &slot));
	must(tarn_slot_add(slot, t));
	must(tarn_slot_publish(slot));
	must(tarn_channel_receive(to, 1000, &item));
	must(tarn_item_tensor(item, 0, &seen));
	ok(is_model(seen) && patched_of(seen->storage),
		"it goes through a channel without a copy");
	tarn_tensor_unref(seen);
	tarn_item_unref(item);
	must(tarn_channel_close(from));
	tarn_channel_unref(to);
	tarn_channel_unref(from);
	tarn_store_unref(other);
}

static void test_writes(tarn_tensor *t)
{
	void *twin;

	must(tarn_tensor_guard(t, &twin));
	((float *)twin)[700000] = 9;
	ok(is_model(t), "who writes to it by mistake writes to a twin");
}

static void test_names(tarn_tensor *t)
{
	tarn_tensor *seen;

	must(tarn_store_publish_one(store, "again", t, NULL, NULL));
	must(tarn_store_lookup(store, "again", &seen));
	ok(seen->storage == t->storage, "it gets a second name");
	tarn_tensor_unref(seen);
	must(tarn_store_remove(store, "again"));
}

static void test_nodes(void)
{
	uint64_t bytes = 1;

	must(tarn_store_replicate(store, "set/", 0, NULL, &bytes));
	is_int(0, (int64_t)bytes, "below a prefix it is passed over");
	is_int(-ENOTSUP, tarn_store_replicate(store, "set/w", 0, NULL, &bytes),
		"by itself the daemon makes no copy of it");
	has_str("is a patch", tarn_error_message(), "the sentence says why");
}

/* Both begin from one version; the later one is told. */
static void test_two(void)
{
	tarn_refit *a = begun(1, 1), *b = begun(2, 2);
	tarn_tensor *t;

	must(tarn_refit_commit(a));
	is_int(-ESTALE, tarn_refit_commit(b), "of two refits one is too late");
	tarn_refit_free(b);
	tarn_refit_free(a);
	b = begun(2, 2);
	must(tarn_refit_commit(b));
	tarn_refit_free(b);
	model[1] = 1;
	model[2] = 2;
	must(tarn_store_lookup(store, "set/w", &t));
	ok(is_model(t), "what it begins anew has both");
	tarn_tensor_unref(t);
}

int main(void)
{
	tarn_tensor *t;

	daemon_start(&server, "patches_used.sock", NULL);
	must(tarn_store_open(server.socket, NULL, &store));
	t = patched();
	test_file(t);
	test_channel(t);
	test_writes(t);
	test_names(t);
	test_nodes();
	test_two();
	tarn_tensor_unref(t);
	ok(kit_is_sound(store), "the daemon finds no fault");
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends");
	return done(11);
}
