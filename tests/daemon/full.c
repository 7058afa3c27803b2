/* SPDX-License-Identifier: MIT */
/*
 * A budget that is full. What only the cache holds makes room, oldest first;
 * what is leased or named never does; and a load that finds no room is told
 * the limit, publishes nothing, and costs nobody else his place.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MIB (1ull << 20)
#define LARGE (40 * MIB) /* one fits into 64 MiB, two do not */

static struct daemon server;
static struct witness witness;
static struct raw raw;
static const char *files[4];

static int load(const char *path, uint64_t size, const char *name)
{
	struct order order = {0};
	int fd = opened(path), direct = opened_direct(path), type;

	order_range(&order, 0, size, 0);
	if (name)
		order_bytes(&order, name, (int64_t)size);
	snprintf(order.label, sizeof(order.label), "%s", path);
	type = order_load(&order, &raw, fd, direct);
	fd_close(fd);
	fd_close(direct);
	return type;
}

static void is_loaded(int i, bool cached, const char *what)
{
	if (is_int(WIRE_LOADED, load(files[i], LARGE, NULL), "%s", what))
		is_int(cached, !!(raw.loaded.flags & LOADED_CACHED), "%s: %s",
			what, cached ? "from the cache" : "anew");
	else
		diag("%s", raw.text);
}

static void is_full(int i, const char *name, const char *what)
{
	raw.text[0] = 0;
	is_int(WIRE_ERROR, load(files[i], LARGE, name), "%s: refused", what);
	is_int(ENOSPC, raw.error, "%s: ENOSPC", what);
	has_str("budget of 64.0 MiB", raw.text, "%s: told the limit", what);
}

static bool has_bytes(const tarn_tensor *t, uint32_t seed)
{
	const unsigned char *p = t ? tarn_tensor_data(t) : NULL;

	for (uint64_t i = 0; p && i < LARGE; i += 997)
		if (p[i] != made_byte(i, seed))
			return false;
	return p;
}

static void cache(void)
{
	struct tarn_report_daemon s;

	is_loaded(0, false, "40 of 64 MiB");
	s = witness_status(&witness);
	raw.text[0] = 0;
	is_int(WIRE_ERROR, load(files[3], 80 * MIB, "big"), "80 MiB: refused");
	is_int(ENOSPC, raw.error, "ENOSPC");
	has_str("budget of 64.0 MiB", raw.text, "told the limit");
	is_int((int64_t)s.used, (int64_t)witness_status(&witness).used,
		"what cannot fit drives nobody out");
	is_loaded(0, true, "the cached one again");
	is_loaded(1, false, "another makes it leave");
	is_loaded(1, true, "and stays");
	is_loaded(0, false, "the first one");
	witness_is_served(&witness, "files drive each other out");
}

static void leases(void)
{
	struct tarn_report_daemon s;
	tarn_tensor *held = NULL;

	is_int(WIRE_LOADED, load(files[1], LARGE, "held"), "one with a name");
	is_full(2, "refused", "named: it stays");
	if (tarn_store_lookup(witness.store, "held", &held) < 0)
		bail("lookup: %s", tarn_error_message());
	raw_send(&raw, WIRE_REMOVE, "held", 4, NULL, 0);
	is_int(WIRE_DONE, raw_receive(&raw, RAW_PATIENCE_MS), "it is removed");
	s = witness_status(&witness);
	for (int i = 0; i < 50; i++)
		if (load(files[2], LARGE, "refused") != WIRE_ERROR)
			break;
	is_int(ENOSPC, raw.error, "leased: it stays, fifty times");
	is_int((int64_t)s.used, (int64_t)witness_status(&witness).used,
		"no byte more is used");
	is_int((int64_t)s.names, (int64_t)witness_status(&witness).names,
		"no name was published");
	ok(has_bytes(held, 11), "its bytes are untouched");
	held = tarn_tensor_unref(held);
	is_loaded(2, false, "no longer leased, it makes room");
}

int main(void)
{
	const char *const args[] = {"--idle", "1000", "--budget", "64M", NULL};

	for (uint32_t i = 0; i < 4; i++) {
		char name[20];

		snprintf(name, sizeof(name), "f%u", i);
		files[i] = made_file(name, i < 3 ? LARGE : 80 * MIB, 10 + i);
	}
	daemon_start(&server, "s", args);
	witness_begin(&witness, &server);
	raw_open(&raw, server.socket);
	cache();
	leases();
	witness_is_served(&witness, "the budget is full");
	raw_close(&raw);
	/* The one file that the cache still holds. */
	witness.before.used += LARGE;
	witness.before.storages++;
	witness_end(&witness);
	is_int(0, daemon_stop(&server), "the daemon ends in peace");
	remove_files();
	return done(36);
}
