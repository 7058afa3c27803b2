/* SPDX-License-Identifier: MIT */
/*
 * The user that is charged for what patches are over: three users make versions of
 * one set, each over the one before. What an older version still has is charged to those who
 * need it, and not to those who have let go of all of theirs; servers that take over
 * agree.
 *
 * The users are children of root's.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/kit/command_child.h"
#include "tests/kit/must.h"
#include "tests/kit/pool.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

enum { SIZE = 8 << 20 };

static const char conf[] = "[pool both]\n"
			   "owner = 61001\n"
			   "group = 62001\n"
			   "mode = 0660\n"
			   "[quota]\n"
			   "bytes = 20M\n";

static struct pool_kit kit;

static tarn_store *opened(void)
{
	const struct tarn_store_options options = {.pool = "both"};
	tarn_store *store;

	must(tarn_store_open(kit.daemon.socket, &options, &store));
	return store;
}

static int whole(tarn_store *store, const char *name)
{
	const int64_t n = SIZE;
	tarn_tensor *t;
	int r;

	must(tarn_store_create(store, TARN_U8, 1, &n, 0, &t));
	r = tarn_store_publish_one(store, name, t, NULL, NULL);
	tarn_tensor_unref(t);
	return r;
}

/* A name of the set is made, as large as the others. */
static void publish(const struct pool_kit *k, struct seen *seen, void *arg)
{
	tarn_store *store = opened();

	(void)k;
	seen_error(seen, whole(store, arg));
	tarn_store_unref(store);
}

/* A version that changes one page of the set's tensor. */
static void refit(const struct pool_kit *k, struct seen *seen, void *arg)
{
	const int64_t one = 1, at = *(const int64_t *)arg;
	tarn_tensor *positions, *values;
	tarn_store *store = opened();
	tarn_refit *made;

	(void)k;
	must(tarn_tensor_zeros(TARN_I64, 1, &one, &positions));
	must(tarn_tensor_zeros(TARN_U8, 1, &one, &values));
	*(int64_t *)tarn_tensor_data(positions) = at;
	must(tarn_refit_begin(store, "set", NULL, &made));
	must(tarn_refit_sparse(made, "a", positions, values));
	seen_error(seen, tarn_refit_commit(made));
	tarn_refit_free(made);
	tarn_tensor_unref(positions);
	tarn_tensor_unref(values);
	tarn_store_unref(store);
}

static int publishes(uint32_t uid, const char *name)
{
	return kit_pool_as(&kit, uid, publish, (void *)name)->r;
}

static int refits(uint32_t uid, int64_t at)
{
	return kit_pool_as(&kit, uid, refit, &at)->r;
}

/* Of 20 MiB two more fit, if nothing is charged to that user; they go again. */
static bool pays_nothing(uint32_t uid)
{
	char name[3][32];
	tarn_store *store = opened();
	bool fits = true;

	for (int i = 0; i < 3; i++) {
		snprintf(name[i], sizeof(name[i]), "%u/%d", uid, i);
		int r = publishes(uid, name[i]);
		fits = r == (i < 2 ? 0 : -EDQUOT) && fits;
	}
	for (int i = 0; i < 3; i++)
		may_fail(tarn_store_remove(store, name[i]));
	tarn_store_unref(store);
	return fits;
}

static bool only_last_pays(void)
{
	return pays_nothing(OWNER) && pays_nothing(MEMBER) &&
	       !pays_nothing(RELATIVE);
}

static void books_agree(void)
{
	struct tarn_check *check = NULL;
	tarn_store *store = opened();

	must(tarn_store_check(store, &check));
	if (!ok(!check->n_faults, "tarn check finds no fault"))
		diag("%s", check->faults[0]);
	tarn_check_free(check);
	tarn_store_unref(store);
}

static void restart_server(void)
{
	struct tarn_report_daemon before, after = {0};
	tarn_store *store = opened();

	must(report_daemon(store, &before));
	kill(before.server_pid, SIGKILL);
	must(report_daemon(store, &after));
	ok(after.server_pid != before.server_pid, "another server takes over");
	tarn_store_unref(store);
}

int main(void)
{
	if (!kit_pool_is_root())
		skip_all("only root can become other users");
	kit_pool_start(&kit, conf);
	is_int(0, publishes(OWNER, "set/a"), "one user publishes a set");
	is_int(0, refits(MEMBER, 5), "another makes a version of it");
	ok(pays_nothing(OWNER) && !pays_nothing(MEMBER),
		"the maker of the version pays for what it is over");
	is_int(0, refits(RELATIVE, 50000), "a third makes one of that");
	ok(only_last_pays(),
		"the maker of the last one pays for all that it is over");
	books_agree();
	restart_server();
	ok(only_last_pays(), "the maker pays under the next server, too");
	books_agree();
	is_int(0, refits(MEMBER, 500000), "the second makes a further one");
	ok(pays_nothing(OWNER) && !pays_nothing(MEMBER) &&
			pays_nothing(RELATIVE),
		"the second maker pays for all of it");
	books_agree();
	is_int(0, kit_pool_stop(&kit), "the daemon ends");
	return done(13);
}
