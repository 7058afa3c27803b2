/* SPDX-License-Identifier: MIT */
/*
 * A client that has filled its lease page gets another from the daemon, which
 * counts like the first. A client that has not, or that has the maximum of
 * pages, is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/store/store.h"
#include "shm/lease.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define PAGES_MAX 64 /* CLIENT_LEASES_MAX */
#define NAME "innocent/innocent"
#define LARGE (40l << 20)

static struct daemon server;
static struct witness witness;

/* Words that are no storage's. */
static void fill(struct lease_page *page)
{
	for (uint32_t i = 0; i < LEASE_SLOTS; i++)
		if (!atomic_load(&page->slots[i]))
			atomic_store(&page->slots[i], ~0ull);
	atomic_store(&page->used, LEASE_SLOTS);
	atomic_store(&page->noted, UINT32_MAX);
}

static int ask(struct raw *raw)
{
	if (raw_send(raw, WIRE_LEASES, NULL, 0, NULL, 0) < 0)
		bail("%s", tarn_fail_message());
	return raw_receive(raw, RAW_PATIENCE_MS);
}

static struct lease_page *asked(struct raw *raw)
{
	struct lease_page *page = NULL;

	if (ask(raw) == WIRE_LEASE_PAGE && raw->n_fds == 1)
		lease_map(raw->fds[0], &page);
	return page;
}

/* A file of LARGE zeros, one hole; of which the budget has room for one. It is
 * open for reading only, so that what is loaded of it is kept. */
static int hole(const char *name)
{
	char path[300];
	int fd, reading;

	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, LARGE) < 0)
		bail("%s: %m", path);
	reading = open(path, O_RDONLY | O_CLOEXEC);
	unlink(path);
	close(fd);
	return reading;
}

static int load(struct raw *raw, int fd, const char *name)
{
	struct order order = {0};

	order_range(&order, 0, LARGE, 0);
	if (name)
		order_bytes(&order, name, LARGE);
	return order_load(&order, raw, fd, -1);
}

/* What is leased in the second page is held; what is not makes room. */
static void test_counts(struct raw *raw, struct lease_page *second)
{
	int one = hole("one"), two = hole("two");
	struct table table;

	if (table_map(raw->table, false, &table) < 0)
		bail("%s", tarn_fail_message());
	is_int(WIRE_LOADED, load(raw, one, NULL),
		"a file that fills the pool is loaded");
	is_int(0,
		lease_acquire(second, &table, raw->loaded.index,
			raw->loaded.generation, 77),
		"the file is leased in the second page");
	is_int(WIRE_ERROR, load(raw, two, NULL),
		"another file finds no room while the lease is held");
	is_int(ENOSPC, raw->error, "the error of the full pool is ENOSPC");
	lease_release(second, &table, 77);
	is_int(WIRE_LOADED, load(raw, two, NULL),
		"another file is loaded when the lease is released");
	table_unmap(&table);
	fd_close(one);
	fd_close(two);
}

static void test_limit(struct raw *raw, struct lease_page *pages[])
{
	int n = 2;

	while (n < PAGES_MAX && (pages[n] = asked(raw)))
		fill(pages[n++]);
	is_int(PAGES_MAX, n, "a client gets up to %d lease pages", PAGES_MAX);
	ok(!asked(raw), "one page more than the limit is refused");
	is_int(ENOSPC, raw->error, "the error of too many pages is ENOSPC");
	witness_is_served(&witness, "a client has filled all of them");
}

/* Its answer may have been lost for want of a descriptor. */
static void test_lost(struct raw *raw, struct lease_page *second)
{
	struct lease_page *again = asked(raw);

	if (!ok(again, "a client that lost a page's descriptor gets it again"))
		return;
	atomic_store(&again->noted, 1);
	is_int(1, atomic_load(&second->noted),
		"the page that is sent again is the same one");
	atomic_store(&again->noted, 0);
	atomic_store(&again->used, 1);
	ok(!asked(raw), "a page that is in use is not sent again");
	is_int(EBUSY, raw->error, "the error of a page in use is EBUSY");
	lease_unmap(again);
}

static void test_raw(void)
{
	struct lease_page *pages[PAGES_MAX] = {NULL};
	struct raw raw;

	raw_open(&raw, server.socket);
	if (lease_map(raw.lease, &pages[0]) < 0)
		bail("%s", tarn_fail_message());
	is_int(WIRE_ERROR, ask(&raw),
		"a client with an empty page gets no other");
	is_int(EBUSY, raw.error, "the error of an empty page is EBUSY");
	fill(pages[0]);
	pages[1] = asked(&raw);
	if (!ok(pages[1], "a client that has filled its page gets another"))
		bail("%s", raw.text);
	is_int(0, lease_count(pages[1]), "the additional page is empty");
	test_lost(&raw, pages[1]);
	test_counts(&raw, pages[1]);
	fill(pages[1]);
	test_limit(&raw, pages);
	for (int i = 0; i < PAGES_MAX; i++)
		lease_unmap(pages[i]);
	raw_close(&raw);
}

/* The library asks by itself. */
static void test_library(void)
{
	tarn_store *store;
	tarn_tensor *t;
	struct lease_slots *slots;

	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	slots = &store->book.slots;
	fill(slots->pages[0]);
	slots->n_fresh = 0;
	is_int(0, tarn_store_lookup(store, NAME, &t), "a name is found: %s",
		"a tensor more than the first page has slots for");
	is_int(2, slots->n_pages, "the tensor's lease is in a second page");
	is_int(1, lease_count(slots->pages[1]),
		"the lease is in the only slot of the second page that is "
		"used");
	tarn_tensor_unref(t);
	is_int(0, lease_count(slots->pages[1]),
		"the lease ends when the tensor is dropped");
	tarn_store_unref(store);
}

int main(void)
{
	const char *const options[] = {
		"--budget", "64M", "--segment-size", "32M", NULL};

	daemon_start(&server, "d.sock", options);
	witness_begin(&witness, &server);
	test_raw();
	test_library();
	/* The file that the cache still holds. */
	witness.before.used += LARGE;
	witness.before.storages++;
	witness_end(&witness);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(30);
}
