/* SPDX-License-Identifier: MIT */
/*
 * Two users of a pool load one file at the same time, and the daemon reads it
 * once, for the first. That one can fail its load, by setting O_DIRECT on the
 * descriptor that it has sent, and can hold it up for ever, by files that do
 * not answer. Neither is the other user's trouble: it gets the bytes.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/fuse_hang.h"
#include "tests/kit/pool.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/stopped_load.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define SIZE 1000100u /* no multiple of a disk's blocks */
/* More than a loader reads at once, and more than get a loader each: see
 * LOADER_PARALLEL and ALONE_MAX. */
#define BEFORE 8
#define AFTER 16

static struct pool_kit kit;
static tarn_store *asks;
static struct raw first, second;

/* The kernel notes the effective uid of a process that connects. */
static void open_as(struct raw *raw, uint32_t uid)
{
	if (seteuid(uid) < 0)
		bail("seteuid(%u): %m", uid);
	raw_open_pool(raw, kit.daemon.socket, "common");
	if (seteuid(0) < 0)
		bail("seteuid(0): %m");
}

static void order_all(struct raw *raw, int fd, uint64_t size)
{
	struct order order = {0};

	order_range(&order, 0, size, 0);
	if (order_send(&order, raw, fd, -1) < 0)
		bail("a load cannot be sent");
}

/* So that each has a loader which knows all the memory there is. The last one
 * is the first user's. */
static void have_loaders(void)
{
	struct raw *of[] = {&second, &first};

	for (unsigned i = 0; i < 2; i++) {
		char name[16];
		int fd;

		snprintf(name, sizeof(name), "warm%u", i);
		fd = opened(made_file(name, 5000, i));
		order_all(of[i], fd, 5000);
		is_int(WIRE_LOADED, raw_answer(of[i]), "user %u has a loader",
			2 - i);
		close(fd);
	}
}

static void joins(void)
{
	is_int(WIRE_LOADING, raw_receive(&second, RAW_PATIENCE_MS),
		"the second user waits for the file");
	is_int((int)first.loading.index, (int)second.loading.index,
		"the file is read for the first user only");
}

static void gets_the_bytes(const char *what)
{
	is_int(WIRE_LOADED, raw_answer(&second),
		"the second user gets the file: %s", what);
	is_int(SIZE, (int)second.loaded.size,
		"the second user gets all of the file: %s", what);
}

static void the_first_fails(void)
{
	const char *path = made_file("fails", SIZE, 7);
	int fd = opened(path), other = opened(path);
	pid_t loader = stopped_load_begin(&kit.daemon);

	order_all(&first, fd, SIZE);
	stopped_load_await(&kit.daemon, asks, loader);
	is_int(WIRE_LOADING, raw_receive(&first, RAW_PATIENCE_MS),
		"the first user's load has begun");
	order_all(&second, other, SIZE);
	joins();
	if (fcntl(fd, F_SETFL, O_DIRECT) < 0)
		bail("O_DIRECT: %m");
	kill(loader, SIGCONT);
	is_int(WIRE_ERROR, raw_answer(&first), "the first user's load fails");
	gets_the_bytes("the first one's load failed");
	close(fd);
	close(other);
}

static void wedge(struct raw *raw, int hangs, int n)
{
	for (int i = 0; i < n; i++)
		order_all(raw, hangs, hang_size(HANG_READ));
}

static void the_first_is_held_up(void)
{
	const char *path = made_file("held", SIZE, 8);
	int fd = opened(path), other = opened(path);
	int hangs = opened(hang_path(HANG_READ)); /* later that hangs, too */
	struct raw wedges;

	open_as(&wedges, OWNER);
	hang_arm();
	wedge(&wedges, hangs, BEFORE);
	ok(hang_has_caught(1), "the first user's files do not answer");
	order_all(&first, fd, SIZE);
	is_int(WIRE_LOADING, raw_receive(&first, RAW_PATIENCE_MS),
		"the first user's load has begun");
	wedge(&wedges, hangs, AFTER);
	order_all(&second, other, SIZE);
	joins();
	gets_the_bytes("the first one's load is held up");
	raw_close(&wedges);
	hang_end();
	close(hangs);
	close(fd);
	close(other);
}

int main(void)
{
	const char *why;

	if (!kit_pool_is_root())
		skip_all("several users need root");
	why = hang_begin();
	if (why)
		skip_all("no file system that hangs can be made here: %s", why);
	kit_pool_start(&kit, "[pool common]\nmode = 0666\n");
	if (tarn_store_open(kit.daemon.socket,
		    &(const struct tarn_store_options) {.pool = "common"},
		    &asks) < 0)
		bail("%s", tarn_error_message());
	open_as(&first, OWNER);
	open_as(&second, MEMBER);
	have_loaders();
	the_first_fails();
	the_first_is_held_up();
	raw_close(&first);
	raw_close(&second);
	tarn_store_unref(asks);
	is_int(0, kit_pool_stop(&kit), "the daemon ends");
	remove_files();
	return done(15);
}
