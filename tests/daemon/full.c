/* SPDX-License-Identifier: MIT */
/*
 * A budget that is full. Files that only the cache holds are evicted, oldest
 * first; leased and named ones never are; and a load that finds no room is
 * refused with the limit, publishes nothing, and evicts nothing in vain.
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
	if (is_int(WIRE_LOADED, load(files[i], LARGE, NULL),
		    "a load succeeds: %s", what))
		is_int(cached, !!(raw.loaded.flags & LOADED_CACHED),
			"%s: the load is %s", what,
			cached ? "from the cache" : "anew");
	else
		diag("%s", raw.text);
}

static void is_full(int i, const char *name, const char *what)
{
	raw.text[0] = 0;
	is_int(WIRE_ERROR, load(files[i], LARGE, name),
		"%s: the load is refused", what);
	is_int(ENOSPC, raw.error, "%s: the error is ENOSPC", what);
	has_str("budget of 64.0 MiB", raw.text,
		"%s: the error names the budget", what);
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
	is_int(WIRE_ERROR, load(files[3], 80 * MIB, "big"),
		"a load of 80 MiB into 64 is refused");
	is_int(ENOSPC, raw.error, "the error of 80 MiB is ENOSPC");
	has_str("budget of 64.0 MiB", raw.text,
		"the error of 80 MiB names the budget");
	is_int((int64_t)s.used, (int64_t)witness_status(&witness).used,
		"a load that can never fit evicts nothing");
	is_loaded(0, true, "the cached file again");
	is_loaded(1, false, "another file that evicts the first");
	is_loaded(1, true, "the other file again");
	is_loaded(0, false, "the evicted file again");
	witness_is_served(&witness, "files drive each other out");
}

static void leases(void)
{
	struct tarn_report_daemon s;
	tarn_tensor *held = NULL;

	is_int(WIRE_LOADED, load(files[1], LARGE, "held"),
		"a file is loaded with a name");
	is_full(2, "refused", "a named file that stays");
	if (tarn_store_lookup(witness.store, "held", &held) < 0)
		bail("lookup: %s", tarn_error_message());
	raw_send(&raw, WIRE_REMOVE, "held", 4, NULL, 0);
	is_int(WIRE_DONE, raw_receive(&raw, RAW_PATIENCE_MS),
		"the name is removed");
	s = witness_status(&witness);
	for (int i = 0; i < 50; i++)
		if (load(files[2], LARGE, "refused") != WIRE_ERROR)
			break;
	is_int(ENOSPC, raw.error, "a leased file that stays, fifty times");
	is_int((int64_t)s.used, (int64_t)witness_status(&witness).used,
		"the refused loads take no memory");
	is_int((int64_t)s.names, (int64_t)witness_status(&witness).names,
		"the refused loads publish no name");
	ok(has_bytes(held, 11), "the leased file's bytes are untouched");
	held = tarn_tensor_unref(held);
	is_loaded(2, false, "a file that evicts the one no longer leased");
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
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(36);
}
