/* SPDX-License-Identifier: MIT */
/*
 * Trees of a store's names: opening, newer versions of all names and of some,
 * sets that change so that they do not fit, names that come again, conversions
 * of what comes later, publishing, several processes, and a publisher that is
 * killed at any moment.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ops/nn_sets.h"

#define PATIENCE_MS 60000

static double present(tarn_module *m)
{
	tarn_state *state = tarn_module_hold(m);
	double version = nn_version(m, state);

	tarn_state_unref(state);
	return version;
}

static void test_open(void)
{
	struct tarn_module_counts counts;
	tarn_module *m, *part, *none;
	tarn_parameter *p;
	tarn_tensor *a, *b;

	is_int(-ENOENT, tarn_module_open(nn_store, "model", NULL, &none),
		"a prefix without names is not opened");
	has_str("model/", tarn_error_message(),
		"the sentence of an empty prefix has the prefix");
	nn_publish(nn_store, 1);
	need(tarn_module_open(nn_store, "model", NULL, &m));
	need(tarn_module_count(m, 0, &counts));
	is_int(SET_TENSORS, (int64_t)counts.parameters,
		"a tree has all tensors of its prefix");
	is_int(1 + 1 + SET_TENSORS / 2, (int64_t)counts.modules,
		"names are divided at dots");
	is_int(1, (int64_t)present(m), "a tree has one version");
	p = nn_find(m, "layer.10.bias");
	a = tarn_parameter_tensor(p);
	need(tarn_store_lookup(nn_store, "model/layer.10.bias", &b));
	ok(tarn_tensor_same_storage(a, b) &&
			!tarn_storage_writable(tarn_tensor_storage(a)),
		"parameters are the shared tensors, read-only");
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
	need(tarn_module_open(nn_store, "model",
		&(struct tarn_module_options) {.prefix = "layer.1."}, &part));
	need(tarn_module_count(part, 0, &counts));
	is_int(2, (int64_t)counts.parameters, "a part of a model is opened");
	nn_publish(nn_store, 2);
	is_int(1, tarn_module_refresh(part),
		"a part of a model is refreshed by itself");
	is_int(2, (int64_t)present(part),
		"a refreshed part has the newer version");
	tarn_module_unref(part);
	tarn_module_unref(m);
	nn_publish_one(nn_store, "bad/a..b", 4, 1);
	is_int(-EINVAL, tarn_module_open(nn_store, "bad", NULL, &none),
		"a published name with an empty part is refused");
	nn_publish_one(nn_store, "worse/a", 4, 1);
	nn_publish_one(nn_store, "worse/a.b", 4, 1);
	is_int(-EINVAL, tarn_module_open(nn_store, "worse", NULL, &none),
		"a name of a tensor and of a module is refused");
	has_str("'a' is a tensor, so there cannot be 'a.b'",
		tarn_error_message(),
		"the sentence has the tensor and the name below it");
}

static void test_newer(void)
{
	tarn_module *m, *layer;
	tarn_state *state;
	tarn_parameter *p;
	uint64_t commit;

	nn_publish(nn_store, 10);
	need(tarn_module_open(nn_store, "model", NULL, &m));
	p = nn_find(m, "layer.3.weight");
	is_int(0, tarn_module_refresh(m),
		"without a publication there is no newer version");
	nn_publish_one(nn_store, "other/x", 4, 1);
	is_int(0, tarn_module_refresh(m),
		"a publication of other names is none");
	is_int(-ETIMEDOUT, tarn_module_wait(m, 30),
		"a wait does not end by a publication of other names");
	has_str("no newer version after 30 ms", tarn_error_message(),
		"a wait that ends has a sentence");
	state = tarn_module_hold(m);
	commit = tarn_state_commit(state);
	nn_publish(nn_store, 11);
	is_int(0, tarn_module_wait(m, 0), "a newer version ends a wait");
	need(tarn_module_find(m, "layer.3", &layer));
	is_int(1, tarn_module_refresh(layer),
		"a refresh of a module finds a newer version");
	is_int(10, (int64_t)nn_version(m, state),
		"a held state stays what it was");
	is_int(11, (int64_t)present(m), "the whole tree has the newer one");
	ok(tarn_parameter_trainable(p) && nn_find(m, "layer.3.weight") == p,
		"handles stay what they are");
	tarn_state_unref(state);
	state = tarn_module_hold(m);
	ok(tarn_state_commit(state) > commit,
		"a newer state has a higher commit");
	tarn_state_unref(state);
	is_int(0, tarn_module_refresh(m), "a newer version is found once");
	nn_publish_one(nn_store, "model/layer.11.bias", 16 + 2300, 12);
	is_int(0, tarn_module_wait(m, PATIENCE_MS),
		"a publication of one name ends a wait");
	is_int(1, tarn_module_refresh(m),
		"a publication of one name is a newer version");
	is_int(12, (int64_t)nn_value(m, "layer.11.bias"),
		"the name that was published alone is newer");
	is_int(11, (int64_t)nn_value(m, "layer.11.weight"),
		"the names beside it are what they were");
	tarn_module_unref(m);
}

static void *publish_later(void *arg)
{
	(void)arg;
	usleep(100000);
	nn_publish(nn_store, 21);
	return NULL;
}

static void test_wait(void)
{
	pthread_t thread;
	tarn_module *m;

	nn_publish(nn_store, 20);
	need(tarn_module_open(nn_store, "model", NULL, &m));
	if (pthread_create(&thread, NULL, publish_later, NULL) != 0)
		bail("a thread cannot be started");
	is_int(0, tarn_module_wait(m, -1),
		"a publication ends a wait without an end");
	pthread_join(thread, NULL);
	is_int(1, tarn_module_refresh(m),
		"a refresh after a wait finds a newer version");
	tarn_module_unref(m);
}

/* ---- sets that do not fit ------------------------------------------------- */

static void refuses(tarn_module *m, const char *part, const char *what)
{
	is_int(0, tarn_module_wait(m, 0), "%s: there is something", what);
	is_int(-EINVAL, tarn_module_refresh(m), "%s is refused", what);
	has_str(part, tarn_error_message(), "%s: the sentence", what);
	is_int(30, (int64_t)present(m), "%s: the tree stays as it was", what);
}

static void test_changed(void)
{
	tarn_module *m;

	nn_publish(nn_store, 30);
	need(tarn_module_open(nn_store, "model", NULL, &m));
	nn_publish_one(nn_store, "model/layer.12.weight", 4, 31);
	refuses(m, "refresh: model/ has changed: unexpected: layer.12.weight",
		"a name that is added");
	need(tarn_store_remove(nn_store, "model/layer.0.weight"));
	refuses(m, "missing: layer.0.weight; unexpected: layer.12.weight",
		"a name that is removed");
	nn_publish_one(nn_store, "model/layer.0.bias", 5, 31);
	refuses(m, "dtype: layer.0.bias is F32[5], not F32[116]",
		"another shape");
	nn_publish(nn_store, 32);
	is_int(1, tarn_module_refresh(m), "a set that fits again is taken");
	is_int(32, (int64_t)present(m),
		"a set that fits again is taken as a whole");
	for (int i = 0; i < 2; i++) {
		need(tarn_store_remove(nn_store, "model/layer.0.weight"));
		nn_publish_one(nn_store, "model/layer.0.weight", 16, 33 + i);
		is_int(1, tarn_module_refresh(m),
			"a name that came again with version 1 is newer (%d)",
			i);
		is_int(33 + i, (int64_t)nn_value(m, "layer.0.weight"),
			"the tensor of a name that came again is taken (%d)",
			i);
	}
	tarn_module_unref(m);
}

/* ---- state out, and conversions ------------------------------------------- */

static void test_publish(void)
{
	const struct tarn_publish_options whole = {.replace = "copy/"};
	tarn_tensor *t = nn_full(TARN_F32, 4, 0, 1), *a, *b;
	struct tarn_module_counts counts;
	tarn_module *m, *copy;

	need(tarn_module_new(&m));
	need(tarn_module_add_parameter(m, "emb.weight", t, NULL));
	need(tarn_module_add_parameter(m, "head.weight", t, NULL));
	nn_publish_one(nn_store, "copy/stale", 4, 1);
	need(tarn_module_publish(m, nn_store, "copy", &whole));
	need(tarn_module_open(nn_store, "copy", NULL, &copy));
	need(tarn_module_count(copy, TARN_COUNT_TIED, &counts));
	is_int(2, (int64_t)counts.parameters,
		"a tree that is published is all that is below its name");
	need(tarn_module_publish(copy, nn_store, "again", NULL));
	need(tarn_store_lookup(nn_store, "again/emb.weight", &a));
	need(tarn_store_lookup(nn_store, "copy/emb.weight", &b));
	ok(tarn_tensor_same_storage(a, b),
		"a shared tree is published without a copy");
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
	tarn_tensor_unref(t);
	tarn_module_unref(copy);
	tarn_module_unref(m);
}

static void test_tied(void)
{
	const int64_t n = 1 << 20;
	struct tarn_publish_item items[2] = {
		{.name = "tied/a.w"}, {.name = "tied/b.w"}};
	struct tarn_module_counts counts;
	tarn_module *m;

	need(tarn_store_create(nn_store, TARN_F32, 1, &n, 0, &items[0].tensor));
	items[1].tensor = items[0].tensor;
	need(tarn_store_publish(nn_store, items, 2, NULL, NULL));
	need(tarn_module_open(nn_store, "tied", NULL, &m));
	need(tarn_module_count(m, 0, &counts));
	is_int(n, (int64_t)counts.elements,
		"tensors that were published tied are tied in a tree");
	need(tarn_module_to(m, TARN_F16, NULL));
	need(tarn_module_count(m, 0, &counts));
	is_int(2 * n, (int64_t)counts.bytes,
		"tied tensors stay tied when they are converted");
	tarn_tensor_unref(items[0].tensor);
	tarn_module_unref(m);
}

static void test_to(void)
{
	tarn_module *m;
	tarn_tensor *t;

	nn_publish(nn_store, 40);
	need(tarn_module_open(nn_store, "model", NULL, &m));
	need(tarn_module_to(m, TARN_F64, "cpu"));
	nn_publish(nn_store, 41);
	is_int(1, tarn_module_refresh(m), "a converted tree is refreshed");
	t = tarn_parameter_tensor(nn_find(m, "layer.5.bias"));
	ok(tarn_tensor_layout(t)->dtype == TARN_F64 && nn_first(t) == 41,
		"the newer version of a converted tree is converted");
	tarn_tensor_unref(t);
	is_int(0, tarn_module_refresh(m),
		"a version that was converted is not found again");
	tarn_module_unref(m);
}

static void test_file(void)
{
	struct tarn_module_options options = {.store = nn_store};
	char path[300];
	tarn_module *m, *loaded;
	tarn_file *file;
	tarn_tensor *t;

	snprintf(path, sizeof(path), "%s/saved.safetensors", test_tmpdir());
	nn_publish(nn_store, 45);
	need(tarn_module_open(nn_store, "model", NULL, &m));
	need(tarn_module_save(m, path, NULL));
	need(tarn_file_open(path, &file));
	need(tarn_module_open_file(file, &options, &loaded));
	tarn_file_unref(file);
	t = tarn_parameter_tensor(nn_find(loaded, "layer.5.bias"));
	is_int(TARN_STORAGE_SHARED, tarn_storage_kind(tarn_tensor_storage(t)),
		"a file that is loaded is in shared memory");
	tarn_tensor_unref(t);
	nn_publish(nn_store, 46);
	need(tarn_module_refresh(m));
	need(tarn_module_load_state(m, loaded, true, NULL));
	is_int(45, (int64_t)present(m),
		"the state of a file is loaded into a bound tree");
	is_int(0, tarn_module_refresh(m),
		"a state that was loaded stays until there is a newer version");
	nn_publish(nn_store, 47);
	is_int(1, tarn_module_refresh(m),
		"a tree that loaded a state is refreshed later");
	is_int(47, (int64_t)present(m),
		"a tree that loaded a state has the newer version then");
	tarn_module_unref(loaded);
	tarn_module_unref(m);
	remove(path);
}

static void test_added(void)
{
	tarn_module *m;
	tarn_state *state;
	tarn_parameter *p;

	nn_publish(nn_store, 48);
	need(tarn_module_open(nn_store, "model", NULL, &m));
	p = nn_add(m, "layer.3.adapter", nn_full(TARN_F32, 4, 0, 7));
	is_int(0, tarn_module_refresh(m),
		"a tensor that is added by hand is not missing in the store");
	nn_publish(nn_store, 49);
	is_int(1, tarn_module_refresh(m),
		"a tree with a tensor of its own is refreshed");
	state = tarn_module_hold(m);
	ok(nn_first(tarn_state_tensor(state, p)) == 7 &&
			nn_value(m, "layer.3.bias") == 49,
		"the tensor that was added stays, and the others are newer");
	tarn_state_unref(state);
	tarn_module_unref(m);
}

/* ---- processes ------------------------------------------------------------ */

static void test_child(void)
{
	tarn_module *m;
	pid_t pid;
	int status;

	nn_publish(nn_store, 50);
	need(tarn_module_open(nn_store, "model", NULL, &m));
	pid = fork();
	if (pid == 0) {
		nn_publish(nn_store, 51);
		_exit(tarn_module_refresh(m) != 1 || present(m) != 51);
	}
	waitpid(pid, &status, 0);
	is_int(0, status, "a child publishes, and refreshes its parent's tree");
	is_int(50, (int64_t)present(m),
		"a refresh in a child leaves the parent's tree as it was");
	is_int(1, tarn_module_refresh(m), "the parent refreshes it by itself");
	is_int(51, (int64_t)present(m),
		"the parent has what the child published");
	tarn_module_unref(m);
}

/* Each publisher is killed at another moment of a publication. */
static void test_killed(void)
{
	int bad = 0, failed = 0;
	double first = 100;
	tarn_module *m;

	nn_publish(nn_store, first);
	need(tarn_module_open(nn_store, "model", NULL, &m));
	for (int i = 0; i < 40; i++, first += 10000) {
		pid_t pid = nn_publisher(first, 0);

		usleep(1000 + 37u * (unsigned)i);
		nn_kill(pid);
		failed += tarn_module_refresh(m) < 0;
		bad += present(m) < first;
	}
	is_int(0, failed, "a refresh succeeds after a publisher was killed");
	is_int(0, bad,
		"a tree has one whole version of a publisher that was killed");
	tarn_module_unref(m);
}

static void test_gone(void)
{
	tarn_module *m;
	int r;

	nn_publish(nn_store, 60);
	need(tarn_module_open(nn_store, "model", NULL, &m));
	is_int(0, daemon_stop(&nn_daemon), "the daemon ends without an error");
	is_int(60, (int64_t)present(m), "a tree stays when the daemon is gone");
	r = tarn_module_wait(m, PATIENCE_MS);
	is_int(-ECONNRESET, r, "a wait ends when the daemon is gone");
	tarn_module_unref(m);
	nn_store = tarn_store_unref(nn_store);
}

int main(void)
{
	nn_begin();
	test_open();
	test_newer();
	test_wait();
	test_changed();
	test_publish();
	test_tied();
	test_to();
	test_file();
	test_added();
	test_child();
	test_killed();
	test_gone();
	return done(71);
}
