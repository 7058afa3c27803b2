/* SPDX-License-Identifier: MIT */
/*
 * One request is one exact answer of the server about its tables and books.
 * Requests that come too soon wait for their turn, and are not refused; nor is a
 * release that is still under way taken for memory that nobody holds.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "shm/lease.h"
#include "tests/kit/must.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MANY 50

static struct daemon server;
static struct witness witness;

/* A client that holds a tensor which has no name any more, and lets go of it
 * without telling the daemon. */
struct holder {
	struct raw raw;
	struct table table;
	struct lease_page *page;
	struct msg_released released;
};

static void publish(struct tarn_descriptor *ret)
{
	static const int64_t n = 1000;
	struct tarn_publish_item item = {.name = "held"};

	must(tarn_store_create(witness.store, TARN_U8, 1, &n, 0, &item.tensor));
	must(tarn_store_publish(witness.store, &item, 1, NULL, NULL));
	tarn_tensor_unref(item.tensor);
	must(tarn_store_lookup(witness.store, "held", &item.tensor));
	must(tarn_store_export(witness.store, item.tensor, ret));
	tarn_tensor_unref(item.tensor);
}

static void hold(struct holder *h)
{
	struct tarn_descriptor d;

	publish(&d);
	raw_open(&h->raw, server.socket);
	must(table_map(h->raw.table, false, &h->table));
	must(lease_map(h->raw.lease, &h->page));
	must(lease_acquire(h->page, &h->table, d.storage, d.generation, 0));
	must(tarn_store_remove(witness.store, "held"));
	/* An answer: the server has looked who holds it. */
	must(tarn_store_remove(witness.store, "none") == -ENOENT ? 0 : -1);
	h->released = (struct msg_released) {
		.index = d.storage, .generation = d.generation};
}

static void let_go(struct holder *h)
{
	lease_release(h->page, &h->table, 0);
}

static void end(struct holder *h)
{
	lease_unmap(h->page);
	table_unmap(&h->table);
	raw_close(&h->raw);
}

static void ask(struct raw *raw)
{
	must(raw_send(raw, WIRE_CHECK, NULL, 0, NULL, 0));
}

static void test_many(void)
{
	struct raw raw;
	int answered = 0;

	raw_open(&raw, server.socket);
	for (int i = 0; i < MANY; i++)
		ask(&raw);
	for (int i = 0; i < MANY; i++)
		answered += raw_answer(&raw) == WIRE_CHECKED;
	is_int(MANY, answered, "each request for a check is answered by one");
	is_int(0, raw.checked.n_faults, "the last check has found no fault");
	is_int(1, (int64_t)raw.checked.names, "the check counts the name");
	raw_close(&raw);
}

static void test_release_under_way(void)
{
	pid_t pid = server_of(&server);
	struct holder h;

	hold(&h);
	ask(&h.raw);
	is_int(WIRE_CHECKED, raw_answer(&h.raw), "a holder's check is made");
	is_int(0, h.raw.checked.n_faults,
		"memory that only a lease holds is no fault");
	/* Both lie in its socket when it reads the first. */
	kill(pid, SIGSTOP);
	wait_stopped(pid);
	let_go(&h);
	ask(&h.raw);
	must(raw_send(&h.raw, WIRE_RELEASED, &h.released, sizeof(h.released),
		NULL, 0));
	kill(pid, SIGCONT);
	is_int(WIRE_CHECKED, raw_answer(&h.raw),
		"a check before the message of a release is made");
	is_int(0, h.raw.checked.n_faults,
		"memory whose release is under way is no fault");
	end(&h);
}

static void test_release_lost(void)
{
	struct holder h;

	hold(&h);
	let_go(&h);
	ask(&h.raw);
	is_int(WIRE_CHECKED, raw_answer(&h.raw),
		"a check without the message of a release is made");
	is_int(1, h.raw.checked.n_faults,
		"memory that nobody holds is a fault");
	end(&h);
}

/* It would be answered by the server into memory that is free. */
static void test_gone(void)
{
	struct holder h, other;

	hold(&h);
	let_go(&h);
	raw_open(&other.raw, server.socket);
	ask(&other.raw);
	ask(&other.raw);
	raw_close(&other.raw);
	ask(&h.raw);
	is_int(WIRE_CHECKED, raw_answer(&h.raw),
		"a check is made although another that waited is gone");
	end(&h);
	witness_is_served(&witness, "after checks that nobody waited for");
}

int main(void)
{
	daemon_start(&server, "checks", NULL);
	witness_begin(&witness, &server);
	test_many();
	test_release_under_way();
	test_release_lost();
	test_gone();
	witness_end(&witness);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(20);
}
