/* SPDX-License-Identifier: MIT */
/*
 * One budget, two pools. A file without a holder is evicted for any load that
 * needs its memory, in another pool too, the one used longest ago first; named
 * and leased files stay, and a load that can never fit evicts nothing. A load
 * waits for memory that is being reclaimed, for itself or for another.
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
#include "tests/kit/publish_msg.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MIB (1ull << 20)
#define BUDGET (64 * MIB)
#define WAITED_S 4.0 /* a loader is waited for longer, five seconds */

static struct daemon server;
static char log_path[300]; /* the daemon's */
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
	if (is_int(WIRE_LOADED, load(raw, i, sizes[i], NULL),
		    "a load succeeds: %s", what))
		is_int(cached, !!(raw->loaded.flags & LOADED_CACHED),
			"%s: the load is %s", what,
			cached ? "from the cache" : "anew");
	else
		diag("%s", raw->text);
}

static void remove_name(struct raw *raw, const char *name)
{
	raw_send(raw, WIRE_REMOVE, name, strlen(name), NULL, 0);
	if (raw_receive(raw, RAW_PATIENCE_MS) != WIRE_DONE)
		bail("remove: %s", raw->text);
}

/* Sends the order, and does not wait for its answer. */
static void send_load(struct raw *raw, int i, const char *name)
{
	struct order order = {0};
	int fd = opened(files[i]), direct = opened_direct(files[i]);

	order_range(&order, 0, sizes[i], 0);
	order_bytes(&order, name, (int64_t)sizes[i]);
	if (order_send(&order, raw, fd, direct) < 0)
		bail("load %s", name);
	fd_close(fd);
	fd_close(direct);
}

static void across_pools(void)
{
	is_loaded(&a, 2, false, "40 of 64 MiB, in pool a");
	is_loaded(&b, 2, false, "40 MiB in pool b");
	is_loaded(&a, 2, false, "the evicted file, which evicts the other");
	is_int(WIRE_LOADED, load(&a, 2, sizes[2], "stays"),
		"the file gets a name");
	is_int(WIRE_ERROR, load(&b, 2, sizes[2], NULL),
		"a load that would need the named file's memory is refused");
	is_int(ENOSPC, b.error, "the error of that load is ENOSPC");
	has_str("budget of 64.0 MiB", b.text,
		"the error of that load names the budget");
	is_loaded(&b, 0, false, "a file that fits beside the named one");
	is_int(WIRE_ERROR, load(&a, 3, sizes[3], NULL),
		"a load of 80 MiB into 64 is refused");
	is_loaded(&b, 0, true, "a file that the refused load did not evict");
	remove_name(&a, "stays");
	is_loaded(&b, 2, false, "a file that evicts the one without a name");
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
	struct publish_msg p =
		publish_msg_of(SOURCE_ADOPT, 40 * MIB, fd, "created");

	publish_msg_seal(fd, SOURCE_ADOPT);
	is_loaded(&b, 2, true, "a file of 40 of 64 MiB");
	if (!is_int(WIRE_PUBLISHED, publish_msg_answer(&p, &a),
		    "40 MiB of created memory evict the file"))
		diag("%s", a.text);
	fd_close(fd);
	is_int(WIRE_ERROR, load(&b, 2, sizes[2], NULL),
		"a load beside created memory is refused");
	is_int(ENOSPC, b.error, "the error of that load is ENOSPC");
	has_str("of which 40.0 MiB are taken", b.text,
		"the error says that 40 MiB are taken");
	is_loaded(&b, 0, false, "a file that fits beside created memory");
	remove_name(&a, "created");
	is_loaded(&b, 2, false, "the file after the created memory is gone");
}

/* Two files in a, one in b; the first is used again; one more needs eight
 * MiB, which only the oldest gives up. */
static void oldest_first(void)
{
	is_int(WIRE_LOADED, load(&b, 3, 56 * MIB, NULL),
		"56 MiB are loaded in pool b");
	is_loaded(&a, 0, false, "16 MiB in pool a");
	is_loaded(&a, 1, false, "16 MiB more in pool a");
	is_loaded(&b, 0, false, "16 MiB in pool b");
	is_loaded(&a, 0, true, "the first file, used again");
	is_int(WIRE_LOADED, load(&b, 3, 24 * MIB, NULL),
		"24 MiB are loaded in pool b");
	is_loaded(&a, 0, true, "the file that was used again");
	is_loaded(&b, 0, true, "the file that was loaded last");
	is_loaded(&a, 1, false, "the file that was used longest ago");
}

/* ---- room that is on its way ------------------------------------------ */

/* Sends a publication, and does not wait for its answer. */
static void send_publish(
	struct raw *raw, enum source_kind kind, uint64_t size, const char *name)
{
	static unsigned char body[PUBLISH_MSG_MAX];
	int fd = filled_memfd(size);
	struct publish_msg p = publish_msg_of(kind, size, fd, name);

	if (kind == SOURCE_ADOPT)
		publish_msg_seal(fd, kind);
	if (raw_send(raw, WIRE_PUBLISH, body, publish_msg_write(&p, body), &fd,
		    1) < 0)
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
	double begun;
	pid_t loader;
	int said[2];
	bool late;

	/* A loader lives as long as its pool is in use: here it is. */
	is_loaded(&b, 2, false, "a file of 40 MiB");
	loader = child_named(server.pid, "tarn-loader");
	if (loader <= 0 || kill(loader, SIGSTOP) < 0)
		bail("no loader to stop");
	begun = seconds();
	send_publish(&a, SOURCE_ADOPT, 28 * MIB, "first");
	said[0] = raw_receive(&a, 200);
	send_publish(&b, kind, 30 * MIB, "second");
	said[1] = raw_receive(&b, 200);
	late = seconds() - begun >= WAITED_S;
	kill(loader, SIGCONT);
	if (late) {
		skip(2, "%s: the machine is too busy to see them wait", what);
	} else {
		is_int(-1, said[0], "%s: the first publication has to wait",
			what);
		is_int(-1, said[1], "%s: the second publication has to wait",
			what);
	}
	if (said[0] < 0)
		said[0] = raw_receive(&a, RAW_PATIENCE_MS);
	if (!is_int(WIRE_PUBLISHED, said[0],
		    "%s: the first publication succeeds", what))
		diag("%s", a.text);
	if (said[1] < 0)
		said[1] = raw_receive(&b, RAW_PATIENCE_MS);
	if (!is_int(WIRE_PUBLISHED, said[1],
		    "%s: the second publication succeeds", what))
		diag("%s", b.text);
	remove_name(&a, "first");
	remove_name(&b, "second");
}

/*
 * A file of 40 MiB is to make room for 60 MiB, and its loader is stopped. Who
 * comes later and wants 10 MiB, which are free, would take from what the first
 * waits for. So it waits behind it: until the first has its memory, or leaves.
 */
static void in_order(bool leaves)
{
	const char *what = leaves ? "the first leaves" : "the first stays";
	int waited[2], said[2] = {-1, -1};
	struct raw first;
	pid_t loader;
	double begun;
	bool late;

	raw_open_pool(&first, server.socket, "a");
	is_loaded(&b, 2, false, "a file of 40 MiB");
	loader = child_named(server.pid, "tarn-loader");
	if (loader <= 0 || kill(loader, SIGSTOP) < 0)
		bail("no loader to stop");
	begun = seconds();
	send_publish(&first, SOURCE_ADOPT, 60 * MIB, "first");
	waited[0] = raw_receive(&first, 200);
	send_publish(&b, SOURCE_ADOPT, 10 * MIB, "second");
	waited[1] = raw_receive(&b, 200);
	if (leaves)
		raw_close(&first);
	late = seconds() - begun >= WAITED_S;
	kill(loader, SIGCONT);
	if (!leaves)
		said[0] = waited[0] < 0 ? raw_receive(&first, RAW_PATIENCE_MS)
					: waited[0];
	said[1] = waited[1] < 0 ? raw_receive(&b, RAW_PATIENCE_MS) : waited[1];
	if (late) {
		skip(4, "the machine is too busy to stop a loader shortly");
	} else {
		is_int(-1, waited[0], "60 MiB wait for a loader");
		is_int(-1, waited[1], "10 MiB wait behind the 60");
		is_int(leaves ? -1 : WIRE_PUBLISHED, said[0],
			"%s: the first load gets its memory if it is there",
			what);
		is_int(leaves ? WIRE_PUBLISHED : WIRE_ERROR, said[1],
			"%s: the second load gets the memory that is left",
			what);
	}
	if (said[0] == WIRE_PUBLISHED)
		remove_name(&first, "first");
	if (said[1] == WIRE_PUBLISHED)
		remove_name(&b, "second");
	if (!leaves)
		raw_close(&first);
}

/*
 * A loader that hangs never forgets: what it keeps is waited for, then it is
 * killed, and there is room.
 */
static void while_it_hangs(void)
{
	double begun;
	pid_t loader;
	int said;

	is_loaded(&b, 2, false, "40 MiB in pool b");
	loader = child_named(server.pid, "tarn-loader");
	is_int(WIRE_LOADED, load(&a, 0, sizes[0], NULL),
		"16 MiB are loaded in pool a");
	if (loader <= 0 || kill(loader, SIGSTOP) < 0)
		bail("no loader to stop");
	begun = seconds();
	send_publish(&a, SOURCE_ADOPT, 20 * MIB, "first");
	said = raw_receive(&a, 200);
	if (said < 0 || seconds() - begun < WAITED_S)
		is_int(-1, said,
			"the oldest file, in pool b, hangs in a loader");
	else
		skip(1, "the machine is too busy to see it wait");
	if (said < 0)
		said = raw_receive(&a, RAW_PATIENCE_MS);
	if (!is_int(WIRE_PUBLISHED, said,
		    "a load evicts the file in pool a instead"))
		diag("%s", a.text);
	/* Its memory comes back when the kernel has ended it. */
	begun = seconds();
	do {
		send_publish(&a, SOURCE_COPY, 30 * MIB, "second");
		said = raw_receive(&a, RAW_PATIENCE_MS);
	} while (said == WIRE_ERROR && seconds() - begun < 60 &&
		 usleep(20000) == 0);
	if (!is_int(WIRE_PUBLISHED, said,
		    "30 MiB more find room when the loader is killed"))
		diag("%s", a.text);
	remove_name(&a, "first");
	remove_name(&a, "second");
	is_loaded(&b, 2, false, "another loader does the killed one's work");
}

/* Has the server find both requests at once; the type of b's answer. */
static int in_one_turn(bool remove_first)
{
	pid_t pid = child_named(server.pid, "tarn-server");
	int said;

	if (pid <= 0 || kill(pid, SIGSTOP) < 0)
		bail("no server to stop");
	wait_stopped(pid);
	if (remove_first)
		raw_send(&a, WIRE_REMOVE, "old", 3, NULL, 0);
	send_publish(&b, SOURCE_ADOPT, 40 * MIB, "new");
	if (!remove_first)
		raw_send(&a, WIRE_REMOVE, "old", 3, NULL, 0);
	kill(pid, SIGCONT);
	said = raw_receive(&b, RAW_PATIENCE_MS);
	if (raw_receive(&a, RAW_PATIENCE_MS) != WIRE_DONE)
		bail("remove old: %s", a.text);
	return said;
}

/*
 * The server finds the removal of 40 MiB and the publication of 40 MiB in one
 * turn of its loop. What the removal lets go of is looked for between turns,
 * and counts as room before that. Which of the two the kernel reports first is
 * not known, so they are sent in both orders: in one of them there is room.
 */
static void let_go_in_one_turn(void)
{
	int said = WIRE_ERROR;

	for (int i = 0; i < 10 && said == WIRE_ERROR; i++) {
		send_publish(&a, SOURCE_ADOPT, 40 * MIB, "old");
		if (raw_receive(&a, RAW_PATIENCE_MS) != WIRE_PUBLISHED)
			bail("publish old: %s", a.text);
		said = in_one_turn(i % 2 == 0);
	}
	if (!is_int(WIRE_PUBLISHED, said,
		    "a publication finds the room that a removal of the same "
		    "turn of the loop made"))
		diag("%s", b.text);
	if (said == WIRE_PUBLISHED)
		remove_name(&b, "new");
}

/*
 * Both pools are to grow at once: by 40 MiB, in segments of 8 MiB, and by what
 * the file has. What comes for the first one counts once, and stays for it,
 * also when the second is refused in the same moment.
 */
static void both_grow(int file, int n_loaded, const char *what)
{
	static const char trimmed[] = " trim role=server ";
	pid_t pid = child_named(server.pid, "tarn-server");
	unsigned trims;
	int said[2];

	/* Nothing is left in either pool. */
	send_publish(&a, SOURCE_ADOPT, 60 * MIB, "all");
	if (raw_receive(&a, RAW_PATIENCE_MS) != WIRE_PUBLISHED)
		bail("publish all: %s", a.text);
	remove_name(&a, "all");
	trims = daemon_logged(log_path, trimmed);
	if (pid <= 0 || kill(pid, SIGSTOP) < 0)
		bail("no server to stop");
	wait_stopped(pid);
	send_load(&a, 2, "first");
	send_load(&b, file, "second");
	kill(pid, SIGCONT);
	said[0] = raw_answer(&a);
	said[1] = raw_answer(&b);
	is_int(n_loaded, (said[0] == WIRE_LOADED) + (said[1] == WIRE_LOADED),
		"%s: the expected number of two loads find room", what);
	is_int(trims, daemon_logged(log_path, trimmed),
		"%s: no memory that came for a load is given back", what);
	if (said[0] == WIRE_LOADED)
		remove_name(&a, "first");
	if (said[1] == WIRE_LOADED)
		remove_name(&b, "second");
}

/* The sentence is that of the refusal, not of what failed afterwards. */
static void never_fits(void)
{
	const int64_t shape[] = {(int64_t)(80 * MIB)};
	struct tarn_publish_item item = {.name = "never"};
	const int64_t at = 5;
	tarn_store *store;

	if (tarn_store_open(server.socket, NULL, &store) < 0 ||
		tarn_store_create(store, TARN_U8, 1, shape, 0, &item.tensor) <
			0)
		bail("%s", tarn_error_message());
	((unsigned char *)tarn_tensor_data(item.tensor))[MIB] = 77;
	is_int(-ENOSPC, tarn_store_publish(store, &item, 1, NULL, NULL),
		"80 MiB of created memory are refused");
	has_str("budget of 64.0 MiB", tarn_error_message(),
		"the error of created memory names the budget");
	is_int(77, ((unsigned char *)tarn_tensor_data(item.tensor))[MIB],
		"the created tensors are unchanged");
	is_int(0, tarn_tensor_set_f64(item.tensor, &at, 1),
		"the created tensors can still be written");
	is_int(-ENOSPC, tarn_store_publish(store, &item, 1, NULL, NULL),
		"publishing the created tensors is refused, too");
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
	snprintf(log_path, sizeof(log_path), "%s/log", test_tmpdir());
	daemon_log_to(log_path);
	daemon_start(&server, "s", args);
	raw_open_pool(&a, server.socket, "a");
	raw_open_pool(&b, server.socket, "b");
	across_pools();
	created();
	oldest_first();
	while_it_leaves(SOURCE_ADOPT, "beside the pool");
	while_it_leaves(SOURCE_COPY, "in the pool");
	in_order(false);
	in_order(true);
	while_it_hangs();
	let_go_in_one_turn();
	both_grow(0, 2, "40 and 16 of 64 MiB");
	both_grow(2, 1, "40 and 40 of 64 MiB");
	never_fits();
	raw_close(&a);
	raw_close(&b);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	daemon_log_show(log_path);
	unlink(conf);
	remove_files();
	return done(86);
}
