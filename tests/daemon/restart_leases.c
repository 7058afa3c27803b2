/* SPDX-License-Identifier: MIT */
/*
 * The server is killed while a client's leases are in several pages: the next
 * one finds them all, frees no storage that is held in any, and gives out
 * further pages; and when the client has gone, none of them is kept.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/store/store.h"
#include "tests/kit/report.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

enum { SIZE = 3 << 20, PAGES = 3 };
#define PATIENCE_S 60.0

static struct daemon server;
static tarn_store *store;

/* The next lease is in another page, which the daemon gives to who has filled
 * those that it has: with words that are no storage's. */
static void fill_page(void)
{
	struct lease_slots *slots = &store->book.slots;
	struct lease_page *page = slots->pages[slots->n_pages - 1];

	for (uint32_t i = 0; i < LEASE_SLOTS_USED; i++)
		if (!atomic_load(&page->slots[i]))
			atomic_store(&page->slots[i], ~0ull);
	atomic_store(&page->used, (uint32_t)LEASE_SLOTS_USED);
	slots->n_fresh = 0;
}

/* Held by a lease alone. */
static tarn_tensor *get(uint32_t i)
{
	char name[20], whole[30];
	tarn_tensor *t;

	snprintf(name, sizeof(name), "%u", i);
	snprintf(whole, sizeof(whole), "%u/x", i);
	if (tensor_load(store, tensor_file("file", i, SIZE), name) < 0 ||
		tarn_store_lookup(store, whole, &t) < 0 ||
		tarn_store_remove(store, whole) < 0)
		bail("%s: %s", whole, tarn_error_message());
	return t;
}

static uint64_t used(void)
{
	struct tarn_report_daemon status = {0};

	if (report_daemon(store, &status) < 0)
		bail("%s", tarn_error_message());
	return status.used;
}

/* Lease pages that a process has open; -1: one may not look. */
static int count_leases(pid_t pid)
{
	char path[300], target[100];
	struct dirent *entry;
	int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -1;
	while ((entry = readdir(dir))) {
		ssize_t size;

		snprintf(path, sizeof(path), "/proc/%d/fd/%.20s", (int)pid,
			entry->d_name);
		size = readlink(path, target, sizeof(target) - 1);
		target[size > 0 ? size : 0] = 0;
		n += strstr(target, "tarn-lease") != NULL;
	}
	closedir(dir);
	return n;
}

/* The server tells the keeper that a client has gone, in a message: how many
 * the keeper has when there are so many, or when that took too long. */
static int leases_become(pid_t pid, int wanted)
{
	double end = seconds() + PATIENCE_S;
	int n;

	while ((n = count_leases(pid)) >= 0 && n != wanted && seconds() < end)
		usleep(10000);
	return n;
}

static void test_pages(void)
{
	const struct lease_slots *slots = &store->book.slots;
	tarn_tensor *held[PAGES + 1], *other;
	/* The daemon keeps no file without a holder while a process may write
	 * to it. */
	int writer = open(tensor_file("file", 0, SIZE), O_RDWR | O_CLOEXEC);
	uint64_t before;

	for (uint32_t i = 0; i < PAGES; i++) {
		if (i)
			fill_page();
		held[i] = get(i);
	}
	is_int(PAGES, slots->n_pages,
		"the client's leases are in several pages");
	before = used();
	server_kill(&server);
	is_int((int64_t)before, (int64_t)used(),
		"the next server frees no leased storage");
	other = get(77);
	for (uint32_t i = 0; i < PAGES; i++)
		ok(tensor_is(held[i], i, SIZE),
			"the next server writes over no held tensor: page %u",
			i);
	fill_page();
	held[PAGES] = get(PAGES);
	is_int(PAGES + 1, slots->n_pages,
		"the next server gives the client another page");
	server_kill(&server);
	before = used();
	tarn_tensor_unref(held[1]);
	ok(used_becomes(store, before - before / (PAGES + 2)),
		"a storage whose lease is released is freed");
	for (uint32_t i = 0; i <= PAGES; i++)
		if (i != 1)
			ok(tensor_is(held[i], i, SIZE),
				"the other tensors are still held");
	for (uint32_t i = 0; i <= PAGES; i++)
		if (i != 1)
			tarn_tensor_unref(held[i]);
	tarn_tensor_unref(other);
	ok(used_becomes(store, 0),
		"all storages are freed when their leases are released");
	close(writer);
}

int main(void)
{
	const char *const options[] = {
		"--budget", "128M", "--segment-size", "32M", NULL};
	int left;

	daemon_start(&server, "s", options);
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	test_pages();
	tarn_store_unref(store);
	server_kill(&server);
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	left = leases_become(server.pid, 1);
	if (left < 0)
		skip(1, "the keeper's descriptors may not be seen");
	else
		is_int(1, left, "the client's pages are gone with the client");
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(13);
}
