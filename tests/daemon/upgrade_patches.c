/* SPDX-License-Identifier: MIT */
/*
 * Patches over storages in a pool, when the daemon is upgraded: the pool's segments
 * are old ones then, and what had them mapped keeps them. Those that come later read
 * the patches, too, and make further ones; so do children of a process that has one
 * mapped.
 */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/store/patch.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/must.h"
#include "tests/kit/replica.h"
#include "tests/kit/tap.h"
#include "tests/kit/upgrade.h"

enum { ELEMENTS = 500000 };

static uint16_t model[ELEMENTS];

static void publish(void)
{
	const int64_t n = ELEMENTS;
	struct tarn_publish_item item = {.name = "a"};

	must(tarn_tensor_zeros(TARN_U16, 1, &n, &item.tensor));
	for (int i = 0; i < ELEMENTS; i++)
		model[i] = (uint16_t)(i * 3);
	memcpy(tarn_tensor_data(item.tensor), model, sizeof(model));
	must(tarn_set_publish(store, "set", &item, 1, NULL, NULL));
	tarn_tensor_unref(item.tensor);
}

static void refit(int64_t at)
{
	const int64_t one = 1;
	tarn_tensor *positions, *values;
	tarn_refit *made;

	must(tarn_tensor_zeros(TARN_I64, 1, &one, &positions));
	must(tarn_tensor_zeros(TARN_U16, 1, &one, &values));
	*(int64_t *)tarn_tensor_data(positions) = at;
	*(uint16_t *)tarn_tensor_data(values) = model[at] = 7;
	must(tarn_refit_begin(store, "set", NULL, &made));
	must(tarn_refit_sparse(made, "a", positions, values));
	must(CALL_AGAIN(tarn_refit_commit(made)));
	tarn_refit_free(made);
	tarn_tensor_unref(positions);
	tarn_tensor_unref(values);
}

static tarn_tensor *found(tarn_store *by)
{
	tarn_tensor *t;

	must(CALL_AGAIN(tarn_store_lookup(by, "set/a", &t)));
	return t;
}

static bool is_model(const tarn_tensor *t)
{
	return !memcmp(tarn_tensor_data(t), model, sizeof(model));
}

static unsigned depth(void)
{
	tarn_tensor *t = found(store);
	const struct patched *patched = patched_of(t->storage);
	unsigned n = patched ? patched->depth : 0;

	tarn_tensor_unref(t);
	return n;
}

static bool newcomer_reads(void)
{
	tarn_store *other;
	tarn_tensor *t, *mine;
	bool right;

	must(CALL_AGAIN(tarn_store_open(daemon_.socket, NULL, &other)));
	t = found(other);
	must(tarn_tensor_private(t, &mine));
	right = is_model(t) && is_model(mine);
	memset(tarn_tensor_data(mine), 9, sizeof(model));
	right = right && is_model(t);
	tarn_tensor_unref(mine);
	tarn_tensor_unref(t);
	tarn_store_unref(other);
	return right;
}

static bool child_reads(tarn_tensor *held)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		tarn_tensor *t = found(store);
		bool right = is_model(held) && is_model(t);

		tarn_tensor_unref(t);
		tarn_tensor_unref(held);
		_exit(right ? 0 : 1);
	}
	return waitpid(pid, &status, 0) == pid && status == 0;
}

int main(void)
{
	struct tarn_publish_options none = {.replace = "set/"};
	tarn_tensor *held;

	upgrade_begin();
	publish();
	refit(1000);
	refit(300000);
	held = found(store);
	is_int(2, (int)depth(), "two patches lie over a storage in a pool");
	upgrade();
	ok(is_model(held), "what was mapped before an upgrade stays");
	ok(newcomer_reads(), "a client that comes later reads it, too");
	ok(child_reads(held), "a child reads it, too");
	tarn_tensor_unref(held);
	refit(400000);
	is_int(3, (int)depth(), "a further patch is made");
	ok(newcomer_reads(), "everybody reads that one");
	upgrade();
	server_kill(&daemon_);
	ok(newcomer_reads(), "also after another upgrade, and another server");
	ok(kit_is_sound(store), "the daemon finds no fault");
	must(tarn_store_publish(store, NULL, 0, &none, NULL));
	ok(kit_storages_become(store, 0), "with the name all of it goes");
	ok(kit_is_sound(store), "the daemon finds no fault in the end");
	upgrade_end();
	return done(11);
}
