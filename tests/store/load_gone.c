/* SPDX-License-Identifier: MIT */
/*
 * A load that was answered, and whose bytes are gone before its client looks:
 * 1. the load is done, and its names are there; 2. others publish other
 * tensors under all of them; 3. its bytes, which no name leads to any more,
 * are evicted; 4. the client reads the answer, and asks for the bytes once
 * more. The others' publications stay in place.
 */
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/again.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"

static struct daemon server;
static const char *path;

static int load(tarn_store *store, const char *name)
{
	return tensor_load(store, path, name);
}

static void until_there(const char *name)
{
	for (int i = 0; i < 6000; i++) {
		if (version_of(name) > 0)
			return;
		usleep(10000);
	}
	bail("%s never comes", name);
}

int main(void)
{
	const char *args[] = {"--idle", "1", NULL};
	struct sleeper s;

	daemon_start(&server, "gone.sock", args);
	raw_open(&raw, server.socket);
	if (table_map(raw.table, false, &table) < 0 ||
		tarn_store_open(server.socket, NULL, &other) < 0)
		bail("a second look: %s", tarn_error_message());
	path = tensor_file("of-one", 1, 4096);
	sleeper_begin(&s, &server, NULL, load, "a");
	sleeper_serve(&s);
	until_there("a/x");
	publish("a/x");
	/* Only what was published is left. */
	ok(used_becomes(other, 4096),
		"the bytes of the answered load are evicted");
	is_int(0, sleeper_end(&s),
		"a client that slept meanwhile gets the bytes in the end");
	is_int(2, version_of("a/x"),
		"a name that another client published stays");
	unlink(path);
	raw_close(&raw);
	tarn_store_unref(other);
	table_unmap(&table);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(4);
}
