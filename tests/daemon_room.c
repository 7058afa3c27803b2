/* SPDX-License-Identifier: MIT */
/*
 * One budget, two pools. A file that nobody holds makes room for whoever needs
 * it, in another pool too, the one used longest ago first; what is named or
 * leased stays, and a load that can never fit costs nobody anything. Who comes
 * while room is on its way waits for it, be it his own or somebody else's.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/parcel.h"
#include "tests/raw_client.h"
#include "tests/tap.h"
#include "tests/witness.h"

#define MIB (1ull << 20)
#define BUDGET (64 * MIB)
#define WAITED_S 4.0 /* a loader is waited for longer, five seconds */

static struct daemon server;
static struct raw a, b;
static const char *files[4];
static const uint64_t sizes[4] = {16 * MIB, 16 * MIB, 40 * MIB, 80 * MIB};

static int load(struct raw *raw, int i, uint64_t size, const char *name)
{
	struct order order = {0};
	int fd = opened(files[i]), direct = opened_direct(files[i]), type;

	order_range(&order, 0, size, 0);
	if (name)
		order_bytes(&order, name, (int64_t)size);
	raw->text[0] = 0;
	type = order_load(&order, raw, fd, direct);
	fd_close(fd);
	fd_close(direct);
	return type;
}

static void is_loaded(struct raw *raw, int i, bool cached, const char *what)
{
	if (is_int(WIRE_LOADED, load(raw, i, sizes[i], NULL), "%s", what))
		is_int(cached, !!(raw->loaded.flags & LOADED_CACHED), "%s: %s",
			what, cached ? "from the cache" : "anew");
	else
		diag("%s", raw->text);
}

static void remove_name(struct raw *raw, const char *name)
{
	raw_say(raw, WIRE_REMOVE, name, strlen(name), NULL, 0);
	if (raw_hear(raw, RAW_PATIENCE_MS) != WIRE_DONE)
		bail("remove: %s", raw->text);
}

static void across_pools(void)
{
	is_loaded(&a, 2, false, "40 of 64 MiB, in pool a");
	is_loaded(&b, 2, false, "40 MiB in pool b");
	is_loaded(&a, 2, false, "it had made room, and is made room for");
	is_int(WIRE_LOADED, load(&a, 2, sizes[2], "stays"), "it has a name");
	is_int(WIRE_ERROR, load(&b, 2, sizes[2], NULL), "so it stays");
	is_int(ENOSPC, b.error, "ENOSPC");
	has_str("budget of 64.0 MiB", b.text, "told the limit");
	is_loaded(&b, 0, false, "what fits beside it is loaded");
	is_int(WIRE_ERROR, load(&a, 3, sizes[3], NULL), "80 MiB never fit");
	is_loaded(&b, 0, true, "and cost nobody anything");
	remove_name(&a, "stays");
	is_loaded(&b, 2, false, "without its name it makes room");
}

static int filled_memfd(uint64_t size)
{
	int fd = memfd_create("created", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || fallocate(fd, 0, 0, (off_t)size) < 0)
		bail("a memfd: %m");
	return fd;
}

/* Created memory has the same budget, beside all pools: it takes room from
 * files, and files none from it. */
static void created(void)
{
	int fd = filled_memfd(40 * MIB);
	struct parcel p = parcel_of(SOURCE_ADOPT, 40 * MIB, fd, "created");

	is_loaded(&b, 2, true, "40 of 64 MiB are a file's");
	if (!is_int(WIRE_PUBLISHED, parcel_answer(&p, &a),
		    "40 MiB are created all the same"))
		diag("%s", a.text);
	fd_close(fd);
	is_int(WIRE_ERROR, load(&b, 2, sizes[2], NULL), "the file is refused");
	is_int(ENOSPC, b.error, "ENOSPC");
	has_str("of which 40.0 MiB are taken", b.text, "told by what");
	is_loaded(&b, 0, false, "what fits beside it is loaded");
	remove_name(&a, "created");
	is_loaded(&b, 2, false, "then it is loaded");
}

/* Two files in a, one in b; the first is used again; one more needs eight
 * MiB, which only the oldest gives up. */
static void oldest_first(void)
{
	is_int(WIRE_LOADED, load(&b, 3, 56 * MIB, NULL), "all but 8 MiB");
	is_loaded(&a, 0, false, "16 MiB in a");
	is_loaded(&a, 1, false, "16 MiB more");
	is_loaded(&b, 0, false, "16 MiB in b");
	is_loaded(&a, 0, true, "the first one is used again");
	is_int(WIRE_LOADED, load(&b, 3, 24 * MIB, NULL), "24 MiB in b");
	is_loaded(&a, 0, true, "what was used stays");
	is_loaded(&b, 0, true, "what came last stays");
	is_loaded(&a, 1, false, "what was used longest ago went");
}

/* ---- room that is on its way ------------------------------------------ */

/* Sends a publication, and does not wait for its answer. */
static void say(struct raw *raw, enum source_kind kind, uint64_t size,
	const char *name)
{
	static unsigned char body[PARCEL_MAX];
	int fd = filled_memfd(size);
	struct parcel p = parcel_of(kind, size, fd, name);

	if (raw_say(raw, WIRE_PUBLISH, body, parcel_write(&p, body), &fd, 1) <
		0)
		bail("publish %s", name);
	fd_close(fd);
}

/*
 * A file of 40 MiB that nobody holds makes room for the first publication: the
 * loader, which is stopped, has to forget it first. Then comes a second one,
 * for which there will be room as well.
 */
static void while_it_leaves(enum source_kind kind, const char *what)
{
	pid_t loader;

	/* A loader lives as long as its pool is in use: here it is. */
	is_loaded(&b, 2, false, "a file of 40 MiB");
	loader = child_named(server.pid, "tarn-loader");
	if (loader <= 0 || kill(loader, SIGSTOP) < 0)
		bail("no loader to stop");
	say(&a, SOURCE_ADOPT, 28 * MIB, "first");
	is_int(-1, raw_hear(&a, 200), "%s: the first has to wait", what);
	say(&b, kind, 30 * MIB, "second");
	is_int(-1, raw_hear(&b, 200), "%s: so has the second", what);
	kill(loader, SIGCONT);
	if (!is_int(WIRE_PUBLISHED, raw_hear(&a, RAW_PATIENCE_MS),
		    "%s: the first is published", what))
		diag("%s", a.text);
	if (!is_int(WIRE_PUBLISHED, raw_hear(&b, RAW_PATIENCE_MS),
		    "%s: the second is", what))
		diag("%s", b.text);
	remove_name(&a, "first");
	remove_name(&b, "second");
}

/*
 * A loader that hangs may never forget: what it keeps is waited for, but then
 * others make room, and who cannot be helped is told.
 */
static void while_it_hangs(void)
{
	double begun;
	pid_t loader;
	int said;

	is_loaded(&b, 2, false, "40 MiB in b");
	loader = child_named(server.pid, "tarn-loader");
	is_int(WIRE_LOADED, load(&a, 0, sizes[0], NULL), "16 MiB in a");
	if (loader <= 0 || kill(loader, SIGSTOP) < 0)
		bail("no loader to stop");
	begun = seconds();
	say(&a, SOURCE_ADOPT, 20 * MIB, "first");
	said = raw_hear(&a, 200);
	if (said < 0 || seconds() - begun < WAITED_S)
		is_int(-1, said, "b's file is the oldest, and hangs");
	else
		skip(1, "the machine is too busy to see it wait");
	if (said < 0)
		said = raw_hear(&a, RAW_PATIENCE_MS);
	if (!is_int(WIRE_PUBLISHED, said, "so the one in a makes room"))
		diag("%s", a.text);
	say(&a, SOURCE_COPY, 30 * MIB, "second");
	is_int(WIRE_ERROR, raw_hear(&a, RAW_PATIENCE_MS),
		"30 MiB more do not wait for ever");
	is_int(ENOSPC, a.error, "ENOSPC");
	kill(loader, SIGCONT);
	remove_name(&a, "first");
	is_loaded(&b, 2, false, "when it goes on there is room");
}

/* The sentence is that of the refusal, not of what failed afterwards. */
static void never_fits(void)
{
	const int64_t shape[] = {(int64_t)(80 * MIB)};
	struct tarn_publish_item item = {.name = "never"};
	const int64_t at = 5;
	tarn_store *store;

	if (tarn_store_open(server.socket, &store) < 0 ||
		tarn_store_create(
			store, TARN_U8, 1, shape, 0, &item.tensor) < 0)
		bail("%s", tarn_error_message());
	((unsigned char *)tarn_tensor_data(item.tensor))[MIB] = 77;
	is_int(-ENOSPC, tarn_store_publish(store, &item, 1, NULL, NULL),
		"80 MiB that were created never fit");
	has_str("budget of 64.0 MiB", tarn_error_message(), "told the limit");
	is_int(77, ((unsigned char *)tarn_tensor_data(item.tensor))[MIB],
		"they are what they were");
	is_int(0, tarn_tensor_set_f64(item.tensor, &at, 1),
		"and their creator's to write");
	is_int(-ENOSPC, tarn_store_publish(store, &item, 1, NULL, NULL),
		"and to publish, with as little luck");
	tarn_tensor_unref(item.tensor);
	tarn_store_unref(store);
}

int main(void)
{
	char conf[300];
	const char *const args[] = {"--budget", "64M", "--config", conf, NULL};
	FILE *file;

	snprintf(conf, sizeof(conf), "%s/conf", test_tmpdir());
	file = fopen(conf, "we");
	if (!file ||
		fputs("[daemon]\nsegment-size = 8M\n[pool a]\n[pool b]\n",
			file) < 0 ||
		fclose(file) != 0)
		bail("%s: %m", conf);
	for (uint32_t i = 0; i < 4; i++) {
		char name[16];

		snprintf(name, sizeof(name), "file%u", i);
		files[i] = made_file(name, sizes[i], i + 1);
	}
	/* Files younger than two seconds are nobody else's. */
	sleep(2);
	usleep(200000);
	daemon_start(&server, "s", args);
	raw_open_pool(&a, server.socket, "a");
	raw_open_pool(&b, server.socket, "b");
	across_pools();
	created();
	oldest_first();
	while_it_leaves(SOURCE_ADOPT, "beside the pool");
	while_it_leaves(SOURCE_COPY, "in the pool");
	while_it_hangs();
	never_fits();
	raw_close(&a);
	raw_close(&b);
	is_int(0, daemon_stop(&server), "the daemon ends in peace");
	unlink(conf);
	remove_files();
	return done();
}
