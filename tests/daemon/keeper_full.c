/* SPDX-License-Identifier: MIT */
/*
 * The keeper can open nothing for a moment, just when the server gives it a
 * descriptor to hold. What came then was lost, and the server killed for it; now
 * it waits in the socket, and the next server gets what was given.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fail.h"
#include "tests/kit/must.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define N 1000

static struct daemon server;
static struct witness witness;

/* Those that it has stay open; the next would have a higher number. */
static void limit_keeper(rlim_t n)
{
	struct rlimit limit;

	if (prlimit(server.pid, RLIMIT_NOFILE, NULL, &limit) < 0)
		bail("the keeper's limit: %m");
	limit.rlim_cur = n ? n : limit.rlim_max;
	if (prlimit(server.pid, RLIMIT_NOFILE, &limit, NULL) < 0)
		bail("the keeper's limit: %m");
}

/* In a memfd of its own, which the keeper holds for the next server. */
static int publish(const char *name)
{
	struct tarn_publish_item item = {.name = name};
	const int64_t n = N, at = 3;
	int r = tarn_store_create(witness.store, TARN_U8, 1, &n,
		TARN_CREATE_MUTABLE, &item.tensor);

	if (r >= 0)
		r = tarn_tensor_set_i64(item.tensor, &at, 7);
	if (r >= 0)
		r = tarn_store_publish(witness.store, &item, 1, NULL, NULL);
	tarn_tensor_unref(item.tensor);
	return r;
}

static int64_t value(const char *name)
{
	tarn_tensor *t = NULL;
	int64_t is = -1;

	if (tarn_store_lookup(witness.store, name, &t) >= 0)
		is = ((const unsigned char *)tarn_tensor_data(t))[3];
	tarn_tensor_unref(t);
	return is;
}

int main(void)
{
	struct tarn_report_daemon before, after;

	daemon_start(&server, "full", NULL);
	witness_begin(&witness, &server);
	before = witness_status(&witness);
	limit_keeper(3);
	is_int(0, publish("given"),
		"a tensor is published while the keeper can open nothing");
	/* The keeper looks several times. */
	usleep(500000);
	witness_is_served(&witness, "while the keeper can open nothing");
	limit_keeper(0);
	after = witness_status(&witness);
	is_int(before.server_pid, after.server_pid, "no server was killed");
	is_int(7, value("given"),
		"the tensor can be read while the keeper can open nothing");
	server_kill(&server);
	is_int(7, value("given"), "the next server has the tensor");
	is_int(0, publish("then"),
		"the keeper accepts other tensors afterwards");
	server_kill(&server);
	is_int(7, value("then"), "the tensors that follow are kept as well");
	must(tarn_store_remove(witness.store, "given"));
	must(tarn_store_remove(witness.store, "then"));
	witness_end(&witness);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(16);
}
