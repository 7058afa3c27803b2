/* SPDX-License-Identifier: MIT */
/*
 * Snapshots beside publishers at full speed: a set of names that is published
 * as a set is read as one, whether by prefix or by its names, also where names
 * come and go with each publication, and while the server is replaced. Two
 * look-ups, one after the other, do mix versions; that is counted beside it.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

enum { SNAPSHOTS = 1000000, LARGE = 500, LOOKUPS_MAX = 20000000 };

#define LIMIT_S 20.0    /* of each kind; fewer snapshots say the same */
#define PATIENCE_S 60.0 /* for a publisher */

static struct daemon server;
static tarn_store *store;

/* ---- publishers ------------------------------------------------------ */

static tarn_tensor *make(tarn_store *s, int64_t value)
{
	int64_t one = 1, zero = 0;
	tarn_tensor *t;

	if (tarn_store_create(s, TARN_I64, 1, &one, 0, &t) < 0)
		bail("create: %s", tarn_error_message());
	must(tarn_tensor_set_i64(t, &zero, value));
	return t;
}

/* Names FOLDER/0 ... n - 1, all of one value. */
static void publish_set(tarn_store *s, const char *folder, size_t n,
	int64_t value, const char *replace)
{
	const struct tarn_publish_options options = {.replace = replace};
	struct tarn_publish_item items[LARGE];
	char names[LARGE][32];
	tarn_tensor *t = make(s, value);

	for (size_t i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "%s/%zu", folder, i);
		items[i] = (struct tarn_publish_item) {
			.name = names[i], .tensor = t};
	}
	if (tarn_store_publish(s, items, n, &options, NULL) < 0)
		bail("publish: %s", tarn_error_message());
	tarn_tensor_unref(t);
}

/* Two tensors: neither keeps the memory of the other. */
static void publish_pair(tarn_store *s, int64_t value)
{
	struct tarn_publish_item items[] = {
		{.name = "pair/0", .tensor = make(s, value)},
		{.name = "pair/1", .tensor = make(s, value)}};

	if (tarn_store_publish(s, items, 2, NULL, NULL) < 0)
		bail("publish: %s", tarn_error_message());
	tarn_tensor_unref(items[0].tensor);
	tarn_tensor_unref(items[1].tensor);
}

static void step_pair(tarn_store *s, int64_t i)
{
	publish_pair(s, i);
}

static void step_large(tarn_store *s, int64_t i)
{
	publish_set(s, "large", LARGE, i, NULL);
}

/* Of 3 names and of 5 in turn, and each names what it replaces. */
static void step_members(tarn_store *s, int64_t i)
{
	publish_set(s, i % 2 ? "member/odd" : "member/even", i % 2 ? 3 : 5, i,
		"member/");
}

static void step_other(tarn_store *s, int64_t i)
{
	publish_set(s, "other", 1, i, NULL);
	if (tarn_store_remove(s, "other/0") < 0)
		bail("remove: %s", tarn_error_message());
}

/* One name of many at a time, one after the other: after each publication they
 * have that many values in a row. */
static void step_singles(tarn_store *s, int64_t i)
{
	char name[32];
	struct tarn_publish_item item = {.name = name};

	if (i == 0)
		for (int64_t k = -LARGE; k < 0; k++)
			step_singles(s, k);
	snprintf(name, sizeof(name), "single/%d", (int)((i + LARGE) % LARGE));
	item.tensor = make(s, i);
	if (tarn_store_publish(s, &item, 1, NULL, NULL) < 0)
		bail("publish: %s", tarn_error_message());
	tarn_tensor_unref(item.tensor);
}

/* Publishes until it is killed; returns when the first is there. */
static pid_t publisher(void (*step)(tarn_store *s, int64_t i))
{
	int ends[2];
	char byte;
	pid_t pid;

	if (pipe(ends) < 0)
		bail("pipe: %m");
	pid = fork();
	if (pid == 0) {
		tarn_store *s;

		if (tarn_store_open(server.socket, NULL, &s) < 0)
			_exit(1);
		step(s, 0);
		if (write(ends[1], "", 1) != 1)
			_exit(1);
		for (int64_t i = 1;; i++)
			step(s, i);
	}
	close(ends[1]);
	if (read(ends[0], &byte, 1) != 1)
		bail("the publisher did not begin");
	close(ends[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- readers --------------------------------------------------------- */

static int64_t value_of(const tarn_tensor *t)
{
	return *(const int64_t *)tarn_tensor_data(t);
}

static bool in_a_row(const struct tarn_snapshot *s)
{
	int64_t low = INT64_MAX, high = INT64_MIN;

	for (size_t i = 0; i < s->n; i++) {
		int64_t value = value_of(s->items[i].tensor);

		low = value < low ? value : low;
		high = value > high ? value : high;
	}
	return high - low == LARGE - 1;
}

static bool is_one_set(const struct tarn_snapshot *s)
{
	if (strncmp(s->items[0].name, "single/", 7) == 0)
		return in_a_row(s);
	for (size_t i = 1; i < s->n; i++)
		if (value_of(s->items[i].tensor) !=
			value_of(s->items[0].tensor))
			return false;
	return true;
}

struct tally {
	unsigned n, mixed, failed, values;
	double seconds;
};

/* n snapshots, by prefix or, where that is NULL, of both names of the pair; a
 * set must have one of two sizes. And more, until the set was replaced: its
 * publisher may not have run meanwhile. */
static struct tally take(
	unsigned n, const char *prefix, size_t size, size_t or_size)
{
	static const char *const pair[] = {"pair/1", "pair/0"};
	struct tally tally = {.n = 0};
	double begun = seconds();
	int64_t last = -1;

	for (; (tally.n < n && tally.seconds < LIMIT_S) ||
		(tally.values < 2 && tally.seconds < PATIENCE_S);
		tally.n++) {
		struct tarn_snapshot *s = NULL;
		int r = prefix ? tarn_store_snapshot(store, prefix, &s)
			       : tarn_store_snapshot_names(store, pair, 2, &s);

		tally.seconds = seconds() - begun;
		if (r < 0) {
			if (!tally.failed++)
				diag("%s", tarn_error_message());
			continue;
		}
		tally.mixed +=
			(s->n != size && s->n != or_size) || !is_one_set(s);
		tally.values += value_of(s->items[0].tensor) != last;
		last = value_of(s->items[0].tensor);
		tarn_snapshot_free(s);
	}
	return tally;
}

static void judge(const struct tally *tally, const char *what)
{
	diag("%s: %u snapshots, %.2f us each, %u publications met", what,
		tally->n, 1e6 * tally->seconds / tally->n, tally->values);
	is_int(0, tally->failed, "%s: every snapshot succeeds", what);
	is_int(0, tally->mixed, "%s: no snapshot mixes two sets", what);
	ok(tally->values > 1, "%s: the set was replaced meanwhile", what);
}

/* What a snapshot is for. */
static void count_mixed_lookups(void)
{
	unsigned mixed = 0, n = 0;

	for (; n < LOOKUPS_MAX && mixed == 0; n++) {
		tarn_tensor *a, *b;

		if (tarn_store_lookup(store, "pair/0", &a) < 0)
			bail("%s", tarn_error_message());
		if (tarn_store_lookup(store, "pair/1", &b) < 0)
			bail("%s", tarn_error_message());
		mixed += value_of(a) != value_of(b);
		tarn_tensor_unref(a);
		tarn_tensor_unref(b);
	}
	ok(mixed > 0, "two look-ups mix versions (the first of %u pairs)", n);
}

/* ---- tests ----------------------------------------------------------- */

static void test_pair(void)
{
	pid_t pid = publisher(step_pair);
	struct tally below = take(test_cases(SNAPSHOTS), "pair/", 2, 2),
		     names = take(test_cases(SNAPSHOTS), NULL, 2, 2);

	judge(&below, "a pair, by prefix");
	judge(&names, "a pair, by names");
	count_mixed_lookups();
	end(pid);
}

static void test_large(void)
{
	pid_t pid = publisher(step_large), pair = publisher(step_pair);
	struct tally tally = take(test_cases(2000), "large/", LARGE, LARGE);

	judge(&tally, "500 names");
	end(pid);
	end(pair);
}

static void test_members(void)
{
	pid_t pid = publisher(step_members), other = publisher(step_other);
	struct tally tally = take(test_cases(100000), "member/", 3, 5);

	judge(&tally, "names that come and go");
	end(pid);
	end(other);
}

static void test_singles(void)
{
	pid_t pid = publisher(step_singles);
	struct tally tally = take(test_cases(10000), "single/", LARGE, LARGE);

	judge(&tally, "500 names published one by one");
	end(pid);
}

static void test_upgrade(void)
{
	pid_t pid = publisher(step_pair);
	struct tally tally;
	int n = 0, mixed = 0, failed = 0;

	for (int i = 0; i < 5; i++) {
		kill(server.pid, SIGUSR2);
		tally = take(test_cases(5000), "pair/", 2, 2);
		n += (int)tally.n;
		mixed += (int)tally.mixed;
		failed += (int)tally.failed;
		tally = take(test_cases(5000), NULL, 2, 2);
		mixed += (int)tally.mixed;
		failed += (int)tally.failed;
	}
	is_int(0, failed,
		"every snapshot succeeds while the daemon is upgraded");
	is_int(0, mixed, "no snapshot mixes two versions during upgrades");
	end(pid);
}

static void test_quiet(void)
{
	static const char *const names[] = {"q/1", "q/0", "q/1"},
				 *const missing[] = {"q/0", "q/none"},
				 *const empty[] = {""},
				 *const channels[] = {"q/channel"};
	const struct tarn_channel_options options = {
		.slots = 2, .slot_bytes = 4096};
	struct tarn_snapshot *a = NULL, *b = NULL;
	tarn_channel *channel;
	int64_t n;

	publish_set(store, "q", 2, 7, NULL);
	if (tarn_channel_open(store, "q/channel", &options, &channel) < 0)
		bail("channel: %s", tarn_error_message());
	is_int(0, tarn_store_snapshot(store, "q/", &a),
		"a snapshot of a prefix succeeds");
	is_int(2, (int64_t)a->n,
		"a snapshot has the prefix's names and no channel");
	is_int(0, tarn_store_snapshot_names(store, names, 3, &b),
		"a snapshot of given names succeeds");
	is_str("q/1", b->items[0].name,
		"a snapshot of names keeps their order");
	is_str("q/1", b->items[2].name, "a snapshot can have a name twice");
	is_int((int64_t)a->commit, (int64_t)b->commit,
		"two snapshots without a commit have the same number");
	publish_set(store, "q", 2, 8, NULL);
	n = value_of(a->items[0].tensor);
	is_int(7, n, "a held snapshot keeps its tensors");
	a = tarn_snapshot_free(a);
	is_int(0, tarn_store_snapshot(store, NULL, &a),
		"a snapshot of all names succeeds");
	ok(a->commit > b->commit,
		"a snapshot after a publication has a higher number");
	is_int(2, (int64_t)b->items[0].version + 1,
		"a snapshot has the version of each name");
	tarn_snapshot_free(a);
	tarn_snapshot_free(b);
	is_int(0, tarn_store_snapshot(store, "nothing/", &a),
		"a snapshot of a prefix without names succeeds");
	is_int(0, (int64_t)a->n,
		"a snapshot of a prefix without names is empty");
	tarn_snapshot_free(a);
	is_int(-ENOENT, tarn_store_snapshot_names(store, missing, 2, &a),
		"a snapshot with a name that does not exist is refused");
	has_str("q/none", tarn_error_message(),
		"the error names the missing tensor");
	is_int(-EINVAL, tarn_store_snapshot_names(store, empty, 1, &a),
		"a snapshot with a malformed name is refused");
	is_int(-EINVAL, tarn_store_snapshot_names(store, channels, 1, &a),
		"a snapshot with a channel is refused");
	is_int(0, tarn_store_snapshot_names(store, NULL, 0, &a),
		"a snapshot of no names succeeds");
	tarn_snapshot_free(a);
	tarn_channel_unref(channel);
}

int main(void)
{
	daemon_start(&server, "tarnd", NULL);
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	test_quiet();
	test_pair();
	test_large();
	test_singles();
	test_members();
	test_upgrade();
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(36);
}
