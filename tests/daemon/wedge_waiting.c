/* SPDX-License-Identifier: MIT */
/*
 * A load that waits behind files that do not answer is not taken for one of
 * them.
 *
 * A loader reads eight files at once. All of these are dead, so it is killed;
 * so are the loaders after it that get more of such files. Those that may have
 * held it up get a loader each, of which a user has sixteen. A good file that
 * waited for its turn meanwhile is none of them: if it were, it would have to
 * wait for one of sixteen loaders that never end.
 */
#include <unistd.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/fuse_hang.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define SIZE 1000100u
/* LOADER_PARALLEL and ALONE_MAX: see daemon/loader/internal.h and
 * daemon/server/load/loader.c. */
#define AT_ONCE 8
#define ALONE 16

static struct daemon server;
static int dead;

static void order_all(struct raw *raw, int fd, uint64_t size)
{
	struct order order = {0};

	order_range(&order, 0, size, 0);
	if (order_send(&order, raw, fd, -1) < 0)
		bail("a load cannot be sent");
}

/* So that a loader exists which knows all the memory there is. */
static void have_loader(struct raw *raw)
{
	int fd = opened(made_file("warm", 5000, 1));

	order_all(raw, fd, 5000);
	is_int(WIRE_LOADED, raw_answer(raw), "there is a loader");
	close(fd);
}

/* When the client is told so, the loader has been told before. */
static bool has_begun(struct raw *raw)
{
	return raw_receive(raw, RAW_PATIENCE_MS) == WIRE_LOADING;
}

static void order_dead(struct raw *raw, int n, const char *what)
{
	int begun = 0;

	for (int i = 0; i < n; i++)
		order_all(raw, dead, hang_size(HANG_READ));
	while (begun < n && has_begun(raw))
		begun++;
	is_int(n, begun, "loads of dead files: %s", what);
}

int main(void)
{
	struct raw wedges, good;
	const char *why = hang_begin();
	int fd;

	if (why)
		skip_all("no file system that hangs can be made here: %s", why);
	daemon_start(&server, "s", NULL);
	raw_open(&wedges, server.socket);
	raw_open(&good, server.socket);
	have_loader(&good);
	fd = opened(made_file("good", SIZE, 2));
	dead = opened(hang_path(HANG_READ)); /* later that hangs, too */
	hang_arm();
	order_dead(&wedges, AT_ONCE, "as many as a loader reads at once");
	order_all(&good, fd, SIZE);
	ok(has_begun(&good), "a good file's load waits behind them");
	order_dead(&wedges, ALONE, "as many as get a loader each");
	is_int(WIRE_LOADED, raw_answer(&good), "the good file is loaded");
	is_int(SIZE, (int)good.loaded.size, "the good file is loaded whole");
	raw_close(&wedges);
	raw_close(&good);
	hang_end();
	close(dead);
	close(fd);
	is_int(0, daemon_stop(&server), "the daemon ends");
	remove_files();
	return done(7);
}
