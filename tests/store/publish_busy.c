/* SPDX-License-Identifier: MIT */
/*
 * A daemon with few descriptors makes a publication that brings some wait for
 * others of the same user. The publisher need not know of that: the library
 * asks again for some seconds, and then fails with the reason.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/store/store.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/publish_msg.h"
#include "tests/kit/tap.h"

enum {
	DESCRIPTORS = 256,
	MANY = 7,
	LARGE = 3 << 20, /* it comes as a memfd */
	HASTY_MS = 700,
	PATIENCE_MS = 60000, /* on a loaded machine */
};

static struct daemon server;
static struct raw raws[MANY];

/* They need memory that the keeper, which is stopped, makes later. */
static void fill(void)
{
	kill(server.pid, SIGSTOP);
	for (int i = 0; i < MANY; i++)
		publish_msg_send_many(&raws[i], i);
	is_int(WIRE_ERROR, raw_answer(&raws[MANY - 1]),
		"a user's publications under way use up its descriptors");
	is_int(EBUSY, raws[MANY - 1].error,
		"the refusal says that it is for now");
}

/* What is wrong with it is seen only when it is read. */
static void test_unread(void)
{
	const struct msg_publish wrong = {.n_names = 0};
	struct raw *raw = &raws[MANY - 1];
	int fd = memfd_create("one", MFD_CLOEXEC);

	raw_send(raw, WIRE_PUBLISH, &wrong, sizeof(wrong), &fd, 1);
	is_int(WIRE_ERROR, raw_answer(raw), "another publication is refused");
	is_int(EBUSY, raw->error,
		"another publication is refused before it is read");
	close(fd);
}

static int publish(tarn_store *store, const char *name)
{
	struct tarn_publish_item item = {.name = name};
	const int64_t size = LARGE;
	int r = tarn_store_create(store, TARN_U8, 1, &size, 0, &item.tensor);

	if (r >= 0)
		r = tarn_store_publish(store, &item, 1, NULL, NULL);
	tarn_tensor_unref(item.tensor);
	return r;
}

/* ---- for ever ------------------------------------------------------------ */

static void test_for_ever(tarn_store *hasty)
{
	double start = seconds(), end = start + PATIENCE_MS / 1e3;
	int r;

	hasty->connection.timeout_ms = HASTY_MS;
	/* Again if the server did not run at all in that time. */
	do
		r = publish(hasty, "hasty");
	while (r == -ETIMEDOUT && seconds() < end);
	is_int(-EBUSY, r, "who waits for long is told in the end");
	has_str("ulimit -n", tarn_error_message(),
		"the error names the limit of descriptors");
	ok(seconds() - start >= HASTY_MS / 1e3,
		"the publication waited before it failed");
}

/* ---- for a moment -------------------------------------------------------- */

static atomic_bool ended;

static void *publish_in_thread(void *store)
{
	int r = publish(store, "patient");

	if (r < 0)
		diag("%s", tarn_error_message());
	ended = true;
	return (void *)(intptr_t)r;
}

static void test_for_a_moment(tarn_store *store)
{
	pthread_t thread;
	tarn_tensor *t;
	void *r;

	store->connection.timeout_ms = PATIENCE_MS;
	if (pthread_create(&thread, NULL, publish_in_thread, store) != 0)
		bail("no thread");
	usleep(300000);
	ok(!ended, "a publication waits for the others to end");
	kill(server.pid, SIGCONT);
	pthread_join(thread, &r);
	is_int(0, (intptr_t)r, "the publication that waited succeeds");
	is_int(0, tarn_store_lookup(store, "patient", &t),
		"the publication that waited is found");
	tarn_tensor_unref(t);
}

int main(void)
{
	const char *const args[] = {"--segment-size", "64M", NULL};
	tarn_store *hasty, *store;

	daemon_limit_descriptors(DESCRIPTORS);
	daemon_start(&server, "s", args);
	for (int i = 0; i < MANY; i++)
		raw_open(&raws[i], server.socket);
	if (tarn_store_open(server.socket, &store) < 0 ||
		tarn_store_open(server.socket, &hasty) < 0)
		bail("%s", tarn_error_message());
	fill();
	test_unread();
	test_for_ever(hasty);
	test_for_a_moment(store);
	for (int i = 0; i < MANY; i++)
		raw_close(&raws[i]);
	tarn_store_unref(hasty);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(11);
}
