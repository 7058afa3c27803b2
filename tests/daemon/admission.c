/* SPDX-License-Identifier: MIT */
/*
 * Loads and publications beyond what a daemon with few descriptors does at
 * once. Such a request was once refused with EBUSY; now it waits for its turn,
 * and the other messages of its connection, and other users, do not wait with
 * it.
 *
 * What is under way needs memory that the keeper, which is stopped, makes
 * later. A load of an empty file ends as soon as it begins.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/must.h"
#include "tests/kit/publish_msg.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MIB (1ull << 20)
#define LARGE (65 * MIB) /* more than a segment */
#define PATIENCE_S 60.0  /* on a loaded machine */
#define STRANGER 12345

enum {
	DESCRIPTORS = 256,
	AT_ONCE = 16, /* a sixteenth of them */
	WAIT = 8,     /* and half of that, if they are one user's */
	MANY = 7,
	SMALL_ONES = 1030, /* CLIENT_PUBLISHES_MAX, and some */
};

static struct daemon server;
static struct witness witness;
static struct raw raw, second, stranger;
static int large; /* a file */

/* ---- what is seen of it -------------------------------------------------- */

/* Loads that have begun, and all. */
static void count(int *ret_begun, int *ret_all)
{
	struct tarn_report *report = NULL;

	must(tarn_store_report(witness.store, &report));
	*ret_begun = (int)report->daemon.loads_active;
	*ret_all = (int)report->n_loads;
	tarn_report_free(report);
}

/* Waits until it is so. */
static void are(int begun, int all, const char *what)
{
	double end = seconds() + PATIENCE_S;
	int b, a;

	do
		count(&b, &a);
	while ((b != begun || a != all) && seconds() < end);
	if (!ok(b == begun && a == all, "%s", what))
		diag("%d of %d have begun, wanted %d of %d", b, a, begun, all);
}

/* The server has had time to read what was sent, and has left some of it. */
static bool is_left_unread(const struct raw *of)
{
	int b, a, unread = 0;

	for (int i = 0; i < 20; i++)
		count(&b, &a);
	if (ioctl(of->fd, SIOCOUTQ, &unread) < 0)
		bail("SIOCOUTQ: %m");
	return unread;
}

/* ---- loads --------------------------------------------------------------- */

static uint32_t order(struct raw *of)
{
	struct order one = {0};

	order_range(&one, 0, LARGE, 0);
	if (order_send(&one, of, large, -1) < 0)
		bail("a load cannot be sent");
	return of->serial;
}

static uint32_t order_empty(struct raw *of)
{
	struct order one = {0};

	if (order_send(&one, of, -1, -1) < 0)
		bail("a load cannot be sent");
	return of->serial;
}

static void cancel(struct raw *of, uint32_t serial, const char *what)
{
	struct msg_cancel message = {.serial = serial};
	int type;

	raw_send(of, WIRE_CANCEL, &message, sizeof(message), NULL, 0);
	type = raw_answer(of);
	ok(type == WIRE_ERROR && of->error == ECANCELED &&
			of->answered == serial,
		"%s", what);
}

/* Those are answered, in that order. */
static void are_loaded(struct raw *of, uint32_t first, int n, const char *what)
{
	int in_order = 0;

	for (int i = 0; i < n; i++)
		in_order += raw_answer(of) == WIRE_LOADED &&
			    of->answered == first + (uint32_t)i;
	is_int(n, in_order, "%s", what);
}

/* A connection of another user, whom the socket's folder does not stop. */
static void open_stranger(void)
{
	if (seteuid(STRANGER) < 0)
		bail("seteuid: %m");
	setfsuid(0);
	raw_open(&stranger, server.socket);
	if (seteuid(0) < 0)
		bail("seteuid: %m");
}

/* With as many under way as can be; ends with room for one. */
static void waiting(uint32_t running)
{
	uint32_t first = raw.serial + 1, last = 0;

	for (int i = 0; i < WAIT; i++)
		last = order_empty(&raw);
	are(AT_ONCE, AT_ONCE + WAIT, "loads beyond the limit wait");
	raw_send(&raw, WIRE_PING, NULL, 0, NULL, 0);
	is_int(WIRE_PONG, raw_answer(&raw),
		"a client whose loads wait is answered");
	cancel(&raw, last, "a load that waits is cancelled");
	are(AT_ONCE, AT_ONCE + WAIT - 1, "a cancelled load waits no more");
	order_empty(&second);
	are(AT_ONCE, AT_ONCE + WAIT, "another client's load waits, too");
	raw_close(&second);
	are(AT_ONCE, AT_ONCE + WAIT - 1,
		"the load of a client that is gone waits no more");
	cancel(&raw, running, "a load under way is cancelled past the others");
	are_loaded(&raw, first, WAIT - 1,
		"the loads that waited are done in their order");
}

/* Its first load begins beyond the limit, and its second one, though it came
 * last, when there is room again. */
static void another_user(uint32_t running)
{
	order(&raw);
	are(AT_ONCE, AT_ONCE + 1, "a user's load waits");
	order(&stranger);
	are(AT_ONCE + 1, AT_ONCE + 2, "another user's first load begins");
	order_empty(&stranger);
	are(AT_ONCE + 1, AT_ONCE + 3, "another user's second load waits");
	cancel(&raw, running - 1, "a first load is cancelled");
	cancel(&raw, running - 2, "a second load is cancelled");
	are_loaded(&stranger, stranger.serial, 1,
		"the load of the user with less under way is next");
	are(AT_ONCE, AT_ONCE, "then the load that waited for longer begins");
}

/* Of those that wait there are as many as can be, too. */
static void in_the_socket(struct raw *other, uint32_t running)
{
	uint32_t first = raw.serial + 1;

	for (int i = 0; i < WAIT; i++)
		order_empty(&raw);
	are(AT_ONCE, AT_ONCE + WAIT, "as many wait as can");
	order_empty(&raw);
	ok(is_left_unread(&raw), "the next load stays in its socket");
	cancel(other, running, "another connection's load is cancelled");
	are_loaded(&raw, first, WAIT + 1,
		"the load in the socket is done after those that waited");
	ok(raw.n_held, "its client was told that the server is at work");
}

/* All that are under way. */
static void end(struct raw *of, int n, const char *what)
{
	int loaded = 0;

	while (loaded < n && raw_answer(of) == WIRE_LOADED)
		loaded++;
	if (!is_int(n, loaded, "%s", what))
		diag("%s", of->text);
}

/* The keeper lets nobody in while it is stopped. */
static void loads(void)
{
	const bool two = geteuid() == 0;
	uint32_t others = 0, running = 0;
	struct raw third;

	raw_open(&raw, server.socket);
	raw_open(&second, server.socket);
	raw_open(&third, server.socket);
	if (two)
		open_stranger();
	kill(server.pid, SIGSTOP);
	for (int i = 0; i < 2; i++)
		others = order(&third);
	for (int i = 2; i < AT_ONCE; i++)
		running = order(&raw);
	are(AT_ONCE, AT_ONCE, "loads below the limit begin");
	waiting(running);
	order(&raw);
	are(AT_ONCE, AT_ONCE, "when all have ended the next load begins");
	if (two)
		another_user(running);
	else
		skip(7, "only root can be two users");
	in_the_socket(&third, others);
	kill(server.pid, SIGCONT);
	end(&raw, AT_ONCE - (two ? 3 : 2), "a client's loads are done");
	end(&third, 1, "another client's loads are done");
	if (two)
		end(&stranger, 1, "another user's loads are done");
	else
		skip(1, "only root can be two users");
	raw_close(&raw);
	raw_close(&third);
	if (two)
		raw_close(&stranger);
}

/* ---- publications -------------------------------------------------------- */

/* Without a descriptor, which wait for the first memory of a pool. */
static void publications(void)
{
	struct publish_msg p = {.n_bytes = 8};
	int published = 0;
	bool left;

	publish_msg_source(&p, SOURCE_BYTES, 8);
	publish_msg_name(&p, "small", 0, 0, 8, 1);
	raw_open_pool(&raw, server.socket, "empty");
	kill(server.pid, SIGSTOP);
	for (int i = 0; i < SMALL_ONES; i++)
		publish_msg_send(&p, &raw);
	left = is_left_unread(&raw);
	kill(server.pid, SIGCONT);
	ok(left, "publications beyond the limit stay in their socket");
	while (published < SMALL_ONES && raw_answer(&raw) == WIRE_PUBLISHED)
		published++;
	if (!is_int(SMALL_ONES, published, "all publications are done"))
		diag("%s", raw.text);
	raw_close(&raw);
}

static void make_large(void)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/large", test_tmpdir());
	large = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (large < 0 || ftruncate(large, LARGE) < 0)
		bail("%s: %m", path);
	unlink(path);
}

static const char *config(void)
{
	static char path[300];
	FILE *f;

	snprintf(path, sizeof(path), "%s/conf", test_tmpdir());
	f = fopen(path, "we");
	if (!f || fputs("[pool empty]\n", f) < 0 || fclose(f) != 0)
		bail("%s: %m", path);
	return path;
}

int main(void)
{
	const char *path = config();
	const char *const args[] = {
		"--segment-size", "64M", "--config", path, NULL};

	make_large();
	daemon_limit_descriptors(DESCRIPTORS);
	daemon_start(&server, "s", args);
	witness_begin(&witness, &server);
	witness_can_load(&witness, "there is a loader");
	loads();
	publications();
	witness_is_served(&witness, "at the end");
	tarn_tensor_unref(witness.tensor);
	tarn_store_unref(witness.store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	close(large);
	unlink(path);
	remove_files();
	return done(30);
}
