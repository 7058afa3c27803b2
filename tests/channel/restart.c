/* SPDX-License-Identifier: MIT */
/*
 * A channel outlives the server, and the keeper's program: participants still
 * take part, items keep their storages, and a dead participant is noticed by
 * the current server or the next.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"
#include "tests/kit/upgrade.h"
#include "tests/kit/witness.h"

enum { SIZE = 100000, PATIENCE_S = 60 };

static tarn_channel *channel;

static tarn_channel *open_it(tarn_store *of)
{
	const struct tarn_channel_options options = {
		.slots = 4, .slot_bytes = 4096};
	tarn_channel *c;

	if (tarn_channel_open(of, "channel", &options, &c) < 0)
		bail("%s", tarn_error_message());
	return c;
}

/* Held by us alone. */
static tarn_tensor *make_tensor(tarn_store *of, const char *name)
{
	int64_t shape = SIZE;
	struct tarn_publish_item item = {.name = name};
	tarn_tensor *tensor;

	if (tarn_store_create(of, TARN_U8, 1, &shape, 0, &item.tensor) < 0)
		bail("%s", tarn_error_message());
	memset(tarn_tensor_data(item.tensor), name[0], SIZE);
	if (tarn_store_publish(of, &item, 1, NULL, NULL) < 0 ||
		tarn_store_lookup(of, name, &tensor) < 0 ||
		tarn_store_remove(of, name) < 0)
		bail("%s: %s", name, tarn_error_message());
	tarn_tensor_unref(item.tensor);
	return tensor;
}

/* Acquires a slot that keeps a tensor which nobody else does. */
static tarn_slot *fill(tarn_store *of, tarn_channel *c, const char *name)
{
	tarn_tensor *tensor = make_tensor(of, name);
	tarn_slot *slot;

	if (tarn_channel_acquire(c, -1, &slot) < 0 ||
		tarn_slot_add(slot, tensor) < 0)
		bail("%s", tarn_error_message());
	tarn_tensor_unref(tensor);
	return slot;
}

/* One that has published an item, is filling another, and reads a third. */
static pid_t start(void)
{
	int pipes[2];
	char byte;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		bail("pipe: %m");
	pid = fork();
	if (pid == 0) {
		tarn_store *own;
		tarn_channel *c;
		tarn_item *item;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (tarn_store_open(daemon_.socket, NULL, &own) < 0)
			_exit(1);
		c = open_it(own);
		must(tarn_slot_publish(fill(own, c, "b read")));
		if (tarn_channel_receive(c, -1, &item) < 0)
			_exit(1);
		must(tarn_slot_publish(fill(own, c, "c sent")));
		fill(own, c, "d filled");
		if (write(pipes[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(pipes[1]);
	if (read(pipes[0], &byte, 1) != 1)
		bail("the other one failed");
	close(pipes[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static struct tarn_channel_info info(void)
{
	struct tarn_channel_info i;

	if (tarn_channel_info(channel, &i) < 0)
		bail("%s", tarn_error_message());
	return i;
}

static uint64_t used(void)
{
	struct tarn_report_daemon status;

	if (report_daemon(store, &status) < 0)
		bail("%s", tarn_error_message());
	return status.used;
}

static void is_untouched(uint64_t before, const char *after)
{
	struct tarn_channel_info i = info();

	is_int(1, i.producers, "after %s: the participant is still a producer",
		after);
	is_int(1, i.consumers, "after %s: the participant is still a consumer",
		after);
	is_int(1, i.filling, "after %s: the slot is still being filled", after);
	is_int(1, i.reading, "after %s: the item is still being read", after);
	is_int((int64_t)before, (int64_t)used(),
		"after %s: the items keep their storages", after);
}

/* A participant that leaves stops counting before its slots are looked at. */
static struct tarn_channel_info when_nobody_is_left(void)
{
	double until = seconds() + PATIENCE_S;
	struct tarn_channel_info i = info();

	while (i.producers + i.consumers + i.filling + i.reading > 0 &&
		seconds() < until) {
		usleep(10000);
		i = info();
	}
	return i;
}

/* The items that the dead participant had read come again first, then those
 * that it had sent. */
static void receive(const char *name, bool again)
{
	tarn_tensor *tensor;
	tarn_item *item;

	if (tarn_channel_receive(channel, PATIENCE_S * 1000, &item) < 0 ||
		tarn_item_tensor(item, 0, &tensor) < 0)
		bail("%s: %s", name, tarn_error_message());
	is_int(name[0], *(unsigned char *)tarn_tensor_data(tensor),
		"%s: the item has the right bytes", name);
	is_int(again, tarn_item_redelivered(item),
		"%s: the item is delivered %s", name,
		again ? "once more" : "for the first time");
	tarn_tensor_unref(tensor);
	tarn_item_unref(item);
}

/* Dies under a server that was there, or while there is none. */
static void test(bool server_dies_too)
{
	uint64_t before = used(), with;
	struct tarn_channel_info left;
	pid_t pid = start();

	with = used();
	ok(with > before, "three items keep storages");
	is_untouched(with, "nothing");
	server_kill(&daemon_);
	is_untouched(with, "another server");
	upgrade();
	is_untouched(with, "another program");
	if (server_dies_too) {
		pid_t server = server_of(&daemon_);

		kill(server, SIGSTOP);
		end(pid);
		kill(server, SIGKILL);
		kill(daemon_.pid, SIGHUP);
		server_after(&daemon_, server);
	} else {
		end(pid);
	}
	left = when_nobody_is_left();
	is_int(0, left.producers + left.consumers,
		"no producer and no consumer is left");
	is_int(0, left.filling,
		"the slot that the dead producer was filling is free");
	receive("b read", true);
	receive("c sent", false);
	if (tarn_channel_leave(channel, TARN_CHANNEL_CONSUMER) < 0)
		bail("%s", tarn_error_message());
	ok(used_becomes(store, before),
		"no storage is kept for the dead producer");
	is_int(4, info().free, "all slots are free at last");
}

int main(void)
{
	upgrade_begin();
	channel = open_it(store);
	test(false);
	test(true);
	tarn_channel_unref(channel);
	if (tarn_store_remove(store, "channel") < 0)
		bail("%s", tarn_error_message());
	ok(used_becomes(store, 0), "the channel's memory is given back");
	upgrade_end();
	return done(50);
}
