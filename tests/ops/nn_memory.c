/* SPDX-License-Identifier: MIT */
/*
 * Memory runs out in a tree's life: each resource that it takes is denied once.
 * The call fails with a sentence, or succeeds all the same; the tree is of one
 * version, and nothing is left behind.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/fail.h"
#include "tests/ops/nn_kit.h"

enum { NAMES = 3 };

static const char *const paths[NAMES] = {"a.0.w", "a.1.w", "b"};
static struct fail_page *page;
static char folder[4000];
static tarn_store *store;
static int mixed;
static int64_t left; /* blocks of all lives */

static int publish(double value)
{
	struct tarn_publish_item items[NAMES] = {
		{.name = "m/a.0.w"}, {.name = "m/a.1.w"}, {.name = "m/b"}};
	const int64_t n = 8;
	int r = 0;

	for (int i = 0; r >= 0 && i < NAMES; i++)
		r = tarn_tensor_full(TARN_F32, 1, &n, value, &items[i].tensor);
	if (r >= 0)
		r = tarn_store_publish(store, items, NAMES, NULL, NULL);
	for (int i = 0; i < NAMES; i++)
		tarn_tensor_unref(items[i].tensor);
	return r;
}

/* In any state all three are of one version. */
static void look(tarn_module *m)
{
	tarn_state *state = tarn_module_hold(m);
	double values[NAMES] = {0};
	const int64_t zero = 0;
	tarn_parameter *p;

	for (int i = 0; i < NAMES; i++)
		if (tarn_module_find_parameter(m, paths[i], &p) >= 0)
			(void)!tarn_tensor_get_f64(
				tarn_state_tensor(state, p), &zero, &values[i]);
	mixed += values[0] != values[1] || values[0] != values[2];
	tarn_state_unref(state);
}

static int use(tarn_module *m, tarn_module *own)
{
	const int64_t n = 8;
	struct tarn_module_counts counts;
	tarn_tensor *t = NULL;
	int r = publish(2);

	if (r >= 0)
		r = tarn_module_refresh(m);
	look(m);
	for (int i = 0; r >= 0 && i < NAMES; i++) {
		r = tarn_tensor_full(TARN_F32, 1, &n, 5, &t);
		if (r >= 0)
			r = tarn_module_add_parameter(own, paths[i], t, NULL);
		t = tarn_tensor_unref(t);
	}
	if (r >= 0)
		r = tarn_module_load_state(m, own, true, NULL);
	look(m);
	if (r >= 0)
		r = tarn_module_to(m, TARN_F64, "cpu");
	look(m);
	if (r >= 0)
		r = tarn_module_count(m, 0, &counts);
	return r >= 0 ? tarn_module_publish(m, store, "copy", NULL) : r;
}

static int life(void)
{
	tarn_module *m = NULL, *own = NULL;
	int r = publish(1);

	if (r >= 0)
		r = tarn_module_open(store, "m", NULL, &m);
	if (r >= 0)
		r = tarn_module_new(&own);
	if (r >= 0)
		r = use(m, own);
	tarn_module_unref(own);
	tarn_module_unref(m);
	return r;
}

/* With the n-th thing denied: false when there is no n-th. */
static bool deny(int n, int *wrong)
{
	int64_t blocks;
	bool hit;
	int r;

	alarm(300);
	fail_arm(page, getpid(), n);
	r = life();
	blocks = atomic_load(&page->blocks);
	hit = fail_disarm(page);
	if (!hit && r < 0)
		bail("the %d-th: %s", n, tarn_error_message());
	if (r < 0 && !*tarn_error_message() && ++*wrong)
		diag("%d: %s: no sentence for %d", n, page->what, r);
	left += blocks;
	/* After a success the store may keep another buffer than before. */
	if (r < 0 && blocks && ++*wrong)
		diag("%d: %s: %lld blocks are left (%d: %s)", n, page->what,
			(long long)blocks, r, tarn_error_message());
	return hit;
}

/* In the process that has the module loaded. */
static int live(const char *socket)
{
	int n = 0, wrong = 0;

	need(tarn_store_open(socket, NULL, &store));
	/* What is taken once for good is taken now. */
	for (int i = 0; i < 3; i++)
		need(life());
	while (wrong < 10 && deny(n + 1, &wrong))
		n++;
	diag("%d things", n);
	ok(n > 30, "resources were denied to a tree, one after the other");
	is_int(0, wrong, "each denial ended in an error or a success");
	is_int(0, left, "nothing is left behind in the end");
	is_int(0, mixed, "a tree is of one version whatever is denied");
	need(life());
	tarn_store_unref(store);
	return done(4);
}

int main(int argc, char **argv)
{
	struct daemon daemon;
	int status = 0;
	pid_t pid;

	snprintf(folder, sizeof(folder), "%s",
		argc == 3 ? argv[2] : test_tmpdir());
	if (argc == 3)
		return fail_open(folder, &page) ? live(argv[1]) : done(1);
	daemon_start(&daemon, "sock", NULL);
	if (!fail_open(folder, &page)) {
		daemon_stop(&daemon);
		return done(1);
	}
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", argv[0], daemon.socket, folder, NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		;
	daemon_stop(&daemon);
	fail_close(folder);
	if (WIFSIGNALED(status))
		bail("killed by signal %d, at the %s", WTERMSIG(status),
			page->what);
	return WEXITSTATUS(status);
}
