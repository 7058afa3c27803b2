/* SPDX-License-Identifier: MIT */
/*
 * Following names below a prefix: what is new is told by the numbers of commits,
 * what is not is the tensor that was there before; beside a publisher at full
 * speed, through a fork, and to the end of the names and of the daemon.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "base/clock.h"

#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

enum { ROUNDS = 20000, NAMES = 3, MANY = 4000 };

static struct daemon server;
static tarn_store *store;

static tarn_tensor *make(tarn_store *s, int64_t value)
{
	int64_t one = 1, zero = 0;
	tarn_tensor *t;

	if (tarn_store_create(s, TARN_I64, 1, &one, 0, &t) < 0)
		bail("create: %s", tarn_error_message());
	must(tarn_tensor_set_i64(t, &zero, value));
	return t;
}

/* The first n of PREFIX/0, PREFIX/1, ... in one publication. */
static void publish(
	tarn_store *s, const char *prefix, size_t n, int64_t value, bool alone)
{
	char folder[40], names[NAMES][40];
	struct tarn_publish_item items[NAMES];
	struct tarn_publish_options options = {.replace = NULL};

	snprintf(folder, sizeof(folder), "%s/", prefix);
	if (alone)
		options.replace = folder;
	for (size_t i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "%s/%zu", prefix, i);
		items[i] = (struct tarn_publish_item) {
			.name = names[i], .tensor = make(s, value)};
	}
	if (tarn_store_publish(s, items, n, &options, NULL) < 0)
		bail("publish: %s", tarn_error_message());
	for (size_t i = 0; i < n; i++)
		tarn_tensor_unref(items[i].tensor);
}

static const struct tarn_snapshot_item *named(
	const struct tarn_snapshot *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->items[i].name, name))
			return &s->items[i];
	bail("a snapshot has no '%s'", name);
}

static int64_t value_of(const struct tarn_snapshot *s, const char *name)
{
	return *(const int64_t *)tarn_tensor_data(named(s, name)->tensor);
}

static tarn_follow *begin(const char *prefix)
{
	tarn_follow *follow;

	if (tarn_follow_begin(store, prefix, &follow) < 0)
		bail("follow: %s", tarn_error_message());
	return follow;
}

static struct tarn_snapshot *next(tarn_follow *follow)
{
	struct tarn_snapshot *s;

	if (tarn_follow_next(follow, 60000, &s) < 0)
		bail("next: %s", tarn_error_message());
	return s;
}

static void test_quiet(void)
{
	tarn_follow *follow = begin("q/");
	struct tarn_snapshot *one, *two, *three = NULL;

	is_int(-ETIMEDOUT, tarn_follow_next(follow, 0, &one),
		"there is nothing yet");
	has_str("'q/'", tarn_error_message(), "the sentence has the prefix");
	publish(store, "q", 3, 1, false);
	publish(store, "other", 1, 1, false);
	one = next(follow);
	is_int(3, (int64_t)one->n, "the first snapshot has all names");
	ok(named(one, "q/0")->commit > 0 &&
			named(one, "q/0")->commit <= one->commit,
		"an item has the commit that published it");
	is_int(-ETIMEDOUT, tarn_follow_next(follow, 0, &two),
		"it is returned once");
	has_str("newer than commit", tarn_error_message(),
		"the sentence says what is not there");
	publish(store, "other", 1, 2, false);
	is_int(-ETIMEDOUT, tarn_follow_next(follow, 0, &two),
		"other names do not matter");
	publish(store, "q", 1, 2, false);
	two = next(follow);
	is_int(2, value_of(two, "q/0"), "a new tensor is there");
	is_int(1, value_of(one, "q/0"), "the old tensor is there too");
	ok(named(two, "q/0")->commit > one->commit,
		"what is new has a higher commit than the snapshot before");
	ok(named(two, "q/1")->commit <= one->commit &&
			named(two, "q/1")->tensor == named(one, "q/1")->tensor,
		"what is not is the same tensor");
	publish(store, "q", 2, 3, true);
	three = next(follow);
	is_int(2, (int64_t)three->n, "a name was removed");
	must(tarn_store_remove(store, "q/1"));
	tarn_snapshot_free(three);
	three = next(follow);
	is_int(1, (int64_t)three->n, "a removal alone is something new");
	follow = tarn_follow_free(follow);
	is_int(3, value_of(three, "q/0"), "snapshots stay without the follow");
	tarn_snapshot_free(one);
	tarn_snapshot_free(two);
	tarn_snapshot_free(three);
	ok(!tarn_follow_free(NULL), "there may be none to free");
}

static void test_removed(void)
{
	tarn_follow *follow = begin("r/");
	struct tarn_snapshot *s;

	publish(store, "r", 2, 1, false);
	tarn_snapshot_free(next(follow));
	must(tarn_store_remove(store, "r/0"));
	must(tarn_store_remove(store, "r/1"));
	is_int(-ENOENT, tarn_follow_next(follow, 0, &s), "all were removed");
	has_str("all 2 names were removed", tarn_error_message(),
		"the sentence says how many");
	is_int(-ETIMEDOUT, tarn_follow_next(follow, 0, &s), "it is told once");
	publish(store, "r", 2, 2, false);
	s = next(follow);
	is_int(2, value_of(s, "r/1"), "they are back");
	tarn_snapshot_free(s);
	must(tarn_store_remove(store, "r/0"));
	publish(store, "r", 1, 3, false);
	s = next(follow);
	is_int(3, value_of(s, "r/0"), "a name that was away is new");
	is_int(1, (int64_t)named(s, "r/0")->version,
		"though its versions count from 1");
	tarn_snapshot_free(s);
	tarn_follow_free(follow);
}

static void test_refused(void)
{
	char prefix[TARN_NAME_MAX + 2];
	tarn_follow *follow;

	memset(prefix, 'x', sizeof(prefix) - 1);
	prefix[sizeof(prefix) - 1] = 0;
	is_int(-EINVAL, tarn_follow_begin(store, prefix, &follow),
		"a prefix may not be longer than a name");
	has_str("1025 bytes", tarn_error_message(), "the sentence says so");
}

/* ---- beside a publisher -------------------------------------------------- */

/* Publishes until it is killed; returns when the first is there. Of "fast/" all
 * names have one value, and the last one is published every third time. */
static pid_t publisher(void)
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
		for (int64_t i = 0;; i++) {
			publish(s, "fast", i % 3 ? NAMES - 1 : NAMES, i, false);
			if (i == 0 && write(ends[1], "", 1) != 1)
				_exit(1);
		}
	}
	close(ends[1]);
	if (read(ends[0], &byte, 1) != 1)
		bail("the publisher did not begin");
	close(ends[0]);
	return pid;
}

/* Of one publication, newer than the one before, and with the same tensor where
 * none was published. */
static bool is_right(
	const struct tarn_snapshot *s, const struct tarn_snapshot *last)
{
	int64_t n = value_of(s, "fast/0"), old;
	bool same, shared;

	if (s->n != NAMES || value_of(s, "fast/1") != n ||
		value_of(s, "fast/2") != n / 3 * 3)
		return false;
	if (!last)
		return true;
	old = value_of(last, "fast/0");
	same = n / 3 == old / 3;
	shared = named(s, "fast/2")->tensor == named(last, "fast/2")->tensor;
	return n > old && s->commit > last->commit && shared == same &&
	       (named(s, "fast/2")->commit <= last->commit) == same &&
	       named(s, "fast/0")->commit > last->commit;
}

static unsigned count_wrong(tarn_follow *follow, unsigned rounds)
{
	struct tarn_snapshot *last = NULL, *s;
	unsigned wrong = 0;

	for (unsigned i = 0; i < rounds; i++) {
		s = next(follow);
		wrong += !is_right(s, last);
		tarn_snapshot_free(last);
		last = s;
	}
	tarn_snapshot_free(last);
	return wrong;
}

/* What a child does with the follow that it has from its parent. */
static void go_on(tarn_follow *follow, unsigned rounds)
{
	unsigned wrong = count_wrong(follow, rounds);

	tarn_follow_free(follow);
	tarn_store_unref(store);
	_exit(wrong ? 1 : 0);
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_fast(void)
{
	unsigned rounds = (unsigned)test_cases(ROUNDS);
	pid_t pid = publisher(), child;
	tarn_follow *follow = begin("fast/");
	int status = 0;

	tarn_snapshot_free(next(follow));
	child = fork();
	if (child == 0)
		go_on(follow, rounds);
	is_int(0, count_wrong(follow, rounds),
		"beside a publisher each snapshot is of one commit, and shares "
		"what did not change");
	waitpid(child, &status, 0);
	is_int(0, status, "it is so in a child, which goes on with it");
	child = fork();
	if (child == 0)
		go_on(follow, UINT32_MAX);
	is_int(0, count_wrong(follow, rounds / 10 + 1), "beside another child");
	end(child);
	is_int(0, count_wrong(follow, rounds / 10 + 1),
		"which is killed, and another follower goes on");
	kill(server.pid, SIGUSR2);
	is_int(0, count_wrong(follow, rounds / 10 + 1),
		"while the server is replaced");
	end(pid);
	tarn_follow_free(follow);
}

/* Removes names of its own, without pause. */
static pid_t remover(const char *name)
{
	pid_t pid = fork();
	tarn_store *mine;

	if (pid)
		return pid;
	if (tarn_store_open(server.socket, NULL, &mine) < 0)
		_exit(1);
	for (;;) {
		publish(mine, name, NAMES, 1, false);
		publish(mine, name, 1, 1, true);
	}
}

static void fill(size_t n)
{
	char name[40];

	for (size_t i = 0; i < n; i++) {
		tarn_tensor *t = make(store, 1);

		snprintf(name, sizeof(name), "many/%zu", i);
		if (tarn_store_publish_one(store, name, t, NULL, NULL) < 0)
			bail("publish: %s", tarn_error_message());
		tarn_tensor_unref(t);
	}
}

static void test_overtaken(void)
{
	pid_t pid;
	struct tarn_snapshot *s = NULL;
	tarn_follow *follow;
	int64_t began, longest = 0;
	int r, wrong = 0;

	fill(MANY);
	pid = remover("r");
	follow = begin("many/");
	for (int i = 0; i < 5; i++) {
		began = clock_ms();
		r = tarn_follow_next(follow, 100, &s);
		longest = MAX(longest, clock_ms() - began);
		wrong += r < 0 && r != -EAGAIN && r != -ETIMEDOUT;
		if (r >= 0)
			s = tarn_snapshot_free(s);
	}
	/* It ends, though it looks at its clock but once in many rounds. */
	ok(longest < 60000, "a look beside removals ends with its timeout");
	is_int(0, wrong, "such a look fails with no other error");
	end(pid);
	tarn_follow_free(follow);
	follow = begin("many/");
	s = next(follow);
	is_int(MANY, (int64_t)s->n, "all is there afterwards");
	tarn_snapshot_free(s);
	tarn_follow_free(follow);
}

static void test_end(void)
{
	tarn_follow *follow = begin("fast/");
	struct tarn_snapshot *s = next(follow), *last;
	int64_t n = value_of(s, "fast/0");
	uint64_t at = s->commit;
	int r;

	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	/* A publisher was killed, and what it had sent may have come after s. */
	while ((r = tarn_follow_next(follow, 60000, &last)) == 0 &&
		last->commit > at) {
		at = last->commit;
		tarn_snapshot_free(last);
	}
	is_int(-ECONNRESET, r, "nothing comes any more");
	has_str("'fast/'", tarn_error_message(), "the sentence says what of");
	is_int(n, value_of(s, "fast/1"), "the last snapshot stays");
	tarn_snapshot_free(s);
	tarn_follow_free(follow);
}

int main(void)
{
	daemon_start(&server, "tarnd", NULL);
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	test_quiet();
	test_removed();
	test_refused();
	test_overtaken();
	test_fast();
	test_end();
	tarn_store_unref(store);
	return done(35);
}
