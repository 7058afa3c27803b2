/* SPDX-License-Identifier: MIT */
/*
 * A prefix that is replaced by a set of names, in one moment, before a reader
 * that never stops looking.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/counting.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

#define SET 5             /* names of a set that is replaced as a whole */
#define ROUNDS 60         /* how often */
#define PATIENCE_MS 60000 /* on a loaded machine */

static tarn_store *store;

static uint64_t storages(void)
{
	struct tarn_report_daemon s = {0};

	report_daemon(store, &s);
	return s.storages;
}

/* What nobody holds is freed a moment later. */
static bool storages_become(uint64_t n)
{
	for (int ms = 0; storages() != n && ms < PATIENCE_MS; ms += 5)
		usleep(5000);
	return storages() == n;
}

static int count_one(void *arg, const char *name,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	++*(int *)arg;
	return 0;
}

/* Looks at two names that are in every set, for ever: it ends only if one is
 * missing, or is older than what was there before. */
static void read_for_ever(const char *socket)
{
	tarn_store *mine = NULL;
	tarn_tensor *a, *b;
	int64_t zero = 0;
	double va, vb;

	if (tarn_store_open(socket, NULL, &mine) < 0)
		_exit(2);
	for (long n = 1;; n++) {
		a = kit_looked_up(mine, "run/0");
		b = kit_looked_up(mine, "run/4");
		if (!a || !b || tarn_tensor_get_f64(a, &zero, &va) < 0 ||
			tarn_tensor_get_f64(b, &zero, &vb) < 0)
			_exit(3);
		/* run/0 was looked up first: it cannot be the newer one. */
		if (va > vb)
			_exit(4);
		tarn_tensor_unref(a);
		tarn_tensor_unref(b);
	}
}

static void test_prefix(const char *socket)
{
	const struct tarn_publish_options replace = {.replace = "run/"};
	struct tarn_publish_item items[SET] = {0};
	static char names[SET][16];
	uint64_t before = storages();
	int n = 0;
	int r = 0, status_seen = 0;
	pid_t reader;

	reader = -1;
	for (int round = 0; round < ROUNDS && r == 0; round++) {
		for (int i = 0; i < SET; i++) {
			/* Two names stay, three come and go. */
			snprintf(names[i], sizeof(names[i]), "run/%d",
				i == 0 || i == 4 ? i : 10 * round + i);
			items[i].name = names[i];
			items[i].tensor =
				kit_counting(store, TARN_F32, 8, round);
		}
		r = tarn_store_publish(store, items, SET, &replace, NULL);
		for (int i = 0; i < SET; i++)
			tarn_tensor_unref(items[i].tensor);
		if (round == 0 && (reader = fork()) == 0)
			read_for_ever(socket);
	}
	kit_is_done(r, "a set of names is replaced many times");
	must(tarn_store_list(store, "run/", count_one, &n));
	is_int(SET, n, "the folder has only the names of the last set");
	kill(reader, SIGKILL);
	waitpid(reader, &status_seen, 0);
	if (!ok(WIFSIGNALED(status_seen),
		    "a reader never sees two sets or none"))
		diag("status %#x", (unsigned)status_seen);
	is_int(0, tarn_store_publish(store, NULL, 0, &replace, NULL),
		"a publication of no names replaces all names of the prefix");
	n = 0;
	must(tarn_store_list(store, "run/", count_one, &n));
	is_int(0, n, "no name is left after the prefix was removed");
	ok(storages_become(before),
		"no storage is left after the prefix was removed");
	is_int(0, tarn_store_publish(store, NULL, 0, &replace, NULL),
		"removing the prefix again succeeds");
}

int main(void)
{
	struct daemon daemon;

	daemon_start(&daemon, "prefix.sock", NULL);
	if (tarn_store_open(daemon.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	test_prefix(daemon.socket);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&daemon), "the daemon ends without an error");
	return done(8);
}
