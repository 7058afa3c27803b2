/* SPDX-License-Identifier: MIT */
/*
 * All descriptors of a server are taken just when the keeper sends it new
 * memory. A message without its descriptor was once lost, and then no client
 * ever got memory again. Now the descriptors that publications bring are
 * limited, with one publication beyond the limit for each user, and others wait
 * for their turn; a message of the keeper waits until descriptors are given
 * back, and if none are, the next server gets it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/report.h>

#include "base/checked.h"
#include "tests/kit/must.h"
#include "tests/kit/publish.h"
#include "tests/kit/publish_msg.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define LARGE (100ull * MIB)

#define WAITED_S 2.5 /* a server waits for them for three seconds */

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
	if (!is_int(0, asked->r, "%s: a waiting load gets its memory", what))
		diag("%s", asked->why);
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
	static unsigned char body[PUBLISH_MSG_MAX];
	struct publish_msg p;
	int fd = memfd_create("one", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, 4096) < 0)
		bail("a memfd: %m");
	p = publish_msg_of(SOURCE_COPY, 4096, fd, "one");
	raw_send(raw, WIRE_PUBLISH, body, publish_msg_write(&p, body), p.fds,
		p.n_fds);
	close(fd);
}

static void is_published(struct raw *raw)
{
	if (!is_int(WIRE_PUBLISHED, raw_answer(raw),
		    "another user's publication succeeds"))
		diag("%s", raw->text);
	raw_close(raw);
}

/* Asks again as the library does: a daemon of this user's own, which cannot
 * have so many descriptors unread, asks for it. */
static bool many_are_published(int i)
{
	int type;

	while ((type = raw_receive(&raws[i], RAW_PATIENCE_MS)) == WIRE_ERROR &&
		raws[i].error == ETOOMANYREFS) {
		diag("publication %d: %s", i, raws[i].text);
		usleep(10000);
		publish_msg_send_many(&raws[i], i);
	}
	if (type != WIRE_PUBLISHED)
		diag("%s", raws[i].text);
	return type == WIRE_PUBLISHED;
}

static void publications(void)
{
	const bool two = geteuid() == 0;
	struct asked *asked;
	struct raw stranger;
	int published = 0;

	for (int i = 0; i < MANY; i++)
		raw_open(&raws[i], server.socket);
	if (two)
		open_stranger(&stranger);
	asked = begin("published");
	for (int i = 0; i < MANY; i++)
		publish_msg_send_many(&raws[i], i);
	if (two)
		publish_one(&stranger);
	for (int i = 0; i < 50; i++) {
		witness_status(&witness);
		usleep(2000);
	}
	kill(server.pid, SIGCONT);
	goes_on(asked, "publications wait");
	for (int i = 0; i < MANY; i++)
		published += many_are_published(i);
	is_int(MANY, published, "the user's publications wait, and succeed");
	if (two)
		is_published(&stranger);
	else
		skip(1, "only root can be two users");
	may_fail(tarn_store_remove(witness.store, "many"));
	for (int i = 0; i < MANY; i++)
		raw_close(&raws[i]);
}

/* Memory that stays its publisher's goes to the keeper, as a descriptor, before
 * the server reads on. For a daemon of this user's own, too many are unread
 * just then. */
static void memory_is_kept(void)
{
	struct publish_msg p = publish_msg_of(
		SOURCE_MUTABLE, 4096, kit_publish_memfd(4096), "kept");
	static unsigned char body[PUBLISH_MSG_MAX];
	pid_t before = server_of(&server);
	int published = 0, type;
	struct raw raw;

	if (fchmod(p.fds[0], 0600) < 0 ||
		fcntl(p.fds[0], F_ADD_SEALS,
			F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		bail("seals: %m");
	raw_open(&raw, server.socket);
	for (int i = 0; i < MANY; i++)
		raw_open(&raws[i], server.socket);
	kill(before, SIGSTOP);
	raw_send(&raw, WIRE_PUBLISH, body, publish_msg_write(&p, body), p.fds,
		p.n_fds);
	for (int i = 0; i < MANY; i++)
		publish_msg_send_many(&raws[i], i);
	kill(before, SIGCONT);
	/* The server tries for some milliseconds; the library asks again. */
	while ((type = raw_receive(&raw, RAW_PATIENCE_MS)) == WIRE_ERROR &&
		raw.error == ETOOMANYREFS) {
		usleep(10000);
		raw_send(&raw, WIRE_PUBLISH, body, publish_msg_write(&p, body),
			p.fds, p.n_fds);
	}
	close(p.fds[0]);
	if (!is_int(WIRE_PUBLISHED, type,
		    "memory is kept while many descriptors are unread"))
		diag("%s", raw.text);
	for (int i = 0; i < MANY; i++)
		published += many_are_published(i);
	is_int(MANY, published, "what was unread is published afterwards");
	ok(before == server_of(&server),
		"the server that kept the memory goes on");
	is_int(0, tarn_store_remove(witness.store, "kept"),
		"the memory that is kept has its name");
	may_fail(tarn_store_remove(witness.store, "many"));
	raw_close(&raw);
	for (int i = 0; i < MANY; i++)
		raw_close(&raws[i]);
}

/* ---- none is left -------------------------------------------------------- */

/* As if others had all of them. The server may have died for want of them. */
static void let_have(pid_t pid, rlim_t n)
{
	const struct rlimit limit = {n, DESCRIPTORS};

	if (prlimit(pid, RLIMIT_NOFILE, &limit, NULL) < 0 && errno != ESRCH)
		bail("prlimit: %m");
}

/* The least number that is free, which is the limit on numbers if it may have
 * no more. What the server holds back has lower ones, if somebody has connected
 * just before: it was taken anew then. */
static rlim_t all_of(pid_t pid)
{
	char path[64], to[8];
	int fd = -1;

	do
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, ++fd);
	while (readlink(path, to, sizeof(to)) >= 0);
	return (rlim_t)fd;
}

/* A client that wants to look, just when there is none left. */
static void newcomer(void)
{
	struct tarn_report *report = NULL;
	pid_t pid = server_of(&server);
	tarn_store *store = NULL;

	raw_open(&raws[0], server.socket);
	let_have(pid, all_of(pid));
	if (!is_int(0, tarn_store_open(server.socket, NULL, &store),
		    "a new client is welcomed without a descriptor"))
		diag("%s", tarn_error_message());
	else
		is_int(0, tarn_store_report(store, &report),
			"the new client gets a status");
	let_have(pid, DESCRIPTORS);
	raw_close(&raws[0]);
	tarn_report_free(report);
	tarn_store_unref(store);
	witness_can_load(&witness, "a new client");
}

/* What the keeper says waits for them. */
static void they_come_back(void)
{
	pid_t before = server_of(&server);
	struct asked *asked;
	double start;
	bool late;

	raw_open(&raws[0], server.socket);
	asked = begin("back");
	let_have(before, all_of(before));
	start = seconds();
	kill(server.pid, SIGCONT);
	usleep(300000);
	let_have(before, DESCRIPTORS);
	late = seconds() - start > WAITED_S;
	raw_close(&raws[0]);
	goes_on(asked, "they come back");
	if (late)
		skip(1, "the machine is too busy to take them for a moment");
	else
		ok(before == server_of(&server),
			"the server is the same after the descriptors came back");
}

/* They do not: the next server is told. */
static void nobody_has_them(void)
{
	pid_t before = server_of(&server);
	struct asked *asked = begin("nobody");

	let_have(before, 3);
	kill(server.pid, SIGCONT);
	goes_on(asked, "the descriptors stay away");
	ok(before != server_of(&server),
		"another server takes over when the descriptors stay away");
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
	memory_is_kept();
	if (count_fds(server_of(&server)) < 0)
		skip(6, "one may not see which descriptors are left");
	else {
		newcomer();
		they_come_back();
	}
	nobody_has_them();
	witness_is_served(&witness, "at the end");
	tarn_tensor_unref(witness.tensor);
	tarn_store_unref(witness.store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(20);
}
