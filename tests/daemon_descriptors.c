/* SPDX-License-Identifier: MIT */
/*
 * All descriptors of a server are taken just when the keeper tells it of new
 * memory. What came without its descriptor was lost once, and then nobody ever
 * got memory again. Now what publications bring has a limit, that each user
 * may pass once; a word of the keeper's waits until somebody lets go. If nobody
 * does, who has them in messages that he has half said is sent away; and if
 * there is nobody like that, the next server is told.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/checked.h"
#include "tests/parcel.h"
#include "tests/restart_kit.h"
#include "tests/tap.h"
#include "tests/witness.h"

#define MIB (1ull << 20)
#define LARGE (100 * MIB)
#define ENOUGH_S 60 /* to be served, on a loaded machine, not for ever */

#define STRANGER 12345

enum { DESCRIPTORS = 256, MANY = 7 };

static struct daemon server;
static struct witness witness;
static struct raw raws[MANY];

/* ---- memory that is being made ------------------------------------------- */

struct asked {
	const char *path;
	const char *name;
	pthread_t thread;
	int r;
	double took;
	char why[400];
};

static void *load(void *arg)
{
	struct asked *asked = arg;
	double start = seconds();

	asked->r = tensor_load(witness.store, asked->path, asked->name);
	asked->took = seconds() - start;
	snprintf(
		asked->why, sizeof(asked->why), "%.399s", tarn_error_message());
	return NULL;
}

/* A load that needs more memory than there is. The keeper is stopped, and makes
 * it later. It stays loaded, so that the next one needs more, too. */
static struct asked *begin(const char *name)
{
	struct asked *asked = calloc(1, sizeof(*asked));

	asked->name = name;
	asked->path = strdup(tensor_file(name, 3, LARGE));
	kill(server.pid, SIGSTOP);
	if (pthread_create(&asked->thread, NULL, load, asked) != 0)
		bail("no thread");
	while (!witness_status(&witness).loads_active)
		usleep(1000);
	/* What its loader is asked, that answers soon. */
	usleep(200000);
	return asked;
}

static void goes_on(struct asked *asked, const char *what)
{
	pthread_join(asked->thread, NULL);
	diag("%s: %.1f s", what, asked->took);
	if (!is_int(0, asked->r, "%s: there is memory", what))
		diag("%s", asked->why);
	ok(asked->took < ENOUGH_S, "%s: in time", what);
	unlink(asked->path);
	free((char *)asked->path);
	free(asked);
	witness_can_load(&witness, what);
}

/* ---- publications that wait ---------------------------------------------- */

/* A connection of somebody else's, whom the socket's folder does not stop. */
static void open_stranger(struct raw *raw)
{
	if (seteuid(STRANGER) < 0)
		bail("seteuid: %m");
	setfsuid(0);
	raw_open(raw, server.socket);
	if (seteuid(0) < 0)
		bail("seteuid: %m");
}

static void publish_one(struct raw *raw)
{
	static unsigned char body[PARCEL_MAX];
	struct parcel p;
	int fd = memfd_create("one", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, 4096) < 0)
		bail("a memfd: %m");
	p = parcel_of(SOURCE_COPY, 4096, fd, "one");
	raw_say(raw, WIRE_PUBLISH, body, parcel_write(&p, body), p.fds,
		p.n_fds);
	close(fd);
}

static void is_published(struct raw *raw)
{
	if (!is_int(WIRE_PUBLISHED, raw_answer(raw), "somebody else publishes"))
		diag("%s", raw->text);
	raw_close(raw);
}

static void publications(void)
{
	const bool two = geteuid() == 0;
	struct asked *asked;
	struct raw stranger;
	int published = 0, refused = 0;

	for (int i = 0; i < MANY; i++)
		raw_open(&raws[i], server.socket);
	if (two)
		open_stranger(&stranger);
	asked = begin("published");
	for (int i = 0; i < MANY; i++)
		parcel_say_many(&raws[i], i);
	if (two)
		publish_one(&stranger);
	for (int i = 0; i < 50; i++) {
		witness_status(&witness);
		usleep(2000);
	}
	kill(server.pid, SIGCONT);
	goes_on(asked, "publications wait");
	for (int i = 0; i < MANY; i++) {
		int type = raw_hear(&raws[i], RAW_PATIENCE_MS);

		published += type == WIRE_PUBLISHED;
		refused += type == WIRE_ERROR && raws[i].error == EBUSY;
	}
	if (refused)
		has_str("ulimit -n", raws[MANY - 1].text, "and why is said");
	diag("%d published, %d refused", published, refused);
	ok(published > 0, "some are published");
	is_int(MANY, published + refused, "the others are told to wait");
	if (two)
		is_published(&stranger);
	else
		skip(1, "only root can be two users");
	tarn_store_remove(witness.store, "many");
	for (int i = 0; i < MANY; i++)
		raw_close(&raws[i]);
}

/* ---- messages half said -------------------------------------------------- */

/* The beginning of one, with so many descriptors. */
static void say_half(struct raw *raw, int n)
{
	struct {
		struct wire_header header;
		char some[8];
	} frame = {.header = {.magic = WIRE_MAGIC,
			   .type = WIRE_PUBLISH,
			   .flags = WIRE_MORE,
			   .serial = 1,
			   .size = sizeof(frame.some)}};
	int fds[WIRE_FDS_MAX];

	for (int i = 0; i < n; i++)
		fds[i] = 0;
	raw_frame(raw, &frame, sizeof(frame), fds, n);
}

/* To the last: then no client can be told anything that has one. How many have
 * said something. */
static int take_all(void)
{
	pid_t pid = server_of(&server);
	int most = DESCRIPTORS + 2, left, n = 0; /* with . and .. */

	for (int i = 0; i < MANY; i++) {
		left = most - count_fds(pid);
		if (left > 0)
			say_half(&raws[n++], MIN(left, WIRE_FDS_MAX));
		witness_status(&witness);
	}
	is_int(most, count_fds(pid), "no descriptor is left");
	return n;
}

static void are_sent_away(int n)
{
	int closed = 0, told = 0;

	for (int i = 0; i < n; i++) {
		closed += raw_is_closed(&raws[i]);
		told += raws[i].error == EMFILE;
	}
	is_int(n, closed, "who has half said something is sent away");
	is_int(n, told, "and is told why");
}

static void halves(bool leave, const char *name, const char *what)
{
	struct asked *asked;
	pid_t before;
	int said;

	for (size_t i = 0; i < ARRAY_SIZE(raws); i++)
		raw_open(&raws[i], server.socket);
	before = server_of(&server);
	asked = begin(name);
	said = take_all();
	kill(server.pid, SIGCONT);
	usleep(500000);
	for (size_t i = 0; leave && i < ARRAY_SIZE(raws); i++)
		raw_close(&raws[i]);
	goes_on(asked, what);
	ok(before == server_of(&server), "%s: it is the same server", what);
	if (leave)
		return;
	are_sent_away(said);
	for (size_t i = 0; i < ARRAY_SIZE(raws); i++)
		raw_close(&raws[i]);
}

/* Nobody has half said anything: the server may have no more at all. */
static void nobody_has_them(void)
{
	pid_t before = server_of(&server);
	const struct rlimit limit = {3, DESCRIPTORS};
	struct asked *asked = begin("nobody");

	if (prlimit(before, RLIMIT_NOFILE, &limit, NULL) < 0)
		bail("prlimit: %m");
	kill(server.pid, SIGCONT);
	goes_on(asked, "nobody has them");
	ok(before != server_of(&server),
		"nobody has them: it is another server");
}

int main(void)
{
	const char *const args[] = {
		"--segment-size", "64M", "--mode", "0666", NULL};

	daemon_limit_descriptors(DESCRIPTORS);
	daemon_start(&server, "s", args);
	witness_begin(&witness, &server);
	witness_can_load(&witness, "nobody asks for much");
	publications();
	if (count_fds(server_of(&server)) < 0)
		skip(16, "one may not see which descriptors are left");
	else {
		halves(true, "left", "some leave");
		halves(false, "stayed", "nobody leaves");
		nobody_has_them();
	}
	witness_is_served(&witness, "at the end");
	tarn_tensor_unref(witness.tensor);
	tarn_store_unref(witness.store);
	is_int(0, daemon_stop(&server), "the daemon ends in peace");
	remove_files();
	return done();
}
