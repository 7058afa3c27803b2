/* SPDX-License-Identifier: MIT */
/*
 * Sparse versions where something is short: descriptors of the process and of the
 * daemon, the size that a file may have, memory; and where a child is forked
 * meanwhile. A commit that failed is made later, and has the right bytes.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/limit.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"
#include "tests/set/patches_kit.h"

static uint16_t model[ELEMENTS];

/* ---- a commit that fails, and is tried again ------------------------------ */

static bool is_model(const char *name)
{
	tarn_tensor *t = patches_found(name);
	bool is = !memcmp(tarn_tensor_data(t), model, sizeof(model));

	tarn_tensor_unref(t);
	return is;
}

/* Two names in one storage: a, which is the model, and b behind it. */
static void publish_two(void)
{
	tarn_tensor *whole = patches_created(TARN_U16, 2 * ELEMENTS);
	struct tarn_publish_item items[] = {
		{.name = "set/a"}, {.name = "set/b"}};

	memcpy(tarn_tensor_data(whole), model, sizeof(model));
	for (int i = 0; i < 2; i++)
		must(tarn_tensor_narrow(
			whole, 0, i * ELEMENTS, ELEMENTS, &items[i].tensor));
	must(tarn_store_publish(patches_store, items, 2, NULL, NULL));
	for (int i = 0; i < 2; i++)
		tarn_tensor_unref(items[i].tensor);
	tarn_tensor_unref(whole);
}

/* 200 pages in one run, put from the last to the first or the other way. */
static tarn_refit *put_run(bool backwards)
{
	tarn_refit *refit;

	for (int i = 0; i < ELEMENTS; i++)
		model[i] = (uint16_t)(i * 7);
	publish_two();
	refit = patches_begun();
	patches_put(refit, "a", backwards ? ELEMENTS - 1 : 7,
		backwards ? -PAGE_ELEMENTS : PAGE_ELEMENTS, 200, 5, model);
	return refit;
}

/* Of another tensor of that storage nothing is lost that is put in between. */
static void test_again(int which, bool backwards, rlim_t most, const char *what)
{
	tarn_refit *refit = put_run(backwards);
	struct rlimit was = limit_to(which, most ? most : limit_next_fd());
	int r = tarn_refit_commit(refit);
	tarn_tensor *t;

	if (setrlimit(which, &was) < 0)
		bail("setrlimit: %m");
	ok(r < 0, "%s: the commit fails", what);
	diag("%s", tarn_error_message());
	patches_put(refit, "b", 5, 1, 1, 6, NULL);
	is_int(0, tarn_refit_commit(refit), "%s: and is made later", what);
	tarn_refit_free(refit);
	ok(is_model("set/a"), "%s: with the right bytes", what);
	t = patches_found("set/b");
	is_int(6, ((const uint16_t *)tarn_tensor_data(t))[5],
		"%s: and what was put in between", what);
	tarn_tensor_unref(t);
	patches_all_goes();
}

/* ---- memory that cannot grow ------------------------------------------------ */

static bool moves, denied;
static char *left; /* the mapping that was moved from there; NULL: none was */

/* In place of the C library's: to another place. */
void *mremap(void *old, size_t size, size_t to, int flags, ...)
{
	static void *(*real)(void *, size_t, size_t, int, ...);
	void *place;

	if (!real)
		real = (void *(*)(void *, size_t, size_t, int, ...))dlsym(
			RTLD_NEXT, "mremap");
	if (!moves || to < size)
		return real(old, size, to, flags);
	place = mmap(NULL, to, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	left = old;
	return real(old, size, to, flags | MREMAP_FIXED, place);
}

int madvise(void *addr, size_t size, int advice)
{
	static int (*real)(void *, size_t, int);

	if (denied && advice == MADV_POPULATE_WRITE) {
		errno = ENOMEM;
		return -1;
	}
	if (!real)
		real = (int (*)(void *, size_t, int))dlsym(
			RTLD_NEXT, "madvise");
	return real(addr, size, advice);
}

/* Where the patch's memory was is something else's now. Does that stay? */
static bool stays(tarn_refit *refit)
{
	char *other = mmap(left, 4096, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	unsigned char there;

	if (!left || other != left)
		bail("a mapping at %p: %m", (void *)left);
	tarn_refit_free(refit);
	return mincore(other, 4096, &there) == 0 && munmap(other, 4096) == 0;
}

static void test_memory(void)
{
	tarn_refit *refit;

	memset(model, 0, sizeof(model));
	publish_two();
	for (int i = 0; i < 2; i++) {
		refit = patches_begun();
		patches_put(refit, "b", 5, 1, 1, 3, NULL);
		moves = denied = true;
		is_int(-ENOMEM,
			patches_try_to_put(refit, "a", 0, 512, 2400, 7, NULL),
			"pages for which there is no memory are not put");
		moves = denied = false;
		if (i == 0)
			ok(stays(refit), "an abort unmaps what is its own");
	}
	patches_put(refit, "a", 0, 512, 2400, 7, model);
	patches_commit(refit);
	ok(is_model("set/a") && patches_is_patch("set/a"),
		"they are put when there is memory again");
	patches_all_goes();
}

/* ---- children ---------------------------------------------------------------- */

static void test_forked(void)
{
	tarn_refit *refit;
	pid_t pid;

	memset(model, 0, sizeof(model));
	patches_publish("set/a", patches_created(TARN_U16, ELEMENTS));
	refit = patches_begun();
	patches_put(refit, "a", 0, 512, 2400, 7, model);
	pid = fork();
	if (pid == 0)
		for (;;)
			pause();
	is_int(0, tarn_refit_commit(refit),
		"a child that was forked meanwhile is no obstacle");
	tarn_refit_free(refit);
	ok(is_model("set/a") && patches_is_patch("set/a"),
		"the version is a patch");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	patches_all_goes();
}

/* ---- descriptors of the daemon --------------------------------------------- */

/* A quarter of them are for storages, and these are taken. */
static void test_daemon_full(void)
{
	enum { DESCRIPTORS = 64, TAKEN = DESCRIPTORS / 4 };
	struct tarn_publish_options none = {.replace = "set/"};
	tarn_store *roomy = patches_store;
	struct daemon full;
	tarn_refit *refit;
	tarn_tensor *t;
	char name[16];

	daemon_limit_descriptors(DESCRIPTORS);
	daemon_start(&full, "patches_full.sock", NULL);
	daemon_limit_descriptors(0);
	must(tarn_store_open(full.socket, NULL, &patches_store));
	for (int i = 0; i < TAKEN; i++) {
		snprintf(name, sizeof(name), "set/%d", i);
		patches_publish(name, patches_created(TARN_U16, ELEMENTS / 8));
	}
	refit = patches_begun();
	patches_put(refit, "3", 5, 1, 1, 3, NULL);
	is_int(0, tarn_refit_commit(refit),
		"a daemon without descriptors gets copies of patches");
	tarn_refit_free(refit);
	ok(!patches_is_patch("set/3"), "no name leads to a patch there");
	t = patches_found("set/3");
	is_int(3, ((const uint16_t *)tarn_tensor_data(t))[5],
		"the copies have the new bytes");
	tarn_tensor_unref(t);
	must(tarn_store_publish(patches_store, NULL, 0, &none, NULL));
	tarn_store_unref(patches_store);
	is_int(0, daemon_stop(&full), "that daemon ends");
	patches_store = roomy;
}

int main(void)
{
	struct daemon server;

	daemon_start(&server, "patches_short.sock", NULL);
	must(tarn_store_open(server.socket, NULL, &patches_store));
	test_memory();
	test_forked();
	test_daemon_full();
	test_again(RLIMIT_NOFILE, false, 0, "no descriptor");
	test_again(RLIMIT_FSIZE, true, 3 << 17, "no larger file");
	tarn_store_unref(patches_store);
	is_int(0, daemon_stop(&server), "the daemon ends");
	return done(5 + 3 + 4 + 2 * 5 + 1);
}
