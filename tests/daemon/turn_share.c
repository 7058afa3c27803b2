/* SPDX-License-Identifier: MIT */
/*
 * What the server does for a publication when its message has long been taken
 * is its user's time, too. Memory that is kept in its memfd is first looked at
 * by a thread, and then the names are committed; a publication that waits for
 * its turn or for memory is committed when that comes, and a load when its
 * loader is done. This time was charged to no user: with requests of many names
 * one user could take all of it.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/server/load/internal.h"
#include "daemon/server/publish/internal.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/wire_server.h"
#include "tests/kit/publish_msg.h"
#include "tests/kit/tap.h"

const char fuzz_name[] = "turn_share";

#define COMMIT_NS 20000000ull /* longer than a user's part of a round */
#define MIB (1ull << 20)
#define SMALL 4096u

/* ---- what is slow, and what it is charged to ------------------------------- */

static unsigned commits, charged, owed; /* owed: since the last charge */

static void be_slow(void)
{
	uint64_t until = loop_now() + COMMIT_NS;

	while (loop_now() < until)
		;
	commits++;
	owed++;
}

int __real_publish_commit(struct publish *publish);
int __wrap_publish_commit(struct publish *publish);

int __wrap_publish_commit(struct publish *publish)
{
	be_slow();
	return __real_publish_commit(publish);
}

int __real_load_publish(struct load *load, uint32_t index, uint64_t generation);
int __wrap_load_publish(struct load *load, uint32_t index, uint64_t generation);

int __wrap_load_publish(struct load *load, uint32_t index, uint64_t generation)
{
	be_slow();
	return __real_load_publish(load, index, generation);
}

void __real_quantum_spend(struct domain *user, uint64_t began);
void __wrap_quantum_spend(struct domain *user, uint64_t began);

void __wrap_quantum_spend(struct domain *user, uint64_t began)
{
	uint64_t before;

	__real_quantum_spend(user, 0);
	before = user->account.spent;
	__real_quantum_spend(user, began);
	/* Without one it may take long, too: where the machine is busy. */
	if (user->account.spent - before >= owed * COMMIT_NS)
		charged += owed;
	owed = 0;
}

/* ---- requests -------------------------------------------------------------- */

static struct raw raw;

static int memory(const char *name, uint64_t size)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || fallocate(fd, 0, 0, (off_t)size) < 0)
		bail("a memfd: %m");
	return fd;
}

static void send_publish(enum source_kind kind, uint64_t size, const char *name)
{
	int fd = memory(name, size);
	struct publish_msg p = publish_msg_of(kind, size, fd, name);

	publish_msg_seal(fd, kind);
	publish_msg_send(&p, &raw);
	close(fd);
}

static void send_load(const char *name)
{
	struct order order = {0};
	int fd = memory(name, SMALL);

	order_range(&order, 0, SMALL, 0);
	order_bytes(&order, name, SMALL);
	order_send(&order, &raw, fd, -1);
	close(fd);
}

static void see(unsigned n, const char *what)
{
	server_settle();
	is_int(n, commits, "%s: the names are committed", what);
	is_int(n, charged, "%s: the time is charged to the user", what);
	commits = charged = owed = 0;
}

int main(void)
{
	server_begin();
	raw.fd = peers[0].sock;
	server.limits.publish_fds = WIRE_FDS_MAX;
	send_publish(SOURCE_COPY, SMALL, "copied");
	see(1, "copied at once");
	send_publish(SOURCE_ADOPT, 2 * MIB, "kept");
	see(1, "kept in its memfd");
	send_load("loaded");
	see(1, "loaded");
	for (int i = 0; i < 3; i++)
		send_publish(SOURCE_COPY, MIB / 4,
			(const char *[]) {"a", "b", "c"}[i]);
	see(3, "while the segment has room");
	server_suffer(KEEPER_GIVES);
	send_publish(SOURCE_COPY, MIB / 4, "d");
	see(1, "when there is memory");
	/* The second one waits until the first has ended. */
	server.limits.publish_fds = 0;
	send_publish(SOURCE_ADOPT, 2 * MIB, "first");
	send_publish(SOURCE_COPY, SMALL, "second");
	see(2, "in its turn");
	server_end();
	return done(12);
}
