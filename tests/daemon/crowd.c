/* SPDX-License-Identifier: MIT */
/*
 * A client has thousands of waits on its control region, which is read-only to
 * it. The daemon's one thread wakes a few of them at each change and leaves the
 * others to another thread: it goes on answering, and all are woken in the end.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/loop/waker.h"
#include "shm/table.h"
#include "shm/wake.h"
#include "tests/kit/crowd.h"
#include "tests/kit/must.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define WORDS 3
#define MANY (16 * WAKE_AT_ONCE)

/* ---- the thread ------------------------------------------------------ */

/* One of the words is not there any more. */
static void test_thread(void)
{
	const size_t size = 4096;
	_Atomic uint32_t *words[WORDS], *gone;
	struct crowd crowds[WORDS];
	const char *why = NULL;

	for (int i = 0; i < WORDS && !why; i++) {
		words[i] = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (words[i] == MAP_FAILED)
			bail("mmap: %m");
		why = crowd_begin(&crowds[i], words[i], MANY + (unsigned)i);
	}
	if (why)
		skip_all("%s", why);
	gone = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(gone, size);
	waker_begin();
	for (int twice = 0; twice < 2; twice++) {
		ok(wake_leave(gone), "a word that is gone can be left to it");
		for (int i = 0; i < WORDS; i++)
			wake_all(words[i]);
	}
	for (int i = 0; i < WORDS; i++) {
		ok(crowd_is_woken(&crowds[i], MANY + (unsigned)i),
			"all waits are woken on word %d", i);
		crowd_end(&crowds[i]);
	}
	waker_end();
	ok(!wake_is_left(), "the thread ends");
	for (int i = 0; i < WORDS; i++)
		munmap(words[i], size);
}

/* ---- the daemon ------------------------------------------------------ */

static void publish(struct raw *raw)
{
	struct order order = {0};

	order_bytes(&order, "empty", 0);
	is_int(WIRE_LOADED, order_load(&order, raw, -1, -1),
		"a name is published");
}

static void test_daemon(void)
{
	struct daemon server;
	struct witness witness;
	struct crowd crowd;
	struct table table;
	struct raw raw;
	const char *why;

	daemon_start(&server, "s", NULL);
	witness_begin(&witness, &server);
	raw_open(&raw, server.socket);
	must(table_map(raw.table, false, &table));
	why = crowd_begin(&crowd, &table.header->changed, MANY);
	if (why)
		bail("%s", why);
	publish(&raw);
	witness_is_served(&witness, "thousands of waits are there");
	ok(crowd_is_woken(&crowd, MANY),
		"all of thousands of waiting clients are woken");
	witness_can_load(&witness, "they were there");
	crowd_end(&crowd);
	table_unmap(&table);
	raw_send(&raw, WIRE_REMOVE, "empty", 5, NULL, 0);
	is_int(WIRE_DONE, raw_receive(&raw, RAW_PATIENCE_MS),
		"the name is removed after the waits");
	raw_close(&raw);
	tarn_tensor_unref(witness.tensor);
	tarn_store_unref(witness.store);
	is_int(0, daemon_stop(&server), "the daemon ends");
	remove_files();
}

int main(void)
{
	test_thread();
	test_daemon();
	return done(12);
}
